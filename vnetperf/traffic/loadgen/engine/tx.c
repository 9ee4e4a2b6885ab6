/* The sending side: take what is due, fill it in, stamp it, hand it over, account for it. */
#include "capture_buffer.h"
#include "engine.h"

/* Frames given up in one call: a long stall is worked off in pieces, receiving goes on between. */
#define MAX_SKIP 4096u

static void buffer_fill(struct rte_mbuf *m, const struct tx_stream *s)
{
	memcpy(rte_pktmbuf_mtod(m, void *), s->frame, s->frame_len);
	*mbuf_tag(m) = s->tag;
}

static inline uint8_t *frame_build(struct rte_mbuf *m, struct tx_stream *s)
{
	uint8_t *frame, *trailer;

	m->data_off = RTE_PKTMBUF_HEADROOM;
	m->ol_flags = 0;
	m->data_len = s->frame_len;
	m->pkt_len = s->frame_len;
	frame = rte_pktmbuf_mtod(m, uint8_t *);
	trailer = frame + s->frame_len - TRAILER_LEN;
	/* Buffers keep the frame of their last use; mostly it is this stream's. */
	if (UNLIKELY(*mbuf_tag(m) != s->tag))
		buffer_fill(m, s);
	store_le32(trailer + TRAILER_SEQ, (uint32_t)s->seq);
	if (s->varied) {
		uint64_t sum = fields_write(&s->fields, frame);

		if (s->fields.udp >= 0) {
			const unsigned int end = (unsigned int)s->frame_len - TRAILER_LEN +
						 TRAILER_SEQ + 4 - (unsigned int)s->fields.udp;

			store_le64(trailer + TRAILER_TSC, 0);
			sum += sum_value(__builtin_bswap32((uint32_t)s->seq), sum_shift(end));
			fields_udp(&s->fields, frame, sum);
		}
	}
	s->seq++;
	return trailer;
}

static void stamp_udp(struct tx_queue *q, uint16_t i, uint64_t before, uint64_t now)
{
	const struct tx_stream *s = &q->streams[q->who[i]];

	if (s->fields.udp >= 0)
		fields_udp_replace(&s->fields, rte_pktmbuf_mtod(q->out[i], uint8_t *),
				   (unsigned int)s->frame_len - TRAILER_LEN + TRAILER_TSC,
				   __builtin_bswap64(before), __builtin_bswap64(now));
}

/* Of the frames of a call one asks for the round trip, or answers; each place in turn. */
__attribute__((noinline, cold)) static void mark_one(struct tx_queue *q, uint16_t n, uint64_t told,
						     uint64_t now)
{
	struct echo *e = &engine.trial.echo;
	const uint16_t i = (uint16_t)(e->marks % n);

	if (engine.trial.learning || q->queue != 0 || !echo_marks(e, told, now))
		return;
	if (q->has_udp)
		stamp_udp(q, i, told, told | ECHO_MARK);
	store_le64(q->trailer[i] + TRAILER_TSC, told | ECHO_MARK);
}

/* One clock reading for the whole call, as late as can be. */
static uint64_t stamp(struct tx_queue *q, uint16_t n)
{
	const uint64_t now = rte_rdtsc();
	uint64_t told = now;

	if (UNLIKELY(engine.trial.by_wall))
		told = wallclock_ns(&engine.trial.wall, now) & ~(uint64_t)ECHO_MARK;
	if (UNLIKELY(q->has_udp)) {
		for (uint16_t i = 0; i < n; i++)
			stamp_udp(q, i, load_le64(q->trailer[i] + TRAILER_TSC), told);
	}
	for (uint16_t i = 0; i < n; i++)
		store_le64(q->trailer[i] + TRAILER_TSC, told);
	if (UNLIKELY(engine.trial.echo.role != ECHO_NONE))
		mark_one(q, n, told, now);
	return now;
}

/* All frames of a load have been handed out: go on with the next one, if there is one. */
__attribute__((noinline, cold)) static bool next_step(struct tx_queue *q)
{
	if (q->step + 1 >= q->n_steps)
		return false;
	q->step++;
	pacer_init(&q->pacer, &q->loads[(size_t)q->step * q->n_streams], q->n_streams, false,
		   (double)engine.hz, q->burst, q->max_lag);
	pacer_catch_up(&q->pacer, q->catch_up);
	pacer_every(&q->pacer, engine.turn);
	pacer_group(&q->pacer, q->group);
	pacer_start(&q->pacer, engine.trial.start + engine.trial.steps.step[q->step].from);
	return true;
}

/* Which frames are due now; their streams go to who[]. */
static uint16_t choose_each(struct tx_queue *q, uint64_t now, uint16_t most)
{
	struct tx_totals *t = &q->totals;
	unsigned int skipped = 0;
	uint16_t n = 0, stream;
	uint64_t late;

	while (n < most && skipped < MAX_SKIP) {
		switch (pacer_take(&q->pacer, now, &stream, &late)) {
		case PACE_SEND:
			q->who[n++] = stream;
			t->lag_sum += late;
			q->latest = late > q->latest ? late : q->latest;
			break;
		case PACE_GIVE_UP:
			q->streams[stream].skipped++;
			skipped++;
			break;
		case PACE_END:
			if (next_step(q))
				break;
			q->done = n == 0;
			return n;
		default:
			return n;
		}
	}
	return n;
}

/* In bursts: what is due later in this window leaves now, and its lateness is not known. */
static uint16_t choose_ahead(struct tx_queue *q, uint64_t now)
{
	const uint64_t lag = q->totals.lag_sum;
	uint16_t n;

	pacer_refill(&q->pacer, now);
	n = choose_each(q, pacer_horizon(&q->pacer, now), q->burst);
	q->totals.lag_sum = lag;
	q->latest = 0;
	return n;
}

static inline uint16_t choose(struct tx_queue *q, uint64_t now)
{
	uint16_t n, most = q->burst;
	uint64_t first = 0;

	q->latest = 0;
	if (UNLIKELY(q->pacer.window > 0))
		return choose_ahead(q, now);
	if (UNLIKELY(q->single))
		most = pacer_single(&q->pacer, now, q->burst);
	pacer_refill(&q->pacer, now);
	if (!q->pacer.uniform)
		return choose_each(q, now, most);
	n = (uint16_t)pacer_take_run(&q->pacer, now, most, &q->totals.lag_sum, &first);
	if (UNLIKELY(n == 0))
		return choose_each(q, now, most); /* nothing due, too late, or the end */
	q->latest = first;
	if (q->n_streams == 1)
		return n; /* who[] is all zero */
	for (uint16_t i = 0; i < n; i++)
		q->who[i] = pacer_turn(&q->pacer);
	return n;
}

static bool stash_fill(struct tx_queue *q)
{
	unsigned int want;

	if (q->n_stash >= q->burst) /* nothing taken, or a larger burst before */
		return true;
	want = (unsigned int)q->burst - q->n_stash;
	if (UNLIKELY(rte_mempool_get_bulk(q->pool, (void **)&q->stash[q->n_stash], want) != 0)) {
		q->totals.no_mbufs++;
		return false;
	}
	q->n_stash = q->burst;
	return true;
}

/* Frames from `from` on stay with us; `counter` of their stream tells why. */
static void drop(struct tx_queue *q, uint16_t from, uint16_t n, bool lapsed)
{
	for (uint16_t i = from; i < n; i++) {
		struct tx_stream *s = &q->streams[q->who[i]];

		if (lapsed)
			s->lapsed++;
		else
			s->refused++;
		rte_pktmbuf_free(q->out[i]);
	}
}

void tx_abandon(struct tx_queue *q)
{
	if (q->n_streams == 0)
		return;
	drop(q, 0, q->n_pending, true);
	q->n_pending = 0;
	for (uint16_t i = 0; i < q->n_streams; i++)
		q->streams[i].skipped = q->streams[i].share - q->streams[i].seq;
	q->done = true;
}

/* Keep the refused frames at the head of out[] for the next call, unless it has taken too long. */
static void keep(struct tx_queue *q, uint16_t from, uint16_t n, uint64_t now)
{
	if (from == n) {
		q->n_pending = 0;
		return;
	}
	if (from > 0 || q->n_pending == 0)
		q->pending_since = now;
	q->n_pending = (uint16_t)(n - from);
	memmove(q->out, q->out + from, q->n_pending * sizeof(struct rte_mbuf *));
	memmove(q->trailer, q->trailer + from, q->n_pending * sizeof(uint8_t *));
	memmove(q->who, q->who + from, q->n_pending * sizeof(uint16_t));
	if (now - q->pending_since <= q->max_lag)
		return;
	if (q->max) {
		tx_abandon(q); /* without progress: the rest would not go either */
	} else {
		drop(q, 0, q->n_pending, true);
		q->n_pending = 0;
	}
}

static inline void note_times(struct tx_queue *q, uint16_t n, uint64_t now)
{
	if (q->n_streams == 1)
		n = 1;
	for (uint16_t i = 0; i < n; i++) {
		struct tx_stream *s = &q->streams[q->who[i]];

		if (UNLIKELY(s->first == 0))
			s->first = now;
		s->last = now;
	}
}

/* The driver took the first `sent` of n frames; the others come again, or were refused. */
__attribute__((noinline, cold)) static void note_bins(struct tx_queue *q, uint16_t sent, uint16_t n,
						      uint64_t now)
{
	const uint32_t bin = timeline_bin(&timeline, now);

	for (uint16_t i = 0; i < n; i++) {
		struct timeline_tx *x = q->streams[q->who[i]].timeline;

		if (i < sent)
			x->sent[bin]++;
		else if (!q->retry)
			x->refused[bin]++;
	}
}

/* Returns when the frames were handed over, which is the time stamped on them. */
static uint64_t hand_over(struct tx_queue *q, uint16_t n)
{
	const uint64_t now = stamp(q, n);
	uint16_t sent = 0;

	if (UNLIKELY(capture.on) && !q->away)
		sent = capture_and_send(q, n, now);
	else if (LIKELY(!q->away))
		sent = rte_eth_tx_burst(q->port, q->queue, q->out, n);

	note_times(q, n, now);
	if (UNLIKELY(q->has_timeline))
		note_bins(q, sent, n, now);
	q->totals.calls++;
	q->totals.frames += sent;
	if (n > q->totals.max_burst)
		q->totals.max_burst = n;
	if (LIKELY(sent == n && q->n_pending == 0))
		return now;
	if (q->retry) {
		q->totals.retries++;
		keep(q, sent, n, now);
	} else {
		drop(q, sent, n, false);
	}
	return now;
}

/* Lag is until frames leave, and this thread may have been stopped since they were chosen. */
static inline void note_lag(struct tx_queue *q, uint16_t n, uint64_t since)
{
	q->totals.lag_frames += n;
	q->totals.lag_sum += n * since;
	if (q->latest + since > q->totals.lag_max)
		q->totals.lag_max = q->latest + since;
}

/* A frame was due, and no call was made: at full rate since the last one. */
static inline void note_gap(struct tx_queue *q, uint64_t now)
{
	const uint64_t from = gaps_send_from(q->called, pacer_due(&q->pacer));

	q->called = now;
	if (q->notes_gaps && now > from)
		hdr_record_many(q->gaps, cycles_to_ns(now - from), 1);
}

/* Frames of one turn leave as one group, in calls that follow each other. */
static inline void note_turn(struct tx_queue *q, uint16_t n, uint64_t turn)
{
	if (turn != q->turn) {
		q->turn = turn;
		q->in_turn = 0;
		q->totals.turns++;
	}
	q->in_turn += n;
	if (q->in_turn > q->totals.most_in_turn)
		q->totals.most_in_turn = q->in_turn;
}

/* Nothing is due yet, and there is something to come: no call is missing. */
static inline bool waits_for_turn(const struct tx_queue *q, uint64_t turn)
{
	const uint64_t due = pacer_due(&q->pacer);

	return due != UINT64_MAX && q->pacer.window <= 0 && (int64_t)(turn - due) < 0;
}

/* Without buffers nothing can leave, but time goes on: what is too late is given up, and at full
 * rate everything once the lack has lasted. */
static void starve(struct tx_queue *q, uint64_t now)
{
	unsigned int skipped = 0;
	uint16_t stream;
	uint64_t late;

	while (pacer_due(&q->pacer) == UINT64_MAX && next_step(q))
		;
	if ((int64_t)(now - pacer_due(&q->pacer)) < 0)
		return; /* nothing is due */
	if (q->starved_since == 0)
		q->starved_since = now;
	if (q->max) {
		if (now - q->starved_since > q->max_lag)
			tx_abandon(q);
		return;
	}
	while (pacer_due(&q->pacer) != UINT64_MAX && skipped < MAX_SKIP &&
	       (int64_t)(now - pacer_due(&q->pacer) - q->pacer.max_lag) > 0) {
		if (pacer_take(&q->pacer, now, &stream, &late) == PACE_GIVE_UP)
			q->streams[stream].skipped++;
		skipped++;
	}
	q->done = pacer_due(&q->pacer) == UINT64_MAX && !next_step(q);
}

unsigned int tx_poll(struct tx_queue *q, uint64_t turn)
{
	uint16_t n;

	if (q->done)
		return 0;
	if (UNLIKELY(q->n_pending)) {
		n = q->n_pending;
		q->called = hand_over(q, n);
		return n - q->n_pending; /* where nothing is taken there is nothing to do now */
	}
	/* Buffers first: without them frames stay due, and count as unsent if that lasts. */
	if (UNLIKELY(!stash_fill(q))) {
		starve(q, rte_rdtsc());
		return 0;
	}
	q->starved_since = 0;
	if (waits_for_turn(q, turn))
		return 0;
	note_gap(q, rte_rdtsc());
	n = choose(q, turn);
	if (n == 0)
		return 0;
	for (uint16_t i = 0; i < n; i++) {
		q->out[i] = q->stash[--q->n_stash];
		q->trailer[i] = frame_build(q->out[i], &q->streams[q->who[i]]);
	}
	note_turn(q, n, turn);
	note_lag(q, n, hand_over(q, n) - turn);
	return n;
}
