#include "check.h"
#include "timeline.h"

#define MS    1000000ULL
#define START (1ULL << 40)

/* One cycle is one nanosecond; ten bins of 1 ms. */
static struct timeline make_timeline(bool bins, bool ipdv, uint64_t tag)
{
	const struct timeline w = {.on = true,
				.ipdv = ipdv,
				.n_bins = bins ? 10 : 0,
				.width = MS,
				.start = START,
				.tag = tag,
				.ns_mult = 1ULL << 32};

	memset(&timeline, 0, sizeof(timeline));
	return w;
}

static void bins_of_moments(void)
{
	const struct timeline w = make_timeline(true, false, 0);

	CHECK_EQ(timeline_bin(&w, START - 1), 0);
	CHECK_EQ(timeline_bin(&w, START), 0);
	CHECK_EQ(timeline_bin(&w, START + MS - 1), 0);
	CHECK_EQ(timeline_bin(&w, START + MS), 1);
	CHECK_EQ(timeline_bin(&w, START + 500 * MS), 9);
}

/* Sent in one bin, arrived in another: each is counted where it belongs. */
static void by_sending_and_by_arrival(void)
{
	const struct timeline w = make_timeline(true, false, 0);
	struct timeline_rx *r = timeline_rx_create(&w, 0, 1);

	CHECK(timeline_received(&w, r, 0, 0, 5, START, START + 3 * MS));
	CHECK(timeline_received(&w, r, 0, 5, 2, START + MS, START + 3 * MS + 10));
	CHECK_EQ(r->received[0], 5);
	CHECK_EQ(r->received[1], 2);
	CHECK_EQ(r->arrived[3], 7);
	CHECK_EQ(r->arrived[0], 0);
	timeline_rx_release(r);
}

/* Of ten frames a millisecond apart, 3 to 6 are missing: the last of them left at 6 ms. */
static void last_missing_frame(void)
{
	const struct timeline w = make_timeline(true, false, 0);
	struct timeline_rx *r = timeline_rx_create(&w, 0, 1);

	for (uint64_t seq = 0; seq < 10; seq++) {
		if (seq < 3 || seq > 6)
			timeline_received(&w, r, 0, seq, 1, START + seq * MS, START + seq * MS + 10);
	}
	for (unsigned int bin = 0; bin < 10; bin++)
		CHECK_EQ(r->hole[bin], bin == 6 ? START + 6 * MS : 0);
	CHECK_EQ(timeline.gap[0].gap, 5 * MS);
	CHECK_EQ(timeline.gap[0].from, START + 2 * MS + 10);
	timeline_rx_release(r);
}

/* Of two pauses the longer one ended before the event: the other counts, which spans it. */
static void gaps_from_an_event_on(void)
{
	struct timeline w = make_timeline(true, false, 0);
	struct timeline_rx *r = timeline_rx_create(&w, 0, 1);

	w.event = 6 * MS;
	timeline_received(&w, r, 0, 0, 1, START, START);
	timeline_received(&w, r, 0, 1, 1, START + 4 * MS, START + 4 * MS);
	timeline_received(&w, r, 0, 2, 1, START + 5 * MS, START + 5 * MS);
	CHECK_EQ(timeline.gap[0].gap, 0);
	timeline_received(&w, r, 0, 3, 1, START + 7 * MS, START + 7 * MS);
	timeline_received(&w, r, 0, 4, 1, START + 8 * MS, START + 8 * MS);
	CHECK_EQ(timeline.gap[0].gap, 2 * MS);
	CHECK_EQ(timeline.gap[0].from, START + 5 * MS);
	timeline_rx_release(r);
}

/* A frame from before is neither a hole nor a difference, and does not move the place back. */
static void reordered(void)
{
	const struct timeline w = make_timeline(true, true, 0);
	struct timeline_rx *r = timeline_rx_create(&w, 0, 1);

	timeline_received(&w, r, 0, 0, 1, START, START + 100);
	timeline_received(&w, r, 0, 2, 1, START + 20, START + 120);
	timeline_received(&w, r, 0, 1, 1, START + 10, START + 130);
	timeline_received(&w, r, 0, 3, 1, START + 30, START + 131);
	CHECK_EQ(r->hole[0], START + 10);
	CHECK_EQ(r->rising->count, 1); /* 3 after 2: 101 ns after 100 */
	CHECK_EQ(r->rising->max, 1);
	CHECK_EQ(r->falling->count, 0);
	CHECK_EQ(r->place[0].next, 4);
	timeline_rx_release(r);
}

static void differences(void)
{
	const struct timeline w = make_timeline(false, true, 0);
	struct timeline_rx *r = timeline_rx_create(&w, 0, 2);

	/* Delays 50, 50, 50 (one run), 80, 20; another queue's numbers are its own. */
	timeline_received(&w, r, 0, 0, 3, START, START + 50);
	timeline_received(&w, r, 0, 3, 1, START + 10, START + 90);
	timeline_received(&w, r, 1, 0, 1, START + 10, START + 5000);
	timeline_received(&w, r, 0, 4, 1, START + 20, START + 40);
	CHECK_EQ(r->rising->count, 1);
	CHECK_EQ(r->rising->max, 30);
	CHECK_EQ(r->falling->count, 1);
	CHECK_EQ(r->falling->max, 60);
	/* After a lost frame there is no difference. */
	timeline_received(&w, r, 0, 6, 1, START + 40, START + 41);
	CHECK_EQ(r->rising->count + r->falling->count, 2);
	/* Clocks that disagree: none either, nor after it. */
	timeline_received(&w, r, 0, 7, 1, START + 50, START + 49);
	timeline_received(&w, r, 0, 8, 1, START + 60, START + 61);
	CHECK_EQ(r->rising->count + r->falling->count, 2);
	CHECK_EQ(r->shared, 2);
	timeline_rx_release(r);
}

/* Frames of one call left together: whatever their delays differ by was added behind it. */
static void one_stamp_of_departure(void)
{
	const struct timeline w = make_timeline(false, true, 0);
	struct timeline_rx *r = timeline_rx_create(&w, 0, 1);

	timeline_received(&w, r, 0, 0, 1, START, START + 50);
	timeline_received(&w, r, 0, 1, 1, START, START + 90);
	timeline_received(&w, r, 0, 2, 4, START, START + 95);
	CHECK_EQ(r->rising->count + r->falling->count, 0);
	CHECK_EQ(r->shared, 5);
	/* Of their own stamps, found by one poll: the later one was faster. */
	timeline_received(&w, r, 0, 6, 1, START + 10, START + 95);
	CHECK_EQ(r->falling->count, 1);
	CHECK_EQ(r->falling->max, 10);
	CHECK_EQ(r->shared, 5);
	timeline_rx_release(r);
}

static void tagged_from_a_time_on(void)
{
	const struct timeline w = make_timeline(false, true, 2 * MS);
	struct timeline_rx *r = timeline_rx_create(&w, 0, 1);

	CHECK(!timeline_received(&w, r, 0, 0, 1, START, START + 5 * MS));
	CHECK(!timeline_received(&w, r, 0, 1, 1, START + 2 * MS - 1, START + 5 * MS));
	CHECK(timeline_received(&w, r, 0, 2, 1, START + 2 * MS, START + 5 * MS));
	CHECK(timeline_received(&w, r, 0, 3, 1, START + 3 * MS, START + 5 * MS));
	CHECK_EQ(r->falling->count, 1);
	CHECK_EQ(r->rising->count, 0);
	timeline_rx_release(r);
}

static void gap_of_several_streams(void)
{
	const struct timeline w = make_timeline(true, false, 0);
	struct timeline_rx *a = timeline_rx_create(&w, 1, 1), *b = timeline_rx_create(&w, 1, 1);

	timeline_received(&w, a, 0, 0, 1, START, START + MS);
	timeline_received(&w, b, 0, 0, 1, START, START + 2 * MS);
	timeline_received(&w, b, 0, 1, 1, START, START + 2 * MS - 5); /* an earlier time */
	timeline_received(&w, a, 0, 1, 1, START, START + 3 * MS);
	CHECK_EQ(timeline.gap[1].gap, MS);
	CHECK_EQ(timeline.gap[0].gap, 0);
	timeline_rx_release(a);
	timeline_rx_release(b);
}

void test_timeline(void)
{
	struct timeline w = make_timeline(true, false, 0);

	bins_of_moments();
	by_sending_and_by_arrival();
	last_missing_frame();
	gaps_from_an_event_on();
	reordered();
	differences();
	one_stamp_of_departure();
	tagged_from_a_time_on();
	gap_of_several_streams();
	timeline_tx_release(timeline_tx_create(&w, 0));
	timeline_tx_release(NULL);
	timeline_rx_release(NULL);
}
