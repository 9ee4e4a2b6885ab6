/*
 * How far the time stamp counters of two processors are apart.  One asks, the other replies with
 * its counter: that reading was between the question and the answer, so each exchange bounds the
 * offset from both sides, and all of them together bound it by the shortest way there and back.
 */
#ifndef LOADGEN_TSCOFFSET_H
#define LOADGEN_TSCOFFSET_H

#include <stdatomic.h>

#include "common.h"

/* The other's counter minus ours, cycles. */
struct tscoffset {
	uint32_t exchanges; /* 0: nothing is known */
	int64_t least, most;
};

/* What the two share: a cache line each. */
struct tscoffset_line {
	_Alignas(128) _Atomic uint32_t question; /* its number; UINT32_MAX: no more */
	_Alignas(128) _Atomic uint64_t answer;	 /* TSC; 0: not yet */
};

typedef uint64_t (*tsc_read)(void);

/* One exchange: our counter before and after it, the other's in between. */
void tscoffset_note(struct tscoffset *o, uint64_t before, uint64_t other, uint64_t after);
/* Ask, until much is known or `limit` cycles are over. */
void tscoffset_ask(struct tscoffset *o, struct tscoffset_line *line, tsc_read now, uint64_t limit);
/* Answer, on another processor, until no more is asked. */
void tscoffset_answer(struct tscoffset_line *line, tsc_read now);

#endif
