/*
 * When the next frame of a transmit queue is due, and of which stream.  Pure arithmetic on TSC
 * values: no clock is read here.
 *
 * Open loop: frame k of a stream is due at start + (k + phase) * step, whatever happened to the
 * frames before it.  Steps carry a 32-bit fraction of a cycle, so that a billion frames drift by
 * less than a cycle, and nothing is divided per frame.
 *
 * Catching up is limited by a gate (a token bucket in units of time): after a stall at most `burst`
 * frames leave back to back, the rest at twice the nominal rate.  It is bounded: frames later than
 * `max_lag`, and all but the last `catch_up` that are overdue, are given up and count as unsent.
 * That keeps the load constant (RFC 1242 section 3.4) but for a burst of a stated size.
 *
 * A queue that is looked at in turns sends what has come due in each of them; the bucket holds two
 * turns then.
 *
 * Bursts: with a window, all frames due within it leave when it begins, back to back; a window is
 * as long as `group` frames take at the nominal rate.
 */
#ifndef LOADGEN_PACING_H
#define LOADGEN_PACING_H

#include "common.h"

enum pace {
	PACE_SEND,    /* the frame is due: send it */
	PACE_GIVE_UP, /* the frame is too late: count it as unsent */
	PACE_WAIT,    /* nothing may be sent now */
	PACE_END,     /* every frame has been handed out */
};

struct pace_stream {
	uint64_t due; /* cycles; the next frame's time */
	uint64_t step;
	uint64_t left;	   /* frames */
	uint32_t due_frac; /* of a cycle, in units of 2^-32 */
	uint32_t step_frac;
};

struct pacer {
	uint64_t gate;
	uint64_t half;	  /* cycles per frame while catching up, 0 at rate "max" */
	uint64_t depth;	  /* burst * half */
	uint64_t max_lag; /* cycles */
	uint64_t start;	  /* cycles */
	double hz, total; /* cycles and frames per second */
	double window;	  /* cycles of each burst; 0: frames are sent evenly */
	uint16_t n;
	uint16_t cursor; /* uniform: the next stream */
	bool uniform;	 /* all streams alike: taken in turn from `merged` */
	struct pace_stream merged;
	struct pace_stream stream[LG_MAX_STREAMS];
	uint16_t heap[LG_MAX_STREAMS]; /* not uniform: stream numbers, earliest due first */
};

/* What a queue has to send of one stream. */
struct pace_load {
	double rate;	/* frames/s of this queue's share; ignored when max, 0: none */
	double phase;	/* of the first frame, in steps, 0 <= phase < 1 */
	uint64_t count; /* frames of this queue's share */
};

/* Set up for loads[0..n); with `max` all frames are due at once.  hz: cycles per second. */
void pacer_init(struct pacer *p, const struct pace_load *loads, uint16_t n, bool max, double hz,
		unsigned int burst, uint64_t max_lag);
/* Send at most `frames` overdue ones after a stall, 0: whatever max_lag allows.  To be called after
 * pacer_init() and before pacer_group(). */
void pacer_catch_up(struct pacer *p, unsigned int frames);
/* Called once in so many cycles, it lets a turn's frames leave at once, and twice as many after a
 * stall.  To be called after pacer_catch_up() and before pacer_group(). */
void pacer_every(struct pacer *p, uint64_t cycles);
/* Send in bursts of `group` frames; to be called between pacer_init() and pacer_start(). */
void pacer_group(struct pacer *p, unsigned int group);
/* With a window: up to when frames are sent now, later than now. */
uint64_t pacer_horizon(const struct pacer *p, uint64_t now);
/* Fix the common start.  To be called once, before the first pacer_take(). */
void pacer_start(struct pacer *p, uint64_t start);
/* Restore heap order after the earliest stream has moved on or ended. */
void pacer_sift(struct pacer *p);
/* Frames not yet handed out, of one stream; used when a trial is given up. */
uint64_t pacer_left(const struct pacer *p, uint16_t stream);
/* Split `count` over `parts`; the shares differ by one at most and add up. */
uint64_t pacer_share(uint64_t count, unsigned int parts, unsigned int part);

static inline void pace_advance(struct pace_stream *s)
{
	const uint64_t frac = (uint64_t)s->due_frac + s->step_frac;

	s->due += s->step + (frac >> 32);
	s->due_frac = (uint32_t)frac;
	s->left--;
}

/* Time of the next frame, UINT64_MAX when there is none. */
static inline uint64_t pacer_due(const struct pacer *p)
{
	if (p->uniform)
		return p->merged.left ? p->merged.due : UINT64_MAX;
	return p->n ? p->stream[p->heap[0]].due : UINT64_MAX;
}

/* To be called once before a series of pacer_take(): unused credit does not pile up. */
static inline void pacer_refill(struct pacer *p, uint64_t now)
{
	if (now - p->gate > p->depth && (int64_t)(now - p->gate) > 0)
		p->gate = now - p->depth;
}

/* Overdue frames for each further frame that a call takes where each is to have its own stamp. */
#define PACE_OVERDUE 8
/* Frames/s of a queue up to which they have: single calls take some 5 % of a core more there. */
#define PACE_SINGLE 500e3

/*
 * How many frames to hand over at once where each is to have a stamp of its own: one, and one more
 * for so many that are overdue, up to `burst`.  What single calls cannot carry goes in longer ones.
 */
static inline uint16_t pacer_single(const struct pacer *p, uint64_t now, uint16_t burst)
{
	const int64_t overdue = (int64_t)(now - pacer_due(p));
	uint64_t n;

	if (p->half == 0 || overdue < 0 || p->total > PACE_SINGLE)
		return burst;
	n = 1 + (uint64_t)overdue / (PACE_OVERDUE * 2 * p->half);
	return n < burst ? (uint16_t)n : burst;
}

/* Uniform: the stream whose turn it is. */
static inline uint16_t pacer_turn(struct pacer *p)
{
	const uint16_t turn = p->cursor++;

	if (p->cursor == p->n)
		p->cursor = 0;
	return turn;
}

/* Take the next frame.  *stream is set for PACE_SEND and PACE_GIVE_UP, *late (cycles) as well. */
static inline enum pace pacer_take(struct pacer *p, uint64_t now, uint16_t *stream, uint64_t *late)
{
	struct pace_stream *s;
	enum pace verdict = PACE_SEND;

	if (UNLIKELY(!p->uniform && p->n == 0))
		return PACE_END;
	s = p->uniform ? &p->merged : &p->stream[p->heap[0]];
	if (UNLIKELY(s->left == 0))
		return PACE_END;
	if ((int64_t)(now - s->due) < 0)
		return PACE_WAIT;
	*late = now - s->due;
	if (UNLIKELY(*late > p->max_lag))
		verdict = PACE_GIVE_UP;
	else if ((int64_t)(now - p->gate - p->half) < 0)
		return PACE_WAIT;
	else
		p->gate += p->half;
	pace_advance(s);
	if (p->uniform) {
		*stream = pacer_turn(p);
	} else {
		*stream = p->heap[0];
		pacer_sift(p);
	}
	return verdict;
}

/*
 * Many frames at once, for uniform pacers: how many of the next `most` are to be sent now.  Adds
 * their lateness to *late_sum and sets *late_first (the largest); 0 also when frames are to be
 * given up, which pacer_take() then tells.
 */
static inline unsigned int pacer_take_run(struct pacer *p, uint64_t now, unsigned int most,
					  uint64_t *late_sum, uint64_t *late_first)
{
	struct pace_stream s = p->merged;
	uint64_t gate = p->gate, sum = 0;
	unsigned int n = 0;

	if ((int64_t)(now - s.due) < 0 || s.left == 0)
		return 0;
	most = s.left < most ? (unsigned int)s.left : most;
	*late_first = now - s.due;
	if (p->half == 0) { /* rate "max" */
		p->merged.left -= most;
		return most;
	}
	if (*late_first > p->max_lag)
		return 0;
	while (n < most && (int64_t)(now - s.due) >= 0 && (int64_t)(now - gate - p->half) >= 0) {
		sum += now - s.due;
		gate += p->half;
		pace_advance(&s);
		n++;
	}
	p->merged = s;
	p->gate = gate;
	*late_sum += sum;
	return n;
}

#endif
