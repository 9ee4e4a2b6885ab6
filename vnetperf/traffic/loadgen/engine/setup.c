/* Workers: one per lcore, and which of them serves which queue. */
#include "control.h"

#include <stdio.h>
#include <stdlib.h>

#include <rte_launch.h>

/* Comparing two clocks takes this share of a second at most, where others have the processors. */
#define CLOCK_SHARE 10

static bool queue_exists(const struct queue_map *m)
{
	return m->port < engine.n_ports && m->worker < engine.n_workers &&
	       m->queue < (m->tx ? engine.port[m->port].n_txq : engine.port[m->port].n_rxq);
}

/* The worker of a queue: as mapped, or in turn. */
static struct worker *worker_of(bool tx, uint16_t port, uint16_t queue)
{
	const struct options *o = &engine.options;
	unsigned int before = 0; /* queues of the ports before this one */

	for (unsigned int i = 0; i < o->n_map; i++) {
		const struct queue_map *m = &o->map[i];

		if (m->tx == tx && m->port == port && m->queue == queue)
			return engine.worker[m->worker];
	}
	for (unsigned int p = 0; p < port; p++)
		before += tx ? engine.port[p].n_txq : engine.port[p].n_rxq;
	return engine.worker[(before + queue) % engine.n_workers];
}

static bool map_check(struct error *error)
{
	for (unsigned int i = 0; i < engine.options.n_map; i++) {
		const struct queue_map *m = &engine.options.map[i];

		if (!queue_exists(m)) {
			char accepted[100];

			snprintf(accepted, sizeof(accepted),
				 "ports 0..%u, each with its own queues from 0 on, workers 0..%u",
				 engine.n_ports - 1u, engine.n_workers - 1u);
			return error_set(error, accepted, "--map %s%u.%u@%u", m->tx ? "tx" : "rx",
					 m->port, m->queue, m->worker);
		}
		for (unsigned int j = 0; j < i; j++) {
			const struct queue_map *n = &engine.options.map[j];

			if (n->tx == m->tx && n->port == m->port && n->queue == m->queue)
				return error_set(error, "each queue once",
						 "--map names %s%u.%u twice", m->tx ? "tx" : "rx",
						 m->port, m->queue);
		}
	}
	return true;
}

static struct worker *worker_create(unsigned int lcore)
{
	struct worker *w = aligned_alloc(128, RTE_ALIGN_CEIL(sizeof(*w), 128));

	if (w == NULL)
		return NULL;
	memset(w, 0, sizeof(*w));
	w->gaps = malloc(sizeof(*w->gaps));
	if (w->gaps == NULL) {
		free(w);
		return NULL;
	}
	hdr_reset(w->gaps);
	w->index = engine.n_workers;
	w->lcore = lcore;
	w->tx_done = true;
	turns_init(&w->turns, engine.options.turn_us, engine.options.phase_us, engine.options.share,
		   (double)engine.hz);
	return w;
}

bool workers_create(struct error *error)
{
	unsigned int lcore;

	RTE_LCORE_FOREACH(lcore)
	{
		if (engine.n_workers == LG_MAX_WORKERS)
			return error_set(error, "at most 64 lcores", "too many lcores");
		engine.worker[engine.n_workers] = worker_create(lcore);
		if (engine.worker[engine.n_workers] == NULL)
			return error_set(error, "more memory", "no memory for a worker");
		engine.n_workers++;
	}
	if (!map_check(error))
		return false;
	for (uint16_t port = 0; port < engine.n_ports; port++) {
		for (uint16_t i = 0; i < engine.port[port].n_rxq; i++) {
			struct worker *w = worker_of(false, port, i);

			w->rxq[w->n_rxq++] = &engine.port[port].rxq[i];
			w->nic_time = w->nic_time || engine.port[port].rxq[i].nic_time;
		}
		for (uint16_t i = 0; i < engine.port[port].n_txq; i++) {
			struct worker *w = worker_of(true, port, i);

			w->txq[w->n_txq++] = engine.port[port].txq[i];
		}
	}
	return true;
}

static uint64_t tsc_now(void)
{
	return rte_rdtsc_precise();
}

static int answer_clock(void *line)
{
	tscoffset_answer(line, tsc_now);
	return 0;
}

void workers_compare_clocks(void)
{
	const unsigned int main_lcore = rte_get_main_lcore();

	for (unsigned int i = 0; i < engine.n_workers; i++) {
		struct worker *w = engine.worker[i];
		struct tscoffset_line line = {0};

		/* Threads of one processor have one counter, and would wait for each other. */
		if (rte_lcore_to_cpu_id((int)w->lcore) == rte_lcore_to_cpu_id((int)main_lcore) ||
		    rte_eal_remote_launch(answer_clock, &line, w->lcore) != 0)
			continue;
		tscoffset_ask(&w->clock, &line, tsc_now, engine.hz / CLOCK_SHARE);
		rte_eal_wait_lcore(w->lcore);
	}
}

void workers_release(void)
{
	if (engine.n_workers) {
		schedule_release_tx();
		schedule_release_rx();
	}
	for (unsigned int i = 0; i < LG_MAX_STREAMS; i++)
		stream_release(engine.stream[i]);
	echo_release(&engine.trial.echo);
	for (unsigned int i = 0; i < engine.n_workers; i++) {
		free(engine.worker[i]->gaps);
		free(engine.worker[i]);
	}
	for (unsigned int p = 0; p < LG_MAX_PORTS; p++) {
		for (unsigned int i = 0; i < LG_MAX_QUEUES; i++) {
			free(engine.port[p].rxq[i].expected);
			if (engine.port[p].txq[i])
				free(engine.port[p].txq[i]->gaps);
		}
	}
}
