/* Numbers in network order, for engines and BPF programs: no header of a C library is needed. */
#ifndef ENGINE_BYTEORDER_H
#define ENGINE_BYTEORDER_H

#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "only for processors that store the lower octet first"
#endif

/* In network order, as in the packet. */
typedef uint32_t be32;
typedef uint16_t be16;

static inline uint32_t host32(be32 value)
{
	return __builtin_bswap32(value);
}

static inline uint16_t host16(be16 value)
{
	return __builtin_bswap16(value);
}

/* Both ways alike. */
#define net32 host32
#define net16 host16

#endif
