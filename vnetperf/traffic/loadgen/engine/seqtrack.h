/*
 * Which sequence numbers have been seen: tells a new frame from a duplicate, exactly, inside a
 * window, and says so when a frame is too old to tell.
 *
 * A ring of slots, each holding 32 bits of "seen" and the generation (lap) they belong to.  A slot
 * is taken over by a newer generation the first time one of its numbers arrives, so nothing has to
 * be cleared as the window moves, and several receivers can share one tracker by compare-and-swap
 * on single words: no locks, and sums stay exact whatever queue a duplicate arrives on.
 */
#ifndef LOADGEN_SEQTRACK_H
#define LOADGEN_SEQTRACK_H

#include "common.h"

#define SEQ_WINDOW_BITS 17 /* 131072 frames: 11 ms at 11.7 M frames/s */
#define SEQ_WINDOW	(1u << SEQ_WINDOW_BITS)
#define SEQ_SLOTS	(SEQ_WINDOW / 32)

enum seq_verdict {
	SEQ_NEW,
	SEQ_DUPLICATE,
	SEQ_LATE,  /* older than the window: new or duplicate, nobody can tell */
	SEQ_BOGUS, /* a number that was never sent: the frame is corrupted */
};

struct seqtrack {
	uint64_t high;	/* highest number seen, the reference for extending 32 bits to 64 */
	uint64_t limit; /* numbers are below this */
	bool any;	/* some number has been seen */
	bool shared;	/* more than one thread calls seqtrack_see() */
	uint64_t slot[SEQ_SLOTS];
};

void seqtrack_reset(struct seqtrack *t, uint64_t limit, bool shared);

/* The 64-bit number nearest to the reference that ends in these 32 bits. */
static inline uint64_t seq_extend(uint64_t reference, uint32_t low)
{
	return reference + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)reference);
}

enum seq_verdict seqtrack_see_shared(struct seqtrack *t, uint64_t seq);

/* What the slot becomes; *verdict tells what was found.  Unchanged unless SEQ_NEW. */
static inline uint64_t seq_slot_next(uint64_t slot, uint64_t seq, enum seq_verdict *verdict)
{
	const uint64_t generation = (seq >> SEQ_WINDOW_BITS) + 1; /* 0 is a slot never used */
	const uint64_t held = slot >> 32;
	const uint64_t bit = 1ULL << (seq & 31);

	if (LIKELY(held == generation)) {
		*verdict = (slot & bit) ? SEQ_DUPLICATE : SEQ_NEW;
		return slot | bit;
	}
	if (UNLIKELY(held > generation)) {
		*verdict = SEQ_LATE;
		return slot;
	}
	*verdict = SEQ_NEW;
	return generation << 32 | bit;
}

static inline uint64_t *seq_slot(struct seqtrack *t, uint64_t seq)
{
	return &t->slot[(seq / 32) % SEQ_SLOTS];
}

/* Note one arrival.  *extended is the 64-bit sequence number (unless SEQ_BOGUS). */
static inline enum seq_verdict seqtrack_see(struct seqtrack *t, uint32_t low, uint64_t *extended)
{
	const uint64_t high = __atomic_load_n(&t->high, __ATOMIC_RELAXED);
	const uint64_t seq = seq_extend(high, low);
	enum seq_verdict verdict;
	uint64_t *slot;

	if (UNLIKELY(seq >= t->limit))
		return SEQ_BOGUS;
	*extended = seq;
	t->any = true;
	/* Only a reference for extension: a lost update between threads does no harm. */
	if (LIKELY(seq > high))
		__atomic_store_n(&t->high, seq, __ATOMIC_RELAXED);
	if (UNLIKELY(t->shared))
		return seqtrack_see_shared(t, seq);
	slot = seq_slot(t, seq);
	*slot = seq_slot_next(*slot, seq, &verdict);
	return verdict;
}

/* Note numbers seq..seq+n-1, all above `high` and below `limit`; not for shared trackers. */
static inline void seqtrack_mark_run(struct seqtrack *t, uint64_t seq, uint64_t n)
{
	const uint64_t end = seq + n;

	t->any = true;
	t->high = end - 1;
	while (seq < end) {
		const uint64_t generation = (seq >> SEQ_WINDOW_BITS) + 1;
		const uint64_t next = (seq | 31) + 1;
		const uint64_t upto = next < end ? next : end;
		const uint64_t bits = (1ULL << (upto - seq)) - 1;
		uint64_t *slot = seq_slot(t, seq);

		if (*slot >> 32 != generation)
			*slot = generation << 32;
		*slot |= bits << (seq & 31);
		seq = upto;
	}
}

#endif
