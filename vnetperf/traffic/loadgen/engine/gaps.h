/*
 * How long a worker was away, over one trial: gaps of polling, between two looks at its receive
 * queues, and gaps of sending, in which a frame was due and no transmit call was made.
 *
 * Gaps of one kind do not overlap, so they are weighed by their length: what a frame meets that
 * arrives at any time is a share of the time, not of the rounds.
 */
#ifndef LOADGEN_GAPS_H
#define LOADGEN_GAPS_H

#include "hdr.h"

/* Of all workers together, or of one queue and the worker that serves it. */
struct gaps {
	struct hdr poll, send; /* ns */
};

/* The longest gap without which `share` of total_ns is left: all of that time was in shorter ones
 * or in none. */
uint64_t gaps_percentile(const struct hdr *h, uint64_t total_ns, double share);
/* Time in gaps longer than `hold` ns. */
uint64_t gaps_over(const struct hdr *h, uint64_t hold_ns);

/* The longest gap, ns, that a ring of `ring` frames bridges at `rate` frames/s. */
static inline uint64_t gaps_hold(uint64_t ring, double rate)
{
	const double ns = rate > 0 ? (double)ring / rate * 1e9 : 1e18;

	return ns < 1e18 ? (uint64_t)ns : (uint64_t)1e18;
}

/* When a gap of sending began: the last transmit call, or later when the next frame was due. */
static inline uint64_t gaps_send_from(uint64_t called, uint64_t due)
{
	return due > called ? due : called;
}

/* Whether a gap of polling may have held a frame up, by what the looks at both of its ends found.
 * When all has been sent, one without frames filled no ring, however long it was. */
static inline bool gaps_poll_counts(bool sending, unsigned int before, unsigned int after)
{
	return sending || before > 0 || after > 0;
}

#endif
