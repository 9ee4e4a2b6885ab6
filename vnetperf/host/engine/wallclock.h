/*
 * A clock of the kernel told from TSC. Where a service keeps the wall clocks of two machines
 * together, stamps of one by it are times of the other.
 */
#ifndef ENGINE_WALLCLOCK_H
#define ENGINE_WALLCLOCK_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define WALL_NS_PER_S 1000000000ull

struct wallclock {
	uint64_t tsc, ns; /* one moment by both; ns since 1970 */
	uint64_t width;	  /* cycles that this reading took: the moment is as uncertain */
	double ns_per_cycle;
};

/* `told` was read between two readings of the TSC; of several readings the shortest is kept. */
void wallclock_note(struct wallclock *c, uint64_t before, uint64_t told, uint64_t after);
/* The rate since an earlier reading; by `hz` where that is too close, or the rate is off from it by
 * `most_off` or more, a share: such a clock was set, or is being slewed. */
void wallclock_rate(struct wallclock *c, const struct wallclock *earlier, uint64_t hz,
		    double most_off);
/* How far the clock has gone from what was told of it, as a later reading shows; ns, at most. */
uint64_t wallclock_error(const struct wallclock *c, const struct wallclock *later);

static inline uint64_t wallclock_ns(const struct wallclock *c, uint64_t tsc)
{
	return c->ns + (uint64_t)llround((double)(int64_t)(tsc - c->tsc) * c->ns_per_cycle);
}

static inline uint64_t wallclock_tsc(const struct wallclock *c, uint64_t ns)
{
	return c->tsc + (uint64_t)llround((double)(int64_t)(ns - c->ns) / c->ns_per_cycle);
}

#endif
