/* The parts that know DPDK, and what they share. */
#ifndef VLOOP_ENGINE_H
#define VLOOP_ENGINE_H

#include <stdatomic.h>

#include <rte_ethdev.h>

#include "afpacket.h"
#include "args.h"
#include "commands.h"
#include "counter.h"
#include "likely.h"
#include "program.h"
#include "thread.h"
#include "turns.h"

/* What the kernel answered when a priority was asked for: 0, or its error. */
#define NOT_ASKED_YET (-1)

/* Written by the forwarding thread only, read by telemetry: numbers of 8 octets, each right by
 * itself. A stretch is what it does from one sleep, or look that finds nothing, to the next. */
struct worker {
	uint64_t frames, calls; /* received, and calls that received some */
	struct turns turns;
	uint64_t empty;		  /* sleeps before which it had found nothing at all */
	uint64_t busy, longest;	  /* cycles of stretches with frames, and of the longest */
	uint64_t refused[PORTS];  /* frames that the port's transmit queue did not take */
	_Atomic int policy_error; /* of sched_setattr() */
} __rte_cache_aligned;

struct engine {
	struct options options;
	struct worker worker;
	struct rte_mempool *pool;
	struct afpacket afpacket[PORTS];
	uint8_t mac[PORTS][MAC_OCTETS];
	uint64_t hz;
	atomic_bool forwarding, quit;
};

extern struct engine engine;

/* ports.c */
bool ports_start(struct error *error);

/* worker.c */
int worker_main(void *unused);

/* telemetry.c */
extern const struct command telemetry_commands[];

#endif
