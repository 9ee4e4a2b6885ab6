#include "seqtrack.h"

void seqtrack_reset(struct seqtrack *t, uint64_t limit, bool shared)
{
	memset(t, 0, sizeof(*t));
	t->limit = limit;
	t->shared = shared;
}

enum seq_verdict seqtrack_see_shared(struct seqtrack *t, uint64_t seq)
{
	uint64_t *slot = seq_slot(t, seq);
	uint64_t old = __atomic_load_n(slot, __ATOMIC_RELAXED);
	enum seq_verdict verdict;
	uint64_t next;

	do {
		next = seq_slot_next(old, seq, &verdict);
		if (verdict != SEQ_NEW)
			return verdict;
	} while (!__atomic_compare_exchange_n(slot, &old, next, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return SEQ_NEW;
}
