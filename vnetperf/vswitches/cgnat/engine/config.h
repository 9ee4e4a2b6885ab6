/* What the NAT is to do; the same for all of its parts, and never changed while it runs. */
#ifndef CGNAT_CONFIG_H
#define CGNAT_CONFIG_H

#include "common.h"

/* Blocks of one subscriber, at most. */
#define MOST_BLOCKS 16u

struct config {
	uint32_t inside;	/* first subscriber's address, host order */
	uint32_t subscribers;	/* their addresses follow each other */
	uint32_t pool;		/* first public address, host order */
	uint32_t addresses;	/* public addresses */
	uint32_t block;		/* ports of a block */
	bool dynamic;		/* blocks are given out on use; else by computation (RFC 7422) */
	uint32_t most_blocks;	/* of a subscriber, when they are given out on use */
	uint32_t hold_s;	/* a block that came back rests so long (RFC 6888 REQ-8) */
	uint32_t mappings;	/* room */
	uint32_t sessions;	/* room */
	uint32_t session_limit; /* of a subscriber (RFC 6888 REQ-5); 0: none */
	bool filtering;		/* address and port-dependent; else endpoint-independent */
	bool strict_tcp;	/* a connection begins with SYN */
	bool inbound_refresh;	/* packets from outside keep a session of UDP and ICMP too */
	uint32_t udp_s, icmp_s, tcp_s, tcp_transitory_s; /* idle timers */
	uint64_t seed;
};

static inline uint32_t config_blocks_of_address(const struct config *c)
{
	return (PORTS - FIRST_PORT) / c->block;
}

/* Whether blocks, pool and tables fit each other. */
bool config_check(const struct config *c, struct error *error);

#endif
