/*
 * The first frames of a trial, kept in memory while it runs and written to a file afterwards.
 * Several workers may keep frames at once; each slot is one frame's.
 */
#ifndef LOADGEN_CAPTURE_H
#define LOADGEN_CAPTURE_H

#include <stdatomic.h>

#include "common.h"

#define CAPTURE_MAX_FRAMES 10000u
#define CAPTURE_MEMORY	   (32u << 20) /* octets of all slots together */
#define CAPTURE_LEAST	   128u	       /* octets of a frame that are kept, at least */

enum capture_what {
	CAPTURE_FIRST,	 /* the first frames of each port, each way */
	CAPTURE_STREAMS, /* the first frames of each stream, sent and received */
	CAPTURE_GAPS,	 /* received frames before which some of their stream are missing */
	CAPTURE_FOREIGN, /* received frames that are not of this trial */
};

enum capture_kind {
	CAPTURE_UNUSED, /* reserved, and the driver did not take the frame */
	CAPTURE_SENT,
	CAPTURE_RECEIVED,
	CAPTURE_STRAY, /* received, and not of this trial */
};

struct capture_slot {
	uint64_t tsc;
	uint32_t len;  /* octets without FCS */
	uint32_t kept; /* of them, in the slot */
	uint16_t port;
	uint16_t stream; /* LG_MAX_STREAMS: of none */
	uint32_t kind;
	uint8_t octets[];
};

struct capture {
	bool on;
	enum capture_what what;
	uint32_t frames; /* of each group */
	uint32_t groups;
	uint32_t room; /* octets of a frame in a slot */
	size_t stride;
	uint8_t *slots;
	_Atomic uint32_t *taken; /* by group; may go beyond `frames` */
};

struct capture_request {
	uint32_t frames; /* 0: none */
	enum capture_what what;
};

/* Room for `frames` frames of up to `longest` octets in each of `groups` groups; what is too many
 * is refused, and what was kept before stays. */
bool capture_arm(struct capture *c, const struct capture_request *request, uint32_t groups,
		 uint32_t longest, struct error *error);
void capture_release(struct capture *c);
/* A slot of a group; NULL: the group has its frames. */
struct capture_slot *capture_take(struct capture *c, uint32_t group);
/* Whether a group has all its frames. */
static inline bool capture_full(const struct capture *c, uint32_t group)
{
	return atomic_load_explicit(&c->taken[group], memory_order_relaxed) >= c->frames;
}

/* Slot number i of a group, NULL from the last one used on. */
const struct capture_slot *capture_slot_at(const struct capture *c, uint32_t group, uint32_t i);

/* Frames of a stream that is out of step: some are missing before this one.  *next is the number
 * expected; 0xffffffff steps are a frame from the past, not a gap. */
static inline bool capture_gap(uint32_t *next, uint32_t seq)
{
	const uint32_t ahead = seq - *next;
	const bool gap = ahead != 0 && ahead < 0x80000000u;

	if (ahead < 0x80000000u)
		*next = seq + 1;
	return gap;
}

#endif
