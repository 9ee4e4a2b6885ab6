#include "wallclock.h"

#define LEAST_S 0.1

void wallclock_note(struct wallclock *c, uint64_t before, uint64_t told, uint64_t after)
{
	if (c->ns && after - before >= c->width)
		return;
	c->tsc = before + (after - before) / 2;
	c->ns = told;
	c->width = after - before;
}

void wallclock_rate(struct wallclock *c, const struct wallclock *earlier, uint64_t hz,
		    double most_off)
{
	const double nominal = (double)WALL_NS_PER_S / (double)hz;
	const double cycles = (double)(int64_t)(c->tsc - earlier->tsc);
	const double found = (double)(int64_t)(c->ns - earlier->ns) / cycles;
	const bool known = earlier->ns && cycles >= LEAST_S * (double)hz;

	c->ns_per_cycle = known && fabs(found / nominal - 1) < most_off ? found : nominal;
}

uint64_t wallclock_error(const struct wallclock *c, const struct wallclock *later)
{
	const int64_t off = (int64_t)(wallclock_ns(c, later->tsc) - later->ns);

	return (uint64_t)(off < 0 ? -off : off) +
	       (uint64_t)ceil((double)(c->width + later->width) / 2 * c->ns_per_cycle);
}
