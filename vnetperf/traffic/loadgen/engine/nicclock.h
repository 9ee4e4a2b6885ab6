/*
 * A NIC's clock told in TSC: its time stamps say when a frame arrived at the NIC, not when it was
 * looked for.  Pairs of both clocks, read at nearly one moment, give offset and rate.
 */
#ifndef LOADGEN_NICCLOCK_H
#define LOADGEN_NICCLOCK_H

#include "common.h"

struct nicclock_pair {
	uint64_t nic, tsc;
};

struct nicclock {
	bool ready; /* two pairs, far enough apart */
	bool any;
	struct nicclock_pair first;  /* rates are taken from here */
	struct nicclock_pair middle; /* becomes the first when that one is too old */
	struct nicclock_pair latest;
	uint64_t mult;	/* TSC cycles per tick, with 32 bits of fraction */
	uint64_t error; /* cycles: half of what a reading takes, and how far the last one was off */
};

/* The NIC's clock was read as `nic` between two readings of the TSC.  hz: TSC cycles per second. */
void nicclock_note(struct nicclock *c, uint64_t nic, uint64_t before, uint64_t after, uint64_t hz);

/* Only when ready. */
static inline uint64_t nicclock_tsc(const struct nicclock *c, uint64_t nic)
{
	const int64_t ticks = (int64_t)(nic - c->latest.nic);

	return c->latest.tsc + (uint64_t)(int64_t)((__int128)ticks * (__int128)c->mult >> 32);
}

#endif
