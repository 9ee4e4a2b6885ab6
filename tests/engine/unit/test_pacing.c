#include "check.h"
#include "pacing.h"

#define HZ    1e9
#define START 5000000000ULL
#define MS    1000000ULL
#define NEVER (1ULL << 62)

static struct pacer p;
static uint64_t sent[LG_MAX_STREAMS], given_up[LG_MAX_STREAMS];

static void setup(const struct pace_load *loads, uint16_t n, bool max, unsigned int burst,
		  uint64_t max_lag)
{
	memset(sent, 0, sizeof(sent));
	memset(given_up, 0, sizeof(given_up));
	pacer_init(&p, loads, n, max, HZ, burst, max_lag);
	pacer_start(&p, START);
}

/* One transmit call at `now`, as tx.c does it frame by frame; returns frames
 * sent. */
static unsigned int call(uint64_t now, unsigned int burst, bool *end)
{
	unsigned int n = 0;
	uint16_t stream;
	uint64_t late;

	pacer_refill(&p, now);
	while (n < burst) {
		switch (pacer_take(&p, now, &stream, &late)) {
		case PACE_SEND:
			sent[stream]++;
			n++;
			break;
		case PACE_GIVE_UP:
			given_up[stream]++;
			break;
		case PACE_END:
			*end = true;
			return n;
		default:
			return n;
		}
	}
	return n;
}

static uint64_t run_to_end(uint64_t from, uint64_t every, unsigned int burst)
{
	bool end = false;
	uint64_t now = from;

	for (; !end; now += every)
		call(now, burst, &end);
	return now;
}

/* At each moment as many frames have left as the rate says, and at the end
 * exactly the count. */
static void constant_rate(double rate, uint64_t count)
{
	const struct pace_load load = {.rate = rate, .count = count};
	bool end = false;
	uint64_t total = 0, now;

	setup(&load, 1, false, 32, NEVER);
	for (now = START; !end; now += (uint64_t)(HZ / rate * 0.7) + 1) {
		const double due = (double)(now - START) * rate / HZ + 1;

		total += call(now, 32, &end);
		if (!end && due < (double)count)
			CHECK(total + 1 >= (uint64_t)due && (double)total <= due + 0.001);
	}
	CHECK_EQ(total, count);
	CHECK_EQ(p.merged.left, 0);
}

/* Odd rates and a fraction of a cycle per frame must not add up to a drift. */
static void no_drift(void)
{
	const struct pace_load load = {.rate = 11700000.123, .count = 20000000};
	uint64_t late_sum = 0, first;

	setup(&load, 1, false, 32, NEVER);
	while (p.merged.left > 1) {
		const uint64_t due = p.merged.due;

		pacer_refill(&p, due);
		CHECK(pacer_take_run(&p, due, 32, &late_sum, &first) == 1);
	}
	/* frame k leaves at START + k / rate */
	CHECK(llabs((long long)(p.merged.due - START) -
		    (long long)(19999999.0 / 11700000.123 * HZ)) <= 1);
}

static void streams_alike_take_turns(void)
{
	struct pace_load loads[5];
	bool end = false;
	uint16_t stream;
	uint64_t late;

	for (int i = 0; i < 5; i++)
		loads[i] = (struct pace_load){.rate = 1000, .count = 20};
	setup(loads, 5, false, 32, NEVER);
	CHECK(p.uniform);
	for (unsigned int i = 0; i < 100; i++) {
		const uint64_t due = START + i * (MS / 5); /* 5 * 1000 frames/s */

		pacer_refill(&p, due);
		CHECK_EQ(pacer_take(&p, due, &stream, &late), PACE_SEND);
		CHECK_EQ(stream, i % 5);
		CHECK_EQ(pacer_left(&p, stream), 19 - i / 5);
		CHECK_EQ(pacer_take(&p, due + MS / 5 - 1, &stream, &late),
			 i < 99 ? PACE_WAIT : PACE_END);
	}
	call(START + 100 * MS, 32, &end);
	CHECK(end);
}

static void streams_of_different_rates(void)
{
	const struct pace_load loads[] = {{.rate = 3000, .count = 3000},
					  {.rate = 1, .count = 1},
					  {.rate = 1000, .count = 1000},
					  {.rate = 500, .count = 2000}}; /* goes on longer */
	bool end = false;

	setup(loads, 4, false, 32, NEVER);
	CHECK(!p.uniform);
	for (uint64_t ms = 0; ms <= 500; ms++)
		call(START + ms * MS, 32, &end);
	CHECK(sent[0] >= 1499 && sent[0] <= 1501);
	CHECK(sent[2] >= 499 && sent[2] <= 501);
	CHECK(sent[3] >= 249 && sent[3] <= 251);
	run_to_end(START + 501 * MS, MS, 32);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(sent[i], loads[i].count);
}

/* After a stall no more than `burst` at once, then at most twice the rate,
 * until caught up. */
static void catching_up(bool uniform)
{
	struct pace_load loads[2] = {{.rate = 1e6, .count = 100000},
				     {.rate = 1e6, .count = 100000}};
	const uint64_t woken = START + 5 * MS; /* 10000 frames behind */
	bool end = false;
	uint64_t total = 0, now;

	if (!uniform)
		loads[1].count++;
	setup(loads, 2, false, 32, NEVER);
	CHECK_EQ(p.uniform, uniform);
	for (now = woken; now < woken + 4 * MS; now += 100) {
		total += call(now, 32, &end);
		CHECK((double)total <= 32 + 2.0 * 2e6 * (double)(now - woken) / HZ + 1);
	}
	CHECK(total >= 15900); /* it does use what it may */
	for (; now < woken + 7 * MS; now += 100)
		total += call(now, 32, &end);
	/* Caught up: 12 ms at 2 M frames/s. */
	CHECK(total >= 23990 && total <= 24010);
}

/* The bulk call and the frame by frame call must agree. */
static void run_equals_singles(void)
{
	const struct pace_load load = {.rate = 3.3e6, .count = 50000};
	struct pacer other;
	bool end = false;
	uint64_t now = START;

	setup(&load, 1, false, 32, NEVER);
	other = p;
	srand(3);
	while (p.merged.left) {
		uint64_t sum = 0, first = 0;
		unsigned int bulk;

		now += (uint64_t)(rand() % 20000);
		pacer_refill(&other, now);
		bulk = pacer_take_run(&other, now, 32, &sum, &first);
		CHECK_EQ(call(now, 32, &end), bulk);
		CHECK_EQ(p.merged.due, other.merged.due);
		CHECK_EQ(p.gate, other.gate);
		CHECK(bulk == 0 || sum <= bulk * first);
	}
}

static void too_late_is_given_up(void)
{
	const struct pace_load load = {.rate = 1e6, .count = 50000};
	bool end = false;

	setup(&load, 1, false, 32, 10 * MS);
	call(START + 30 * MS, 32, &end);
	/* Due before START + 20 ms: gone.  Due later: still to be sent. */
	CHECK_EQ(given_up[0], 20000);
	CHECK_EQ(sent[0], 32);
	run_to_end(START + 30 * MS, 1000, 32);
	CHECK_EQ(sent[0] + given_up[0], 50000);
	CHECK_EQ(given_up[0], 20000);
}

static void full_rate(void)
{
	const struct pace_load loads[] = {{.count = 300}, {.count = 100}};
	bool end = false;
	uint64_t late_sum = 0, first;

	setup(loads, 2, true, 32, MS);
	CHECK_EQ(call(START - 1, 32, &end), 0);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(call(START + 3600 * 1000 * MS, 32, &end), 32);
	/* Interleaved in proportion, not one after the other. */
	CHECK(sent[0] >= 118 && sent[0] <= 122);
	run_to_end(START + 3600 * 1000 * MS, 1, 32);
	CHECK_EQ(sent[0], 300);
	CHECK_EQ(sent[1], 100);
	CHECK_EQ(given_up[0] + given_up[1], 0);

	setup(loads, 1, true, 32, MS);
	CHECK_EQ(pacer_take_run(&p, START - 1, 64, &late_sum, &first), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pacer_take_run(&p, START + i, 64, &late_sum, &first), 64);
	CHECK_EQ(pacer_take_run(&p, START, 64, &late_sum, &first), 44);
	CHECK_EQ(pacer_take_run(&p, START, 64, &late_sum, &first), 0);
}

/* Bursts of 64 leave at the beginning of each window, whole, and nothing until
 * the next. */
static void bursts(bool uniform)
{
	const struct pace_load loads[] = {
		{.rate = 1e6, .count = 4800},
		{.rate = uniform ? 1e6 : 0.6e6, .count = uniform ? 4800 : 2880}};
	const double window = 64e9 / (uniform ? 2e6 : 1.6e6);
	uint64_t total = 0;
	bool end = false;

	memset(sent, 0, sizeof(sent));
	memset(given_up, 0, sizeof(given_up));
	pacer_init(&p, loads, 2, false, HZ, 32, MS);
	pacer_group(&p, 64);
	pacer_start(&p, START);
	CHECK_EQ(pacer_horizon(&p, START - 5), START - 5);
	for (uint64_t w = 0; !end; w++) {
		const uint64_t begin = START + (uint64_t)(window * (double)w) + 1;
		unsigned int n = 0;

		/* As tx.c does it: at most 32 frames in a call. */
		for (int calls = 0; calls < 8 && !end; calls++) {
			uint16_t stream;
			uint64_t late;
			enum pace took = PACE_SEND;

			pacer_refill(&p, begin);
			for (int i = 0; i < 32 && took == PACE_SEND; i++) {
				took = pacer_take(&p, pacer_horizon(&p, begin), &stream, &late);
				if (took == PACE_SEND) {
					sent[stream]++;
					n++;
				}
				end = took == PACE_END;
			}
		}
		total += n;
		if (!end)
			CHECK(n >= 63 && n <= 65);
		CHECK(end || (total >= 64 * (w + 1) - 1 && total <= 64 * (w + 1) + 1));
	}
	CHECK_EQ(sent[0] + given_up[0], 4800);
	CHECK_EQ(sent[1] + given_up[1], uniform ? 4800 : 2880);
	CHECK_EQ(given_up[0] + given_up[1], 0);
}

/* After a stall of 20 ms at 1 M frames/s all but the last 512 are given up, and
 * no more than those are sent beside what is due meanwhile. */
static void catching_up_is_bounded(bool uniform)
{
	const struct pace_load loads[2] = {
		{.rate = uniform ? 500000 : 700000, .count = uniform ? 50000 : 70000},
		{.rate = uniform ? 500000 : 300000, .count = uniform ? 50000 : 30000},
	};
	uint64_t now, behind = 0, total = 0;
	bool end = false;

	memset(sent, 0, sizeof(sent));
	memset(given_up, 0, sizeof(given_up));
	pacer_init(&p, loads, 2, false, HZ, 32, 500 * MS);
	pacer_catch_up(&p, 512);
	pacer_start(&p, START);
	for (now = START; now < START + 10 * MS; now += 5000)
		total += call(now, 32, &end);
	CHECK(total >= 9990 && given_up[0] + given_up[1] == 0);
	now += 20 * MS;
	total = 0;
	for (const uint64_t resumed = now; !end; now += 5000) {
		const uint64_t due = (now - resumed) / 1000;

		total += call(now, 32, &end);
		if (total > due && total - due > behind)
			behind = total - due;
	}
	CHECK(behind >= 480 && behind <= 514);
	CHECK_EQ(sent[0] + sent[1] + given_up[0] + given_up[1], 100000);
	CHECK(given_up[0] + given_up[1] >= 20000 - 530 && given_up[0] + given_up[1] <= 20000 - 490);
}

/* Looked at once in a turn: what came due leaves in it, twice as much after a stall, none is lost. */
static void turns_leave_whole(bool uniform)
{
	const struct pace_load loads[2] = {
		{.rate = uniform ? 500000 : 700000, .count = uniform ? 50000 : 70000},
		{.rate = uniform ? 500000 : 300000, .count = uniform ? 50000 : 30000},
	};
	const uint64_t turn = MS / 5;
	uint64_t most = 0, turns = 0, now;
	bool end = false;

	memset(sent, 0, sizeof(sent));
	memset(given_up, 0, sizeof(given_up));
	pacer_init(&p, loads, 2, false, HZ, 32, 10 * MS);
	pacer_catch_up(&p, 1024);
	pacer_every(&p, turn);
	pacer_start(&p, START);
	for (now = START; !end; now += turns == 100 ? 4 * turn : turn, turns++) {
		unsigned int n = 0, one;

		while (!end && (one = call(now, 32, &end)) > 0)
			n += one;
		CHECK(turns < 2 || end || turns > 100 || (n >= 199 && n <= 201));
		most = turns > 100 && n > most ? n : most;
	}
	CHECK(most >= 398 && most <= 402);
	CHECK_EQ(sent[0] + sent[1], 100000);
}

/* At full rate every frame is due at the start: none is too late. */
static void full_rate_has_no_bound(void)
{
	const struct pace_load load = {.rate = 0, .count = 5000};
	bool end = false;
	uint64_t total = 0;

	memset(given_up, 0, sizeof(given_up));
	pacer_init(&p, &load, 1, true, HZ, 32, MS);
	pacer_catch_up(&p, 512);
	pacer_start(&p, START);
	for (uint64_t now = START + 100 * MS; !end; now += MS)
		total += call(now, 32, &end);
	CHECK_EQ(total, 5000);
	CHECK_EQ(given_up[0], 0);
}

/* A loop that makes a call every `every` cycles; returns how many frames left beside others. */
static uint64_t one_by_one(double rate, uint64_t every, bool uniform)
{
	const struct pace_load loads[] = {{.rate = rate, .count = 10000},
					  {.rate = rate * (uniform ? 1 : 0.5),
					   .count = uniform ? 10000 : 5000}};
	uint64_t shared = 0, total = 0;
	bool end = false;

	setup(loads, 2, false, 32, NEVER);
	for (uint64_t now = START; !end; now += every) {
		const uint16_t most = pacer_single(&p, now, 32);
		const unsigned int n = call(now, most, &end);

		CHECK(most >= 1 && most <= 32);
		total += n;
		shared += n > 1 ? n : 0;
	}
	CHECK_EQ(total, uniform ? 20000 : 15000);
	return shared;
}

static void stamps_of_their_own(bool uniform)
{
	const struct pace_load burst = {.rate = 0, .count = 100};

	CHECK_EQ(one_by_one(100e3, 1000, uniform), 0);
	CHECK_EQ(one_by_one(200e3, 1000, uniform), 0);
	/* More than single calls carry: the others go together, and nothing is held back. */
	CHECK(one_by_one(1e6, 1000, uniform) > 5000);
	CHECK(one_by_one(10e6, 1000, uniform) > 14000);
	/* At full rate all frames are due at once. */
	setup(&burst, 1, true, 32, MS);
	CHECK_EQ(pacer_single(&p, START, 32), 32);
}

/* After a stall: a few one by one, many of them together. */
static void single_after_a_stall(void)
{
	const struct pace_load load = {.rate = 250e3, .count = 1000};
	const struct pace_load fast = {.rate = 501e3, .count = 1000};
	bool end = false;

	setup(&load, 1, false, 32, NEVER);
	CHECK_EQ(pacer_single(&p, START, 32), 1);
	CHECK_EQ(pacer_single(&p, START + 31999, 32), 1);
	CHECK_EQ(pacer_single(&p, START + 32000, 32), 2);
	CHECK_EQ(pacer_single(&p, START + 2000000, 32), 32);
	CHECK_EQ(call(START + 64000, 3, &end), 3);
	CHECK_EQ(pacer_single(&p, START + 64000, 32), 2);
	/* Where they would cost too much they leave as in other trials. */
	setup(&fast, 1, false, 32, NEVER);
	CHECK_EQ(pacer_single(&p, START, 32), 32);
}

static void shares(void)
{
	for (unsigned int parts = 1; parts < 9; parts++) {
		uint64_t sum = 0;

		for (unsigned int i = 0; i < parts; i++)
			sum += pacer_share(1003, parts, i);
		CHECK_EQ(sum, 1003);
	}
	CHECK_EQ(pacer_share(2, 4, 1), 1);
	CHECK_EQ(pacer_share(2, 4, 2), 0);
}

void test_pacing(void)
{
	constant_rate(1000, 1500);
	constant_rate(0.5, 3);
	constant_rate(123456.789, 30000);
	constant_rate(14880952.4, 100000);
	no_drift();
	streams_alike_take_turns();
	streams_of_different_rates();
	catching_up(true);
	catching_up(false);
	run_equals_singles();
	too_late_is_given_up();
	full_rate();
	bursts(true);
	bursts(false);
	turns_leave_whole(true);
	turns_leave_whole(false);
	catching_up_is_bounded(true);
	catching_up_is_bounded(false);
	full_rate_has_no_bound();
	stamps_of_their_own(true);
	stamps_of_their_own(false);
	single_after_a_stall();
	shares();
}
