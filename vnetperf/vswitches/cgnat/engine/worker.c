/*
 * The loop that every lcore runs: packets from its ports or its ring, through its stages, to the
 * next ring or out. With one group this is run to completion, with several a pipeline; the stages
 * are the same.
 */
#include "engine.h"

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

/* Tables are looked through once in a second, a part of them every so many times in one. */
#define SWEEPS_PER_S 1000u

static void *huge(size_t octets)
{
	return rte_zmalloc("cgnat", octets, 64);
}

static const struct memory memory = {huge, rte_free};

static inline bool has(const struct worker *w, enum stage stage)
{
	return w->group.first <= stage && stage <= w->group.last;
}

static bool lcores_given(struct error *error)
{
	struct options *o = &engine.options;
	unsigned int lcore;
	uint32_t n = 0;

	engine.n_workers = o->n_groups;
	RTE_LCORE_FOREACH_WORKER(lcore)
	{
		if (n < o->n_groups && o->n_lcores == 0)
			o->lcores[n] = lcore;
		n++;
	}
	if (n != o->n_groups || (o->n_lcores && o->n_lcores != n))
		return error_set(error, "one for each group of --stages, beside the main lcore",
				 "%u lcores for %u groups of stages", n, o->n_groups);
	for (uint32_t i = 0; i < n; i++) {
		lcore = o->lcores[i];
		if (lcore >= RTE_MAX_LCORE || !rte_lcore_is_enabled(lcore) ||
		    lcore == rte_get_main_lcore())
			return error_set(error, "lcores of EAL but the main one", "lcore %u",
					 lcore);
		engine.workers[i].lcore = lcore;
		engine.workers[i].group = o->groups[i];
	}
	return true;
}

bool workers_create(struct error *error)
{
	if (!lcores_given(error))
		return false;
	for (uint32_t i = 0; i + 1 < engine.n_workers; i++) {
		char name[RTE_RING_NAMESIZE];

		snprintf(name, sizeof(name), "cgnat_%u", i);
		engine.workers[i].out = rte_ring_create(name, RING_PACKETS, (int)rte_socket_id(),
							RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (engine.workers[i].out == NULL)
			return error_set(error, "more memory", "no memory for a ring: %s",
					 rte_strerror(rte_errno));
		engine.workers[i + 1].in = engine.workers[i].out;
	}
	if (!fragments_create(&engine.fragments, engine.options.nat.seed, &memory) ||
	    !mapper_create(&engine.mapper, &engine.options.nat, &engine.published, &memory) ||
	    !tracker_create(&engine.tracker, &engine.options.nat, &engine.published, &memory))
		return error_set(error, "more memory (-m, hugepages), or smaller tables",
				 "no memory for %u mappings and %u sessions",
				 engine.options.nat.mappings, engine.options.nat.sessions);
	return true;
}

static void drop(struct worker *w, struct packet *p, enum verdict cause)
{
	w->verdicts[p->from][cause]++;
	rte_pktmbuf_free(p->buffer);
}

/* Frees what a stage has given a cause; the others move up. */
static uint32_t keep(struct worker *w, struct packet *packets[], uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (LIKELY(packets[i]->verdict == PASS))
			packets[kept++] = packets[i];
		else if (packets[i]->verdict != HELD)
			drop(w, packets[i], packets[i]->verdict);
	}
	return kept;
}

static uint32_t receive(struct worker *w, uint16_t side, struct packet *packets[])
{
	struct rte_mbuf *got[BURST];
	const uint16_t n = rte_eth_rx_burst(side, 0, got, BURST);

	for (uint16_t i = 0; i < n; i++) {
		struct packet *p = rte_mbuf_to_priv(got[i]);

		rte_prefetch0(rte_pktmbuf_mtod(got[i], void *));
		p->buffer = got[i];
		p->frame = rte_pktmbuf_mtod(got[i], uint8_t *);
		p->head = rte_pktmbuf_data_len(got[i]);
		p->length = (uint16_t)rte_pktmbuf_pkt_len(got[i]);
		p->from = (uint8_t)side;
		packets[i] = p;
	}
	w->rx[side] += n;
	return n;
}

static void transmit_side(struct worker *w, uint16_t side, struct rte_mbuf *buffers[], uint16_t n)
{
	const uint16_t sent = n ? rte_eth_tx_burst(side, 0, buffers, n) : 0;

	w->tx[side] += sent;
	w->unflushed = w->unflushed || sent;
	w->verdicts[side][TX_FULL] += n - sent;
	if (sent < n)
		rte_pktmbuf_free_bulk(buffers + sent, n - sent);
}

static void transmit(struct worker *w, struct packet *packets[], uint32_t n)
{
	struct rte_mbuf *buffers[SIDES][BURST];
	uint16_t count[SIDES] = {0, 0};

	for (uint32_t i = 0; i < n; i++)
		buffers[packets[i]->to][count[packets[i]->to]++] = packets[i]->buffer;
	transmit_side(w, INSIDE, buffers[INSIDE], count[INSIDE]);
	transmit_side(w, OUTSIDE, buffers[OUTSIDE], count[OUTSIDE]);
}

static uint32_t run_stage(struct worker *w, enum stage stage, struct packet *packets[], uint32_t n)
{
	switch (stage) {
	case STAGE_VAL:
		for (uint32_t i = 0; i < n; i++)
			packet_check(packets[i], &engine.options.macs);
		fragments_run(&engine.fragments, packets, n);
		return keep(w, packets, n);
	case STAGE_NAT:
		mapper_run(&engine.mapper, packets, n);
		n = keep(w, packets, n);
		/* What a full ring does not take is taken back, see enqueue_to_next_group(). */
		if (w->group.last > STAGE_NAT)
			engine.mapper.sent += n;
		return n;
	case STAGE_CT:
		tracker_run(&engine.tracker, packets, n);
		tracker_done(&engine.tracker, n);
		n = keep(w, packets, n);
		for (uint32_t i = 0; i < n; i++)
			packet_rewrite(packets[i], &engine.options.macs);
		return n;
	case STAGE_TX:
		transmit(w, packets, n);
		return 0;
	default:
		return n;
	}
}

static void enqueue_to_next_group(struct worker *w, struct packet *packets[], uint32_t n)
{
	const uint32_t put = rte_ring_sp_enqueue_burst(w->out, (void *const *)packets, n, NULL);

	/* Counted when they are on their way to the owner of sessions, and no others are. */
	if (w->group.last == STAGE_NAT)
		engine.mapper.sent += put;
	for (uint32_t i = put; i < n; i++)
		drop(w, packets[i], RING_FULL);
}

/* A burst through the stages of a group, from the one after `from` on. */
static void run_stages(struct worker *w, enum stage next, struct packet *packets[], uint32_t n,
		       uint64_t since)
{
	uint32_t stage;

	for (stage = next; stage <= (uint32_t)w->group.last && n; stage++) {
		const uint32_t came = n;
		uint64_t now;

		n = run_stage(w, (enum stage)stage, packets, n);
		now = rte_rdtsc();
		w->work[stage].packets += came;
		w->work[stage].cycles += now - since;
		since = now;
	}
	if (n && w->out)
		enqueue_to_next_group(w, packets, n);
}

/* Fragments whose first one has come: they follow it from the stage after validation on. */
static void released(struct worker *w)
{
	struct packet *packets[BURST];
	uint32_t n = 0;

	while (n < BURST && engine.fragments.ready.first)
		packets[n++] = fragments_take(&engine.fragments.ready, PASS);
	run_stages(w, STAGE_NAT, packets, n, rte_rdtsc());
}

static uint32_t from_ports(struct worker *w)
{
	struct packet *packets[BURST];
	uint32_t all = 0;

	for (uint32_t side = 0; side < SIDES; side++) {
		const uint64_t since = rte_rdtsc();
		const uint32_t n = receive(w, (uint16_t)side, packets);
		uint64_t now;

		if (n == 0)
			continue;
		now = rte_rdtsc();
		w->work[STAGE_RX].packets += n;
		w->work[STAGE_RX].cycles += now - since;
		run_stages(w, STAGE_VAL, packets, n, now);
		all += n;
	}
	return all;
}

static uint32_t from_ring(struct worker *w)
{
	struct packet *packets[BURST];
	const uint64_t since = rte_rdtsc();
	const uint32_t n = rte_ring_sc_dequeue_burst(w->in, (void **)packets, BURST, NULL);

	if (n)
		run_stages(w, w->group.first, packets, n, since);
	return n;
}

/* The part of a table that is due, of `all` in a second. */
static uint32_t due(uint32_t all, uint64_t cycles)
{
	const uint64_t part = (uint64_t)((unsigned __int128)all * cycles / engine.hz) + 1;

	return part < all ? (uint32_t)part : all;
}

static struct worker *owner_of(enum stage stage)
{
	struct worker *w = engine.workers;

	while (!has(w, stage))
		w++;
	return w;
}

/* All at once, while no packets come: between trials. Mappings go when the owner of sessions, who
 * may be another, has ended those; a late packet may make one until they have gone. */
static void end_sessions(struct worker *w, uint32_t request)
{
	const struct worker *mappings = owner_of(STAGE_NAT);
	bool done = !has(w, STAGE_CT) ||
		    (w != mappings && atomic_load(&mappings->end_request_done) == request);

	if (!done)
		tracker_end_all(&engine.tracker);
	if (w == mappings)
		done = mapper_end_all(&engine.mapper);
	if (done)
		w->end_request_done = request;
}

static void set_clocks(const struct worker *w, uint64_t now)
{
	const uint32_t second = (uint32_t)((now - engine.start) / engine.hz) + 1;

	if (has(w, STAGE_VAL))
		engine.fragments.second = second;
	if (has(w, STAGE_CT))
		engine.tracker.second = second;
	if (has(w, STAGE_NAT))
		engine.mapper.second = second;
}

static void sweep_tables(struct worker *w, uint64_t now)
{
	const uint64_t since = now - w->swept;

	w->swept = now;
	set_clocks(w, now);
	/* No part of a table is looked through meanwhile: the last mapping is to go where that is
	 * seen. */
	if (UNLIKELY(w->end_request_done != atomic_load(&engine.end_requests))) {
		end_sessions(w, atomic_load(&engine.end_requests));
		return;
	}
	if (has(w, STAGE_VAL)) {
		struct packet *late;

		fragments_sweep(&engine.fragments, due(PARTIALS, since));
		while ((late = fragments_take(&engine.fragments.late, FRAGMENT_LATE)) != NULL)
			drop(w, late, FRAGMENT_LATE);
	}
	if (has(w, STAGE_CT))
		tracker_sweep(&engine.tracker, due(engine.options.nat.sessions, since));
	if (has(w, STAGE_NAT))
		mapper_sweep(&engine.mapper, due(engine.options.nat.mappings, since));
}

/* What the kernel has left in the rings of af_packet goes out before the next packets come. */
static void flush(struct worker *w)
{
	bool empty = true;

	for (uint32_t side = 0; side < SIDES; side++)
		empty = afpacket_flush(&engine.afpacket[side]) && empty;
	w->unflushed = !empty;
}

/* Until the next turn: without packets, or because the thread has used up its share. */
static uint64_t sleep_to_next_turn(struct worker *w, uint64_t from, bool forced)
{
	uint64_t now;

	turns_wait(&w->share);
	now = rte_rdtsc();
	turns_woke(&w->share, from, now, forced);
	return now;
}

static void take_turns(struct worker *w)
{
	const struct options *o = &engine.options;
	const uint32_t number = (uint32_t)(w - engine.workers);
	struct scheduling before;

	turns_init(&w->share, o->turn_us, o->phases[number], o->share, (double)engine.hz);
	if (o->turn_us && o->priority)
		w->refused = scheduling_fifo(o->priority, &before);
	turns_hold(&w->share, o->turn_us && o->priority && w->refused == 0, rte_rdtsc());
}

int worker_main(void *worker)
{
	struct worker *w = worker;
	uint64_t before, now;

	thread_set_name("cgnat", (unsigned int)(w - engine.workers));
	thread_sleep_exactly();
	/* No memif may be polled while it is being connected (see the switch's driver). */
	thread_wait_for(&engine.forwarding, &engine.quit);
	take_turns(w);
	before = w->swept = rte_rdtsc();
	set_clocks(w, before); /* before the first packets */
	while (LIKELY(!atomic_load_explicit(&engine.quit, memory_order_relaxed))) {
		const uint32_t n = w->in ? from_ring(w) : from_ports(w);

		while (has(w, STAGE_VAL) && UNLIKELY(engine.fragments.ready.first != NULL))
			released(w);
		now = rte_rdtsc();
		if (now - w->swept > engine.hz / SWEEPS_PER_S)
			sweep_tables(w, now);
		w->turns++;
		if (n) {
			w->busy += now - before;
		} else {
			w->idle += now - before;
			w->empty++;
			if (UNLIKELY(w->unflushed))
				flush(w);
		}
		before = now;
		if (engine.options.turn_us && (n == 0 || turns_spent(&w->share, now))) {
			/* or the next turn would have it, which may have packets */
			before = sleep_to_next_turn(w, now, n > 0);
			w->idle += before - now;
		}
		turns_begin(&w->share, before, rte_rdtsc);
	}
	return 0;
}
