/*
 * Orders that all workers follow: a phase and the generation it was given in, in one word, so that
 * one atomic store gives it and one atomic load follows it.
 */
#ifndef LOADGEN_WORKER_PHASE_H
#define LOADGEN_WORKER_PHASE_H

#include "common.h"

enum phase {
	PHASE_REST, /* frames are received and sorted out, none counts for a trial */
	PHASE_ARM,  /* clear what the coming trial counts in */
	PHASE_RUN,  /* send from the common start on, count what arrives */
};

#define PHASE_BITS 2u

static inline enum phase order_phase(uint32_t order)
{
	return (enum phase)(order & ((1u << PHASE_BITS) - 1));
}

static inline uint32_t order_next(uint32_t order, enum phase phase)
{
	return ((order >> PHASE_BITS) + 1) << PHASE_BITS | phase;
}

/* Whether who acknowledged `ack` has followed `order`.  A worker may be further already: a few
 * frames are sent, and rest is ordered, before the thread that ordered the run gets to look. */
static inline bool order_reached(uint32_t ack, uint32_t order)
{
	return (int32_t)(ack - order) >= 0;
}

#endif
