/* Counters of BPF programs, each with a value for every processor. */
#ifndef VNETPERF_BPF_COUNTS_H
#define VNETPERF_BPF_COUNTS_H

#include "bpf.h"

#define COUNTERS(name, number)                                                                     \
	struct {                                                                                   \
		FIELD(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                            \
		FIELD(max_entries, number);                                                        \
		TYPE(key, __u32);                                                                  \
		TYPE(value, __u64);                                                                \
	} name SEC(".maps")

ALWAYS void add_one(void *counters, __u32 place)
{
	__u64 *count = bpf_map_lookup_elem(counters, &place);

	if (count)
		++*count;
}

/* Count a frame at a place of the program's map `counts`; gives the verdict back. */
#define count_frame(place, verdict) (add_one(&counts, (place)), (verdict))

#endif
