#include "check.h"
#include "turns.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HZ 1e9 /* a cycle is a nanosecond */
#define US 1000ull

/* The next turn is later than now, by no more than its length, on the grid. */
static void test_grid(void)
{
	static const uint64_t times[] = {0, 1, 99999, 100000, 100001, 123456789012345ull};
	static const uint32_t phases[] = {0, 50, 99, 100, 250};
	struct turns t;

	for (unsigned int p = 0; p < sizeof(phases) / sizeof(phases[0]); p++) {
		turns_init(&t, 100, phases[p], 100, HZ);
		for (unsigned int i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
			const uint64_t next = turns_next(&t, times[i]);

			CHECK(next > times[i] && next <= times[i] + 100 * US);
			CHECK_EQ((next + 10 * t.length_ns - t.phase_ns) % t.length_ns, 0);
		}
	}
}

static uint64_t later;

static uint64_t clock_later(void)
{
	return later;
}

/* What counts as now stands still within a turn, and goes on where nothing slept. */
static void test_begin(void)
{
	struct turns t;

	turns_init(&t, 0, 0, 100, HZ);
	CHECK_EQ(turns_begin(&t, 12345, clock_later), 12345);
	turns_init(&t, 100, 0, 100, HZ);
	turns_woke(&t, 0, 1000 * US, false);
	CHECK_EQ(turns_begin(&t, 1000 * US + 1, clock_later), 1000 * US);
	CHECK_EQ(turns_begin(&t, 1099 * US, clock_later), 1000 * US);
	CHECK_EQ(turns_begin(&t, 1100 * US, clock_later), 1100 * US);
	CHECK_EQ(turns_begin(&t, 1150 * US, clock_later), 1100 * US);
	CHECK_EQ(t.sleeps, 1);
	CHECK_EQ(t.slept, 1000 * US);
}

/* One that always has something to do gets its share and no more, whatever the share is. */
static void test_share(void)
{
	for (uint32_t share = 10; share < 100; share += 15) {
		uint64_t now = 0, awake = 0;
		struct turns t;

		turns_init(&t, 100, 0, share, HZ);
		turns_hold(&t, true, 0);
		while (now < 1000000 * US) {
			now += US;
			awake += US;
			if (turns_spent(&t, now)) {
				const uint64_t wake = turns_next(&t, now);

				turns_woke(&t, now, wake, true);
				now = wake;
			}
		}
		CHECK(awake > now * share / 100 - 3000 * US && awake < now * share / 100 + 3000 * US);
		CHECK(t.forced > 0 && t.forced == t.sleeps);
	}
}

/* Without a priority nobody is held; a new trial begins with all of its credit. */
static void test_hold(void)
{
	struct turns t;

	turns_init(&t, 100, 0, 50, HZ);
	CHECK(!turns_spent(&t, 1000000 * US));
	turns_hold(&t, true, 1000000 * US);
	for (uint64_t now = 1000000; now < 1002000; now += 50)
		CHECK(!turns_spent(&t, now * US));
	CHECK(turns_spent(&t, 1002001 * US));
	turns_hold(&t, true, 1005000 * US);
	CHECK(!turns_spent(&t, 1005001 * US));
	turns_hold(&t, false, 0);
	CHECK(!turns_spent(&t, 9000000 * US));
}

/* Time that others had is not work of the thread: those that it lets run, and whatever stops it. */
static void test_away(void)
{
	struct turns t;
	int64_t before;

	turns_init(&t, 100, 0, 50, HZ);
	turns_hold(&t, true, 0);
	before = t.credit;
	later = 900 * US; /* somebody else ran for 800 us */
	CHECK_EQ(turns_begin(&t, 100 * US, clock_later), 900 * US);
	CHECK(!turns_spent(&t, 900 * US));
	CHECK_EQ(t.credit, before);
	CHECK(!turns_spent(&t, 10000000 * US)); /* stopped for 10 s: charged for one turn */
	CHECK_EQ(before - t.credit, 100 * US * 50);
}

/* Whatever the kernel says to the priority: afterwards the thread is as it was. */
static void test_scheduling(void)
{
	struct scheduling before = {0}, now = {0}, first = {0};
	int error;

	CHECK_EQ(syscall(SYS_sched_getattr, 0, &first, sizeof(first), 0u), 0);
	error = scheduling_fifo(1, &before);
	CHECK(error == 0 || error == EPERM);
	CHECK_EQ(sched_getscheduler(0) & ~SCHED_RESET_ON_FORK, error ? SCHED_OTHER : SCHED_FIFO);
	if (error == 0)
		scheduling_restore(&before);
	CHECK_EQ(syscall(SYS_sched_getattr, 0, &now, sizeof(now), 0u), 0);
	CHECK_EQ(now.policy, first.policy);
	CHECK_EQ(now.nice, first.nice);
	CHECK_EQ(now.runtime, first.runtime);
}

/* A sleep ends at the next turn, not before. */
static void test_wait(void)
{
	struct timespec t;
	struct turns turns;
	uint64_t before, after, next;

	turns_init(&turns, 1000, 300, 100, HZ);
	clock_gettime(CLOCK_MONOTONIC, &t);
	before = (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
	next = turns_next(&turns, before);
	turns_wait(&turns);
	clock_gettime(CLOCK_MONOTONIC, &t);
	after = (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
	CHECK(after >= next);
}

void test_turns(void)
{
	test_grid();
	test_begin();
	test_share();
	test_hold();
	test_away();
	test_scheduling();
	test_wait();
}
