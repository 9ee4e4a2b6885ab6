/* Counts what became of frames after a program's verdict, at the kernel's tracepoints of XDP.
 *
 * Types of the kernel have only the fields that are read; the loader finds where they are in the
 * running kernel (CO-RE). Interfaces that the loader did not name are not counted.
 */
#include "bpf.h"

#define KERNEL __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} KERNEL;
struct net {
	struct ns_common ns;
} KERNEL;
typedef struct {
	struct net *net;
} KERNEL possible_net_t;
struct net_device {
	int ifindex;
	possible_net_t nd_net;
} KERNEL;

struct interface {
	__u32 index;
	__u32 netns;
};
struct outcome {
	__u64 sent;    /* that its driver took in native mode */
	__u64 dropped; /* that its driver did not take */
	__u64 failed;  /* that came in by it and could not be redirected, or had no valid verdict */
};

struct {
	FIELD(type, BPF_MAP_TYPE_PERCPU_HASH);
	FIELD(max_entries, 256);
	TYPE(key, struct interface);
	TYPE(value, struct outcome);
} outcomes SEC(".maps");

ALWAYS struct outcome *look_up_outcome(const struct net_device *device)
{
	struct interface key = {.index = device->ifindex, .netns = device->nd_net.net->ns.inum};

	return bpf_map_lookup_elem(&outcomes, &key);
}

/* const struct net_device *from, const struct net_device *to, int sent, int drops, int err */
SEC("tp_btf/xdp_devmap_xmit") int xmit(unsigned long long *arguments)
{
	struct outcome *outcome = look_up_outcome((const struct net_device *)arguments[1]);

	if (outcome) {
		outcome->sent += (int)arguments[2];
		outcome->dropped += (int)arguments[3];
	}
	return 0;
}

ALWAYS int count_failure(unsigned long long *arguments)
{
	struct outcome *outcome = look_up_outcome((const struct net_device *)arguments[0]);

	if (outcome)
		++outcome->failed;
	return 0;
}

/* Both begin with const struct net_device *dev, const struct bpf_prog *xdp. */
SEC("tp_btf/xdp_exception") int exception(unsigned long long *arguments)
{
	return count_failure(arguments);
}

SEC("tp_btf/xdp_redirect_err") int redirect_err(unsigned long long *arguments)
{
	return count_failure(arguments);
}
