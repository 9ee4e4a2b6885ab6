/* The timeline of a trial: made before it, kept until the next one. */
#include "control.h"

#include <math.h>

/* Of all queues; streams may be cleared and frames learned before anybody looks. */
static struct timeline_tx *all_tx;

struct timeline trial_timeline_make(const struct trial_spec *spec, double longest)
{
	struct timeline w = {
		.on = spec->bin > 0 || spec->tag > 0 || spec->ipdv,
		.ipdv = spec->ipdv,
		.tag = (uint64_t)llround(spec->tag * (double)engine.hz),
		.event = (uint64_t)llround(spec->event * (double)engine.hz),
		.ns_mult = engine.ns_mult,
	};

	if (spec->bin > 0) {
		w.width = (uint64_t)llround(spec->bin * (double)engine.hz);
		w.n_bins = (uint32_t)(ceil(longest / spec->bin) + 1);
	}
	return w;
}

bool trial_timeline_add_tx(struct tx_stream *t)
{
	t->timeline = timeline_tx_create(&timeline, t->spec->id);
	if (t->timeline == NULL)
		return false;
	t->timeline->next = all_tx;
	all_tx = t->timeline;
	return true;
}

bool trial_timeline_add_rx(struct rx_stream *r, const struct stream_spec *s)
{
	r->timeline = timeline_rx_create(&timeline, s->tx_port, r->n_track);
	return r->timeline != NULL;
}

void trial_timeline_release(void)
{
	while (all_tx) {
		struct timeline_tx *next = all_tx->next;

		timeline_tx_release(all_tx);
		all_tx = next;
	}
}

uint64_t trial_timeline_tail(uint16_t id)
{
	const struct rx_stream *r = &engine.worker[0]->rx[id];
	uint64_t last = 0;

	for (unsigned int p = 0; r->track && p < engine.n_ports; p++) {
		for (unsigned int i = 0; i < engine.port[p].n_txq; i++) {
			const struct tx_queue *q = engine.port[p].txq[i];

			for (unsigned int k = 0; k < q->n_streams; k++) {
				const struct tx_stream *t = &q->streams[k];
				const struct seqtrack *seen = &r->track[q->queue];

				if (t->spec->id == id && t->seq > seen->high + (seen->any ? 1 : 0))
					last = RTE_MAX(last, t->last);
			}
		}
	}
	return last;
}

static void add_tx(uint64_t *rows, uint16_t id)
{
	for (const struct timeline_tx *x = all_tx; x; x = x->next) {
		if (x->stream != id)
			continue;
		for (uint32_t b = 0; b < timeline.n_bins; b++) {
			uint64_t *row = &rows[(size_t)b * TIMELINE_COLUMNS];

			row[0] += x->sent[b];
			row[1] += x->refused[b];
		}
	}
}

static void add_rx(uint64_t *rows, const struct timeline_rx *r)
{
	for (uint32_t b = 0; b < timeline.n_bins; b++) {
		uint64_t *row = &rows[(size_t)b * TIMELINE_COLUMNS];
		const uint64_t hole = r->hole[b] > timeline.start ? r->hole[b] - timeline.start : 0;

		row[2] += r->received[b];
		row[3] += r->arrived[b];
		row[4] = RTE_MAX(row[4], cycles_to_ns(hole));
	}
}

void trial_timeline_rows(uint16_t id, uint64_t *rows)
{
	add_tx(rows, id);
	for (unsigned int w = 0; w < engine.n_workers; w++) {
		if (engine.worker[w]->rx[id].timeline)
			add_rx(rows, engine.worker[w]->rx[id].timeline);
	}
}

uint64_t trial_timeline_poll_ns(uint16_t port)
{
	uint64_t waits = 0, finds = 0;

	for (unsigned int i = 0; i < engine.port[port].n_rxq; i++) {
		waits += engine.port[port].rxq[i].waits;
		finds += engine.port[port].rxq[i].finds;
	}
	return finds ? cycles_to_ns(waits / finds) : 0;
}

uint64_t trial_timeline_differences(uint16_t id, struct hdr *rising, struct hdr *falling)
{
	uint64_t shared = 0;

	hdr_reset(rising);
	hdr_reset(falling);
	for (unsigned int w = 0; w < engine.n_workers; w++) {
		const struct timeline_rx *r = engine.worker[w]->rx[id].timeline;

		if (r == NULL || r->rising == NULL)
			continue;
		hdr_merge(rising, r->rising);
		hdr_merge(falling, r->falling);
		shared += r->shared;
	}
	return shared;
}
