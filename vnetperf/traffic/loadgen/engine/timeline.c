#include "timeline.h"

#include <stdlib.h>

struct timeline timeline;

void timeline_tx_release(struct timeline_tx *x)
{
	if (x == NULL)
		return;
	free(x->sent);
	free(x->refused);
	free(x);
}

struct timeline_tx *timeline_tx_create(const struct timeline *t, uint16_t stream)
{
	struct timeline_tx *x = calloc(1, sizeof(*x));

	if (x == NULL)
		return NULL;
	x->stream = stream;
	x->sent = calloc(t->n_bins, sizeof(*x->sent));
	x->refused = calloc(t->n_bins, sizeof(*x->refused));
	if (x->sent && x->refused)
		return x;
	timeline_tx_release(x);
	return NULL;
}

void timeline_rx_release(struct timeline_rx *r)
{
	if (r == NULL)
		return;
	free(r->received);
	free(r->arrived);
	free(r->hole);
	free(r->rising);
	free(r->falling);
	free(r);
}

static bool add_bins(struct timeline_rx *r, uint32_t n)
{
	r->received = calloc(n, sizeof(*r->received));
	r->arrived = calloc(n, sizeof(*r->arrived));
	r->hole = calloc(n, sizeof(*r->hole));
	return r->received && r->arrived && r->hole;
}

static bool add_differences(struct timeline_rx *r)
{
	r->rising = malloc(sizeof(*r->rising));
	r->falling = malloc(sizeof(*r->falling));
	if (r->rising == NULL || r->falling == NULL)
		return false;
	hdr_reset(r->rising);
	hdr_reset(r->falling);
	return true;
}

struct timeline_rx *timeline_rx_create(const struct timeline *t, uint16_t tx_port, uint16_t places)
{
	struct timeline_rx *r = calloc(1, sizeof(*r) + places * sizeof(r->place[0]));

	if (r == NULL)
		return NULL;
	r->n_places = places;
	r->gap = &timeline.gap[tx_port];
	if ((t->n_bins == 0 || add_bins(r, t->n_bins)) && (!t->ipdv || add_differences(r)))
		return r;
	timeline_rx_release(r);
	return NULL;
}

static void note_gap(const struct timeline *t, struct timeline_gap *g, uint64_t at)
{
	uint64_t last = __atomic_load_n(&g->last, __ATOMIC_RELAXED);

	/* Queues are polled one after the other, and a NIC's clock may tell an earlier time. */
	if (last && (int64_t)(at - last) <= 0)
		return;
	last = __atomic_exchange_n(&g->last, at, __ATOMIC_RELAXED);
	if (last == 0 || (int64_t)(at - t->start - t->event) < 0 ||
	    (int64_t)(at - last) <= (int64_t)__atomic_load_n(&g->gap, __ATOMIC_RELAXED))
		return;
	while (__atomic_test_and_set(&g->busy, __ATOMIC_ACQUIRE))
		;
	if (at - last > g->gap) {
		__atomic_store_n(&g->gap, at - last, __ATOMIC_RELAXED);
		g->from = last;
	}
	__atomic_clear(&g->busy, __ATOMIC_RELEASE);
}

/* The last frame missing before number `seq`: frames in between left evenly. */
static void note_hole(const struct timeline *t, struct timeline_rx *r,
		      const struct timeline_place *p, uint64_t seq, uint64_t sent)
{
	const uint64_t missing = seq - p->next;
	const uint64_t from = p->sent ? p->sent : t->start;
	/* Frames of one call have one stamp: it is that of the missing one as well. */
	const uint64_t at =
		(int64_t)(sent - from) > 0 ? sent - (sent - from) / (missing + 1) : sent;
	uint64_t *hole = &r->hole[timeline_bin(t, at)];

	if ((int64_t)(at - *hole) > 0)
		*hole = at;
}

static void note_difference(const struct timeline *t, struct timeline_rx *r, int64_t cycles)
{
	const uint64_t size = (uint64_t)(cycles < 0 ? -cycles : cycles);
	const uint64_t ns = (uint64_t)((unsigned __int128)size * t->ns_mult >> 32);

	hdr_record_many(cycles < 0 && ns ? r->falling : r->rising, ns, 1);
}

bool timeline_received(const struct timeline *t, struct timeline_rx *r, uint16_t place,
		       uint64_t seq, uint64_t n, uint64_t sent, uint64_t at)
{
	struct timeline_place *p = &r->place[place];
	const bool tagged = (int64_t)(sent - t->start - t->tag) >= 0;
	const int64_t delay = (int64_t)(at - sent);
	const bool timed = tagged && delay >= 0;

	if (t->n_bins) {
		r->received[timeline_bin(t, sent)] += (uint32_t)n;
		r->arrived[timeline_bin(t, at)] += (uint32_t)n;
		note_gap(t, r->gap, at);
		if (seq > p->next)
			note_hole(t, r, p, seq, sent);
	}
	if (r->rising && timed) {
		if (seq == p->next && p->timed && sent == p->sent)
			r->shared++;
		else if (seq == p->next && p->timed)
			note_difference(t, r, delay - p->delay);
		r->shared += n - 1;
	}
	if (seq >= p->next) {
		p->next = seq + n;
		p->sent = sent;
		p->delay = delay;
		p->timed = timed;
	}
	return tagged;
}
