/* The two ports: started alike, with as many queues each way. */
#include "engine.h"

#include "ethdev.h"

/* What a driver counts into a frame beside its MTU. */
static uint32_t frame_overhead(const struct rte_eth_dev_info *info)
{
	if (info->max_mtu != UINT16_MAX && info->max_rx_pktlen > info->max_mtu)
		return info->max_rx_pktlen - info->max_mtu;
	return RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
}

static bool port_start(uint16_t port, struct error *error)
{
	const struct options *o = &engine.options;
	struct ethdev e = {
		.port = port,
		.rx_queues = (uint16_t)o->queues,
		.tx_queues = (uint16_t)o->queues,
		.rx_desc = (uint16_t)o->rx_desc,
		.tx_desc = (uint16_t)o->tx_desc,
		.hashes = RTE_ETH_RSS_IP,
		.node = (int)o->node,
	};
	struct rte_ether_addr mac;
	int code;

	if (!ethdev_look(&e, error))
		return false;
	if (o->max_frame)
		e.conf.rxmode.mtu = o->max_frame - frame_overhead(&e.info);
	if (!ethdev_configure(&e, engine.pool, error) ||
	    !ethdev_start(&e, &engine.afpacket[port], error))
		return false;
	code = rte_eth_macaddr_get(port, &mac);
	if (code)
		return ethdev_refused(port, "address", code, error);
	memcpy(engine.mac[port], mac.addr_bytes, MAC_OCTETS);
	return true;
}

bool ports_start(struct error *error)
{
	const struct options *o = &engine.options;

	if (rte_eth_dev_count_avail() != PORTS)
		return error_set(error, "2 ports, by --vdev=... or -a ...", "%u ports",
				 rte_eth_dev_count_avail());
	/* Both ports have the buffers of one pool: what came in at one is sent by the other, and
	 * comes back while it is still in a cache. */
	engine.pool = ethdev_pool("vloop", o->buffers, o->room, 0, (int)o->node, error);
	return engine.pool && port_start(0, error) && port_start(1, error);
}
