/* Source of benchmarks/xdp.py: what the kernel runs it for leaves by the interface with the index
 * TARGET, each time with the same headers: buffers are used again, as a router left them. */
#include "bpf.h"

#define HEADERS 42 /* Ethernet, IPv4, UDP */

struct headers {
	unsigned char octets[HEADERS];
};

struct {
	FIELD(type, BPF_MAP_TYPE_ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, __u32);
	TYPE(value, struct headers);
} headers SEC(".maps");

SEC("xdp") int send(struct xdp_md *frame)
{
	void *start = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
	__u32 first = 0;
	struct headers *made = bpf_map_lookup_elem(&headers, &first);

	if (!made || start + HEADERS > end)
		return XDP_DROP;
	__builtin_memcpy(start, made->octets, HEADERS);
	return bpf_redirect(TARGET, 0);
}

SEC("xdp") int take(struct xdp_md *frame)
{
	(void)frame;
	return XDP_DROP;
}
