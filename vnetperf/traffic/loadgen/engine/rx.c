/*
 * The receiving side: whose frame is it, is it new, how long did it take.
 *
 * Frames mostly come in runs: of one stream, in sequence, stamped by one transmit call.  A run is
 * compared frame by frame but written to the counters once, which is what makes accounting for
 * every frame affordable.
 */
#include "capture_buffer.h"
#include "engine.h"
#include "neighbour_reply.h"

#define SIGNATURE_MAGIC	 0xffffffu
#define EPOCH(signature) ((signature) >> 24)
#define KEY_MASK	 0xffffffffffffULL /* signature, stream and transmit queue */
#define NO_KEY		 UINT64_MAX

/* Frames seen and not yet written down: one stream, one time stamp, numbers in sequence. */
struct run {
	uint32_t len; /* octets without FCS that its frames have; UINT32_MAX: any */
	bool looked;  /* at a payload in this call */
	uint64_t key;
	uint64_t next; /* the number that would continue the run */
	uint64_t limit;
	uint64_t sent; /* TSC of departure, or the wall clock's */
	uint64_t at;   /* TSC of arrival */
	uint64_t n;
	struct rx_stream *stream;
	struct seqtrack *track;
	uint64_t *expected;
};

/* What a translator made of a learning frame. */
static void learn_binding(const struct rx_queue *q, const uint8_t *t, const struct rte_mbuf *m)
{
	const struct stream_spec *s = engine.stream[t[TRAILER_STREAM]];

	if (s && s->bindings && s->rx_port == q->port)
		bindings_note(s->bindings, s->expected, s->n_expected,
			      rte_pktmbuf_mtod(m, const uint8_t *), m->data_len,
			      load_le32(t + TRAILER_SEQ));
}

/* t: its trailer; NULL: it has none. */
static void not_of_this_trial(const struct worker *w, struct rx_queue *q, const uint8_t *t,
			      const struct rte_mbuf *m)
{
	const uint32_t signature = t ? load_le32(t) : 0;

	if ((signature & SIGNATURE_MAGIC) != TRAILER_MAGIC) {
		if (reply_to_request(q, m))
			return;
		q->totals.foreign++;
		q->totals.foreign_octets += m->pkt_len + LG_FCS_LEN;
	} else if (EPOCH(signature) == 0) {
		q->totals.learning++;
		if (UNLIKELY(w->binding))
			learn_binding(q, t, m);
	} else {
		q->totals.stale++;
	}
}

/* The last 18 octets, copied out when they do not lie in one piece; NULL: no room for them. */
static const uint8_t *trailer_apart(const struct rte_mbuf *m, uint8_t *copy)
{
	if (m->pkt_len < TRAILER_LEN)
		return NULL;
	return rte_pktmbuf_read(m, m->pkt_len - TRAILER_LEN, TRAILER_LEN, copy);
}

static bool zeros(const uint8_t *octets, size_t n)
{
	return n == 0 || (octets[0] == 0 && memcmp(octets, octets + 1, n - 1) == 0);
}

/*
 * Whether a frame is as it was sent between its headers, which the DUT may change, and its trailer:
 * the payload of the first frame of each call, the length of all (see count()).
 */
static bool is_whole(struct run *r, struct rx_queue *q, const struct rx_stream *s,
		     const struct rte_mbuf *m, const uint8_t *t)
{
	if (s->len == 0 || r->looked || m->nb_segs > 1 ||
	    m->data_len < (uint32_t)s->pad + TRAILER_LEN)
		return true;
	r->looked = true;
	q->totals.verified++;
	return zeros(t - s->pad, s->pad);
}

static inline void note_latency(struct rx_stream *s, uint64_t sent, uint64_t now, uint64_t n)
{
	if (UNLIKELY((int64_t)(now - sent) < 0))
		s->bad_latency += n;
	else
		hdr_record_many(s->hdr, cycles_to_ns(now - sent), n);
}

static inline void note_arrival(struct rx_stream *s, uint64_t now, uint64_t n)
{
	s->received += n;
	if (UNLIKELY(s->first == 0))
		s->first = now;
	s->last = now;
}

/* When a frame left that the wall clock of another machine stamped, TSC. */
__attribute__((noinline, cold)) static uint64_t by_wall(uint64_t sent, uint64_t at)
{
	const struct wallclock *wall = &engine.trial.wall;

	if (engine.trial.echo.role != ECHO_NONE)
		echo_came(&engine.trial.echo, sent, wallclock_ns(wall, at));
	return wallclock_tsc(wall, sent);
}

/* Frames seq..seq+n-1 count: when they came, and mostly how long they took. */
static inline void note(const struct run *r, uint64_t seq, uint64_t n, uint64_t sent, uint64_t at)
{
	struct rx_stream *s = r->stream;

	if (UNLIKELY(engine.trial.by_wall))
		sent = by_wall(sent, at);
	note_arrival(s, at, n);
	if (UNLIKELY(s->timeline) &&
	    !timeline_received(&timeline, s->timeline, (uint16_t)(r->track - s->track), seq, n,
			       sent, at))
		return;
	note_latency(s, sent, at, n);
}

static inline void run_flush(struct run *r)
{
	if (r->n == 0)
		return;
	seqtrack_mark_run(r->track, r->next - r->n, r->n);
	*r->expected = r->next;
	note(r, r->next - r->n, r->n, r->sent, r->at);
	r->n = 0;
}

/* Whether a frame has the headers that it must have when it comes back. */
static inline bool has_headers(const struct rx_stream *s, const struct rte_mbuf *m, uint64_t seq)
{
	return LIKELY(s->expected == NULL) ||
	       (m->data_len >= s->expected->end &&
		fields_match(s->expected, rte_pktmbuf_mtod(m, const uint8_t *), seq));
}

/* A frame out of sequence, or tracked by several workers: looked at by itself. */
static void count_alone(struct run *r, struct rx_queue *q, const struct rte_mbuf *m,
			const uint8_t *t, uint64_t now)
{
	struct rx_stream *s = r->stream;
	uint64_t seq;

	/* Before it is noted: a frame that quotes another is not that frame. */
	if (UNLIKELY(s->expected) &&
	    !has_headers(s, m, seq_extend(r->track->high, load_le32(t + TRAILER_SEQ)))) {
		s->altered++;
		return;
	}
	switch (seqtrack_see(r->track, load_le32(t + TRAILER_SEQ), &seq)) {
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
	note(r, seq, 1, load_le64(t + TRAILER_TSC), now);
	if (LIKELY(seq >= *r->expected))
		*r->expected = seq + 1;
	else
		s->reordered++;
	/* In sequence from here on: runs may go on. */
	r->next = r->track->shared ? 0 : r->track->high + 1;
}

/* Point the run at the frame's stream; false when the frame counts for none. */
static bool run_begin(struct run *r, struct worker *w, struct rx_queue *q, const struct rte_mbuf *m,
		      const uint8_t *t)
{
	const uint8_t id = t[TRAILER_STREAM], sub = t[TRAILER_STREAM + 1];
	struct rx_stream *s = &w->rx[id];

	r->key = NO_KEY;
	if (UNLIKELY(sub >= s->n_track)) {
		q->totals.corrupted++;
		return false;
	}
	if (UNLIKELY(s->port != q->port)) {
		s->misrouted++;
		return false;
	}
	if (UNLIKELY(!is_whole(r, q, s, m, t))) {
		s->altered++;
		return false;
	}
	r->key = load_le64(t) & KEY_MASK;
	r->len = s->len ? s->len : UINT32_MAX;
	r->stream = s;
	r->track = &s->track[sub];
	r->expected = &q->expected[id * engine.most_txq + sub];
	/* A number above all that were seen needs no look-up; nobody else may raise that mark. */
	r->limit = r->track->shared ? 0 : r->track->limit;
	r->next = r->track->high + (r->track->any ? 1 : 0);
	return true;
}

static inline void count(struct run *r, struct worker *w, struct rx_queue *q,
			 const struct rte_mbuf *m, const uint8_t *t, uint64_t now)
{
	const uint64_t key = load_le64(t) & KEY_MASK;
	const uint64_t sent = load_le64(t + TRAILER_TSC);

	if (UNLIKELY(key != r->key)) {
		run_flush(r);
		if (!run_begin(r, w, q, m, t))
			return;
	}
	/* A tag or a tunnel's header that is still there, or was never put on. */
	if (UNLIKELY(m->pkt_len != r->len && r->len != UINT32_MAX)) {
		run_flush(r);
		r->stream->altered++;
		return;
	}
	if (UNLIKELY(load_le32(t + TRAILER_SEQ) != (uint32_t)r->next || r->next >= r->limit)) {
		run_flush(r);
		count_alone(r, q, m, t, now);
		return;
	}
	if (UNLIKELY(!has_headers(r->stream, m, r->next))) {
		run_flush(r);
		r->stream->altered++;
		return;
	}
	if (UNLIKELY(sent != r->sent || now != r->at)) {
		run_flush(r);
		r->sent = sent;
		r->at = now;
	}
	r->next++;
	r->n++;
}

/* Give buffers back in one go when they are plain ones of one pool, as they nearly always are. */
static inline void release(struct rte_mbuf **mbufs, uint16_t n, bool plain)
{
	if (LIKELY(plain))
		rte_mempool_put_bulk(mbufs[0]->pool, (void **)mbufs, n);
	else
		rte_pktmbuf_free_bulk(mbufs, n);
}

static inline bool is_plain(const struct rte_mbuf *m, const struct rte_mempool *pool)
{
	return m->nb_segs == 1 && m->pool == pool && rte_mbuf_refcnt_read(m) == 1 &&
	       RTE_MBUF_DIRECT(m);
}

/* When the NIC took the frame in; what cannot be is the moment it was found. */
static uint64_t arrival(struct rx_queue *q, const struct rte_mbuf *m, uint64_t now)
{
	uint64_t at;

	if (!q->clock.ready || !(m->ol_flags & engine.time_flag))
		return now;
	at = nicclock_tsc(&q->clock,
			  *RTE_MBUF_DYNFIELD(m, engine.time_offset, const rte_mbuf_timestamp_t *));
	if ((int64_t)(now - at) < 0 || now - at > engine.hz)
		return now;
	q->totals.nic_timed++;
	return at;
}

void rx_read_clock(struct rx_queue *q)
{
	const uint64_t before = rte_rdtsc();
	uint64_t nic;

	if (!q->nic_time || (int64_t)(before - q->clock_at) < 0)
		return;
	if (rte_eth_read_clock(q->port, &nic) == 0)
		nicclock_note(&q->clock, nic, before, rte_rdtsc(), engine.hz);
	q->clock_at = before + engine.hz / 10;
}

/* Frames that a poll finds came at any time since the poll before. */
__attribute__((noinline, cold)) static void note_poll(struct rx_queue *q, uint16_t n)
{
	const uint64_t now = rte_rdtsc();

	if (n && q->polled) {
		q->waits += now - q->polled;
		q->finds++;
	}
	q->polled = now;
}

unsigned int rx_poll(struct worker *w, struct rx_queue *q)
{
	struct rte_mbuf *mbufs[LG_MAX_BURST];
	const uint16_t n = rte_eth_rx_burst(q->port, q->queue, mbufs, engine.options.rx_burst);
	const uint32_t signature = w->signature; /* 0: no trial */
	struct run run = {.key = NO_KEY};
	const struct rte_mempool *pool;
	uint64_t octets = 0, now;
	bool plain = true;

	if (UNLIKELY(q->times_polls))
		note_poll(q, n);
	if (n == 0)
		return 0;
	now = rte_rdtsc();
	if (UNLIKELY(capture.on && signature))
		capture_received(w, q, mbufs, n, now);
	pool = mbufs[0]->pool;
	for (uint16_t i = 0; i < n; i++) {
		const struct rte_mbuf *m = mbufs[i];
		uint8_t copy[TRAILER_LEN];
		const uint8_t *t;

		octets += m->pkt_len;
		if (LIKELY(is_plain(m, pool) && m->data_len >= TRAILER_LEN)) {
			t = rte_pktmbuf_mtod_offset(m, const uint8_t *, m->data_len - TRAILER_LEN);
		} else {
			plain = plain && is_plain(m, pool);
			t = trailer_apart(m, copy);
		}
		if (LIKELY(t && signature && load_le32(t) == signature))
			count(&run, w, q, m, t, q->nic_time ? arrival(q, m, now) : now);
		else
			not_of_this_trial(w, q, t, m);
	}
	run_flush(&run);
	q->totals.frames += n;
	q->totals.octets += octets + (uint64_t)n * LG_FCS_LEN;
	release(mbufs, n, plain);
	return n;
}
