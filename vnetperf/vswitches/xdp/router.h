/* What programs that route have in common: the port's address, the kernel's way for a packet, and
 * what changes of the packet when it goes there. */
#ifndef VNETPERF_ROUTER_H
#define VNETPERF_ROUTER_H

#include "byteorder.h"
#include "port.h"

#include <linux/if_ether.h>
#include <linux/ip.h>

#define IPV4 2 /* AF_INET */

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
ALWAYS int is_own(const struct ethhdr *ethernet)
{
	const __u16 *to = (const __u16 *)ethernet; /* the destination, which comes first */
	__u32 first = 0;
	const struct port *own = bpf_map_lookup_elem(&port, &first);

	return own && to[0] == own->mac[0] && to[1] == own->mac[1] && to[2] == own->mac[2];
}

/* Whether the kernel's table has a way; addresses and where the packet came in are in it. */
ALWAYS int has_way(void *frame, const struct iphdr *ip, struct bpf_fib_lookup *way)
{
	way->family = IPV4;
	way->tos = ip->tos;
	way->l4_protocol = ip->protocol;
	way->tot_len = net16(ip->tot_len);
	return bpf_fib_lookup(frame, way, sizeof(*way), 0) == BPF_FIB_LKUP_RET_SUCCESS;
}

/* RFC 1624, equation 3: only the word with the time to live has changed, by 0x0100. */
ALWAYS void forward_by(const struct bpf_fib_lookup *way, struct ethhdr *ethernet, struct iphdr *ip)
{
	__u32 sum = ip->check + (__u32)net16(0x0100);

	ip->check = (__u16)(sum + (sum >= 0xffff));
	--ip->ttl;
	__builtin_memcpy(ethernet->h_dest, way->dmac, ETH_ALEN);
	__builtin_memcpy(ethernet->h_source, way->smac, ETH_ALEN);
}

#endif
