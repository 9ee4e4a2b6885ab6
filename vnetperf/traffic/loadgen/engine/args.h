/* The engine's own command line: what follows "--" after the EAL arguments. */
#ifndef LOADGEN_ARGS_H
#define LOADGEN_ARGS_H

#include "common.h"

/* A queue's worker, when the user maps it: port, queue and worker numbers. */
struct queue_map {
	bool tx;
	uint16_t port, queue, worker;
};

#define ARGS_MAX_MAP (2 * LG_MAX_PORTS * LG_MAX_QUEUES)

struct options {
	uint16_t rx_queues[LG_MAX_PORTS], tx_queues[LG_MAX_PORTS];
	uint16_t rx_desc, tx_desc; /* per queue */
	uint32_t mbufs;		   /* per pool, 0: enough for the rings */
	uint16_t room;		   /* octets of frame in a buffer, 0: enough for the MTU */
	uint16_t mtu;
	bool mtu_given;
	uint16_t rx_burst; /* frames per receive call */
	uint32_t turn_us;  /* of workers that share their processors; 0: they never sleep */
	uint32_t phase_us; /* of turns, see turns.h */
	uint16_t priority; /* of SCHED_FIFO while a trial is paced; 0: none */
	uint16_t share;	   /* percent of a processor that a worker takes then, at most */
	bool nic_time;	   /* arrivals by the NIC's clock, where it has one */
	unsigned int n_map;
	struct queue_map map[ARGS_MAX_MAP];
	unsigned int n_attach;
	const char *attach[LG_MAX_PORTS]; /* devices of the last ports, in their order */
};

/* argv[0] is skipped; what is not there has its default. *help: they were asked for, and printed.
 */
bool args_parse(struct options *o, int argc, char *const argv[], bool *help, struct error *error);

#endif
