/* The two ports: started alike, with one queue each way. */
#include "engine.h"

#include <rte_mbuf.h>

#include "ethdev.h"

/* Both ports have the buffers of one pool: what came in at one is sent by the other, and comes back
 * while it is still in a cache. */
static bool pool_create(struct error *error)
{
	const struct options *o = &engine.options;
	const uint32_t in_hand = engine.n_workers * (2 * ETHDEV_CACHE + 2 * BURST);
	const uint32_t n = 2u * (o->rx_desc + o->tx_desc) + (engine.n_workers - 1) * RING_PACKETS +
			   in_hand + MOST_HELD;
	const uint16_t private_room = RTE_ALIGN_CEIL(sizeof(struct packet), RTE_MBUF_PRIV_ALIGN);

	engine.pool = ethdev_pool("cgnat", n, o->room, private_room, SOCKET_ID_ANY, error);
	return engine.pool != NULL;
}

static bool port_start(uint16_t port, struct error *error)
{
	struct ethdev e = {
		.port = port,
		.rx_queues = 1,
		.tx_queues = 1,
		.rx_desc = engine.options.rx_desc,
		.tx_desc = engine.options.tx_desc,
		.node = rte_eth_dev_socket_id(port),
	};

	/* Of every frame that comes, validation drops what is not addressed to it. */
	return ethdev_look(&e, error) && ethdev_configure(&e, engine.pool, error) &&
	       ethdev_start(&e, &engine.afpacket[port], error);
}

bool ports_start(struct error *error)
{
	if (rte_eth_dev_count_avail() != SIDES)
		return error_set(error, "2 ports, by --vdev=... or -a ...: inside, outside",
				 "%u ports", rte_eth_dev_count_avail());
	return pool_create(error) && port_start(INSIDE, error) && port_start(OUTSIDE, error);
}
