/* Checksums of the Internet: incremental updates as of RFC 1624. */
#ifndef CGNAT_CHECKSUM_H
#define CGNAT_CHECKSUM_H

#include "types.h"

static inline uint16_t sum_fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)(sum + (sum >> 16));
}

/* What a sum grows by when a word becomes another; four octets of an address are two words. */
static inline uint32_t change16(be16 was, be16 is)
{
	return (uint32_t)(uint16_t)~was + is;
}

static inline uint32_t change32(be32 was, be32 is)
{
	return change16((be16)was, (be16)is) + change16((be16)(was >> 16), (be16)(is >> 16));
}

static inline be16 sum_changed(be16 checksum, uint32_t by)
{
	return (be16)~sum_fold((uint32_t)(uint16_t)~checksum + by);
}

/* Sum over octets; 0xffff over a header with a right checksum. */
static inline uint16_t sum_of(const uint8_t *octets, size_t n)
{
	uint64_t sum = 0;
	uint16_t word;

	for (; n > 1; n -= 2, octets += 2) {
		__builtin_memcpy(&word, octets, 2);
		sum += word;
	}
	if (n)
		sum += *octets;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

#endif
