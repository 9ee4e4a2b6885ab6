/* A stream as the user describes it, and the frame that it makes. */
#ifndef LOADGEN_STREAM_H
#define LOADGEN_STREAM_H

#include "bindings.h"
#include "common.h"
#include "fields.h"

/*
 * The trailer: the last 18 octets of every frame, little endian.
 *   0..2  "VNP"      3  epoch (0: a learning frame)
 *   4     stream id  5  transmit queue, which counts its own sequence numbers
 *   6..9  sequence   10..17  TSC just before the frame was handed to the driver
 */
#define TRAILER_LEN    18
#define TRAILER_STREAM 4
#define TRAILER_SEQ    6
#define TRAILER_TSC    10
#define TRAILER_MAGIC  0x504e56u

struct load {
	double rate;  /* frames/s over all queues; 0: the stream rests */
	bool max;     /* all `count` frames as fast as they go */
	bool counted; /* `count` was given; else it is round(rate * duration) */
	uint64_t count;
};

struct stream_spec {
	uint16_t id;
	uint16_t tx_port, rx_port;
	int queue;	     /* transmit queue; -1: shared out over all of the port's */
	uint16_t frame_size; /* with FCS */
	uint16_t rx_size;    /* with FCS, as it must come back; 0: any */
	uint16_t header_len;
	uint16_t n_fields;
	uint16_t n_expected;
	bool away; /* another engine sends it: it is only received here */
	struct checksum_spec checksum;
	struct load load;
	uint8_t header[LG_MAX_HEADER];
	struct field_spec field[LG_MAX_FIELDS];
	/* Of its frames as they come back, which may have other headers. */
	struct field_spec expected[LG_MAX_FIELDS];
	struct bindings *bindings; /* learnt from its frames; NULL: not asked for */
};

struct params;

/* Parse and check a whole stream.  largest: frame size with FCS that the ports take. */
bool stream_parse(struct stream_spec *s, struct params *ps, unsigned int n_ports,
		  unsigned int largest, struct error *error);
/* Add a field, all of it or nothing.  table: values of mode "table", `octets` of them, which are
 * the stream's from then on; NULL for none. */
bool stream_add_field(struct stream_spec *s, struct params *ps, uint8_t *table, size_t octets,
		      struct error *error);
/* The same of what returning frames must have. */
bool stream_add_expected(struct stream_spec *s, struct params *ps, uint8_t *table, size_t octets,
			 struct error *error);
/* Have bindings learnt; `queues` of its port send. */
bool stream_learn_bindings(struct stream_spec *s, struct params *ps, unsigned int queues,
			   struct error *error);
/* Give back what it owns. */
void stream_release(struct stream_spec *s);
bool stream_set_load(struct stream_spec *s, struct params *ps, struct error *error);
/* Prefill a frame of frame_size - 4 octets: header, zeros, trailer without sequence and TSC. */
void stream_frame(const struct stream_spec *s, uint8_t *frame);
void trailer_prefill(uint8_t *trailer, uint8_t epoch, uint8_t stream, uint8_t queue);

static inline uint32_t load_le32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap32(v);
#endif
	return v;
}

static inline uint64_t load_le64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	return v;
}

static inline void store_le32(void *p, uint32_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap32(v);
#endif
	memcpy(p, &v, sizeof(v));
}

static inline void store_le64(void *p, uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	memcpy(p, &v, sizeof(v));
}

#endif
