/* Checksums of the Internet: incremental updates as of RFC 1624. */
#ifndef ENGINE_CHECKSUM_H
#define ENGINE_CHECKSUM_H

#include <stddef.h>

#include "byteorder.h"

static inline uint16_t sum_fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)(sum + (sum >> 16));
}

/* How much a sum grows when a word changes; four octets of an address are two words. */
static inline uint32_t change16(be16 old, be16 new)
{
	return (uint32_t)(uint16_t)~old + new;
}

static inline uint32_t change32(be32 old, be32 new)
{
	return change16((be16)old, (be16) new) + change16((be16)(old >> 16), (be16)(new >> 16));
}

/* The checksum of a header whose sum grows by `change`. */
static inline be16 update_checksum(be16 checksum, uint32_t change)
{
	return (be16)~sum_fold((uint32_t)(uint16_t)~checksum + change);
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
