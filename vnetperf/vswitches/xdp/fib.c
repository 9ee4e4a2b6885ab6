/* Program fib: IPv4 packets for the port's address are routed by the kernel's own table.
 *
 * What the table has no answer for is dropped: the kernel's stack never sees a frame.
 */
#include "router.h"

SEC("xdp.frags") int forward(struct xdp_md *frame)
{
	void *start = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
	struct ethhdr *ethernet = start;
	struct iphdr *ip = start + sizeof(*ethernet);
	struct bpf_fib_lookup to = {.family = IPV4};

	counted(TAKEN, 0);
	if (start + sizeof(*ethernet) + sizeof(*ip) > end ||
	    ethernet->h_proto != NETWORK_ORDER(ETH_P_IP) || ip->version != 4)
		return counted(NOT_IPV4, XDP_DROP);
	if (!is_own(ethernet))
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
