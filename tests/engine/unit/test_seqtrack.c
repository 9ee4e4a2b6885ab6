#include "check.h"
#include "seqtrack.h"

static struct seqtrack *fresh(uint64_t limit, bool shared)
{
	struct seqtrack *t = malloc(sizeof(*t));

	seqtrack_reset(t, limit, shared);
	return t;
}

static void in_order_and_duplicates(bool shared)
{
	struct seqtrack *t = fresh(1u << 20, shared);
	uint64_t seq = 99;

	for (uint32_t i = 0; i < 300000; i++) {
		CHECK_EQ(seqtrack_see(t, i, &seq), SEQ_NEW);
		CHECK_EQ(seq, i);
	}
	/* Everything in the window is known, everything older is "late", never "new". */
	for (uint32_t i = 300000 - SEQ_WINDOW + 32; i < 300000; i++)
		CHECK_EQ(seqtrack_see(t, i, &seq), SEQ_DUPLICATE);
	CHECK_EQ(seqtrack_see(t, 1000, &seq), SEQ_LATE);
	CHECK_EQ(t->high, 299999);
	free(t);
}

static void reordered_is_new(void)
{
	struct seqtrack *t = fresh(1u << 20, false);
	uint64_t seq;

	CHECK_EQ(seqtrack_see(t, 10, &seq), SEQ_NEW);
	CHECK_EQ(seqtrack_see(t, 3, &seq), SEQ_NEW);
	CHECK_EQ(seqtrack_see(t, 3, &seq), SEQ_DUPLICATE);
	CHECK_EQ(seqtrack_see(t, 0, &seq), SEQ_NEW);
	CHECK_EQ(t->high, 10);
	free(t);
}

/* Far behind, but the slot was never taken over (those frames were lost): still told apart. */
static void old_but_unoccupied(void)
{
	struct seqtrack *t = fresh(1u << 24, false);
	uint64_t seq;

	CHECK_EQ(seqtrack_see(t, 4 * SEQ_WINDOW + 5000, &seq), SEQ_NEW);
	CHECK_EQ(seqtrack_see(t, 64, &seq), SEQ_NEW);
	CHECK_EQ(seqtrack_see(t, 64, &seq), SEQ_DUPLICATE);
	CHECK_EQ(seqtrack_see(t, 5000, &seq), SEQ_LATE);
	free(t);
}

static void never_sent(void)
{
	struct seqtrack *t = fresh(100, false);
	uint64_t seq;

	CHECK_EQ(seqtrack_see(t, 100, &seq), SEQ_BOGUS);
	CHECK_EQ(seqtrack_see(t, UINT32_MAX, &seq), SEQ_BOGUS);
	CHECK_EQ(seqtrack_see(t, 99, &seq), SEQ_NEW);
	CHECK(t->any);
	free(t);
}

static void wraps_at_32_bits(void)
{
	struct seqtrack *t = fresh(1ULL << 40, false);
	const uint64_t edge = 1ULL << 32;
	uint64_t seq;

	t->high = edge - 3;
	for (uint64_t i = edge - 2; i < edge + 1000; i++) {
		CHECK_EQ(seqtrack_see(t, (uint32_t)i, &seq), SEQ_NEW);
		CHECK_EQ(seq, i);
	}
	CHECK_EQ(seqtrack_see(t, (uint32_t)(edge - 1), &seq), SEQ_DUPLICATE);
	CHECK_EQ(seq, edge - 1);
	CHECK_EQ(seq_extend(5, UINT32_MAX), UINT64_MAX); /* before the first: out of any limit */
	free(t);
}

/* Runs must leave behind exactly what single frames would. */
static void runs_equal_singles(void)
{
	struct seqtrack *a = fresh(1u << 22, false), *b = fresh(1u << 22, false);
	uint64_t seq, next = 0;

	srand(7);
	while (next < 600000) {
		const uint64_t n = 1 + (uint64_t)rand() % 64;

		next += (uint64_t)(rand() % 4) * 5; /* losses */
		seqtrack_mark_run(a, next, n);
		for (uint64_t i = 0; i < n; i++)
			CHECK_EQ(seqtrack_see(b, (uint32_t)(next + i), &seq), SEQ_NEW);
		next += n;
		CHECK_EQ(a->high, b->high);
	}
	CHECK(memcmp(a->slot, b->slot, sizeof(a->slot)) == 0);
	free(a);
	free(b);
}

void test_seqtrack(void)
{
	in_order_and_duplicates(false);
	in_order_and_duplicates(true);
	reordered_is_new();
	old_but_unoccupied();
	never_sent();
	wraps_at_32_bits();
	runs_equal_singles();
}
