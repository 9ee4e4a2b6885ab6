#include "check.h"
#include "gaps.h"

#define US 1000ULL
#define MS 1000000ULL

static struct hdr h;

/* Near enough: a bucket is a thousandth wide. */
static void near(uint64_t got, uint64_t wanted)
{
	CHECK(got >= wanted - wanted / 1000 && got <= wanted + wanted / 500);
}

static void nothing_recorded(void)
{
	hdr_reset(&h);
	CHECK_EQ(gaps_percentile(&h, 1000 * MS, 0.5), 0);
	CHECK_EQ(gaps_over(&h, 0), 0);
}

/* A second of rounds of 1 us, and one stall of 20 ms: rare among the rounds, 2
 * % of the time. */
static void a_stall_counts_by_its_length(void)
{
	const uint64_t total = 1000 * MS;

	hdr_reset(&h);
	hdr_record_many(&h, US, 980000);
	hdr_record_many(&h, 20 * MS, 1);
	near(gaps_percentile(&h, total, 0.5), US);
	near(gaps_percentile(&h, total, 0.97), US);
	CHECK_EQ(gaps_percentile(&h, total, 0.99), 20 * MS);
	CHECK_EQ(gaps_percentile(&h, total, 0.999), 20 * MS);
	near(gaps_over(&h, 2 * MS), 20 * MS);
	CHECK_EQ(gaps_over(&h, 21 * MS), 0);
	near(gaps_over(&h, 0), total);
}

/* Gaps of sending are only part of the time: half of it was in none. */
static void time_outside_of_gaps_counts(void)
{
	hdr_reset(&h);
	hdr_record_many(&h, 4 * MS, 10);
	CHECK_EQ(gaps_percentile(&h, 1000 * MS, 0.5), 0);
	CHECK_EQ(gaps_percentile(&h, 1000 * MS, 0.95), 0);
	CHECK_EQ(gaps_percentile(&h, 1000 * MS, 0.97), 4 * MS);
	near(gaps_over(&h, 3 * MS), 40 * MS);
}

/* The bucket of the longest begins below the limit. */
static void the_longest_is_known_exactly(void)
{
	hdr_reset(&h);
	hdr_record_many(&h, 10000001, 1);
	CHECK_EQ(gaps_over(&h, 10000000), 10000001);
	CHECK_EQ(gaps_over(&h, 10000001), 0);
}

static void stalls_above_the_range(void)
{
	hdr_reset(&h);
	hdr_record_many(&h, 30000 * MS, 1);
	CHECK_EQ(gaps_percentile(&h, 60000 * MS, 0.99), 30000 * MS);
	CHECK_EQ(gaps_over(&h, MS), HDR_HIGHEST);
}

static void sending_begins_when_a_frame_is_due(void)
{
	CHECK_EQ(gaps_send_from(1000, 1500), 1500);
	CHECK_EQ(gaps_send_from(1000, 500), 1000);
	CHECK_EQ(gaps_send_from(1000, UINT64_MAX), UINT64_MAX); /* nothing is due: no gap */
}

static void what_is_polled_after_the_last_frame_is_no_gap(void)
{
	CHECK(gaps_poll_counts(true, 0, 0)); /* a frame may come at any time */
	CHECK(!gaps_poll_counts(false, 0, 0));
	CHECK(gaps_poll_counts(false, 0, 1)); /* the ring may have been full */
	CHECK(gaps_poll_counts(false, 1, 0)); /* it stood still just before that look */
}

static void a_ring_bridges_what_it_holds(void)
{
	CHECK_EQ(gaps_hold(2048, 1e6), 2048000);
	CHECK_EQ(gaps_hold(4500, 50000), 90 * MS);
	CHECK(gaps_hold(1, 0) > 1000000 * MS); /* nothing comes: for ever */
	CHECK(gaps_hold(UINT64_MAX, 1e-9) > 1000000 * MS);
}

void test_gaps(void)
{
	nothing_recorded();
	a_stall_counts_by_its_length();
	time_outside_of_gaps_counts();
	the_longest_is_known_exactly();
	stalls_above_the_range();
	sending_begins_when_a_frame_is_due();
	what_is_polled_after_the_last_frame_is_no_gap();
	a_ring_bridges_what_it_holds();
}
