/* Stage "nat": which public address and port an inside one has, and the other way round.
 *
 * A mapping is independent of endpoints (RFC 4787 REQ-1). One thread owns all of this. What it
 * hands on are copies; of sessions it reads two numbers that their owner publishes. */
#ifndef CGNAT_MAPPER_H
#define CGNAT_MAPPER_H

#include <stdatomic.h>

#include "blocks.h"
#include "packet.h"
#include "table.h"

struct mapping {
	be32 in_ip, pub_ip;
	be16 in_port, pub_port;
	uint8_t kind;
	bool live;
	bool leaving; /* without sessions when it was looked at; `sent` then is in `mark` */
	uint8_t unused;
	uint32_t subscriber;
	uint32_t unused2;
	uint64_t mark;
};

/*
 * What the owner of sessions tells the owner of mappings, which may be another thread.
 *
 * A mapping ends when it has no session, and no packet is on its way that could make one. Packets
 * go from stage to stage in order, and both sides count them: a mapping without sessions is marked
 * with the number of packets sent until then, and loses its mark when it is used again. Once so
 * many packets have been done, none of those on their way is of it; if it then still has its mark
 * and no session, nobody knows it, and it can go.
 */
struct published {
	_Atomic uint64_t done;	/* packets that the stage "ct" has taken and finished */
	_Atomic uint32_t *uses; /* sessions by mapping */
};

struct mapper {
	const struct config *config;
	struct published *published;
	struct blocks blocks;
	struct table by_inside;
	struct mapping *mappings;
	uint32_t *outside[KINDS]; /* by public address and port: number of a mapping + 1 */
	uint32_t *spare;	  /* numbers of mappings that there are none of */
	uint32_t n_spare;
	uint32_t cursor; /* of the sweep */
	uint32_t second; /* now */
	uint64_t sent;	 /* packets handed to the stage "ct" */
	uint64_t made, ended;
};

bool mapper_create(struct mapper *m, const struct config *c, struct published *published,
		   const struct memory *memory);
void mapper_release(struct mapper *m, const struct memory *memory);
/* For packets that validation has passed: sets `up` and `down`, or a verdict. */
void mapper_run(struct mapper *m, struct packet *const packets[], uint32_t n);
/* Looks at the next `count` mappings and ends those that nobody uses. */
void mapper_sweep(struct mapper *m, uint32_t count);
/* Ends all that nobody uses. True when none is left: the next ones are those of a new mapper. */
bool mapper_end_all(struct mapper *m);

static inline uint32_t mapper_count(const struct mapper *m)
{
	return m->config->mappings - m->n_spare;
}

#endif
