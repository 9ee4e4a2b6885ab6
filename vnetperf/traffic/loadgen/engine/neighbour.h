/*
 * Who a tester's port is to its neighbours: addresses, and the frames that answer ARP requests
 * (RFC 826) and neighbour solicitations (RFC 4861) for them.  No DPDK here: octets in, octets out.
 */
#ifndef LOADGEN_NEIGHBOUR_H
#define LOADGEN_NEIGHBOUR_H

#include <stdatomic.h>

#include "common.h"

#define NEIGHBOUR_MAX 1024u /* entries of all ports together */
/* Ethernet, two VLAN tags, IPv6, an advertisement with its option: the longest. */
#define NEIGHBOUR_FRAME 94u
/* Addresses of one entry that are announced: those of a million flows would take minutes. */
#define NEIGHBOUR_ANNOUNCED 1024u

/* `count` addresses from `address` on. */
struct neighbour_entry {
	uint16_t port;
	bool ipv6;
	bool mac_steps;	     /* the MAC address rises with the address; else all have the same */
	uint8_t address[16]; /* network order; IPv4 in the first four */
	uint8_t mac[6];
	uint64_t count;
};

/* Only ever added to: who reads it meanwhile sees an entry whole or not at all. */
struct neighbours {
	_Atomic unsigned int n;
	_Atomic bool any[LG_MAX_PORTS]; /* answers for every address asked for, with any_mac */
	uint8_t any_mac[LG_MAX_PORTS][6];
	struct neighbour_entry entry[NEIGHBOUR_MAX];
};

bool neighbour_add(struct neighbours *table, const struct neighbour_entry *entry,
		   struct error *error);
/* Answer for every address that is asked for at a port. */
bool neighbour_add_any(struct neighbours *table, uint16_t port, const uint8_t *mac,
		       struct error *error);
/* The answer to a frame that `port` has received; octets of it, 0: the frame asks for nobody here.
 * reply has room for NEIGHBOUR_FRAME octets. */
size_t neighbour_answer(const struct neighbours *table, uint16_t port, const uint8_t *frame,
			size_t len, uint8_t *reply);
/* A gratuitous ARP request, or an unsolicited advertisement, for the i-th address of an entry. */
size_t neighbour_announcement(const struct neighbour_entry *entry, uint64_t i, uint8_t *frame);

#endif
