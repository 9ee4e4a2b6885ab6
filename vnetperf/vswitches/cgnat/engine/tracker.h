/* Stage "ct": sessions, each a mapping and one endpoint outside; filtering, states of TCP, timers.
 *
 * One thread owns all of this. */
#ifndef CGNAT_TRACKER_H
#define CGNAT_TRACKER_H

#include "mapper.h"

struct session {
	uint32_t mapping;
	be32 ip;
	be16 port;
	uint16_t state;
	uint32_t last; /* second in which it was used */
	uint32_t subscriber;
	uint8_t kind;
	bool live;
	uint8_t unused[10];
};

struct tracker {
	const struct config *config;
	struct published *published;
	struct table by_ends;
	struct session *sessions;
	uint32_t *of_subscriber; /* sessions that each has */
	uint32_t *spare;
	uint32_t n_spare;
	uint32_t cursor;
	uint32_t second;
	uint64_t made, ended;
};

bool tracker_create(struct tracker *t, const struct config *c, struct published *published,
		    const struct memory *memory);
void tracker_release(struct tracker *t, const struct memory *memory);
/* For packets with their mappings: finds or makes their sessions, or sets a verdict. */
void tracker_run(struct tracker *t, struct packet *const packets[], uint32_t n);
/* Looks at the next `count` sessions and ends those that were idle for too long. */
void tracker_sweep(struct tracker *t, uint32_t count);
void tracker_end_all(struct tracker *t);

static inline uint32_t tracker_count(const struct tracker *t)
{
	return t->config->sessions - t->n_spare;
}

/* So many packets more are finished: their mappings are none of this stage's business any longer.
 */
static inline void tracker_done(struct tracker *t, uint32_t n)
{
	const uint64_t done = atomic_load_explicit(&t->published->done, memory_order_relaxed) + n;

	atomic_store_explicit(&t->published->done, done, memory_order_release);
}

#endif
