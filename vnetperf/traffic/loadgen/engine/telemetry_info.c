/* Commands that describe the engine, its ports and workers. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "engine.h"
#include "telemetry.h"

#define XSTATS_PAGE 100u

bool command_info(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	if (!params_done(ps, "no parameters", error))
		return false;
	rte_tel_data_add_dict_string(d, "version", LG_VERSION);
	rte_tel_data_add_dict_string(d, "dpdk", rte_version());
	tel_dict_uint(d, "protocol", LG_PROTOCOL);
	tel_dict_uint(d, "pid", (uint64_t)getpid());
	tel_dict_uint(d, "ports", engine.n_ports);
	tel_dict_uint(d, "workers", engine.n_workers);
	tel_dict_uint(d, "tsc_hz", engine.hz);
	tel_dict_uint(d, "turn_us", engine.options.turn_us);
	tel_dict_uint(d, "largest_frame", engine.largest_frame);
	tel_dict_uint(d, "max_streams", LG_MAX_STREAMS);
	tel_dict_uint(d, "max_fields", LG_MAX_FIELDS);
	tel_dict_uint(d, "max_burst", LG_MAX_BURST);
	tel_dict_uint(d, "window", SEQ_WINDOW);
	return true;
}

static uint64_t answers_sent(uint16_t port)
{
	uint64_t sum = 0;

	for (uint16_t i = 0; i < engine.port[port].n_txq; i++)
		sum += counter_read(&engine.port[port].txq[i]->answers);
	return sum;
}

static bool port_number(struct params *ps, uint16_t *port, struct error *error)
{
	uint64_t value = 0;

	if (!params_need(ps, "port", error) ||
	    !params_u64(ps, "port", 0, engine.n_ports - 1u, &value, error))
		return false;
	*port = (uint16_t)value;
	return true;
}

bool command_port(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	struct rte_ether_addr mac = {{0}};
	struct rte_eth_link link = {0};
	struct rte_eth_stats stats = {0};
	char text[32];
	uint16_t port, mtu = 0;

	if (!port_number(ps, &port, error) || !params_done(ps, "port", error))
		return false;
	rte_eth_macaddr_get(port, &mac);
	if (rte_eth_link_get_nowait(port, &link) != 0)
		link.link_status = RTE_ETH_LINK_DOWN;
	rte_eth_dev_get_mtu(port, &mtu);
	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac.addr_bytes[0],
		 mac.addr_bytes[1], mac.addr_bytes[2], mac.addr_bytes[3], mac.addr_bytes[4],
		 mac.addr_bytes[5]);
	rte_tel_data_add_dict_string(d, "name", engine.port[port].name);
	rte_tel_data_add_dict_string(d, "driver", engine.port[port].driver);
	rte_tel_data_add_dict_string(d, "mac", text);
	rte_tel_data_add_dict_int(d, "link_up", link.link_status == RTE_ETH_LINK_UP);
	/* Mbit/s; 0 when the driver cannot tell */
	tel_dict_uint(d, "link_speed",
		      link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed);
	rte_tel_data_add_dict_int(d, "numa_node", rte_eth_dev_socket_id(port));
	tel_dict_uint(d, "mtu", mtu);
	tel_dict_uint(d, "answers", answers_sent(port));
	rte_tel_data_add_dict_int(d, "nic_time", engine.port[port].rxq[0].nic_time);
	tel_dict_uint(d, "nic_time_error_ns", cycles_to_ns(engine.port[port].rxq[0].clock.error));
	if (rte_eth_stats_get(port, &stats) == 0) {
		tel_dict_uint(d, "rx_missed",
			      stats.imissed + afpacket_drops(&engine.port[port].afpacket));
		tel_dict_uint(d, "rx_errors", stats.ierrors);
		tel_dict_uint(d, "rx_no_mbufs", stats.rx_nombuf);
	}
	tel_dict_uint(d, "rx_queues", engine.port[port].n_rxq);
	tel_dict_uint(d, "rx_descriptors", engine.port[port].rx_desc);
	tel_dict_uint(d, "tx_queues", engine.port[port].n_txq);
	return true;
}

/* Telemetry's numbers with a sign may have 32 bits. */
static int clock_ns(int64_t cycles)
{
	const uint64_t size = cycles < 0 ? 0 - (uint64_t)cycles : (uint64_t)cycles;
	const int ns = (int)RTE_MIN(cycles_to_ns(size), (uint64_t)INT32_MAX);

	return cycles < 0 ? -ns : ns;
}

bool command_worker(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	const struct worker *w;
	uint64_t index = 0;

	if (!params_need(ps, "worker", error) ||
	    !params_u64(ps, "worker", 0, engine.n_workers - 1u, &index, error) ||
	    !params_done(ps, "worker", error))
		return false;
	w = engine.worker[index];
	tel_dict_uint(d, "lcore", w->lcore);
	rte_tel_data_add_dict_int(d, "cpu", rte_lcore_to_cpu_id((int)w->lcore));
	tel_dict_uint(d, "numa_node", rte_lcore_to_socket_id(w->lcore));
	tel_dict_uint(d, "tid", (uint64_t)w->tid);
	tel_dict_uint(d, "clock_exchanges", w->clock.exchanges);
	rte_tel_data_add_dict_int(d, "clock_least_ns", clock_ns(w->clock.least));
	rte_tel_data_add_dict_int(d, "clock_most_ns", clock_ns(w->clock.most));
	tel_dict_uint(d, "rx_queues", w->n_rxq);
	tel_dict_uint(d, "tx_queues", w->n_txq);
	return true;
}

/* Telemetry takes letters, digits and a few signs in names; drivers are not bound to that. */
static void clean_name(char *name)
{
	for (; *name; name++) {
		if (!((*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
		      (*name >= '0' && *name <= '9')))
			*name = '_';
	}
}

bool command_xstats(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	struct rte_eth_xstat_name names[1024];
	struct rte_eth_xstat values[1024];
	uint64_t offset = 0;
	uint16_t port;
	int n;

	if (!port_number(ps, &port, error) ||
	    !params_u64(ps, "offset", 0, UINT32_MAX, &offset, error) ||
	    !params_done(ps, "port offset", error))
		return false;
	n = rte_eth_xstats_get(port, values, RTE_DIM(values));
	if (n < 0 || n > (int)RTE_DIM(values) ||
	    rte_eth_xstats_get_names(port, names, RTE_DIM(names)) != n)
		return error_set(error, "a port with at most 1024 xstats",
				 "port %u gives no xstats (%d)", port, n);
	for (uint64_t i = offset; i < (uint64_t)n && i < offset + XSTATS_PAGE; i++) {
		clean_name(names[values[i].id].name);
		tel_dict_uint(d, names[values[i].id].name, values[i].value);
	}
	rte_tel_data_add_dict_int(
		d, "next", offset + XSTATS_PAGE < (uint64_t)n ? (int)(offset + XSTATS_PAGE) : -1);
	return true;
}

bool command_quit(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	if (!params_done(ps, "no parameters", error))
		return false;
	rte_tel_data_add_dict_int(d, "ok", 1);
	atomic_store(&engine.quit, true);
	return true;
}
