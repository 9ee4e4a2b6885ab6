/*
 * The forwarding thread: looks at both ports until a look finds nothing, and sleeps to the next
 * turn. Turns are multiples in a clock that all processes have: who shares the processor and does
 * alike wakes up at another time, and nobody is preempted in the middle.
 */
#include "engine.h"

#include <rte_cycles.h>
#include <rte_mbuf.h>

#define BURST 64u

/* No wish is left of what another driver had for the frame. */
static inline void forget_offloads(struct rte_mbuf *m)
{
	m->ol_flags &= RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;
}

static void rewrite(struct rte_mbuf *burst[], uint16_t n, uint16_t to)
{
	const enum mode mode = engine.options.mode;

	if (mode == MODE_IO)
		return;
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = burst[i];
		uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);

		if (LIKELY(i + 1 < n))
			rte_prefetch0(rte_pktmbuf_mtod(burst[i + 1], void *));
		if (mode == MODE_MAC)
			frame_set_macs(frame, engine.options.peer[to], engine.mac[to]);
		else if (mode == MODE_MACSWAP)
			frame_swap_macs(frame);
		else
			frame_swap_5tuple(frame, rte_pktmbuf_data_len(m));
		forget_offloads(m);
	}
}

/* A burst from one port to the other; what does not fit there is lost. */
static uint16_t forward(struct worker *w, uint16_t from, uint16_t queue)
{
	const uint16_t to = from ^ 1u;
	struct rte_mbuf *burst[BURST];
	const uint16_t n = rte_eth_rx_burst(from, queue, burst, BURST);
	uint16_t sent;

	if (n == 0)
		return 0;
	rewrite(burst, n, to);
	sent = rte_eth_tx_burst(to, queue, burst, n);
	w->frames += n;
	w->calls++;
	if (UNLIKELY(sent < n)) {
		w->refused[to] += n - sent;
		rte_pktmbuf_free_bulk(burst + sent, n - sent);
	}
	return n;
}

static uint32_t look(struct worker *w)
{
	const uint16_t queues = (uint16_t)engine.options.queues;
	uint32_t n = 0;

	for (uint16_t queue = 0; queue < queues; queue++) {
		n += forward(w, 0, queue);
		n += forward(w, 1, queue);
	}
	return n;
}

/* What the kernel has left in the rings of af_packet goes out before the next frames come. */
static bool flush(void)
{
	const bool first = afpacket_flush(&engine.afpacket[0]);
	const bool second = afpacket_flush(&engine.afpacket[1]);

	return first && second;
}

static void take_turns(struct worker *w)
{
	const struct options *o = &engine.options;
	struct scheduling before;
	int error = 0;

	turns_init(&w->turns, o->turn_us, o->phase_us, o->share, (double)engine.hz);
	if (o->priority)
		error = scheduling_fifo(o->priority, &before);
	atomic_store(&w->policy_error, error);
	turns_hold(&w->turns, o->priority && error == 0, rte_rdtsc());
}

static void sleep_to_next_turn(struct worker *w, bool worked, bool forced)
{
	const uint64_t from = rte_rdtsc();

	w->empty += !worked;
	turns_wait(&w->turns);
	turns_woke(&w->turns, from, rte_rdtsc(), forced);
}

static void forward_in_turns(struct worker *w)
{
	uint64_t began = rte_rdtsc();
	bool worked = false, unflushed = false;

	turns_hold(&w->turns, w->turns.held, began); /* it has waited for its ports until now */
	while (LIKELY(!atomic_load_explicit(&engine.quit, memory_order_relaxed))) {
		const uint32_t n = look(w);
		const uint64_t now = rte_rdtsc();
		const bool spent = turns_spent(&w->turns, now);
		const uint64_t turn = turns_begin(&w->turns, now, rte_rdtsc);

		worked = worked || n;
		if (n && !spent) {
			if (turn > now)
				began += turn - now; /* in which it let others run */
			continue;
		}
		if (worked) {
			w->busy += now - began;
			w->longest = RTE_MAX(w->longest, now - began);
		}
		if (worked || unflushed)
			unflushed = !flush();
		began = now;
		if (engine.options.turn_us) {
			sleep_to_next_turn(w, worked, n > 0);
			began = rte_rdtsc();
		}
		worked = false;
	}
}

int worker_main(void *unused)
{
	(void)unused;
	thread_set_name("vloop", 0);
	thread_sleep_exactly();
	take_turns(&engine.worker);
	/* No memif may be polled while it is being connected (see the testpmd switch's driver). */
	thread_wait_for(&engine.forwarding, &engine.quit);
	forward_in_turns(&engine.worker);
	return 0;
}
