/* What the program of every port has: its address, and counters of what it did, one for each
 * processor. */
#ifndef VNETPERF_PORT_H
#define VNETPERF_PORT_H

#include "bpf.h"

/* Places in `counts`, in the order of COUNTS in switch.py. */
enum count {
	TAKEN,	   /* every frame that came in */
	NO_TARGET, /* dropped: the port leads nowhere */
	NOT_IPV4,  /* dropped: no whole IPv4 header */
	OTHER_MAC, /* dropped: addressed to somebody else, or to all */
	TTL_ENDED, /* dropped: no hop left to live */
	NO_ROUTE,  /* dropped: the kernel's table has no way, or no neighbour */
	NO_FLOW,   /* dropped: neither to a service that has backends nor of a known flow */
	NO_ROOM,   /* dropped: the table of flows takes no more */
	NO_PORTS,  /* dropped: IPv4 whose ports are not looked for */
	COUNTS,
};

struct {
	FIELD(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	FIELD(max_entries, COUNTS);
	TYPE(key, __u32);
	TYPE(value, __u64);
} counts SEC(".maps");

static inline __attribute__((always_inline)) int counted(enum count what, int verdict)
{
	__u32 place = what;
	__u64 *frames = bpf_map_lookup_elem(&counts, &place);

	if (frames)
		++*frames;
	return verdict;
}

#endif
