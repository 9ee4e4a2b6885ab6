#include "check.h"
#include "nicclock.h"

#define HZ 2000000000ULL

static uint64_t away(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* A NIC of `rate` ticks per TSC second, that began at `offset`, at a moment of the TSC. */
static uint64_t nic_at(uint64_t tsc, double rate, uint64_t offset)
{
	return offset + (uint64_t)((double)tsc / HZ * rate);
}

static void follows(double rate, uint64_t offset)
{
	struct nicclock c = {0};
	const uint64_t begin = 5 * HZ;

	nicclock_note(&c, nic_at(begin, rate, offset), begin - 500, begin + 500, HZ);
	CHECK(!c.ready);
	nicclock_note(&c, nic_at(begin + 1000, rate, offset), begin + 500, begin + 1500, HZ);
	CHECK(!c.ready); /* too near: a rate would be all error */
	for (unsigned int i = 1; i < 300; i++) {
		const uint64_t now = begin + i * HZ / 10;

		nicclock_note(&c, nic_at(now, rate, offset), now - 500, now + 500, HZ);
		CHECK(c.ready);
		/* Within the error that it states, and a tick: also between and a little ahead. */
		for (uint64_t ahead = 0; ahead < HZ / 10; ahead += HZ / 37) {
			const uint64_t told = nicclock_tsc(&c, nic_at(now + ahead, rate, offset));

			CHECK(away(told, now + ahead) <= c.error + (uint64_t)(2 * HZ / rate) + 8);
		}
		CHECK(away(nicclock_tsc(&c, nic_at(now - HZ / 50, rate, offset)), now - HZ / 50) <=
		      c.error + (uint64_t)(2 * HZ / rate) + 8);
		CHECK(c.error >= 500 && c.error < 700);
	}
}

/* The rate changes by 20 ppm: it is followed, and the error says how far it was off. */
static void wanders(void)
{
	struct nicclock c = {0};
	double nic = 1e9, worst = 0;
	uint64_t now = HZ;

	for (unsigned int i = 0; i < 400; i++, now += HZ / 10) {
		nic += 1e8 * (i < 200 ? 1.0 : 1.00002);
		nicclock_note(&c, (uint64_t)nic, now - 100, now + 100, HZ);
		if (i == 201)
			CHECK(c.error > 2000); /* 20 ppm of 0.1 s: 4000 cycles */
		if (i > 201 + 90 && (double)c.error > worst)
			worst = (double)c.error;
	}
	CHECK(worst < 400);
}

static void begins_anew(void)
{
	struct nicclock c = {0};

	nicclock_note(&c, 1000000, HZ, HZ + 10, HZ);
	nicclock_note(&c, 101000000, HZ + HZ / 10, HZ + HZ / 10 + 10, HZ);
	CHECK(c.ready);
	nicclock_note(&c, 5, 2 * HZ, 2 * HZ + 10, HZ); /* it was set */
	CHECK(!c.ready && c.any);
	nicclock_note(&c, 5, 3 * HZ, 3 * HZ + 10, HZ); /* it stands */
	CHECK(!c.ready);
	nicclock_note(&c, 1000000005, 4 * HZ, 4 * HZ + 10, HZ);
	CHECK(c.ready);
}

/* A reading in which the thread was stopped is worth less than what was known before it. */
static void stopped_meanwhile(void)
{
	const uint64_t begin = 5 * HZ, pause = HZ / 200;
	struct nicclock c = {0};
	uint64_t now;

	nicclock_note(&c, nic_at(begin, 1e9, 0), begin, begin + pause, HZ);
	CHECK(!c.any); /* nothing to begin with */
	for (unsigned int i = 0; i < 5; i++) {
		now = begin + i * HZ / 10;
		nicclock_note(&c, nic_at(now, 1e9, 0), now - 500, now + 500, HZ);
	}
	CHECK(c.ready);
	now += HZ / 10;
	nicclock_note(&c, nic_at(now, 1e9, 0), now, now + pause, HZ);
	CHECK(away(nicclock_tsc(&c, nic_at(now, 1e9, 0)), now) <= 600);
	CHECK(c.error < 700);
	/* Where it takes long for good, it is taken for what it is. */
	for (unsigned int i = 0; i < 1000 && c.error < 700; i++, now += HZ / 10)
		nicclock_note(&c, nic_at(now, 1e9, 0), now - pause / 2, now + pause / 2, HZ);
	CHECK(c.ready && c.error >= pause / 2);
	nicclock_note(&c, 5, now, now + pause, HZ); /* it was set: what was known is nothing */
	CHECK(!c.ready && !c.any);
}

void test_nicclock(void)
{
	follows(1e9, 0);
	follows(1e9, 1ULL << 60);
	follows(156.25e6, 12345);
	follows(2.0e9 * 1.00005, 7);
	wanders();
	begins_anew();
	stopped_meanwhile();
}
