/*
 * How long a cache line takes from one processor to another and back: the least over short batches
 * of round trips, ns.  Processors with a cache in common take some 50 ns, others several times
 * that; a hypervisor may move virtual processors from one to the other at any time.
 *
 *   lines CPU CPU
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TRIPS	   50
#define BATCHES	   20
#define LONGEST_NS 3000000ull  /* whoever has the processors otherwise waits no longer */
#define READY_NS   50000000ull /* for both threads to be on their processors */
#define LOOKS	   1000	       /* between two looks at the clock */
#define PRIORITY   2	       /* above those that take turns */

static struct {
	_Alignas(128) _Atomic uint64_t line;
	_Alignas(128) atomic_bool over;
	_Alignas(128) _Atomic uint64_t until; /* 0: not yet begun */
	atomic_bool ready;
} shared;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* On its processor at once, as far as the kernel lets it. */
static void be_on(int cpu)
{
	const struct sched_param priority = {.sched_priority = PRIORITY};
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		atomic_store(&shared.over, true);
	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority);
}

/* Wait for a number in the line; false when the time is over. */
static bool wait_for(uint64_t number)
{
	for (unsigned int looks = 1;; looks++) {
		if (atomic_load_explicit(&shared.line, memory_order_acquire) == number)
			return true;
		if (looks % LOOKS)
			continue;
		if (atomic_load(&shared.over) || now_ns() > atomic_load(&shared.until))
			return false;
	}
}

static void *answer(void *cpu)
{
	const struct timespec nap = {0, 20000};

	be_on(*(const int *)cpu);
	atomic_store(&shared.ready, true);
	while (atomic_load(&shared.until) == 0 && !atomic_load(&shared.over))
		nanosleep(&nap, NULL);
	for (uint64_t n = 1; wait_for(n); n += 2)
		atomic_store_explicit(&shared.line, n + 1, memory_order_release);
	return NULL;
}

static bool batch(uint64_t *number)
{
	for (unsigned int i = 0; i < TRIPS; i++) {
		atomic_store_explicit(&shared.line, *number + 1, memory_order_release);
		*number += 2;
		if (!wait_for(*number))
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	const struct timespec nap = {0, 20000};
	uint64_t least = UINT64_MAX, number = 0, late;
	int asks, answers;
	pthread_t other;

	if (argc != 3)
		return EXIT_FAILURE;
	asks = atoi(argv[1]);
	answers = atoi(argv[2]);
	if (pthread_create(&other, NULL, answer, &answers) != 0)
		return EXIT_FAILURE;
	be_on(asks);
	for (late = now_ns() + READY_NS; !atomic_load(&shared.ready) && now_ns() < late;)
		nanosleep(&nap, NULL);
	atomic_store(&shared.until, now_ns() + LONGEST_NS);
	for (unsigned int i = 0; i < BATCHES; i++) {
		const uint64_t began = now_ns();

		if (!batch(&number))
			break;
		least = now_ns() - began < least ? now_ns() - began : least;
	}
	atomic_store(&shared.over, true);
	pthread_join(other, NULL);
	if (least == UINT64_MAX)
		return EXIT_FAILURE;
	printf("%.1f\n", (double)least / TRIPS);
	return EXIT_SUCCESS;
}
