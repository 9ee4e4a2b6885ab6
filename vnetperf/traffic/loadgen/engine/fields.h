/*
 * Header fields that vary from frame to frame (flows), and the checksums that follow them.
 *
 * A checksum is the sum of the constant octets (computed once) and of each varied value (folded to
 * 16 bits), so the cost per frame does not depend on the header's length.
 */
#ifndef LOADGEN_FIELDS_H
#define LOADGEN_FIELDS_H

#include "common.h"

enum field_mode {
	FIELD_INC,    /* one step per frame */
	FIELD_CARRY,  /* one step each time the field before it wraps around */
	FIELD_RANDOM, /* one of the `count` values, evenly, from a seeded generator */
	FIELD_TABLE,  /* the next of `count` values that are listed, one per frame */
};

/* As given by the user: value = base + step * i, 0 <= i < count, big endian at `offset`. */
struct field_spec {
	uint16_t offset;
	uint8_t width; /* 1..8 octets */
	enum field_mode mode;
	uint64_t base;
	uint64_t step;
	uint64_t count;
	uint64_t seed;	/* FIELD_RANDOM */
	uint8_t *table; /* FIELD_TABLE: count times width octets, big endian; else NULL */
};

/* Where checksums live; offsets from the start of the frame, -1 for "none". */
struct checksum_spec {
	int ip;		/* IPv4 (checksum kept right) or IPv6 header (pseudo header only) */
	int udp;	/* UDP or TCP header whose checksum is kept right; needs ip */
	bool tcp;	/* it is TCP */
	uint16_t outer; /* IPv4 header before ip whose checksum is kept right as well; 0: none */
};

struct field {
	uint64_t value; /* of the next frame */
	uint64_t index;
	uint64_t random;
	struct field_spec spec;
	uint8_t ip_shift; /* 0 or 8: how the value lies in 16-bit words */
	bool in_ip;	  /* counted in the IPv4 header checksum */
	bool in_udp;	  /* counted in the UDP or TCP checksum */
	bool in_outer;	  /* counted in the outer IPv4 header's checksum */
	uint8_t outer_shift;
};

struct fields {
	uint8_t n;
	int ip4; /* offset of the IPv4 header with a checksum, or -1 */
	int udp;
	uint16_t sum_at; /* offset of the UDP or TCP checksum in the frame */
	bool tcp;
	uint16_t outer;	     /* offset of the outer IPv4 header with a checksum, or 0 */
	uint32_t outer_base; /* like ip_base, of that header */
	uint32_t ip_base;    /* sum of the constant words of the IPv4 header */
	uint64_t udp_base;   /* of pseudo header, UDP or TCP header and payload */
	uint64_t next; /* number of the frame that the values are of, where they are expected */
	uint16_t end;  /* where the last field ends */
	struct field field[LG_MAX_FIELDS];
};

bool field_check(const struct field_spec *f, uint16_t header_len, struct error *error);
/* Both checks look at the header template; frame_len is without FCS. */
bool checksum_check(const struct checksum_spec *c, const uint8_t *header, uint16_t header_len,
		    uint16_t frame_len, struct error *error);
bool fields_check_layout(const struct field_spec *f, unsigned int n, const struct checksum_spec *c,
			 const uint8_t *header, struct error *error);

/* frame: the whole prefilled frame with an all-zero trailer.  salt tells apart the random
 * sequences of several workers. */
void fields_init(struct fields *fs, const struct field_spec *spec, unsigned int n,
		 const struct checksum_spec *c, uint8_t *frame, uint16_t frame_len, uint64_t salt);

/* Values that frames are expected to have. */
void fields_expect(struct fields *fs, const struct field_spec *spec, unsigned int n);
/* Whether frame number `seq` has them; it is as long as `end` at least. */
bool fields_match(struct fields *fs, const uint8_t *frame, uint64_t seq);

/* Write the next values and the IPv4 checksums; returns the sum for fields_udp(). */
uint64_t fields_write(struct fields *fs, uint8_t *frame);
/* Write the UDP or TCP checksum; `sum` has everything that is not in udp_base. */
void fields_udp(const struct fields *fs, uint8_t *frame, uint64_t sum);
/* Follow a change of `width` octets (big endian values) at an offset of the frame. */
void fields_udp_replace(const struct fields *fs, uint8_t *frame, unsigned int offset,
			uint64_t before, uint64_t after);

/* Octets of a field in a frame: big endian. */
static inline uint64_t field_value(const uint8_t *p, unsigned int width)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < width; i++)
		value = value << 8 | p[i];
	return value;
}

static inline uint32_t sum_fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint32_t)sum;
}

/* What a big endian value adds to a sum of 16-bit words when its last octet is the low octet of a
 * word (shift 0) or the high one (shift 8). */
static inline uint64_t sum_value(uint64_t value, unsigned int shift)
{
	return (uint64_t)sum_fold(value) << shift;
}

static inline unsigned int sum_shift(unsigned int distance_to_end)
{
	return distance_to_end & 1 ? 8 : 0;
}

uint64_t sum_octets(const uint8_t *data, size_t len);

#endif
