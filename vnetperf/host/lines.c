/*
 * How long a cache line takes from one processor to another and back: the least over short batches
 * of round trips, ns.  Processors with a cache in common take some 50 ns, others several times
 * that; a hypervisor may move virtual processors from one to the other at any time.
 *
 *   lines CPU CPU [NS MS]
 *
 * With NS and MS the processors are brought together first: each wakes the other and sleeps until
 * it is woken, and so on until a line takes NS at most or MS ms are over.  A hypervisor has
 * processors that wake each other share a cache, and those that are always busy be apart.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TRIPS	   50
#define BATCHES	   20
#define LONGEST_NS 3000000ull  /* whoever has the processors otherwise waits no longer */
#define READY_NS   50000000ull /* for both threads to be on their processors */
#define LOOKS	   1000	       /* between two looks at the clock */
#define PRIORITY   2	       /* above those that take turns */
#define SPELL_NS   20000000ull /* of waking each other, between two looks at the distance */

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

/* Time of a line from one processor to the other and back, ns; 0: they did not answer in time. */
static double measure(const int cpus[2])
{
	const struct timespec nap = {0, 20000};
	uint64_t least = UINT64_MAX, number = 0, late;
	pthread_t other;
	int answers = cpus[1];

	memset(&shared, 0, sizeof(shared));
	if (pthread_create(&other, NULL, answer, &answers) != 0)
		return 0;
	be_on(cpus[0]);
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
	return least == UINT64_MAX ? 0 : (double)least / TRIPS;
}

struct woken {
	int cpu, in, out;
};

/* Hand on what comes, until nothing does. */
static void *wake_back(void *argument)
{
	const struct woken *me = argument;
	char byte;

	be_on(me->cpu);
	while (read(me->in, &byte, 1) == 1 && write(me->out, &byte, 1) == 1)
		;
	close(me->out);
	return NULL;
}

/* Let each of two processors wake the other for a spell; false where that cannot be. */
static bool wake_each_other(const int cpus[2])
{
	const uint64_t end = now_ns() + SPELL_NS;
	struct woken me = {.cpu = cpus[1]};
	int there[2], back[2];
	pthread_t other;
	char byte = 0;
	bool woken;

	if (pipe(there) != 0 || pipe(back) != 0)
		return false; /* the program ends */
	me.in = there[0];
	me.out = back[1];
	woken = pthread_create(&other, NULL, wake_back, &me) == 0;
	if (woken) {
		be_on(cpus[0]);
		while (now_ns() < end)
			if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
				break;
	}
	close(there[1]);
	if (woken)
		pthread_join(other, NULL);
	close(there[0]);
	close(back[0]);
	return woken;
}

int main(int argc, char **argv)
{
	const uint64_t began = now_ns();
	double ns, enough = 0;
	uint64_t most = 0;
	int cpus[2];

	if (argc != 3 && argc != 5)
		return EXIT_FAILURE;
	cpus[0] = atoi(argv[1]);
	cpus[1] = atoi(argv[2]);
	if (argc == 5) {
		enough = atof(argv[3]);
		most = strtoull(argv[4], NULL, 10) * 1000000ull;
	}
	ns = measure(cpus);
	while (ns > enough && now_ns() - began < most && wake_each_other(cpus))
		ns = measure(cpus);
	if (ns == 0)
		return EXIT_FAILURE;
	printf("%.1f\n", ns);
	return EXIT_SUCCESS;
}
