/* Counters that the program of every port has: what became of its frames. */
#ifndef VNETPERF_PORT_H
#define VNETPERF_PORT_H

#include "bpf_counts.h"

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

COUNTERS(counts, COUNTS);

#endif
