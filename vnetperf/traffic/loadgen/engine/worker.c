/* The loop that every lcore runs: send what is due, receive from all its queues, follow orders. */
#include "engine.h"
#include "neighbour_reply.h"

#include <sys/syscall.h>
#include <unistd.h>

static void rx_arm(struct worker *w)
{
	const size_t expected = (size_t)LG_MAX_STREAMS * engine.most_txq * sizeof(uint64_t);

	for (uint16_t i = 0; i < w->n_rxq; i++) {
		memset(w->rxq[i]->expected, 0, expected);
		w->rxq[i]->times_polls = timeline.ipdv;
		w->rxq[i]->polled = w->rxq[i]->waits = w->rxq[i]->finds = 0;
	}
	/* Each worker clears its own: the pages come from its memory node. */
	for (unsigned int i = 0; i < LG_MAX_STREAMS; i++) {
		if (w->rx[i].hdr)
			hdr_reset(w->rx[i].hdr);
	}
	hdr_reset(w->gaps);
}

/*
 * A kernel that forwards in the sender's own call has delivered the frames of a port before the
 * next port sends.  So a round looks for them at once, and neither direction's latency has the
 * other's send in it.  Each queue is still looked at once in a round, unless several ports send to
 * one.
 */
static void plan_looks(struct worker *w)
{
	uint32_t ports = 0; /* to which the queue's port sends */

	w->others = ALL_PORTS;
	for (uint16_t i = 0; i < w->n_txq; i++) {
		struct tx_queue *q = w->txq[i];

		for (uint16_t s = 0; s < q->n_streams; s++)
			ports |= PORT_BIT(q->streams[s].spec->rx_port);
		q->look = 0;
		if (i + 1 < w->n_txq && w->txq[i + 1]->port == q->port)
			continue; /* a port's queues send one after the other */
		q->look = ports;
		w->others &= ~ports;
		ports = 0;
	}
}

static void tx_arm(struct worker *w)
{
	plan_looks(w);
	for (uint16_t i = 0; i < w->n_txq; i++) {
		memset(&w->txq[i]->totals, 0, sizeof(w->txq[i]->totals));
		w->txq[i]->notes_gaps = !engine.trial.learning;
		if (w->txq[i]->notes_gaps)
			hdr_reset(w->txq[i]->gaps);
	}
	atomic_store(&w->tx_done, false);
}

/* At full rate it would never sleep: then it is a thread like any other. */
static bool is_paced(const struct worker *w)
{
	for (uint16_t i = 0; i < w->n_txq; i++) {
		if (w->txq[i]->max)
			return false;
	}
	return true;
}

/* A paced trial is under SCHED_FIFO: frames that are due leave when the turn begins. */
static void be_prompt(struct worker *w)
{
	w->before = w->turns;
	w->began = rte_rdtsc();
	w->taken = (struct turns_result){0};
	w->work = (struct work){0};
	if (engine.options.priority == 0 || !is_paced(w))
		return;
	w->taken.refused = scheduling_fifo(engine.options.priority, &w->scheduling);
	w->taken.prompt = w->taken.refused == 0;
	turns_hold(&w->turns, w->taken.prompt, rte_rdtsc());
}

static void be_ordinary(struct worker *w)
{
	if (w->turns.held)
		scheduling_restore(&w->scheduling);
	turns_hold(&w->turns, false, 0);
	w->taken.sleeps = w->turns.sleeps - w->before.sleeps;
	w->taken.forced = w->turns.forced - w->before.forced;
	w->taken.slept = w->turns.slept - w->before.slept;
	w->taken.time = rte_rdtsc() - w->began;
}

static void run(struct worker *w)
{
	w->ran = true;
	for (uint16_t i = 0; i < w->n_rxq; i++)
		w->rxq[i]->at_run = w->rxq[i]->totals;
	for (uint16_t i = 0; i < w->n_txq; i++) {
		struct tx_queue *q = w->txq[i];

		q->done = q->n_streams == 0;
		q->called = engine.trial.start;
		if (!q->done)
			pacer_start(&q->pacer, engine.trial.start);
	}
	be_prompt(w);
	w->polled = engine.trial.start;
	w->found = 0;
	w->binding = engine.trial.learning && engine.trial.binding;
	w->signature =
		engine.trial.learning ? 0 : TRAILER_MAGIC | (uint32_t)engine.trial.epoch << 24;
}

/* An order to rest may come again without a trial in between: what the last one found stays. */
static void enter_rest(struct worker *w)
{
	const bool ends = w->ran && !engine.trial.learning;

	w->signature = 0;
	w->binding = false;
	for (uint16_t i = 0; i < w->n_txq; i++) {
		struct tx_queue *q = w->txq[i];

		if (!q->done)
			tx_abandon(q);
		if (!ends)
			continue;
		q->offered = 0;
		for (uint16_t s = 0; s < q->n_streams; s++)
			q->offered += q->streams[s].seq;
	}
	for (uint16_t i = 0; i < w->n_rxq; i++) {
		struct rx_queue *q = w->rxq[i];

		if (w->ran)
			q->at_rest = q->totals;
		if (!ends)
			continue;
		q->stale_from = q->stale_to;
		q->stale_to = q->totals.stale;
		q->found = q->totals.frames - q->at_run.frames;
	}
	if (w->ran)
		be_ordinary(w);
	w->ran = false;
	atomic_store(&w->tx_done, true);
}

static void follow(struct worker *w, uint32_t order)
{
	w->order = order;
	switch (order_phase(order)) {
	case PHASE_ARM:
		turns_resize(&w->turns, engine.turn_us, (double)engine.hz);
		if (!engine.trial.learning)
			rx_arm(w);
		tx_arm(w);
		break;
	case PHASE_RUN:
		run(w);
		break;
	default:
		enter_rest(w);
	}
	atomic_store_explicit(&w->ack, order, memory_order_release);
}

static uint64_t received_so_far(void)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < engine.n_workers; i++) {
		for (unsigned int s = 0; s < LG_MAX_STREAMS; s++)
			sum += counter_read(&engine.worker[i]->rx[s].received);
	}
	return sum;
}

static uint64_t sent_in_all(void)
{
	uint64_t sum = 0;

	for (unsigned int p = 0; p < engine.n_ports; p++) {
		for (unsigned int i = 0; i < engine.port[p].n_txq; i++)
			sum += counter_read(&engine.port[p].txq[i]->totals.frames);
	}
	return sum;
}

static bool ports_flushed(void)
{
	bool empty = true;

	for (unsigned int p = 0; p < engine.n_ports; p++)
		empty = afpacket_flush(&engine.port[p].afpacket) && empty;
	return empty;
}

/* For the first worker: end the trial when all has been sent, and arrived or had its time to. */
static void end_trial_if_over(struct worker *w)
{
	struct trial *t = &engine.trial;
	uint64_t now, from;
	bool over = atomic_load(&t->abort);

	if (!over) {
		for (unsigned int i = 0; i < engine.n_workers; i++) {
			if (!atomic_load(&engine.worker[i]->tx_done))
				return;
		}
		now = rte_rdtsc();
		/* What others send is due until then, and how much of it comes is not known here.
		 */
		if (t->away && (int64_t)(now - (t->start + t->away)) < 0)
			return;
		from = atomic_load(&t->drain_from);
		if (from == 0) {
			atomic_store(&t->drain_from, now);
			from = now;
		}
		t->flushed = t->flushed || ports_flushed();
		over = now - from >= t->drain ||
		       (!t->learning && !t->away && received_so_far() >= sent_in_all());
	}
	if (!over)
		return;
	t->aborted = atomic_load(&t->abort);
	atomic_store(&t->end, rte_rdtsc());
	atomic_store(&engine.order, order_next(w->order, PHASE_REST));
}

/* Cheap enough for every round; summing up what has arrived is not, so that waits for a pause (but
 * not for ever: foreign frames may never pause). */
static bool may_be_over(struct worker *w, unsigned int work)
{
	if (atomic_load_explicit(&engine.trial.abort, memory_order_relaxed))
		return true;
	if (!atomic_load_explicit(&w->tx_done, memory_order_relaxed))
		return false;
	return work == 0 || ++w->rounds % 64 == 0;
}

/* A round of looks at the receive queues, of a trial that has begun: from when on, and the frames
 * it found. */
static inline void note_poll(struct worker *w, uint64_t now, unsigned int found)
{
	const bool sending =
		atomic_load_explicit(&engine.trial.drain_from, memory_order_relaxed) == 0;
	const unsigned int before = w->found;

	if (UNLIKELY((int64_t)(now - w->polled) < 0 || w->signature == 0))
		return;
	if (LIKELY(gaps_poll_counts(sending, before, found)))
		hdr_record_many(w->gaps, cycles_to_ns(now - w->polled), 1);
	w->polled = now;
	w->found = found;
}

/* Receive from the queues of these ports; returns the frames found. */
static inline unsigned int look(struct worker *w, uint32_t ports)
{
	unsigned int found = 0;

	for (uint16_t i = 0; i < w->n_polled; i++) {
		if (ports & PORT_BIT(w->rxq[i]->port))
			found += rx_poll(w, w->rxq[i]);
	}
	return found;
}

/* The first send of a round finds colder caches than the others, so another port is to be first in
 * the next one. */
static void send_next_port_first(struct worker *w)
{
	const uint16_t port = w->txq[w->first]->port;
	uint16_t i = w->first;

	while (i < w->n_txq && w->txq[i]->port == port)
		i++;
	w->first = i < w->n_txq ? i : 0;
}

/* Send what is due, and look at each port's frames before the next port sends; returns the frames
 * sent, and adds those found to *found. */
static unsigned int send_and_look(struct worker *w, uint64_t turn, unsigned int *found)
{
	unsigned int sent = 0;
	bool done = true;

	for (uint16_t k = 0, i = w->first; k < w->n_txq; k++) {
		struct tx_queue *q = w->txq[i];

		sent += tx_poll(q, turn);
		done = done && q->done;
		if (q->look)
			*found += look(w, q->look);
		i = i + 1 < w->n_txq ? (uint16_t)(i + 1) : 0;
	}
	*found += look(w, w->others);
	if (sent)
		send_next_port_first(w);
	if (UNLIKELY(done))
		atomic_store(&w->tx_done, true);
	return sent;
}

/* Mostly nobody has asked: then it costs one look at a ring for each port. */
static void answer_neighbours(struct worker *w)
{
	for (uint16_t i = 0; i < w->n_txq; i++) {
		if (UNLIKELY(replies_waiting(w->txq[i])) && !w->txq[i]->away)
			replies_send(w->txq[i]);
	}
}

/* Rounds without frames before a sleep: most of them tell how fast the processor is just then. */
#define LOOKS_BEFORE_SLEEP 4

/*
 * Where its processor is shared a worker sleeps until the next turn when there is nothing to do,
 * and under SCHED_FIFO when it has used up its share, whatever there is.
 */
static void end_turn(struct worker *w, unsigned int work, uint64_t now)
{
	const bool spent = turns_spent(&w->turns, now);

	if ((work || w->empty < LOOKS_BEFORE_SLEEP) && !spent)
		return;
	turns_wait(&w->turns);
	turns_woke(&w->turns, now, rte_rdtsc(), work > 0);
	w->woke = true;
	w->empty = 0;
}

/* A round of a trial, and the frames it found and sent. */
static inline void note_work(struct worker *w, uint64_t cycles, unsigned int frames)
{
	w->work.rounds++;
	if (frames == 0) {
		w->work.idle += cycles;
		if (w->empty) {
			w->work.still_rounds++;
			w->work.still += cycles;
		}
		return;
	}
	w->work.busy_rounds++;
	w->work.busy += cycles;
	w->work.frames += frames;
}

int worker_main(void *worker)
{
	struct worker *w = worker;

	w->tid = (pid_t)syscall(SYS_gettid);
	hotplug_update(w, atomic_load(&engine.plugs));
	if (w->lcore != rte_get_main_lcore()) /* whose thread has the program's name */
		thread_set_name("loadgen", w->index);
	thread_sleep_exactly();
	while (LIKELY(!atomic_load_explicit(&engine.quit, memory_order_relaxed))) {
		const uint32_t order = atomic_load_explicit(&engine.order, memory_order_acquire);
		const uint32_t plugs = atomic_load_explicit(&engine.plugs, memory_order_acquire);
		const uint64_t looked = rte_rdtsc();
		const uint64_t turn = turns_begin(&w->turns, looked, rte_rdtsc);
		unsigned int found = 0, sent = 0;
		uint64_t now;
		bool running;

		if (UNLIKELY(order != w->order))
			follow(w, order);
		if (UNLIKELY(plugs != w->plugs))
			hotplug_update(w, plugs);
		running = order_phase(order) == PHASE_RUN;
		/* What came during a sleep waits for no send. */
		if (!running || w->woke)
			found = look(w, ALL_PORTS);
		w->woke = false;
		if (running) {
			sent = send_and_look(w, turn, &found);
			note_poll(w, looked, found);
		}
		answer_neighbours(w);
		for (uint16_t i = 0; UNLIKELY(w->nic_time) && i < w->n_polled; i++)
			rx_read_clock(w->rxq[i]);
		if (running && w->index == 0 && may_be_over(w, found + sent))
			end_trial_if_over(w);
		now = rte_rdtsc();
		/* A turn that began without a sleep did so later: others ran until then. */
		if (running)
			note_work(w, now - RTE_MAX(looked, turn), found + sent);
		w->empty = found + sent ? 0 : w->empty + 1;
		if (engine.turn)
			end_turn(w, found + sent, now);
	}
	return 0;
}
