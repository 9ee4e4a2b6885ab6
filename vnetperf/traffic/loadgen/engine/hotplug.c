/*
 * Ports that are let go of while everything else goes on, and taken up again: the far end of a
 * socket is about to end, and to come back.  Nobody is in a driver's receive or transmit call when
 * it takes its rings down.
 */
#include <stdlib.h>
#include <unistd.h>

#include "control.h"
#include "telemetry.h"

#define PATIENCE_MS 5000u

void hotplug_update(struct worker *w, uint32_t plugs)
{
	uint16_t polled = 0;

	for (uint16_t i = 0; i < w->n_rxq; i++) {
		struct rx_queue *q = w->rxq[i];

		if (engine.port[q->port].away)
			continue;
		w->rxq[i] = w->rxq[polled];
		w->rxq[polled++] = q;
	}
	w->n_polled = polled;
	for (uint16_t i = 0; i < w->n_txq; i++)
		w->txq[i]->away = engine.port[w->txq[i]->port].away;
	w->plugs = plugs;
	atomic_store_explicit(&w->plugs_ack, plugs, memory_order_release);
}

/* Returns whether all workers have seen which ports are away. */
static bool update_workers(void)
{
	const uint32_t plugs = atomic_load(&engine.plugs) + 1;

	atomic_store_explicit(&engine.plugs, plugs, memory_order_release);
	for (unsigned int i = 0; i < PATIENCE_MS * 10; i++) {
		bool all = true;

		for (unsigned int w = 0; w < engine.n_workers; w++)
			all = all && atomic_load_explicit(&engine.worker[w]->plugs_ack,
							  memory_order_acquire) == plugs;
		if (all)
			return true;
		usleep(100);
	}
	return false;
}

static bool port_asked(struct params *ps, uint16_t *port, struct error *error)
{
	uint64_t value = 0;

	if (!params_need(ps, "port", error) ||
	    !params_u64(ps, "port", 0, engine.n_ports - 1u, &value, error) ||
	    !params_done(ps, "port", error))
		return false;
	*port = (uint16_t)value;
	return true;
}

bool command_unplug(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	uint16_t port;

	if (!port_asked(ps, &port, error))
		return false;
	if (engine.port[port].away)
		return error_set(error, "a port that is plugged in", "port %u is not", port);
	engine.port[port].away = true;
	if (!update_workers())
		return error_set(error, "lcores that get to run", "workers do not follow");
	rte_eth_dev_stop(port);
	rte_tel_data_add_dict_int(d, "ok", 1);
	return true;
}

bool command_plug(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	uint16_t port;
	int trouble;

	if (!port_asked(ps, &port, error))
		return false;
	if (!engine.port[port].away)
		return error_set(error, "a port that was unplugged", "port %u was not", port);
	trouble = rte_eth_dev_start(port);
	if (trouble != 0)
		return error_set(error, "a far end that is there", "port %u does not start: %d",
				 port, trouble);
	engine.port[port].away = false;
	if (!update_workers())
		return error_set(error, "lcores that get to run", "workers do not follow");
	rte_tel_data_add_dict_int(d, "ok", 1);
	return true;
}
