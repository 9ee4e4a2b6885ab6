/*
 * Round trips between two engines whose clocks nothing compares.
 *
 * Now and then a frame of one engine asks: the lowest bit of its stamp is set.  The other engine
 * answers by the next frame that it sends anyway, which is marked likewise: no frame is added.  Who
 * asks records when an answer left and came, each by its own side's clock; who answers records
 * which stamp it has answered, and how long after the frame had come: that time is no part of the
 * way.  Both have the stamp of the answer, by which their records are joined.
 */
#ifndef LOADGEN_ECHO_H
#define LOADGEN_ECHO_H

#include <stdatomic.h>

#include "common.h"

#define ECHO_MARK     1u      /* in a stamp, ns */
#define ECHO_MAX_ROWS 100000u /* of a trial */

enum echo_role { ECHO_NONE, ECHO_ASK, ECHO_ANSWER };

/* A round trip as one side knows it, ns. */
struct echo_row {
	uint64_t asked; /* stamp of the frame that asked; 0: recorded by who asks */
	uint64_t left;	/* stamp of the answer, by the clock of who answers */
	uint64_t ns;	/* who asks: when the answer came; who answers: time from there to `left` */
};

struct echo {
	enum echo_role role;
	uint64_t every; /* between frames that ask; of any clock that rises */
	uint64_t next;	/* when the next one is due, by the same */
	uint64_t marks; /* frames marked */
	/* The latest frame to be answered: workers that receive fill it in, the one that sends
	 * takes it.  What waits while nothing is sent is replaced, so that none is held for long.
	 */
	_Atomic uint32_t state;
	uint64_t asked, came; /* ns */
	_Atomic uint32_t n;   /* rows wanted, of which at most `size` are there */
	uint32_t size;
	struct echo_row *rows;
};

/* Begin anew, with room for `size` rows; false: no memory. */
bool echo_begin(struct echo *e, enum echo_role role, uint64_t every, uint32_t size);
void echo_release(struct echo *e);
/* Whether a frame of those that leave at `now`, stamped `told` without the mark, is to be marked.
 */
bool echo_marks(struct echo *e, uint64_t told, uint64_t now);
/* A frame that was stamped `sent`, by the clock of its sender, came `at`, ns by the clock here. */
void echo_came(struct echo *e, uint64_t sent, uint64_t at);
/* Rows that are there. */
uint32_t echo_rows(const struct echo *e);

#endif
