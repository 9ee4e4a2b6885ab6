/* Counters of 8 octets that one thread writes and others read. */
#ifndef ENGINE_COUNTER_H
#define ENGINE_COUNTER_H

#include <stdint.h>

/* The counter as another thread left it: never a part of two values. */
static inline uint64_t counter_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

#endif
