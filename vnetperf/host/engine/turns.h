/*
 * Turns of a thread that shares its processor: what is due is done when a turn begins, then the
 * thread sleeps until the next one.  A thread that wakes for every few frames costs the others on
 * its processor more than its work does: each switch loses their caches, and in a virtual machine
 * each timer is a trap.
 *
 * Turns begin at multiples of their length by CLOCK_MONOTONIC, plus a phase: threads that share a
 * processor wake one after the other, and not in the middle of each other's work.
 *
 * Under SCHED_FIFO a thread runs when it wakes, whatever the scheduler's tick, and nobody takes the
 * processor away from it.  So it has a share: who has used it up sleeps until the next turn
 * whatever there is to do.
 */
#ifndef ENGINE_TURNS_H
#define ENGINE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

struct turns {
	uint64_t length; /* cycles; 0: the thread never sleeps */
	uint64_t length_ns, phase_ns;
	uint64_t at;	 /* when this turn began */
	uint64_t looked; /* the credit is as of then */
	int64_t credit;	 /* cycles * 100 */
	int64_t most;
	uint32_t share; /* percent of its processor, at most */
	bool held;	/* to its share: only under SCHED_FIFO */
	/* Since the start: turns that ended with a sleep, those that ended so for the share alone,
	 * and cycles asleep. */
	uint64_t sleeps, forced, slept;
};

/* us: length of a turn, 0: none; share: percent, 100: no bound; hz: cycles per second. */
void turns_init(struct turns *t, uint32_t us, uint32_t phase_us, uint32_t share, double hz);
/* Take turns of another length from now on, of one that takes turns. */
void turns_resize(struct turns *t, uint32_t us, double hz);
/* Time by CLOCK_MONOTONIC at which the next turn begins, ns; later than now. */
uint64_t turns_next(const struct turns *t, uint64_t now_ns);
/* Sleep until the next turn begins; turns_woke() is to follow. */
void turns_wait(const struct turns *t);
/* A turn begins after a sleep; `forced`: there was work, but no share left. */
void turns_woke(struct turns *t, uint64_t slept_from, uint64_t now, bool forced);
/* Hold the thread to its share from now on, or no longer. */
void turns_hold(struct turns *t, bool held, uint64_t now);
/* Let others of the same priority run: a turn has begun without a sleep before it. */
void turns_yield(void);

/* What counts as now: when the turn began.  What is due later waits for the next.  Others of the
 * same priority run when one begins without a sleep before it: that time is theirs. */
static inline uint64_t turns_begin(struct turns *t, uint64_t now, uint64_t (*clock)(void))
{
	if (t->length == 0)
		return now;
	if (now - t->at >= t->length) {
		t->at = now;
		if (t->held) {
			turns_yield();
			t->at = t->looked = clock();
		}
	}
	return t->at;
}

/* Whether the thread has used up its share. */
static inline bool turns_spent(struct turns *t, uint64_t now)
{
	uint64_t worked = now - t->looked;

	if (!t->held)
		return false;
	/* A thread that was away for longer was stopped, or its processor taken: no work of its. */
	if (worked > t->length)
		worked = t->length;
	t->credit -= (int64_t)(worked * (100 - t->share));
	t->looked = now;
	return t->credit < 0;
}

/* The scheduling of a thread, to be put back. */
struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/*
 * Give this thread a priority of SCHED_FIFO; what it had goes to `before`.  Returns 0, or the
 * kernel's error: containers, CONFIG_RT_GROUP_SCHED, no CAP_SYS_NICE.
 */
int scheduling_fifo(uint32_t priority, struct scheduling *before);
/* Put back what it had: policy, niceness and slice. */
void scheduling_restore(const struct scheduling *before);

#endif
