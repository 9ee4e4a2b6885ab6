/* When to sleep, and until when. Nothing here knows DPDK. */
#ifndef VLOOP_TURNS_H
#define VLOOP_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_US 1000ull

/* Longest time between two sleeps of a real-time thread, and the shortest sleep that ends it, ns:
 * the kernel would throttle who takes 0.95 of a processor. */
#define HOLD_NS 2000000ull
#define REST_NS 200000ull

/* First moment of the grid that is later than `now`; all in ns, `phase` below `turn`. */
static inline uint64_t turns_next(uint64_t now, uint64_t turn, uint64_t phase)
{
	return now + turn - (now + turn - phase) % turn;
}

/* Until when to sleep: the next moment of the grid; of who was forced to, one that is not near. */
static inline uint64_t turns_wake(uint64_t now, uint64_t turn, uint64_t phase, bool forced)
{
	return turns_next(forced ? now + REST_NS : now, turn, phase);
}

#endif
