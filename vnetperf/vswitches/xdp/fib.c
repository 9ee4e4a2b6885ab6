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
	struct bpf_fib_lookup way = {.ifindex = frame->ingress_ifindex};

	add_one(&counts, TAKEN);
	if (start + sizeof(*ethernet) + sizeof(*ip) > end || ethernet->h_proto != net16(ETH_P_IP) ||
	    ip->version != 4)
		return count_frame(NOT_IPV4, XDP_DROP);
	if (!is_own(ethernet))
		return count_frame(OTHER_MAC, XDP_DROP);
	if (ip->ttl <= 1)
		return count_frame(TTL_ENDED, XDP_DROP);

	way.ipv4_src = ip->saddr;
	way.ipv4_dst = ip->daddr;
	if (!has_way(frame, ip, &way))
		return count_frame(NO_ROUTE, XDP_DROP);
	forward_by(&way, ethernet, ip);
	return bpf_redirect(way.ifindex, 0);
}
