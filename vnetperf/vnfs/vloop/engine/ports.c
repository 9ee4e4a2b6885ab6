/* The two ports: started alike, with as many queues each way. */
#include "engine.h"

#include <rte_mbuf.h>

#define CACHE 250u

/* Both ports have the buffers of one pool: what came in at one is sent by the other, and comes back
 * while it is still in a cache. */
static bool pool_create(struct problem *why)
{
	const struct options *o = &engine.options;

	engine.pool =
		rte_pktmbuf_pool_create("vloop", o->buffers, CACHE, 0,
					(uint16_t)(o->room + RTE_PKTMBUF_HEADROOM), (int)o->node);
	if (engine.pool == NULL)
		return problem_set(why, "more memory (-m, hugepages), or smaller rings",
				   "no memory for %u buffers of %u octets", o->buffers, o->room);
	return true;
}

/* What a driver counts into a frame beside its MTU. */
static uint32_t frame_overhead(const struct rte_eth_dev_info *info)
{
	if (info->max_mtu != UINT16_MAX && info->max_rx_pktlen > info->max_mtu)
		return info->max_rx_pktlen - info->max_mtu;
	return RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
}

static struct rte_eth_conf configuration(const struct rte_eth_dev_info *info)
{
	const struct options *o = &engine.options;
	struct rte_eth_conf conf = {0};

	/* All buffers are of one pool, and nobody else has them: sent ones go back in bulk. */
	conf.txmode.offloads = info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	if (o->max_frame)
		conf.rxmode.mtu = o->max_frame - frame_overhead(info);
	if (o->queues > 1)
		conf.rx_adv_conf.rss_conf.rss_hf = RTE_ETH_RSS_IP & info->flow_type_rss_offloads;
	if (conf.rx_adv_conf.rss_conf.rss_hf)
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	return conf;
}

static bool queues_set_up(uint16_t port, struct problem *why)
{
	const struct options *o = &engine.options;
	int error;

	for (uint16_t queue = 0; queue < o->queues; queue++) {
		error = rte_eth_rx_queue_setup(port, queue, (uint16_t)o->rx_desc, o->node, NULL,
					       engine.pool);
		if (error)
			return program_port_failed(why, port, "receive queue", error);
		error = rte_eth_tx_queue_setup(port, queue, (uint16_t)o->tx_desc, o->node, NULL);
		if (error)
			return program_port_failed(why, port, "transmit queue", error);
	}
	return true;
}

static bool port_start(uint16_t port, struct problem *why)
{
	const uint16_t queues = (uint16_t)engine.options.queues;
	struct rte_ether_addr mac;
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	int error;

	error = rte_eth_dev_info_get(port, &info);
	if (error)
		return program_port_failed(why, port, "device info", error);
	conf = configuration(&info);
	error = rte_eth_dev_configure(port, queues, queues, &conf);
	if (error)
		return program_port_failed(why, port, "configure", error);
	if (!queues_set_up(port, why))
		return false;
	error = rte_eth_dev_start(port);
	if (error)
		return program_port_failed(why, port, "start", error);
	error = rte_eth_macaddr_get(port, &mac);
	if (error)
		return program_port_failed(why, port, "address", error);
	memcpy(engine.mac[port], mac.addr_bytes, MAC_OCTETS);
	afpacket_find(&engine.afpacket[port], info.driver_name, info.if_index);
	/* Drivers without this take every frame. */
	rte_eth_promiscuous_enable(port);
	return true;
}

bool ports_start(struct problem *why)
{
	if (rte_eth_dev_count_avail() != PORTS)
		return problem_set(why, "2 ports, by --vdev=... or -a ...", "%u ports",
				   rte_eth_dev_count_avail());
	return pool_create(why) && port_start(0, why) && port_start(1, why);
}

void ports_stop(void)
{
	for (uint16_t port = 0; port < PORTS; port++) {
		if (!rte_eth_dev_is_valid_port(port))
			continue;
		rte_eth_dev_stop(port);
		program_finish_interrupts();
		rte_eth_dev_close(port);
	}
}
