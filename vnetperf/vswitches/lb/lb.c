/* Load balancing of services: a flow gets one of its service's backends, and keeps it.
 *
 * Compiled for each port, with DIRECTION 0 where clients are and 1 where backends are, and for
 * XDP or, with TC, for the kernel's traffic control. Ports have the maps of services, backends
 * and flows in common. Routes are the kernel's own; what they have no answer for is dropped.
 */
#include "../xdp/router.h"

#include "checksum.h"

#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stddef.h>

#ifdef TC
#define HOOK	SEC("tc")
#define FRAME	struct __sk_buff
#define CAME_BY ifindex
#define DROP	TC_ACT_SHOT
#else
#define HOOK	SEC("xdp.frags")
#define FRAME	struct xdp_md
#define CAME_BY ingress_ifindex
#define DROP	XDP_DROP
#endif
#define FRAGMENT net16(0x3fff)
#define L4	 (sizeof(struct ethhdr) + sizeof(struct iphdr))

struct end {
	__u32 address;
	__u16 port;
	__u16 protocol; /* of a service; 0 elsewhere */
};
struct flow {
	struct end from;
	struct end to;
	__u32 protocol;
	__u32 direction;
};
struct choice {
	__u32 first; /* place of a service's first backend */
	__u32 count;
};

struct {
	FIELD(type, BPF_MAP_TYPE_HASH);
	FIELD(max_entries, SERVICES);
	TYPE(key, struct end);
	TYPE(value, struct choice);
} services SEC(".maps");

struct {
	FIELD(type, BPF_MAP_TYPE_ARRAY);
	FIELD(max_entries, BACKENDS);
	TYPE(key, __u32);
	TYPE(value, struct end);
} backends SEC(".maps");

/* The end that a flow's packets are given: the backend towards it, the virtual address back. */
struct {
	FIELD(type, BPF_MAP_TYPE_LRU_HASH);
	FIELD(max_entries, ENTRIES);
	TYPE(key, struct flow);
	TYPE(value, struct end);
} flows SEC(".maps");

/* Give a new flow a backend: both directions are known from then on. */
ALWAYS struct end *balance(const struct flow *flow, enum count *cause)
{
	struct end virtual = flow->to;
	struct flow back = {.to = flow->from, .protocol = flow->protocol, .direction = 1};
	struct choice *choice;
	struct end *backend;
	__u32 place;

	virtual.protocol = flow->protocol;
	*cause = NO_FLOW;
	choice = bpf_map_lookup_elem(&services, &virtual);
	if (!choice || !choice->count)
		return 0;
	place = choice->first + bpf_get_prandom_u32() % choice->count;
	backend = bpf_map_lookup_elem(&backends, &place);
	if (!backend)
		return 0;
	back.from = *backend;
	*cause = NO_ROOM;
	if (bpf_map_update_elem(&flows, flow, backend, BPF_ANY) ||
	    bpf_map_update_elem(&flows, &back, &flow->to, BPF_ANY))
		return 0;
	return backend;
}

#ifdef TC
/* The kernel's helpers know what a buffer's checksums are. */
ALWAYS void rewrite(FRAME *frame, struct iphdr *ip, const struct end *was, const struct end *is)
{
	const int udp = ip->protocol == IPPROTO_UDP;
	const __u32 check =
		L4 + (udp ? offsetof(struct udphdr, check) : offsetof(struct tcphdr, check));
	const __u64 flags = udp ? BPF_F_MARK_MANGLED_0 : 0;
	const __u32 address = sizeof(struct ethhdr) + (DIRECTION ? offsetof(struct iphdr, saddr)
								 : offsetof(struct iphdr, daddr));

	bpf_l4_csum_replace(frame, check, was->address, is->address, flags | BPF_F_PSEUDO_HDR | 4);
	bpf_l4_csum_replace(frame, check, was->port, is->port, flags | 2);
	bpf_l3_csum_replace(frame, sizeof(struct ethhdr) + offsetof(struct iphdr, check),
			    was->address, is->address, 4);
	bpf_skb_store_bytes(frame, address, &is->address, 4, 0);
	bpf_skb_store_bytes(frame, L4 + (DIRECTION ? 0 : 2), &is->port, 2, 0);
}
#else
ALWAYS void rewrite(FRAME *frame, struct iphdr *ip, const struct end *was, const struct end *is)
{
	void *end = (void *)(long)frame->data_end;
	struct udphdr *udp = (void *)(ip + 1);
	struct tcphdr *tcp = (void *)(ip + 1);
	const __u32 address_change = change32(was->address, is->address);
	const __u32 change = address_change + change16(was->port, is->port);

	ip->check = update_checksum(ip->check, address_change);
	if (ip->protocol == IPPROTO_UDP && udp->check) {
		udp->check = update_checksum(udp->check, change);
		if (!udp->check)
			udp->check = 0xffff; /* RFC 768: 0 is for none */
	} else if (ip->protocol == IPPROTO_TCP && (void *)(tcp + 1) <= end) {
		tcp->check = update_checksum(tcp->check, change);
	}
	*(DIRECTION ? &ip->saddr : &ip->daddr) = is->address;
	*(DIRECTION ? &udp->source : &udp->dest) = is->port;
}
#endif

HOOK int forward(FRAME *frame)
{
	void *start = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
	struct ethhdr *ethernet = start;
	struct iphdr *ip = start + sizeof(*ethernet);
	struct udphdr *ports = start + L4; /* where TCP has its own */
	struct bpf_fib_lookup way = {.ifindex = frame->CAME_BY};
	struct flow flow = {.direction = DIRECTION};
	struct end *is, was;
	enum count cause = NO_FLOW;

	add_one(&counts, TAKEN);
	if (start + L4 + sizeof(*ports) > end || ethernet->h_proto != net16(ETH_P_IP) ||
	    ip->version != 4)
		return count_frame(NOT_IPV4, DROP);
	if (ip->ihl != 5 || ip->frag_off & FRAGMENT ||
	    (ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_TCP))
		return count_frame(NO_PORTS, DROP);
	if (!is_own(ethernet))
		return count_frame(OTHER_MAC, DROP);
	if (ip->ttl <= 1)
		return count_frame(TTL_ENDED, DROP);

	flow.from.address = ip->saddr;
	flow.from.port = ports->source;
	flow.to.address = ip->daddr;
	flow.to.port = ports->dest;
	flow.protocol = ip->protocol;
	is = bpf_map_lookup_elem(&flows, &flow);
	if (!is && !DIRECTION)
		is = balance(&flow, &cause);
	if (!is)
		return count_frame(cause, DROP);
	was = DIRECTION ? flow.from : flow.to;

	way.ipv4_src = DIRECTION ? is->address : ip->saddr;
	way.ipv4_dst = DIRECTION ? ip->daddr : is->address;
	if (!has_way(frame, ip, &way))
		return count_frame(NO_ROUTE, DROP);
	forward_by(&way, ethernet, ip);
	rewrite(frame, ip, &was, is);
	return bpf_redirect(way.ifindex, 0);
}
