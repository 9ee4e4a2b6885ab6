/* A port of DPDK, from its buffers to its start. What its driver refuses is told by `error`. */
#ifndef ENGINE_ETHDEV_H
#define ENGINE_ETHDEV_H

#include <rte_ethdev.h>

#include "afpacket.h"
#include "error.h"

/* Buffers that each lcore keeps of a pool. */
#define ETHDEV_CACHE 256u

struct ethdev {
	uint16_t port;
	uint16_t rx_queues, tx_queues;
	uint16_t rx_desc, tx_desc; /* of each queue; the driver's nearest after ethdev_look() */
	uint64_t hashes;	   /* RTE_ETH_RSS_...: frames of several queues are spread by */
	int node;		   /* of the rings' memory; SOCKET_ID_ANY */
	/* By ethdev_look(). */
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf; /* may be changed before ethdev_configure() */
};

/* Buffers with `room` octets for a frame or more: drivers expect a certain least. */
struct rte_mempool *ethdev_pool(const char *name, uint32_t n, uint32_t room, uint16_t private_room,
				int node, struct error *error);
/* Whether it has so many queues, and what is set of any port. Sent buffers go back in bulk: all of
 * a transmit queue must be of one pool, and nobody else may have them. */
bool ethdev_look(struct ethdev *e, struct error *error);
/* Received frames come in buffers of `pool`. */
bool ethdev_configure(const struct ethdev *e, struct rte_mempool *pool, struct error *error);
/* Takes every frame from now on. Finds the sockets behind it. */
bool ethdev_start(const struct ethdev *e, struct afpacket *sockets, struct error *error);
/* A step that its driver refused, with DPDK's (negative) number; returns false. */
bool ethdev_refused(uint16_t port, const char *step, int code, struct error *error);

#endif
