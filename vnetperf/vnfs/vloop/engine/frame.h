/* What the modes change of a frame, octet by octet. Nothing here knows DPDK.
 *
 * Checksums stay right: each is a sum in which two words have changed places. */
#ifndef VLOOP_FRAME_H
#define VLOOP_FRAME_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MAC_OCTETS	6u
#define ETHERNET_OCTETS 14u
#define VLAN_OCTETS	4u

enum ether_type {
	ETHER_IPV4 = 0x0800,
	ETHER_VLAN = 0x8100,
	ETHER_IPV6 = 0x86dd,
	ETHER_QINQ = 0x88a8,
};

enum protocol { PROTOCOL_TCP = 6, PROTOCOL_UDP = 17 };

/* Where a header has two neighbours of the same size, of which each takes the other's place. */
static inline void frame_swap(uint8_t *first, size_t octets)
{
	uint8_t held[16];

	memcpy(held, first, octets);
	memcpy(first, first + octets, octets);
	memcpy(first + octets, held, octets);
}

static inline unsigned int frame_type(const uint8_t *type)
{
	return (unsigned int)type[0] << 8 | type[1];
}

static inline void frame_swap_macs(uint8_t *frame)
{
	frame_swap(frame, MAC_OCTETS);
}

static inline void frame_set_macs(uint8_t *frame, const uint8_t to[MAC_OCTETS],
				  const uint8_t from[MAC_OCTETS])
{
	memcpy(frame, to, MAC_OCTETS);
	memcpy(frame + MAC_OCTETS, from, MAC_OCTETS);
}

/* Ports of UDP and TCP are both the first four octets. */
static inline void frame_swap_ports(uint8_t *frame, size_t at, size_t octets, unsigned int protocol)
{
	if ((protocol == PROTOCOL_UDP || protocol == PROTOCOL_TCP) && at + 4 <= octets)
		frame_swap(frame + at, 2);
}

/* As testpmd's 5tswap: any number of VLAN tags; ports follow the IPv6 header at once; later
 * fragments have "ports" too. `octets` are those of the first buffer; a header that they do not
 * hold is left as it is. */
static inline void frame_swap_5tuple(uint8_t *frame, size_t octets)
{
	size_t at = ETHERNET_OCTETS;
	unsigned int type;

	if (octets < ETHERNET_OCTETS)
		return;
	frame_swap_macs(frame);
	type = frame_type(frame + at - 2);
	while ((type == ETHER_VLAN || type == ETHER_QINQ) && at + VLAN_OCTETS <= octets) {
		at += VLAN_OCTETS;
		type = frame_type(frame + at - 2);
	}
	if (type == ETHER_IPV4 && at + 20 <= octets) {
		frame_swap(frame + at + 12, 4);
		frame_swap_ports(frame, at + (frame[at] & 0xfu) * 4u, octets, frame[at + 9]);
	} else if (type == ETHER_IPV6 && at + 40 <= octets) {
		frame_swap(frame + at + 8, 16);
		frame_swap_ports(frame, at + 40, octets, frame[at + 6]);
	}
}

#endif
