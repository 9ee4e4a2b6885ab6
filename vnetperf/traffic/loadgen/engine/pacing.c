#include "pacing.h"

#include <math.h>

static void set_step(struct pace_stream *s, double cycles)
{
	const double whole = floor(cycles);

	s->step = (uint64_t)whole;
	s->step_frac = (uint32_t)((cycles - whole) * 4294967296.0);
}

static void set_phase(struct pace_stream *s, double cycles)
{
	const double whole = floor(cycles);

	s->due = (uint64_t)whole;
	s->due_frac = (uint32_t)((cycles - whole) * 4294967296.0);
}

static bool all_alike(const struct pace_load *loads, uint16_t n)
{
	for (uint16_t i = 1; i < n; i++) {
		if (loads[i].rate != loads[0].rate || loads[i].count != loads[0].count)
			return false;
	}
	return n > 0;
}

void pacer_init(struct pacer *p, const struct pace_load *loads, uint16_t n, bool max, double hz,
		unsigned int burst, uint64_t max_lag)
{
	double total = 0;

	memset(p, 0, sizeof(*p));
	p->n = n;
	p->uniform = all_alike(loads, n);
	/* At full rate all frames are due at the start: lateness means nothing. */
	p->max_lag = max ? UINT64_MAX : max_lag;
	for (uint16_t i = 0; i < n; i++) {
		struct pace_stream *s = &p->stream[i];
		double cycles = max || loads[i].rate <= 0 ? 0 : hz / loads[i].rate;

		s->left = loads[i].count;
		set_step(s, cycles);
		/* Streams of one rate start one after the other, not all at once. */
		set_phase(s, cycles * (loads[i].phase + (double)i / n));
		/* At full rate the fraction of a cycle only orders the streams: each is spread
		 * evenly over the burst. */
		if (max)
			s->step_frac =
				(uint32_t)(UINT32_MAX / (loads[i].count ? loads[i].count : 1));
		total += loads[i].rate;
	}
	if (p->uniform) {
		p->merged.left = loads[0].count * n;
		if (!max && total > 0) {
			set_step(&p->merged, hz / total);
			set_phase(&p->merged, hz / total * loads[0].phase);
		}
	}
	p->hz = hz;
	p->total = total;
	p->half = max || total <= 0 ? 0 : (uint64_t)ceil(hz / total / 2);
	p->depth = p->half * burst;
}

void pacer_catch_up(struct pacer *p, unsigned int frames)
{
	uint64_t most;

	if (frames == 0 || p->half == 0)
		return;
	most = (uint64_t)(p->hz / p->total * frames);
	p->max_lag = most < p->max_lag ? most : p->max_lag;
}

void pacer_every(struct pacer *p, uint64_t cycles)
{
	if (p->half == 0)
		return;
	/* Frames of two turns: the bucket is in units of half a frame's time. */
	if (cycles > p->depth)
		p->depth = cycles;
	/* What comes due in a turn is not late at the next one. */
	if (p->max_lag < 2 * cycles)
		p->max_lag = 2 * cycles;
}

void pacer_group(struct pacer *p, unsigned int group)
{
	if (group <= 1 || p->half == 0 || p->total <= 0)
		return;
	p->window = p->hz / p->total * group;
	p->depth = p->half * (group + p->depth / p->half);
	p->max_lag += (uint64_t)p->window;
}

uint64_t pacer_horizon(const struct pacer *p, uint64_t now)
{
	const int64_t passed = (int64_t)(now - p->start);

	if (passed < 0)
		return now;
	/* The window's last cycle; the frame due at its end is the next one's first. */
	return p->start + (uint64_t)ceil((floor((double)passed / p->window) + 1) * p->window) - 1;
}

static bool earlier(const struct pacer *p, uint16_t a, uint16_t b)
{
	const struct pace_stream *x = &p->stream[a], *y = &p->stream[b];

	return x->due < y->due || (x->due == y->due && x->due_frac < y->due_frac);
}

/* i sinks until both its children are due later. */
static void sink(struct pacer *p, uint16_t i)
{
	const uint16_t moving = p->heap[i];

	for (;;) {
		uint16_t child = (uint16_t)(2 * i + 1);

		if (child >= p->n)
			break;
		if (child + 1 < p->n && earlier(p, p->heap[child + 1], p->heap[child]))
			child++;
		if (!earlier(p, p->heap[child], moving))
			break;
		p->heap[i] = p->heap[child];
		i = child;
	}
	p->heap[i] = moving;
}

void pacer_sift(struct pacer *p)
{
	if (p->stream[p->heap[0]].left == 0) {
		p->heap[0] = p->heap[--p->n];
		if (p->n == 0)
			return;
	}
	sink(p, 0);
}

void pacer_start(struct pacer *p, uint64_t start)
{
	uint16_t live = 0;

	p->start = start;
	p->merged.due += start;
	/* A full bucket: the first frames are not held back by the gate. */
	p->gate = start - p->depth;
	for (uint16_t i = 0; i < p->n; i++) {
		p->stream[i].due += start;
		if (p->stream[i].left)
			p->heap[live++] = i;
	}
	if (p->uniform)
		return; /* n stays the number of streams taken in turn */
	p->n = live;
	for (uint16_t i = live / 2; i-- > 0;)
		sink(p, i);
}

uint64_t pacer_left(const struct pacer *p, uint16_t stream)
{
	uint64_t left;

	if (!p->uniform)
		return p->stream[stream].left;
	/* Streams from the cursor on have not had their turn of this round. */
	left = p->merged.left / p->n;
	return left + (p->merged.left % p->n && stream >= p->cursor ? 1 : 0);
}

uint64_t pacer_share(uint64_t count, unsigned int parts, unsigned int part)
{
	const uint64_t each = count / parts;

	return each + (part < count % parts ? 1 : 0);
}
