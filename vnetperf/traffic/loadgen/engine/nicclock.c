#include "nicclock.h"

/* Shares of a second. */
#define LEAST_BASE 1000	 /* a rate is taken over this, at least */
#define MOST_BASE  8	 /* seconds: clocks wander with temperature */
#define SLOWEST	   10000 /* a reading to begin with takes this at most */
#define WANDER	   10000 /* share of the time by which clocks drift apart, at most */

static void begin(struct nicclock *c, struct nicclock_pair pair)
{
	memset(c, 0, sizeof(*c));
	c->any = true;
	c->first = c->middle = c->latest = pair;
}

/* Whether a reading says more than is known: its thread may have been stopped in the middle. */
static bool is_useful(const struct nicclock *c, uint64_t tsc, uint64_t width, uint64_t hz)
{
	if (!c->ready)
		return width <= hz / SLOWEST;
	return width / 2 <= c->error + (tsc - c->latest.tsc) / WANDER;
}

void nicclock_note(struct nicclock *c, uint64_t nic, uint64_t before, uint64_t after, uint64_t hz)
{
	const struct nicclock_pair pair = {.nic = nic, .tsc = before + (after - before) / 2};
	uint64_t ticks, cycles, off = 0;

	/* A clock that was set, or stands still, begins anew. */
	if (c->any && (nic <= c->latest.nic || pair.tsc <= c->latest.tsc))
		memset(c, 0, sizeof(*c));
	if (!is_useful(c, pair.tsc, after - before, hz))
		return;
	if (!c->any) {
		begin(c, pair);
		return;
	}
	if (c->ready) {
		const uint64_t told = nicclock_tsc(c, nic);

		off = told > pair.tsc ? told - pair.tsc : pair.tsc - told;
	}
	c->latest = pair;
	ticks = nic - c->first.nic;
	cycles = pair.tsc - c->first.tsc;
	if (cycles < hz / LEAST_BASE)
		return;
	c->mult = (uint64_t)(((unsigned __int128)cycles << 32) / ticks);
	c->error = (after - before + 1) / 2 + off;
	c->ready = true;
	if (cycles > MOST_BASE * hz) {
		c->first = c->middle;
		c->middle = pair;
	} else if (cycles < MOST_BASE * hz / 2) {
		c->middle = pair;
	}
}
