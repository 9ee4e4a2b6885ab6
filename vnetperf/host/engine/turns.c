#include "turns.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A thread with credit may go on for so long without a sleep: what a stall has left is worked off.
 */
#define MOST_S	 0.002
#define PERCENT	 100
#define NS_PER_S 1000000000ull
/* Not to be inherited by threads and programs that it starts. */
#define RESET_ON_FORK 1u

void turns_init(struct turns *t, uint32_t us, uint32_t phase_us, uint32_t share, double hz)
{
	memset(t, 0, sizeof(*t));
	t->length_ns = us * 1000ull;
	t->phase_ns = us ? phase_us * 1000ull % t->length_ns : 0;
	t->length = (uint64_t)(hz * us / 1e6);
	t->share = share;
	t->most = (int64_t)(hz * MOST_S * (PERCENT - share));
}

void turns_resize(struct turns *t, uint32_t us, double hz)
{
	if (t->length == 0 || us == 0)
		return;
	t->length_ns = us * 1000ull;
	t->phase_ns %= t->length_ns;
	t->length = (uint64_t)(hz * us / 1e6);
}

uint64_t turns_next(const struct turns *t, uint64_t now_ns)
{
	const uint64_t since = (now_ns + t->length_ns - t->phase_ns) % t->length_ns;

	return now_ns + t->length_ns - since;
}

void turns_wait(const struct turns *t)
{
	struct timespec at;
	uint64_t next;

	clock_gettime(CLOCK_MONOTONIC, &at);
	next = turns_next(t, (uint64_t)at.tv_sec * NS_PER_S + (uint64_t)at.tv_nsec);
	at.tv_sec = (time_t)(next / NS_PER_S);
	at.tv_nsec = (long)(next % NS_PER_S);
	/* A signal ends the sleep early, which is no harm: the thread finds no work and comes back.
	 */
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

void turns_woke(struct turns *t, uint64_t slept_from, uint64_t now, bool forced)
{
	t->credit += (int64_t)((now - slept_from) * t->share);
	if (t->credit > t->most)
		t->credit = t->most;
	t->at = t->looked = now;
	t->slept += now - slept_from;
	t->sleeps++;
	t->forced += forced;
}

void turns_hold(struct turns *t, bool held, uint64_t now)
{
	t->held = held;
	t->looked = now;
	t->credit = t->most;
}

void turns_yield(void)
{
	sched_yield();
}

int scheduling_fifo(uint32_t priority, struct scheduling *before)
{
	struct scheduling wanted = {
		.size = sizeof(wanted),
		.policy = SCHED_FIFO,
		.flags = RESET_ON_FORK,
		.priority = priority,
	};

	if (syscall(SYS_sched_getattr, 0, before, sizeof(*before), 0u) != 0 ||
	    syscall(SYS_sched_setattr, 0, &wanted, 0u) != 0)
		return errno;
	return 0;
}

void scheduling_restore(const struct scheduling *before)
{
	struct scheduling wanted = *before;

	wanted.size = sizeof(wanted);
	/* Flags are as they were but for what only the kernel sets. */
	wanted.flags = before->flags & RESET_ON_FORK;
	syscall(SYS_sched_setattr, 0, &wanted, 0u);
}
