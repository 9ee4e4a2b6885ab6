/* Who has which block of ports, and which ports of it are taken.
 *
 * By computation, subscriber n has block n (RFC 7422 section 2.2, sequential); nothing needs to be
 * logged. Or blocks are given out on use and come back when their last port does: then each of
 * these events is noted, and the events suffice to find out who had a port at some time. */
#ifndef CGNAT_BLOCKS_H
#define CGNAT_BLOCKS_H

#include "config.h"

struct block_event {
	uint32_t second;
	uint32_t in_ip, pub_ip; /* host order */
	uint16_t first, last;
	bool given; /* else it came back */
};

/* Notes an event; called by the thread that owns the blocks. */
typedef void note_fn(void *to, const struct block_event *event);

struct holder {
	uint16_t n;
	uint32_t block[MOST_BLOCKS];
};

/* Blocks of one public address that nobody has, the one that came back first at the front. */
struct queue {
	uint32_t first, n;
};

struct blocks {
	const struct config *config;
	uint32_t per_address, count;
	struct holder *holders;	  /* by subscriber */
	uint32_t *used;		  /* by block: ports of all kinds that are taken */
	uint32_t *since;	  /* by block: second in which it came back, + 1; 0: never had */
	uint32_t *free;		  /* by address: a ring of its blocks */
	struct queue *queues;	  /* by address */
	uint32_t open;		  /* no address before it has a block that nobody has */
	uint64_t *taken[KINDS];	  /* by address: a bit for each port */
	uint32_t in_use;	  /* blocks that somebody has */
	uint64_t given, returned; /* since the start */
	note_fn *note;
	void *note_to;
};

struct public_port {
	uint32_t address; /* number in the pool */
	uint16_t port;	  /* host order */
};

bool blocks_create(struct blocks *b, const struct config *c, const struct memory *memory);
void blocks_release(struct blocks *b, const struct memory *memory);
/* PASS, or why there is none. A port of the inside is kept where it can be (RFC 6888: optional). */
enum verdict blocks_take(struct blocks *b, uint32_t subscriber, enum kind kind, uint16_t wanted,
			 uint32_t second, struct public_port *got);
void blocks_give_back(struct blocks *b, uint32_t subscriber, enum kind kind,
		      struct public_port port, uint32_t second);
/* As at the start: blocks come in their order, and none has to rest. Nobody has one. */
void blocks_begin_anew(struct blocks *b);

#endif
