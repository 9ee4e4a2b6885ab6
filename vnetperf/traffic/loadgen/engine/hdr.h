/*
 * HdrHistogram (lowest 1 ns, highest 10 s, 3 significant digits) with the bucket layout of the
 * reference implementations, so that any HdrHistogram library reads what is exported.
 *
 * Values are nanoseconds.  One multiplication per frame turns cycles into nanoseconds; storing
 * cycles would save that but export would have to split buckets, so figures could not be exact.
 */
#ifndef LOADGEN_HDR_H
#define LOADGEN_HDR_H

#include "common.h"

#define HDR_HALF    1024u /* half the sub-buckets: 3 significant digits need 2048 */
#define HDR_BUCKETS 24u	  /* 2048 << 23 is the first power above 10 s */
#define HDR_COUNTS  ((HDR_BUCKETS + 1u) * HDR_HALF)
#define HDR_HIGHEST 10000000000ULL

struct hdr {
	uint64_t count;
	uint64_t sum;  /* ns */
	uint64_t min;  /* ns; UINT64_MAX while empty */
	uint64_t max;  /* ns */
	uint64_t over; /* values above HDR_HIGHEST: in count, sum and max, in no bucket */
	uint64_t counts[HDR_COUNTS];
};

void hdr_reset(struct hdr *h);
void hdr_merge(struct hdr *into, const struct hdr *from);
/* Lowest value that falls into the bucket. */
uint64_t hdr_value(uint32_t index);

static inline uint32_t hdr_index(uint64_t value)
{
	const uint32_t bucket = 53u - (uint32_t)__builtin_clzll(value | (2 * HDR_HALF - 1));

	return bucket * HDR_HALF + (uint32_t)(value >> bucket);
}

/* The same value n times. */
static inline void hdr_record_many(struct hdr *h, uint64_t ns, uint64_t n)
{
	h->count += n;
	h->sum += ns * n;
	if (UNLIKELY(ns < h->min))
		h->min = ns;
	if (UNLIKELY(ns > h->max))
		h->max = ns;
	if (UNLIKELY(ns > HDR_HIGHEST))
		h->over += n;
	else
		h->counts[hdr_index(ns)] += n;
}

#endif
