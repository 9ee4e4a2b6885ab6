/*
 * How a trial goes on over time: frames by bins, the longest gap between arrivals, differences of
 * delays, and from when on latency counts.  All of it only when asked for: a stream without a
 * timeline costs one branch for each run of frames.
 *
 * A frame is in the bin of its stamp on both sides, so that what is missing to the frames sent in a
 * bin was lost, however long the others took.
 */
#ifndef LOADGEN_TIMELINE_H
#define LOADGEN_TIMELINE_H

#include "common.h"
#include "hdr.h"

#define TIMELINE_MAX_BINS 1000000u
#define TIMELINE_COLUMNS  5u /* sent, refused, received, arrived, ns of the last hole */

/* The longest time without an arrival, of one direction; shared by the workers that receive it. */
struct timeline_gap {
	uint64_t last;	    /* TSC of the latest arrival; 0: none */
	uint64_t gap, from; /* cycles, TSC */
	bool busy;	    /* somebody writes the longest */
};

struct timeline {
	bool on;
	bool ipdv;
	uint32_t n_bins;  /* 0: none */
	uint64_t width;	  /* cycles */
	uint64_t start;	  /* TSC of the trial's start */
	uint64_t tag;	  /* cycles after it; frames sent before are in no latency */
	uint64_t event;	  /* cycles after it; gaps that end before do not count */
	uint64_t ns_mult; /* ns = cycles * ns_mult >> 32 */
	struct timeline_gap gap[LG_MAX_PORTS]; /* by sending port */
};

extern struct timeline timeline;

/* What a transmit queue has sent of one stream. */
struct timeline_tx {
	struct timeline_tx *next;
	uint16_t stream;
	uint32_t *sent, *refused; /* by bin */
};

/* Where a worker is in the numbers of one transmit queue. */
struct timeline_place {
	uint64_t next; /* one above the highest number seen */
	uint64_t sent; /* its TSC */
	int64_t delay; /* its, cycles */
	bool timed;    /* it has one */
};

/* What a worker has received of one stream. */
struct timeline_rx {
	uint32_t *received; /* by bin of sending */
	uint32_t *arrived;  /* by bin of arrival */
	uint64_t *hole; /* by bin of sending: TSC of the last frame missing before one that came */
	struct timeline_gap *gap;
	struct hdr *rising, *falling; /* of delays, ns; NULL: not asked for */
	uint64_t shared; /* successive frames with one stamp of departure: no difference to tell */
	uint16_t n_places;
	struct timeline_place place[];
};

/* Without memory: NULL. */
struct timeline_tx *timeline_tx_create(const struct timeline *t, uint16_t stream);
void timeline_tx_release(struct timeline_tx *x);
struct timeline_rx *timeline_rx_create(const struct timeline *t, uint16_t tx_port, uint16_t places);
void timeline_rx_release(struct timeline_rx *r);

/*
 * Frames seq..seq+n-1 of a place were stamped `sent` and came at `at`.  Returns whether they are in
 * the latency.
 */
__attribute__((noinline, cold)) bool timeline_received(const struct timeline *t,
						       struct timeline_rx *r, uint16_t place,
						       uint64_t seq, uint64_t n, uint64_t sent,
						       uint64_t at);

static inline uint32_t timeline_bin(const struct timeline *t, uint64_t tsc)
{
	const int64_t since = (int64_t)(tsc - t->start);
	uint64_t bin;

	if (since < 0)
		return 0;
	bin = (uint64_t)since / t->width;
	return bin < t->n_bins ? (uint32_t)bin : t->n_bins - 1;
}

#endif
