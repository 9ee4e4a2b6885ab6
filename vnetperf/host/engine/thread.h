/* The thread of a worker: what every engine sets up in it before the work. */
#ifndef ENGINE_THREAD_H
#define ENGINE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>

/* Name the calling thread PROGRAM-NUMBER, of at most 15 octets; DPDK's names differ between
 * versions. */
void thread_set_name(const char *program, unsigned int number);
/* Let sleeps of the calling thread end within 1 us: the default adds 50 us to each. */
void thread_sleep_exactly(void);
/* Sleep until one of two flags is set. */
void thread_wait_for(const atomic_bool *flag, const atomic_bool *other);

#endif
