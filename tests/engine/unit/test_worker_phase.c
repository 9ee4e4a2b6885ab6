#include "check.h"
#include "worker_phase.h"

static void generations(void)
{
	const uint32_t arm = order_next(0, PHASE_ARM), run = order_next(arm, PHASE_RUN);

	CHECK_EQ(order_phase(arm), PHASE_ARM);
	CHECK_EQ(order_phase(run), PHASE_RUN);
	CHECK(arm != order_next(run, PHASE_ARM));
}

/* A run of a few frames is over before the thread that ordered it looks again.
 */
static void who_is_further_has_followed(void)
{
	const uint32_t run = order_next(order_next(0, PHASE_ARM), PHASE_RUN);
	const uint32_t rest = order_next(run, PHASE_REST);

	CHECK(order_reached(run, run));
	CHECK(order_reached(rest, run));
	CHECK(!order_reached(run, rest));
	CHECK(!order_reached(0, run));
}

static void generations_wrap_around(void)
{
	const uint32_t last = UINT32_MAX << PHASE_BITS | PHASE_RUN;
	const uint32_t rest = order_next(last, PHASE_REST);

	CHECK_EQ(rest, 0);
	CHECK(order_reached(rest, last));
	CHECK(!order_reached(last, rest));
}

void test_worker_phase(void)
{
	generations();
	who_is_further_has_followed();
	generations_wrap_around();
}
