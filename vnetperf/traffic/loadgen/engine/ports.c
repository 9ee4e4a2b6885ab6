/* Ports: all that EAL has found are configured alike and started. */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_mbuf_dyn.h>

#define CACHE 256u

static const struct rte_mbuf_dynfield tag_field = {
	.name = "loadgen_tag",
	.size = sizeof(uint32_t),
	.align = __alignof__(uint32_t),
};

static uint16_t data_room(void)
{
	const unsigned int frame = RTE_MAX(engine.largest_frame, engine.options.room);
	const unsigned int room = RTE_ALIGN_CEIL(frame, 64) + RTE_PKTMBUF_HEADROOM;

	return (uint16_t)RTE_MAX(room, (unsigned int)RTE_MBUF_DEFAULT_BUF_SIZE);
}

static struct rte_mempool *pool_create(const char *kind, uint16_t port, uint16_t queue, uint32_t n,
				       struct problem *why)
{
	const int socket = rte_eth_dev_socket_id(port);
	struct rte_mempool *pool;
	char name[RTE_MEMPOOL_NAMESIZE];

	snprintf(name, sizeof(name), "lg_%s_%u_%u", kind, port, queue);
	/* DPDK refuses caches that could hold most of the pool. */
	pool = rte_pktmbuf_pool_create(name, n, n < 2 * CACHE ? n / 4 : CACHE, 0, data_room(),
				       socket < 0 ? (int)rte_socket_id() : socket);
	if (pool == NULL)
		problem_set(why, "more memory (-m, hugepages) or fewer --mbufs and queues",
			    "no memory for %u buffers of %u octets", n, data_room());
	return pool;
}

/* These state a limit of about 1518 octets but take what their buffers, or the kernel's interface
 * behind them, can hold. */
static bool takes_any_size(const struct rte_eth_dev_info *info)
{
	static const char *const drivers[] = {"net_memif", "net_af_packet", "net_tap"};

	for (unsigned int i = 0; i < RTE_DIM(drivers); i++) {
		if (strcmp(info->driver_name, drivers[i]) == 0)
			return true;
	}
	return false;
}

static bool conf_fill(uint16_t port, struct rte_eth_conf *conf, const struct rte_eth_dev_info *info,
		      struct problem *why)
{
	const struct options *o = &engine.options;
	const struct port *p = &engine.port[port];

	memset(conf, 0, sizeof(*conf));
	if (p->n_rxq > info->max_rx_queues || p->n_txq > info->max_tx_queues) {
		char accepted[64];

		snprintf(accepted, sizeof(accepted), "at most %u receive and %u transmit queues",
			 info->max_rx_queues, info->max_tx_queues);
		return problem_set(why, accepted, "port %u (%s): %u receive, %u transmit queues",
				   port, info->driver_name, p->n_rxq, p->n_txq);
	}
	if (p->n_rxq > 1 && info->flow_type_rss_offloads) {
		conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf->rx_adv_conf.rss_conf.rss_hf =
			info->flow_type_rss_offloads &
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
	}
	conf->rxmode.mtu = RTE_ETHER_MTU;
	if (o->mtu_given && !takes_any_size(info))
		conf->rxmode.mtu = o->mtu;
	/* Of use only with a clock that can be read besides: see nic_time(). */
	if (o->nic_time && engine.time_offset >= 0)
		conf->rxmode.offloads |= info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP;
	conf->txmode.offloads = info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	if (info->max_mtu && conf->rxmode.mtu > info->max_mtu) {
		char accepted[64];

		snprintf(accepted, sizeof(accepted), "--mtu %u..%u", info->min_mtu, info->max_mtu);
		return problem_set(why, accepted, "port %u (%s): MTU %u", port, info->driver_name,
				   conf->rxmode.mtu);
	}
	return true;
}

static bool tx_queue_create(uint16_t port, uint16_t queue, uint16_t desc, struct problem *why)
{
	const int socket = rte_eth_dev_socket_id(port);
	/* The ring full of frames, a stash, caches on both sides. */
	const uint32_t n = engine.options.mbufs ? engine.options.mbufs
						: desc + 2048u + 2 * CACHE + 2 * LG_MAX_BURST;
	struct tx_queue *q =
		rte_zmalloc_socket("lg_txq", sizeof(*q), 128, socket < 0 ? SOCKET_ID_ANY : socket);

	if (q == NULL)
		return problem_set(why, "more memory", "no memory for a transmit queue");
	q->port = port;
	q->queue = queue;
	q->done = true;
	engine.port[port].txq[queue] = q;
	q->gaps = malloc(sizeof(*q->gaps));
	if (q->gaps == NULL)
		return problem_set(why, "more memory", "no memory for a transmit queue");
	hdr_reset(q->gaps);
	q->pool = pool_create("tx", port, queue, n, why);
	return q->pool != NULL;
}

static bool queues_setup(uint16_t port, uint16_t rx_desc, uint16_t tx_desc, struct problem *why)
{
	const struct options *o = &engine.options;
	struct port *p = &engine.port[port];
	/* A full ring, a burst in hand and a cache per queue: each has its own lcore at most. */
	const uint32_t n =
		o->mbufs ? o->mbufs
			 : (uint32_t)p->n_rxq * (rx_desc + 2 * CACHE + LG_MAX_BURST) + 512;
	const unsigned int socket = (unsigned int)rte_eth_dev_socket_id(port);
	int error;

	p->rx_pool = pool_create("rx", port, 0, n, why);
	if (p->rx_pool == NULL)
		return false;
	for (uint16_t i = 0; i < p->n_rxq; i++) {
		error = rte_eth_rx_queue_setup(port, i, rx_desc, socket, NULL, p->rx_pool);
		if (error)
			return program_port_failed(why, port, "receive queue", error);
		p->rxq[i].port = port;
		p->rxq[i].queue = i;
		p->rxq[i].expected =
			calloc((size_t)LG_MAX_STREAMS * engine.most_txq, sizeof(uint64_t));
		if (p->rxq[i].expected == NULL)
			return problem_set(why, "more memory", "no memory for a receive queue");
	}
	for (uint16_t i = 0; i < p->n_txq; i++) {
		error = rte_eth_tx_queue_setup(port, i, tx_desc, socket, NULL);
		if (error)
			return program_port_failed(why, port, "transmit queue", error);
		if (!tx_queue_create(port, i, tx_desc, why))
			return false;
	}
	return true;
}

/* Whether frames come with the NIC's time, and its clock can be read to tell what that means. */
static void nic_time(uint16_t port, const struct rte_eth_conf *conf)
{
	struct port *p = &engine.port[port];
	uint64_t nic;

	if (!(conf->rxmode.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) ||
	    rte_eth_read_clock(port, &nic) != 0)
		return;
	for (uint16_t i = 0; i < p->n_rxq; i++)
		p->rxq[i].nic_time = true;
}

static bool port_start(uint16_t port, struct problem *why)
{
	uint16_t rx_desc = engine.options.rx_desc, tx_desc = engine.options.tx_desc;
	struct port *p = &engine.port[port];
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	int error;

	p->n_rxq = engine.options.rx_queues[port];
	p->n_txq = engine.options.tx_queues[port];
	error = rte_eth_dev_info_get(port, &info);
	if (error)
		return program_port_failed(why, port, "device info", error);
	snprintf(p->driver, sizeof(p->driver), "%s", info.driver_name);
	rte_eth_dev_get_name_by_port(port, p->name);
	if (!conf_fill(port, &conf, &info, why))
		return false;
	error = rte_eth_dev_configure(port, p->n_rxq, p->n_txq, &conf);
	if (error)
		return program_port_failed(why, port, "configure", error);
	error = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx_desc, &tx_desc);
	if (error)
		return program_port_failed(why, port, "descriptors", error);
	p->rx_desc = rx_desc;
	if (!queues_setup(port, rx_desc, tx_desc, why))
		return false;
	if (engine.options.mtu_given && !takes_any_size(&info)) {
		error = rte_eth_dev_set_mtu(port, engine.options.mtu);
		if (error && error != -ENOTSUP) /* such drivers take any size */
			return program_port_failed(why, port, "MTU", error);
	}
	error = rte_eth_dev_start(port);
	if (error)
		return program_port_failed(why, port, "start", error);
	nic_time(port, &conf);
	afpacket_find(&p->afpacket, p->driver, info.if_index);
	/* Drivers without it (memif, ring) take every frame anyway. */
	rte_eth_promiscuous_enable(port);
	return true;
}

/* EAL numbers PCI devices before all others: what comes behind those is attached in order. */
static bool attach(struct problem *why)
{
	for (unsigned int i = 0; i < engine.options.n_attach; i++) {
		const char *device = engine.options.attach[i];
		const int error = rte_dev_probe(device);

		if (error)
			return problem_set(why, "a device that DPDK can use", "--attach=%.60s: %s",
					   device, rte_strerror(-error));
	}
	return true;
}

bool ports_start(struct problem *why)
{
	uint16_t port, expected = 0;

	engine.largest_frame = RTE_MIN(engine.options.mtu + 26u, (unsigned int)LG_MAX_FRAME);
	engine.most_txq = 1;
	for (port = 0; port < LG_MAX_PORTS; port++)
		engine.most_txq = RTE_MAX(engine.most_txq, engine.options.tx_queues[port]);
	engine.tag_offset = rte_mbuf_dynfield_register(&tag_field);
	if (engine.tag_offset < 0)
		return problem_set(why, "a DPDK with a free mbuf field", "no room for the tag");
	engine.time_offset = -1;
	if (engine.options.nic_time)
		rte_mbuf_dyn_rx_timestamp_register(&engine.time_offset, &engine.time_flag);
	if (!attach(why))
		return false;
	RTE_ETH_FOREACH_DEV(port)
	{
		if (port != expected || port >= LG_MAX_PORTS)
			return problem_set(why, "1..16 ports, numbered without gaps", "port %u",
					   port);
		if (!port_start(port, why))
			return false;
		engine.n_ports = ++expected;
	}
	if (engine.n_ports == 0)
		return problem_set(why, "ports by --vdev=... or -a ...", "no port");
	return true;
}

void ports_stop(void)
{
	for (uint16_t i = 0; i < engine.n_ports; i++) {
		rte_eth_dev_stop(i);
		program_finish_interrupts();
	}
	for (uint16_t i = 0; i < engine.n_ports; i++)
		rte_eth_dev_close(i);
}
