/* The receiving side: whose frame is it, is it new, how long did it take. */
#include "engine.h"

#define SIGNATURE_MAGIC 0xffffffu
#define EPOCH(signature) ((signature) >> 24)

static void not_of_this_trial(struct rx_queue *q, uint32_t signature, uint32_t len)
{
	if ((signature & SIGNATURE_MAGIC) != TRAILER_MAGIC) {
		q->totals.foreign++;
		q->totals.foreign_octets += len + LG_FCS_LEN;
	} else if (EPOCH(signature) == 0) {
		q->totals.learning++;
	} else {
		q->totals.stale++;
	}
}

/* The last 18 octets; copied out when they do not lie in one piece. */
static const uint8_t *trailer_of(const struct rte_mbuf *m, uint8_t *copy)
{
	if (LG_LIKELY(m->nb_segs == 1)) {
		if (LG_UNLIKELY(m->data_len < TRAILER_LEN))
			return NULL;
		return rte_pktmbuf_mtod_offset(m, const uint8_t *, m->data_len - TRAILER_LEN);
	}
	if (m->pkt_len < TRAILER_LEN)
		return NULL;
	return rte_pktmbuf_read(m, m->pkt_len - TRAILER_LEN, TRAILER_LEN, copy);
}

static inline void rx_latency(struct rx_stream *s, uint64_t sent, uint64_t now)
{
	if (LG_UNLIKELY((int64_t)(now - sent) < 0)) {
		s->bad_latency++;
		return;
	}
	hdr_record(s->hdr, cycles_to_ns(now - sent));
}

static inline void rx_counted(struct worker *w, struct rx_queue *q, const uint8_t *t, uint64_t now)
{
	const uint8_t id = t[TRAILER_STREAM], sub = t[TRAILER_STREAM + 1];
	struct rx_stream *s = &w->rx[id];
	uint64_t seq, *expected;

	if (LG_UNLIKELY(sub >= s->n_track)) {
		q->totals.corrupted++;
		return;
	}
	if (LG_UNLIKELY(s->port != q->port)) {
		s->misrouted++;
		return;
	}
	switch (seqtrack_see(&s->track[sub], load_le32(t + TRAILER_SEQ), &seq)) {
	case SEQ_NEW:
		break;
	case SEQ_DUPLICATE:
		s->duplicated++;
		return;
	case SEQ_LATE:
		s->late++;
		return;
	default:
		q->totals.corrupted++;
		return;
	}
	s->received++;
	expected = &q->expected[id * engine.options.tx_queues + sub];
	if (LG_LIKELY(seq >= *expected))
		*expected = seq + 1;
	else
		s->reordered++;
	if (LG_UNLIKELY(s->first == 0))
		s->first = now;
	s->last = now;
	rx_latency(s, load_le64(t + TRAILER_TSC), now);
}

unsigned int rx_poll(struct worker *w, struct rx_queue *q)
{
	struct rte_mbuf *mbufs[LG_MAX_BURST];
	const uint16_t n =
		rte_eth_rx_burst(q->port, q->queue, mbufs, engine.options.rx_burst);
	const uint32_t signature = w->signature;
	uint64_t octets = 0, now;

	if (n == 0)
		return 0;
	now = rte_rdtsc();
	for (uint16_t i = 0; i < n; i++) {
		uint8_t copy[TRAILER_LEN];
		const uint8_t *t = trailer_of(mbufs[i], copy);
		const uint32_t found = t ? load_le32(t) : 0;

		octets += mbufs[i]->pkt_len;
		if (i + 4 < n)
			rte_prefetch0(rte_pktmbuf_mtod(mbufs[i + 4], void *));
		if (LG_LIKELY(found == signature && signature != 0))
			rx_counted(w, q, t, now);
		else
			not_of_this_trial(q, found, mbufs[i]->pkt_len);
	}
	q->totals.frames += n;
	q->totals.octets += octets + (uint64_t)n * LG_FCS_LEN;
	rte_pktmbuf_free_bulk(mbufs, n);
	return n;
}
