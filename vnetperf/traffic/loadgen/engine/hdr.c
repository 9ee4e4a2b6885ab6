#include "hdr.h"

void hdr_reset(struct hdr *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

void hdr_merge(struct hdr *into, const struct hdr *from)
{
	into->count += from->count;
	into->sum += from->sum;
	into->over += from->over;
	if (from->min < into->min)
		into->min = from->min;
	if (from->max > into->max)
		into->max = from->max;
	for (uint32_t i = 0; i < HDR_COUNTS; i++)
		into->counts[i] += from->counts[i];
}

uint64_t hdr_value(uint32_t index)
{
	uint32_t bucket = index / HDR_HALF;
	uint64_t sub = index % HDR_HALF;

	/* The first bucket is twice as wide as the others: it has no lower half to share. */
	if (bucket == 0)
		return sub;
	return (sub + HDR_HALF) << (bucket - 1);
}
