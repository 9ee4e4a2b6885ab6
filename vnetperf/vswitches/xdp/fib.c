/* Program fib: IPv4 packets for the port's address are routed by the kernel's own table.
 *
 * What the table has no answer for is dropped: the kernel's stack never sees a frame.
 */
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

/* RFC 1624, equation 3: only the word with the time to live has changed, by 0x0100. */
static inline __attribute__((always_inline)) void age(struct iphdr *ip)
{
	__u32 sum = ip->check + (__u32)NETWORK_ORDER(0x0100);

	ip->check = (__u16)(sum + (sum >= 0xffff));
	--ip->ttl;
}

SEC("xdp.frags") int forward(struct xdp_md *frame)
{
	void *start = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
	struct ethhdr *ethernet = start;
	struct iphdr *ip = start + sizeof(*ethernet);
	struct bpf_fib_lookup to = {.family = IPV4};
	__u16 *to_words = start; /* the destination, which comes first */
	__u32 first = 0;
	struct port *own = bpf_map_lookup_elem(&port, &first);

	counted(TAKEN, 0);
	if (!own || start + sizeof(*ethernet) + sizeof(*ip) > end ||
	    ethernet->h_proto != NETWORK_ORDER(ETH_P_IP) || ip->version != 4)
		return counted(NOT_IPV4, XDP_DROP);
	if (to_words[0] != own->mac[0] || to_words[1] != own->mac[1] || to_words[2] != own->mac[2])
		return counted(OTHER_MAC, XDP_DROP);
	if (ip->ttl <= 1)
		return counted(TTL_ENDED, XDP_DROP);

	to.tos = ip->tos;
	to.l4_protocol = ip->protocol;
	to.tot_len = NETWORK_ORDER(ip->tot_len);
	to.ipv4_src = ip->saddr;
	to.ipv4_dst = ip->daddr;
	to.ifindex = frame->ingress_ifindex;
	if (bpf_fib_lookup(frame, &to, sizeof(to), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return counted(NO_ROUTE, XDP_DROP);

	age(ip);
	__builtin_memcpy(ethernet->h_dest, to.dmac, ETH_ALEN);
	__builtin_memcpy(ethernet->h_source, to.smac, ETH_ALEN);
	return bpf_redirect(to.ifindex, 0);
}
