/* Fragments (RFC 4787 REQ-14): whose they are the first one tells, which alone has ports.
 *
 * Later ones that come before it wait. One thread, that of stage "val", owns all of this. Room and
 * time are bounded: what finds no room, and what waits for too long, is dropped and counted. */
#ifndef CGNAT_FRAGMENTS_H
#define CGNAT_FRAGMENTS_H

#include "packet.h"
#include "table.h"

/* Datagrams of which some fragments have come, and fragments that wait for a first one. */
#define PARTIALS  1024u
#define MOST_HELD 256u
/* A datagram whose fragments have not all come is forgotten after so long, seconds. Identifiers
 * come again soon: its entry would then be another one's. */
#define PARTIAL_S 2u

struct partial {
	be32 src, dst;
	be16 id;
	uint8_t protocol, from;
	bool live;
	bool known; /* the first fragment has come: */
	uint8_t kind, flags;
	be16 src_port, dst_port;
	uint32_t since;
	uint32_t octets; /* that came */
	uint32_t total;	 /* 0: the last one has not come */
	struct packet *held;
};

struct packets {
	struct packet *first, *last;
};

struct fragments {
	struct table by_datagram;
	struct partial *partials;
	uint32_t *spare;
	uint32_t n_spare;
	uint32_t cursor; /* of the sweep */
	uint32_t second;
	uint32_t held;	      /* packets that wait */
	struct packets ready; /* whose first one has come since; to be taken */
	struct packets late;  /* whose did not come; to be dropped */
};

bool fragments_create(struct fragments *f, uint64_t seed, const struct memory *memory);
void fragments_release(struct fragments *f, const struct memory *memory);
/* For packets with the verdict FRAGMENT_PART: PASS, with the ports of the first one; HELD: it is
 * kept here; or a cause. */
void fragments_run(struct fragments *f, struct packet *const packets[], uint32_t n);
/* Looks at the next `count` datagrams. */
void fragments_sweep(struct fragments *f, uint32_t count);
/* The next one of a queue, with a verdict: until then it is HELD, in the burst that it came with,
 * too. NULL when the queue is empty. */
struct packet *fragments_take(struct packets *of, enum verdict verdict);

static inline uint32_t fragments_partials(const struct fragments *f)
{
	return PARTIALS - f->n_spare;
}

#endif
