/* Ports: all that EAL has found are configured alike and started. */
#include "engine.h"
#include "ethdev.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_mbuf_dyn.h>

static const struct rte_mbuf_dynfield tag_field = {
	.name = "loadgen_tag",
	.size = sizeof(uint32_t),
	.align = __alignof__(uint32_t),
};

static struct rte_mempool *pool_create(const char *kind, uint16_t port, uint16_t queue, uint32_t n,
				       struct error *error)
{
	const uint32_t room = RTE_MAX(engine.largest_frame, engine.options.room);
	char name[RTE_MEMPOOL_NAMESIZE];

	snprintf(name, sizeof(name), "lg_%s_%u_%u", kind, port, queue);
	return ethdev_pool(name, engine.options.mbufs ? engine.options.mbufs : n, room, 0,
			   rte_eth_dev_socket_id(port), error);
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

static bool is_given_mtu(const struct ethdev *e)
{
	return engine.options.mtu_given && !takes_any_size(&e->info);
}

static bool conf_fill(struct ethdev *e, struct error *error)
{
	const struct options *o = &engine.options;
	char accepted[64];

	e->conf.rxmode.mtu = is_given_mtu(e) ? o->mtu : RTE_ETHER_MTU;
	/* Of use only with a clock that can be read besides: see nic_time(). */
	if (o->nic_time && engine.time_offset >= 0)
		e->conf.rxmode.offloads |= e->info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP;
	if (e->info.max_mtu && e->conf.rxmode.mtu > e->info.max_mtu) {
		snprintf(accepted, sizeof(accepted), "--mtu %u..%u", e->info.min_mtu,
			 e->info.max_mtu);
		return error_set(error, accepted, "port %u (%s): MTU %u", e->port,
				 e->info.driver_name, e->conf.rxmode.mtu);
	}
	return true;
}

static bool tx_queue_create(uint16_t port, uint16_t queue, uint16_t desc, struct error *error)
{
	const int socket = rte_eth_dev_socket_id(port);
	/* The ring full of frames, a stash, caches on both sides. */
	const uint32_t n = desc + 2048u + 2 * ETHDEV_CACHE + 2 * LG_MAX_BURST;
	struct tx_queue *q =
		rte_zmalloc_socket("lg_txq", sizeof(*q), 128, socket < 0 ? SOCKET_ID_ANY : socket);

	if (q == NULL)
		return error_set(error, "more memory", "no memory for a transmit queue");
	q->port = port;
	q->queue = queue;
	q->done = true;
	engine.port[port].txq[queue] = q;
	q->gaps = malloc(sizeof(*q->gaps));
	if (q->gaps == NULL)
		return error_set(error, "more memory", "no memory for a transmit queue");
	hdr_reset(q->gaps);
	q->pool = pool_create("tx", port, queue, n, error);
	return q->pool != NULL;
}

static bool queues_create(const struct ethdev *e, struct error *error)
{
	struct port *p = &engine.port[e->port];
	/* A full ring, a burst in hand and a cache per queue: each has its own lcore at most. */
	const uint32_t n =
		(uint32_t)p->n_rxq * (e->rx_desc + 2 * ETHDEV_CACHE + LG_MAX_BURST) + 512;

	p->rx_pool = pool_create("rx", e->port, 0, n, error);
	if (p->rx_pool == NULL)
		return false;
	for (uint16_t i = 0; i < p->n_rxq; i++) {
		p->rxq[i].port = e->port;
		p->rxq[i].queue = i;
		p->rxq[i].expected =
			calloc((size_t)LG_MAX_STREAMS * engine.most_txq, sizeof(uint64_t));
		if (p->rxq[i].expected == NULL)
			return error_set(error, "more memory", "no memory for a receive queue");
	}
	for (uint16_t i = 0; i < p->n_txq; i++) {
		if (!tx_queue_create(e->port, i, e->tx_desc, error))
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

static bool port_start(uint16_t port, struct error *error)
{
	const struct options *o = &engine.options;
	struct port *p = &engine.port[port];
	struct ethdev e = {
		.port = port,
		.rx_queues = o->rx_queues[port],
		.tx_queues = o->tx_queues[port],
		.rx_desc = o->rx_desc,
		.tx_desc = o->tx_desc,
		.hashes = RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP,
		.node = rte_eth_dev_socket_id(port),
	};
	int code;

	if (!ethdev_look(&e, error) || !conf_fill(&e, error))
		return false;
	p->n_rxq = e.rx_queues;
	p->n_txq = e.tx_queues;
	p->rx_desc = e.rx_desc;
	snprintf(p->driver, sizeof(p->driver), "%s", e.info.driver_name);
	rte_eth_dev_get_name_by_port(port, p->name);
	if (!queues_create(&e, error) || !ethdev_configure(&e, p->rx_pool, error))
		return false;
	if (is_given_mtu(&e)) {
		code = rte_eth_dev_set_mtu(port, o->mtu);
		if (code && code != -ENOTSUP) /* such drivers take any size */
			return ethdev_refused(port, "MTU", code, error);
	}
	if (!ethdev_start(&e, &p->afpacket, error))
		return false;
	nic_time(port, &e.conf);
	return true;
}

/* EAL numbers PCI devices before all others: what comes behind those is attached in order. */
static bool attach(struct error *error)
{
	for (unsigned int i = 0; i < engine.options.n_attach; i++) {
		const char *device = engine.options.attach[i];
		const int code = rte_dev_probe(device);

		if (code)
			return error_set(error, "a device that DPDK can use", "--attach=%.60s: %s",
					 device, rte_strerror(-code));
	}
	return true;
}

bool ports_start(struct error *error)
{
	uint16_t port, expected = 0;

	engine.largest_frame = RTE_MIN(engine.options.mtu + 26u, (unsigned int)LG_MAX_FRAME);
	engine.most_txq = 1;
	for (port = 0; port < LG_MAX_PORTS; port++)
		engine.most_txq = RTE_MAX(engine.most_txq, engine.options.tx_queues[port]);
	engine.tag_offset = rte_mbuf_dynfield_register(&tag_field);
	if (engine.tag_offset < 0)
		return error_set(error, "a DPDK with a free mbuf field", "no room for the tag");
	engine.time_offset = -1;
	if (engine.options.nic_time)
		rte_mbuf_dyn_rx_timestamp_register(&engine.time_offset, &engine.time_flag);
	if (!attach(error))
		return false;
	RTE_ETH_FOREACH_DEV(port)
	{
		if (port != expected || port >= LG_MAX_PORTS)
			return error_set(error, "1..16 ports, numbered without gaps", "port %u",
					 port);
		if (!port_start(port, error))
			return false;
		engine.n_ports = ++expected;
	}
	if (engine.n_ports == 0)
		return error_set(error, "ports by --vdev=... or -a ...", "no port");
	return true;
}
