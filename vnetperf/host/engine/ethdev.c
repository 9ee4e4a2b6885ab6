#include "ethdev.h"

#include <stdio.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

bool ethdev_refused(uint16_t port, const char *step, int code, struct error *error)
{
	return error_set(error, "see the log above for the driver's reason", "port %u: %s: %s",
			 port, step, rte_strerror(-code));
}

struct rte_mempool *ethdev_pool(const char *name, uint32_t n, uint32_t room, uint16_t private_room,
				int node, struct error *error)
{
	const uint16_t octets = (uint16_t)RTE_MAX(RTE_ALIGN_CEIL(room, 64) + RTE_PKTMBUF_HEADROOM,
						  (uint32_t)RTE_MBUF_DEFAULT_BUF_SIZE);
	/* DPDK refuses caches that could hold most of the pool. */
	const uint32_t cache = n < 2 * ETHDEV_CACHE ? n / 4 : ETHDEV_CACHE;
	struct rte_mempool *pool = rte_pktmbuf_pool_create(name, n, cache, private_room, octets,
							   node < 0 ? (int)rte_socket_id() : node);

	if (pool == NULL)
		error_write(error,
			    "more memory (-m, hugepages), or fewer buffers, queues, descriptors",
			    "no memory for %u buffers of %u octets", n, octets);
	return pool;
}

bool ethdev_look(struct ethdev *e, struct error *error)
{
	int code = rte_eth_dev_info_get(e->port, &e->info);
	char accepted[64];

	if (code)
		return ethdev_refused(e->port, "device info", code, error);
	if (e->rx_queues > e->info.max_rx_queues || e->tx_queues > e->info.max_tx_queues) {
		snprintf(accepted, sizeof(accepted), "at most %u receive and %u transmit queues",
			 e->info.max_rx_queues, e->info.max_tx_queues);
		return error_set(error, accepted, "port %u (%s): %u receive, %u transmit queues",
				 e->port, e->info.driver_name, e->rx_queues, e->tx_queues);
	}
	code = rte_eth_dev_adjust_nb_rx_tx_desc(e->port, &e->rx_desc, &e->tx_desc);
	if (code)
		return ethdev_refused(e->port, "descriptors", code, error);
	memset(&e->conf, 0, sizeof(e->conf));
	e->conf.txmode.offloads = e->info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	if (e->rx_queues > 1)
		e->conf.rx_adv_conf.rss_conf.rss_hf = e->hashes & e->info.flow_type_rss_offloads;
	if (e->conf.rx_adv_conf.rss_conf.rss_hf)
		e->conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	return true;
}

bool ethdev_configure(const struct ethdev *e, struct rte_mempool *pool, struct error *error)
{
	const unsigned int node = (unsigned int)e->node;
	int code = rte_eth_dev_configure(e->port, e->rx_queues, e->tx_queues, &e->conf);

	if (code)
		return ethdev_refused(e->port, "configure", code, error);
	for (uint16_t queue = 0; queue < e->rx_queues; queue++) {
		code = rte_eth_rx_queue_setup(e->port, queue, e->rx_desc, node, NULL, pool);
		if (code)
			return ethdev_refused(e->port, "receive queue", code, error);
	}
	for (uint16_t queue = 0; queue < e->tx_queues; queue++) {
		code = rte_eth_tx_queue_setup(e->port, queue, e->tx_desc, node, NULL);
		if (code)
			return ethdev_refused(e->port, "transmit queue", code, error);
	}
	return true;
}

bool ethdev_start(const struct ethdev *e, struct afpacket *sockets, struct error *error)
{
	const int code = rte_eth_dev_start(e->port);

	if (code)
		return ethdev_refused(e->port, "start", code, error);
	afpacket_find(sockets, e->info.driver_name, e->info.if_index);
	/* Drivers without it (memif, ring) take every frame anyway. */
	rte_eth_promiscuous_enable(e->port);
	return true;
}
