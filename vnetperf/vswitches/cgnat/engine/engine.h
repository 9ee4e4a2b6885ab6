/* The parts that know DPDK, and what they share: ports, rings between stages, workers. */
#ifndef CGNAT_ENGINE_H
#define CGNAT_ENGINE_H

#include <stdatomic.h>
#include <stdio.h>

#include <rte_ethdev.h>
#include <rte_ring.h>

#include "afpacket.h"
#include "args.h"
#include "commands.h"
#include "counter.h"
#include "fragments.h"
#include "program.h"
#include "thread.h"
#include "tracker.h"
#include "turns.h"

/* Room of a ring between two groups of stages. */
#define RING_PACKETS 1024u

/* What a stage took: a turn without packets is not counted. */
struct stage_work {
	uint64_t packets, cycles;
};

/* Written by its own lcore only, read by telemetry: numbers of 8 octets, each right by itself. */
struct worker {
	struct group group;
	unsigned int lcore;
	struct rte_ring *in; /* from the group before; NULL for the first */
	struct rte_ring *out;
	bool unflushed;			   /* sent since the transmit rings were seen to be empty */
	uint64_t swept;			   /* cycles until which tables were looked through */
	_Atomic uint32_t end_request_done; /* the last of `end_requests` that it carried out */
	struct turns share;		   /* of its processor */
	int refused;			   /* the kernel's reason against its priority; 0: none */
	uint64_t turns, empty;
	uint64_t busy, idle; /* cycles of turns with packets, and of those without */
	struct stage_work work[STAGES];
	uint64_t verdicts[SIDES][N_VERDICTS]; /* by the side they came from; TX_FULL: went to */
	uint64_t rx[SIDES], tx[SIDES];
} __rte_cache_aligned;

struct engine {
	struct options options;
	struct published published;
	struct fragments fragments;
	struct mapper mapper;
	struct tracker tracker;
	struct worker workers[STAGES];
	uint32_t n_workers;
	struct rte_mempool *pool;
	struct afpacket afpacket[SIDES];
	uint64_t hz, start; /* cycles */
	atomic_bool forwarding, quit;
	_Atomic uint32_t end_requests; /* how often telemetry asked to end all sessions */
};

extern struct engine engine;

/* ports.c */
bool ports_start(struct error *error);

/* worker.c */
bool workers_create(struct error *error);
/* Runs a worker, by its own lcore, until the engine ends. */
int worker_main(void *worker);

/* telemetry.c */
extern const struct command telemetry_commands[];

/* blocklog.c: events of blocks, written to a file by the main lcore. */
bool blocklog_open(const char *path, bool ipfix, struct error *error);
void blocklog_note(void *unused, const struct block_event *event);
void blocklog_write(void);
void blocklog_close(void);
uint64_t blocklog_lost(void);

#endif
