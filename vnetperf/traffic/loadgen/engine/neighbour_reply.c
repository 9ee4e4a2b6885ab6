/*
 * Answers to neighbours.  The worker that receives a request writes the reply into the port's
 * ring; the one that serves the port's first transmit queue sends it, since a queue has one sender.
 */
#include "neighbour_reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_ring_elem.h>

#include "engine.h"

#define RING_FRAMES 256u
#define BATCH	    16u
#define ANNOUNCE_S  5u /* until workers that are stopped are given up */

/* A frame in a ring: a multiple of four octets. */
struct reply {
	uint16_t len;
	uint8_t frame[NEIGHBOUR_FRAME];
};
_Static_assert(sizeof(struct reply) % 4 == 0, "an element of a ring");

static struct rte_ring *ring[LG_MAX_PORTS];
static struct neighbours nobody;
static _Atomic(struct neighbours *) current = &nobody;
static _Atomic bool in_use;

bool replies_create(struct error *error)
{
	char name[32];

	for (uint16_t port = 0; port < engine.n_ports; port++) {
		snprintf(name, sizeof(name), "lg_answers_%u", port);
		ring[port] = rte_ring_create_elem(name, sizeof(struct reply), RING_FRAMES,
						  SOCKET_ID_ANY, RING_F_SC_DEQ);
		if (ring[port] == NULL)
			return error_set(error, "more memory", "no memory for answers");
	}
	return true;
}

void replies_release(void)
{
	struct neighbours *old = atomic_exchange(&current, &nobody);

	if (old != &nobody)
		free(old);
	for (unsigned int port = 0; port < LG_MAX_PORTS; port++)
		rte_ring_free(ring[port]);
}

struct neighbours *replies_table(struct error *error)
{
	struct neighbours *table = atomic_load(&current);

	if (table != &nobody)
		return table;
	table = calloc(1, sizeof(*table));
	if (table == NULL) {
		error_write(error, "more memory", "no memory for neighbours");
		return NULL;
	}
	atomic_store(&current, table);
	atomic_store(&in_use, true);
	return table;
}

void replies_clear(void)
{
	struct neighbours *old = atomic_exchange(&current, &nobody);

	atomic_store(&in_use, false);
	/* Once all workers have followed another order none can still be looking at the old one. */
	if (old != &nobody && workers_order(PHASE_REST))
		free(old);
}

bool reply_to_request(struct rx_queue *q, const struct rte_mbuf *m)
{
	uint8_t copy[NEIGHBOUR_FRAME];
	const uint32_t len = RTE_MIN(m->pkt_len, (uint32_t)sizeof(copy));
	struct reply reply;
	const uint8_t *frame;

	if (!atomic_load_explicit(&in_use, memory_order_relaxed))
		return false;
	frame = rte_pktmbuf_read(m, 0, len, copy);
	if (frame == NULL)
		return false;
	reply.len =
		(uint16_t)neighbour_answer(atomic_load(&current), q->port, frame, len, reply.frame);
	if (reply.len == 0)
		return false;
	/* Who gets no reply asks again. */
	if (rte_ring_mp_enqueue_elem(ring[q->port], &reply, sizeof(reply)) == 0)
		q->totals.answered++;
	else
		q->totals.unanswered++;
	return true;
}

static struct rte_mbuf *mbuf_of(struct tx_queue *q, const struct reply *reply)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(q->pool);

	if (m == NULL)
		return NULL;
	memcpy(rte_pktmbuf_mtod(m, void *), reply->frame, reply->len);
	m->data_len = reply->len;
	m->pkt_len = reply->len;
	*mbuf_tag(m) = 0; /* it holds no stream's frame any more */
	return m;
}

void replies_send(struct tx_queue *q)
{
	struct reply replies[BATCH];
	struct rte_mbuf *out[BATCH];
	uint16_t n = 0, sent;
	const unsigned int taken = rte_ring_sc_dequeue_burst_elem(ring[q->port], replies,
								  sizeof(replies[0]), BATCH, NULL);

	for (unsigned int i = 0; i < taken; i++) {
		out[n] = mbuf_of(q, &replies[i]);
		n = (uint16_t)(n + (out[n] != NULL));
	}
	sent = n ? rte_eth_tx_burst(q->port, q->queue, out, n) : 0;
	q->answers += sent;
	for (uint16_t i = sent; i < n; i++)
		rte_pktmbuf_free(out[i]);
}

bool replies_waiting(const struct tx_queue *q)
{
	return q->queue == 0 && !rte_ring_empty(ring[q->port]);
}

static bool announce(const struct neighbour_entry *e, uint64_t i)
{
	struct reply reply;

	reply.len = (uint16_t)neighbour_announcement(e, i, reply.frame);
	for (unsigned int ms = 0; ms < ANNOUNCE_S * 1000; ms++) {
		if (rte_ring_mp_enqueue_elem(ring[e->port], &reply, sizeof(reply)) == 0)
			return true;
		usleep(1000);
	}
	return false;
}

bool replies_announce(uint64_t *announced, struct error *error)
{
	const struct neighbours *table = atomic_load(&current);

	*announced = 0;
	for (unsigned int k = 0; k < table->n; k++) {
		const struct neighbour_entry *e = &table->entry[k];

		for (uint64_t i = 0; i < e->count && i < NEIGHBOUR_ANNOUNCED; i++) {
			if (!announce(e, i))
				return error_set(error, "lcores that get to run",
						 "workers do not send");
			++*announced;
		}
	}
	return true;
}
