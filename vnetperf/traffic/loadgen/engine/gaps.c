#include "gaps.h"

/* The highest value that falls into the bucket, as far as any was recorded. */
static uint64_t highest(const struct hdr *h, uint32_t index)
{
	const uint64_t value = hdr_value(index + 1) - 1;

	return value < h->max ? value : h->max;
}

uint64_t gaps_percentile(const struct hdr *h, uint64_t total_ns, double share)
{
	const double left = (double)total_ns * (1 - share);
	double above = (double)h->over * (double)HDR_HIGHEST;

	if (h->count == 0)
		return 0;
	if (above > left)
		return h->max;
	for (uint32_t i = HDR_COUNTS; i-- > 0;) {
		above += (double)h->counts[i] * (double)hdr_value(i);
		if (above > left)
			return highest(h, i);
	}
	return 0;
}

uint64_t gaps_over(const struct hdr *h, uint64_t hold_ns)
{
	uint64_t sum = h->over * HDR_HIGHEST;

	for (uint32_t i = HDR_COUNTS; i-- > 0 && hdr_value(i) > hold_ns;)
		sum += h->counts[i] * hdr_value(i);
	/* The longest is known exactly, and may share a bucket with the limit. */
	if (sum == 0 && h->count && h->max > hold_ns)
		sum = h->max;
	return sum;
}
