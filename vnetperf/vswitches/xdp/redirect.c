/* Program redirect: every frame leaves unchanged by one other port. */
#include "port.h"

struct {
	FIELD(type, BPF_MAP_TYPE_DEVMAP);
	FIELD(max_entries, 1);
	TYPE(key, __u32);
	TYPE(value, __u32);
} target SEC(".maps");

SEC("xdp.frags") int forward(struct xdp_md *frame)
{
	(void)frame;
	add_one(&counts, TAKEN);
	/* A place of the map without an interface gives the flags as the verdict. */
	if (bpf_redirect_map(&target, 0, XDP_DROP) == XDP_REDIRECT)
		return XDP_REDIRECT;
	return count_frame(NO_TARGET, XDP_DROP);
}
