#include "check.h"
#include "hdr.h"

void print_hdr_layout(void)
{
	for (uint64_t v = 0; v <= HDR_HIGHEST; v = v < 5000 ? v + 1 : v + v / 37)
		printf("%" PRIu64 " %u %" PRIu64 "\n", v, hdr_index(v), hdr_value(hdr_index(v)));
	printf("%" PRIu64 " %u %" PRIu64 "\n", (uint64_t)HDR_HIGHEST, hdr_index(HDR_HIGHEST),
	       hdr_value(hdr_index(HDR_HIGHEST)));
}

static void every_bucket(void)
{
	for (uint32_t i = 0; i < HDR_COUNTS; i++)
		CHECK_EQ(hdr_index(hdr_value(i)), i);
	for (uint64_t v = 1; v < HDR_HIGHEST; v += v / 3 + 1) {
		const uint64_t low = hdr_value(hdr_index(v));

		CHECK(low <= v && v - low <= v / 1000);
	}
	CHECK(hdr_index(HDR_HIGHEST) < HDR_COUNTS);
}

static void sums(void)
{
	struct hdr *h = malloc(sizeof(*h)), *other = malloc(sizeof(*other));

	hdr_reset(h);
	hdr_reset(other);
	CHECK_EQ(h->min, UINT64_MAX);
	hdr_record_many(h, 1000, 3);
	hdr_record_many(h, 7, 1);
	hdr_record_many(other, HDR_HIGHEST + 1, 2);
	hdr_record_many(other, HDR_HIGHEST, 1);
	hdr_merge(h, other);
	CHECK_EQ(h->count, 7);
	CHECK_EQ(h->over, 2);
	CHECK_EQ(h->sum, 3007 + 3 * HDR_HIGHEST + 2);
	CHECK_EQ(h->min, 7);
	CHECK_EQ(h->max, HDR_HIGHEST + 1);
	CHECK_EQ(h->counts[1000], 3);
	CHECK_EQ(h->counts[hdr_index(HDR_HIGHEST)], 1);
	free(h);
	free(other);
}

void test_hdr(void)
{
	every_bucket();
	sums();
}
