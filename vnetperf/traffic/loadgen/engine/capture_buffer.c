#include "capture_buffer.h"

#include <stdio.h>
#include <stdlib.h>

#define SENT	 0u
#define RECEIVED 1u

struct capture capture;
struct capture_request capture_request;

/* Streams are numbered from 0: the groups up to the highest one in use are enough. */
static uint32_t groups(void)
{
	uint32_t above = 0;

	if (capture_request.what == CAPTURE_FIRST)
		return engine.n_ports * 2u;
	if (capture_request.what != CAPTURE_STREAMS)
		return engine.n_ports;
	for (uint32_t id = 0; id < LG_MAX_STREAMS; id++) {
		if (engine.stream[id])
			above = id + 1;
	}
	return above * 2;
}

static uint32_t longest(void)
{
	uint32_t most = LG_MIN_FRAME;

	for (unsigned int id = 0; id < LG_MAX_STREAMS; id++) {
		if (engine.stream[id])
			most = RTE_MAX(most, (uint32_t)engine.stream[id]->frame_size);
	}
	/* What comes back may have a tunnel's headers, and what is not ours any length. */
	most = capture_request.what == CAPTURE_FOREIGN ? 1518u : most + 64u;
	return RTE_MIN(most, (uint32_t)LG_MAX_FRAME);
}

bool capture_buffer_arm(bool trial, struct error *error)
{
	struct capture_request request = capture_request;

	if (!trial) {
		capture.on = false; /* what the last trial kept stays */
		return true;
	}
	for (unsigned int p = 0; p < engine.n_ports; p++) {
		for (unsigned int i = 0; i < engine.port[p].n_rxq; i++)
			memset(engine.port[p].rxq[i].follows, 0,
			       sizeof(engine.port[p].rxq[i].follows));
	}
	return capture_arm(&capture, &request, groups(), longest(), error);
}

static void fill(struct capture_slot *s, const struct rte_mbuf *m, enum capture_kind kind,
		 uint16_t port, uint16_t stream, uint64_t tsc)
{
	const uint32_t kept = RTE_MIN(m->pkt_len, capture.room);
	const void *octets = rte_pktmbuf_read(m, 0, kept, s->octets);

	if (octets == NULL)
		return;
	if (octets != s->octets)
		memcpy(s->octets, octets, kept);
	s->tsc = tsc;
	s->len = m->pkt_len;
	s->kept = kept;
	s->port = port;
	s->stream = stream;
	s->kind = kind;
}

static uint32_t group_of(uint16_t port, uint16_t stream, uint32_t way)
{
	if (capture.what == CAPTURE_FIRST)
		return port * 2u + way;
	return capture.what == CAPTURE_STREAMS ? stream * 2u + way : port;
}

/* Whether the frames asked for have one like this. */
static bool wanted(struct rx_queue *q, uint16_t stream, const uint8_t *trailer)
{
	switch (capture.what) {
	case CAPTURE_FIRST:
		return true;
	case CAPTURE_STREAMS:
		return stream * 2u + RECEIVED < capture.groups;
	case CAPTURE_FOREIGN:
		return stream == LG_MAX_STREAMS;
	default:
		return stream != LG_MAX_STREAMS &&
		       capture_gap(&q->follows[stream][trailer[TRAILER_STREAM + 1] % LG_MAX_QUEUES],
				   load_le32(trailer + TRAILER_SEQ));
	}
}

void capture_received(const struct worker *w, struct rx_queue *q, struct rte_mbuf *const *mbufs,
		      uint16_t n, uint64_t now)
{
	/* Mostly all is captured already, and nothing is to be looked at any more. */
	if (capture.what != CAPTURE_STREAMS &&
	    capture_full(&capture, group_of(q->port, 0, RECEIVED)))
		return;
	for (uint16_t i = 0; i < n; i++) {
		uint8_t copy[TRAILER_LEN];
		const struct rte_mbuf *m = mbufs[i];
		const uint8_t *t =
			m->pkt_len < TRAILER_LEN
				? NULL
				: rte_pktmbuf_read(m, m->pkt_len - TRAILER_LEN, TRAILER_LEN, copy);
		const bool own = t && load_le32(t) == w->signature;
		const uint16_t stream = own ? t[TRAILER_STREAM] : LG_MAX_STREAMS;
		struct capture_slot *s;

		if (!wanted(q, stream, t))
			continue;
		s = capture_take(&capture, group_of(q->port, stream, RECEIVED));
		if (s)
			fill(s, m, own ? CAPTURE_RECEIVED : CAPTURE_STRAY, q->port, stream, now);
	}
}

uint16_t capture_and_send(struct tx_queue *q, uint16_t n, uint64_t now)
{
	struct capture_slot *slot[LG_MAX_BURST];
	uint16_t sent;

	if (capture.what == CAPTURE_GAPS || capture.what == CAPTURE_FOREIGN ||
	    (capture.what == CAPTURE_FIRST && capture_full(&capture, group_of(q->port, 0, SENT))))
		return rte_eth_tx_burst(q->port, q->queue, q->out, n);
	for (uint16_t i = 0; i < n; i++) {
		const uint16_t stream = q->streams[q->who[i]].spec->id;

		slot[i] = capture_take(&capture, group_of(q->port, stream, SENT));
		if (slot[i])
			fill(slot[i], q->out[i], CAPTURE_SENT, q->port, stream, now);
	}
	sent = rte_eth_tx_burst(q->port, q->queue, q->out, n);
	for (uint16_t i = sent; i < n; i++) {
		if (slot[i])
			slot[i]->kind = CAPTURE_UNUSED;
	}
	return sent;
}

/* A frame's head, as it is in the file: everything in the machine's byte order. */
struct record {
	uint64_t wall_ns;
	uint32_t len, kept;
	uint16_t port, stream;
	uint32_t kind;
};

static bool write_slot(FILE *file, const struct capture_slot *s)
{
	const struct record r = {.wall_ns = wallclock_ns(&engine.trial.wall, s->tsc),
				 .len = s->len,
				 .kept = s->kept,
				 .port = s->port,
				 .stream = s->stream,
				 .kind = s->kind};

	return fwrite(&r, sizeof(r), 1, file) == 1 && fwrite(s->octets, s->kept, 1, file) == 1;
}

int64_t capture_buffer_write(const char *path)
{
	FILE *file = fopen(path, "we");
	bool whole = file != NULL;
	int64_t n = 0;

	for (uint32_t g = 0; whole && g < capture.groups; g++) {
		const struct capture_slot *s;

		for (uint32_t i = 0; whole && (s = capture_slot_at(&capture, g, i)) != NULL; i++) {
			if (s->kind == CAPTURE_UNUSED || s->kept == 0)
				continue;
			whole = write_slot(file, s);
			n++;
		}
	}
	if (file != NULL)
		whole = fclose(file) == 0 && whole;
	return whole ? n : -1;
}
