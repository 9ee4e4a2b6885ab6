/* What programs that route have in common: the port's address, and a packet's time to live. */
#ifndef VNETPERF_ROUTER_H
#define VNETPERF_ROUTER_H

#include "port.h"

#include <linux/if_ether.h>
#include <linux/ip.h>

#define IPV4		    2 /* AF_INET */
#define NETWORK_ORDER(word) __builtin_bswap16(word)
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "only for processors that store the lower octet first"
#endif

struct port {
	__u16 mac[ETH_ALEN / 2];
};

struct {
	FIELD(type, BPF_MAP_TYPE_ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, __u32);
	TYPE(value, struct port);
} port SEC(".maps");

/* Whether a frame is addressed to the port. */
static inline __attribute__((always_inline)) int is_own(const struct ethhdr *ethernet)
{
	const __u16 *to = (const __u16 *)ethernet; /* the destination, which comes first */
	__u32 first = 0;
	const struct port *own = bpf_map_lookup_elem(&port, &first);

	return own && to[0] == own->mac[0] && to[1] == own->mac[1] && to[2] == own->mac[2];
}

/* RFC 1624, equation 3: only the word with the time to live has changed, by 0x0100. */
static inline __attribute__((always_inline)) void age(struct iphdr *ip)
{
	__u32 sum = ip->check + (__u32)NETWORK_ORDER(0x0100);

	ip->check = (__u16)(sum + (sum >= 0xffff));
	--ip->ttl;
}

#endif
