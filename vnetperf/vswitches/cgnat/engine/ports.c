/* The two ports: started alike, with one queue each way. */
#include "engine.h"

#include <rte_mbuf.h>

#define CACHE 256u

/* Both ports have the buffers of one pool: what came in at one is sent by the other, and comes back
 * while it is still in a cache. */
static bool pool_create(struct problem *why)
{
	const struct options *o = &engine.options;
	const uint32_t in_hand = engine.n_workers * (2 * CACHE + 2 * BURST);
	const uint32_t n = 2u * (o->rx_desc + o->tx_desc) + (engine.n_workers - 1) * RING_PACKETS +
			   in_hand + MOST_HELD;
	const uint16_t room = (uint16_t)RTE_MAX(RTE_ALIGN_CEIL(o->room, 64) + RTE_PKTMBUF_HEADROOM,
						RTE_MBUF_DEFAULT_BUF_SIZE);
	const uint16_t private_room = RTE_ALIGN_CEIL(sizeof(struct packet), RTE_MBUF_PRIV_ALIGN);

	engine.pool = rte_pktmbuf_pool_create("cgnat", n, CACHE, private_room, room,
					      (int)rte_socket_id());
	if (engine.pool == NULL)
		return problem_set(why, "more memory (-m, hugepages), or smaller rings",
				   "no memory for %u buffers of %u octets", n, room);
	return true;
}

static bool port_start(uint16_t port, struct problem *why)
{
	const unsigned int socket = (unsigned int)rte_eth_dev_socket_id(port);
	uint16_t rx_desc = engine.options.rx_desc, tx_desc = engine.options.tx_desc;
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	int error;

	error = rte_eth_dev_info_get(port, &info);
	if (error)
		return program_port_failed(why, port, "device info", error);
	memset(&conf, 0, sizeof(conf));
	/* All buffers are of one pool, and nobody else has them: sent ones go back in bulk. */
	conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	error = rte_eth_dev_configure(port, 1, 1, &conf);
	if (error)
		return program_port_failed(why, port, "configure", error);
	error = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx_desc, &tx_desc);
	if (error)
		return program_port_failed(why, port, "descriptors", error);
	error = rte_eth_rx_queue_setup(port, 0, rx_desc, socket, NULL, engine.pool);
	if (error)
		return program_port_failed(why, port, "receive queue", error);
	error = rte_eth_tx_queue_setup(port, 0, tx_desc, socket, NULL);
	if (error)
		return program_port_failed(why, port, "transmit queue", error);
	error = rte_eth_dev_start(port);
	if (error)
		return program_port_failed(why, port, "start", error);
	afpacket_find(&engine.afpacket[port], info.driver_name, info.if_index);
	/* Validation drops what is not addressed to it. Drivers without this take every frame. */
	rte_eth_promiscuous_enable(port);
	return true;
}

bool ports_start(struct problem *why)
{
	if (rte_eth_dev_count_avail() != SIDES)
		return problem_set(why, "2 ports, by --vdev=... or -a ...: inside, outside",
				   "%u ports", rte_eth_dev_count_avail());
	return pool_create(why) && port_start(INSIDE, why) && port_start(OUTSIDE, why);
}

void ports_stop(void)
{
	for (uint32_t side = 0; side < SIDES; side++) {
		const uint16_t port = (uint16_t)side;

		if (!rte_eth_dev_is_valid_port(port))
			continue;
		rte_eth_dev_stop(port);
		program_finish_interrupts();
		rte_eth_dev_close(port);
	}
}
