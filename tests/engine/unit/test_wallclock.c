#include "check.h"
#include "wallclock.h"

#define HZ	 2500000000ULL
#define DAY_NS	 1790000000000000000ULL /* 2026 */
#define RATE	 (1e9 / (double)HZ)
#define FAR_AWAY (60 * HZ)
#define MOST_OFF 1e-2

/* A wall clock that is `ppm` faster than the counter, read at a moment of the counter. */
static struct wallclock read_at(uint64_t tsc, double ppm, uint64_t width)
{
	struct wallclock c = {0};
	const double since = (double)tsc * RATE * (1 + ppm * 1e-6);

	wallclock_note(&c, tsc - width / 2, DAY_NS + (uint64_t)since, tsc + width / 2);
	return c;
}

static void shortest_reading_counts(void)
{
	struct wallclock c = {0};

	wallclock_note(&c, 1000, DAY_NS, 9000);
	wallclock_note(&c, 20000, DAY_NS + 7, 20100);
	wallclock_note(&c, 30000, DAY_NS + 9, 31000);
	CHECK_EQ(c.tsc, 20050);
	CHECK_EQ(c.ns, DAY_NS + 7);
	CHECK_EQ(c.width, 100);
}

/* Both ways, at once and a minute later: to nanoseconds, at the rate that was found. */
static void tells_both_ways(double ppm)
{
	const struct wallclock earlier = read_at(10 * HZ, ppm, 100);
	struct wallclock c = read_at(20 * HZ, ppm, 100), later;

	wallclock_rate(&c, &earlier, HZ, MOST_OFF);
	for (uint64_t tsc = 20 * HZ; tsc < 20 * HZ + FAR_AWAY; tsc += 7 * HZ) {
		const int64_t back = (int64_t)(wallclock_tsc(&c, wallclock_ns(&c, tsc)) - tsc);

		CHECK(back >= -3 && back <= 3);
	}
	later = read_at(20 * HZ + FAR_AWAY, ppm, 100);
	CHECK(wallclock_error(&c, &later) <= 100 / 2 + 50);
}

/* A clock that went at another rate meanwhile, or was set: the error is what it went away. */
static void error_is_told(void)
{
	struct wallclock c = read_at(20 * HZ, 0, 100), later = read_at(21 * HZ, 0, 100);
	struct wallclock soon = read_at(20 * HZ + HZ / 20, 900, 100);

	wallclock_rate(&soon, &c, HZ, MOST_OFF); /* too close to tell a rate */
	wallclock_rate(&c, &c, HZ, MOST_OFF);
	CHECK(c.ns_per_cycle == RATE && soon.ns_per_cycle == RATE);
	later.ns += 5000;
	CHECK(wallclock_error(&c, &later) >= 5000);
	CHECK(wallclock_error(&c, &later) <= 5000 + 100);
	later.ns -= 12000;
	CHECK(wallclock_error(&c, &later) >= 7000);
	wallclock_rate(&later, &c, HZ, MOST_OFF);
	CHECK(later.ns_per_cycle != RATE);
	later.ns += WALL_NS_PER_S; /* set */
	wallclock_rate(&later, &c, HZ, MOST_OFF);
	CHECK(later.ns_per_cycle == RATE);
}

/* A clock that is slewed faster than a tester's may be is not followed. */
static void slewed_no_faster(double ppm, bool followed)
{
	const struct wallclock earlier = read_at(10 * HZ, ppm, 100);
	struct wallclock c = read_at(20 * HZ, ppm, 100);

	wallclock_rate(&c, &earlier, HZ, 4e-4);
	CHECK((c.ns_per_cycle != RATE) == followed);
	CHECK(fabs(c.ns_per_cycle / RATE - 1) < 4e-4);
}

void test_wallclock(void)
{
	shortest_reading_counts();
	tells_both_ways(0);
	tells_both_ways(120);
	tells_both_ways(-2000); /* of the rate that DPDK has rounded */
	error_is_told();
	slewed_no_faster(390, true);
	slewed_no_faster(410, false);
	slewed_no_faster(-390, true);
	slewed_no_faster(-5000, false);
}
