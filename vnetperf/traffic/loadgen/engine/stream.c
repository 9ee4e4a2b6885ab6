#include "stream.h"

#include <stdio.h>
#include <stdlib.h>

#include "params.h"

#define STREAM_KEYS "id tx_port rx_port queue size rx_size header l3 udp tcp outer away"
#define FIELD_KEYS  "stream offset width base step count mode seed file"
#define LOAD_KEYS   "stream rate count"
#define BIND_KEYS   "stream address port count"
/* Beyond this neither a sequence number's generation nor a sum of delays is exact. */
#define MAX_COUNT (1ULL << 48)

static bool need_all(struct params *ps, const char *const keys[], struct error *error)
{
	for (unsigned int i = 0; keys[i]; i++) {
		if (!params_need(ps, keys[i], error))
			return false;
	}
	return true;
}

static bool small(struct params *ps, const char *key, uint64_t min, uint64_t max, uint16_t *out,
		  struct error *error)
{
	uint64_t value = *out;

	if (!params_u64(ps, key, min, max, &value, error))
		return false;
	*out = (uint16_t)value;
	return true;
}

static bool offset(struct params *ps, const char *key, int *out, struct error *error)
{
	uint64_t value = 0;

	*out = -1;
	if (!params_u64(ps, key, 0, LG_MAX_HEADER - 1, &value, error))
		return false;
	if (params_has(ps, key))
		*out = (int)value;
	return true;
}

static bool checksums(struct stream_spec *s, struct params *ps, struct error *error)
{
	struct checksum_spec *c = &s->checksum;
	int tcp, outer;

	if (!offset(ps, "l3", &c->ip, error) || !offset(ps, "udp", &c->udp, error) ||
	    !offset(ps, "tcp", &tcp, error) || !offset(ps, "outer", &outer, error))
		return false;
	if (tcp >= 0 && c->udp >= 0)
		return error_set(error, "udp or tcp", "udp %d and tcp %d", c->udp, tcp);
	c->tcp = tcp >= 0;
	c->udp = c->tcp ? tcp : c->udp;
	c->outer = outer > 0 ? (uint16_t)outer : 0;
	return true;
}

bool stream_parse(struct stream_spec *s, struct params *ps, unsigned int n_ports,
		  unsigned int largest, struct error *error)
{
	static const char *const needed[] = {"id", "tx_port", "rx_port", "size", "header", NULL};
	uint16_t queue = 0, away = 0;
	size_t len = 0;

	memset(s, 0, sizeof(*s));
	if (!need_all(ps, needed, error) ||
	    !small(ps, "id", 0, LG_MAX_STREAMS - 1, &s->id, error) ||
	    !small(ps, "tx_port", 0, n_ports - 1, &s->tx_port, error) ||
	    !small(ps, "rx_port", 0, n_ports - 1, &s->rx_port, error) ||
	    !small(ps, "queue", 0, LG_MAX_QUEUES - 1, &queue, error) ||
	    !small(ps, "size", LG_MIN_FRAME, largest, &s->frame_size, error) ||
	    !small(ps, "rx_size", LG_MIN_FRAME, LG_MAX_FRAME, &s->rx_size, error) ||
	    !small(ps, "away", 0, 1, &away, error) ||
	    !params_hex(ps, "header", s->header, sizeof(s->header), &len, error) ||
	    !checksums(s, ps, error) || !params_done(ps, STREAM_KEYS, error))
		return false;
	if (len < 14 || len + TRAILER_LEN + LG_FCS_LEN > s->frame_size)
		return error_set(error, "14 octets up to frame size - 22 (trailer 18, FCS 4)",
				 "header of %zu octets in a frame of %u", len, s->frame_size);
	s->header_len = (uint16_t)len;
	s->away = away == 1;
	s->queue = params_has(ps, "queue") ? queue : -1;
	return checksum_check(&s->checksum, s->header, s->header_len,
			      (uint16_t)(s->frame_size - LG_FCS_LEN), error);
}

/* A field as the user describes it. */
static bool field_parse(struct field_spec *f, struct params *ps, uint8_t *table, size_t octets,
			struct error *error)
{
	static const char *const needed[] = {"offset", "width", "count", NULL};
	static const char *const modes[] = {"inc", "carry", "random", "table", NULL};
	unsigned int mode = FIELD_INC;
	uint16_t width = 0;

	f->step = 1;
	params_text(ps, "stream");
	params_text(ps, "file");
	if (!need_all(ps, needed, error) ||
	    !small(ps, "offset", 0, LG_MAX_HEADER - 1, &f->offset, error) ||
	    !small(ps, "width", 1, 8, &width, error) ||
	    !params_u64(ps, "base", 0, UINT64_MAX, &f->base, error) ||
	    !params_u64(ps, "step", 0, UINT64_MAX, &f->step, error) ||
	    !params_u64(ps, "count", 1, UINT64_MAX, &f->count, error) ||
	    !params_word(ps, "mode", modes, &mode, error) ||
	    !params_u64(ps, "seed", 0, UINT64_MAX, &f->seed, error) ||
	    !params_done(ps, FIELD_KEYS, error))
		return false;
	f->width = (uint8_t)width;
	f->mode = (enum field_mode)mode;
	if ((f->mode == FIELD_TABLE) != (table != NULL))
		return error_set(error, "file with mode table, and with no other",
				 "mode %s %s a file", modes[mode], table ? "with" : "without");
	if (table && (f->count > octets || octets != f->count * f->width))
		return error_set(error, "a file of count times width octets",
				 "%zu octets for %llu values of %u", octets,
				 (unsigned long long)f->count, f->width);
	f->table = table;
	return true;
}

static bool has_carrier(const struct field_spec *f, unsigned int n, struct error *error)
{
	if (f->mode == FIELD_CARRY && (n == 0 || f[-1].mode == FIELD_RANDOM))
		return error_set(error, "carry behind a field of mode inc, carry or table",
				 "field at offset %u has nothing to carry from", f->offset);
	return true;
}

bool stream_add_field(struct stream_spec *s, struct params *ps, uint8_t *table, size_t octets,
		      struct error *error)
{
	struct field_spec *f = &s->field[s->n_fields];

	if (s->n_fields == LG_MAX_FIELDS)
		return error_set(error, "at most 8 fields", "stream %u has 8 fields", s->id);
	memset(f, 0, sizeof(*f));
	f->seed = (uint64_t)s->id * LG_MAX_FIELDS + s->n_fields;
	if (!field_parse(f, ps, table, octets, error) || !has_carrier(f, s->n_fields, error) ||
	    !field_check(f, s->header_len, error) ||
	    !fields_check_layout(s->field, s->n_fields + 1u, &s->checksum, s->header, error))
		return false;
	s->n_fields++;
	return true;
}

bool stream_add_expected(struct stream_spec *s, struct params *ps, uint8_t *table, size_t octets,
			 struct error *error)
{
	struct field_spec *f = &s->expected[s->n_expected];

	if (s->n_expected == LG_MAX_FIELDS)
		return error_set(error, "at most 8 fields", "stream %u expects 8", s->id);
	memset(f, 0, sizeof(*f));
	if (!field_parse(f, ps, table, octets, error) || !has_carrier(f, s->n_expected, error) ||
	    !field_check(f, LG_MAX_HEADER, error))
		return false;
	if (f->mode == FIELD_RANDOM)
		return error_set(error, "inc, carry, table", "a value at random is not expected");
	s->n_expected++;
	return true;
}

bool stream_learn_bindings(struct stream_spec *s, struct params *ps, unsigned int queues,
			   struct error *error)
{
	static const char *const needed[] = {"address", "port", "count", NULL};
	uint16_t address = 0, port = 0;
	uint64_t count = 0;

	params_text(ps, "stream");
	if (!need_all(ps, needed, error) ||
	    !small(ps, "address", 0, LG_MAX_HEADER - 4, &address, error) ||
	    !small(ps, "port", 0, LG_MAX_HEADER - 2, &port, error) ||
	    !params_u64(ps, "count", 1, BINDINGS_MAX, &count, error) ||
	    !params_done(ps, BIND_KEYS, error))
		return false;
	/* Each queue numbers its own frames. */
	if (s->queue < 0 && queues > 1)
		return error_set(error, "a stream of one queue", "stream %u is sent by %u queues",
				 s->id, queues);
	free(s->bindings);
	s->bindings = bindings_create(address, port, count);
	return s->bindings != NULL ||
	       error_set(error, "fewer flows, or more memory", "no memory for %llu bindings",
			 (unsigned long long)count);
}

void stream_release(struct stream_spec *s)
{
	if (s == NULL)
		return;
	for (unsigned int i = 0; i < LG_MAX_FIELDS; i++) {
		free(i < s->n_fields ? s->field[i].table : NULL);
		free(i < s->n_expected ? s->expected[i].table : NULL);
	}
	free(s->bindings);
	free(s);
}

bool stream_set_load(struct stream_spec *s, struct params *ps, struct error *error)
{
	struct load load = {0};
	const char *rate;

	params_text(ps, "stream");
	if (!params_need(ps, "rate", error))
		return false;
	rate = params_text(ps, "rate");
	load.max = strcmp(rate, "max") == 0;
	if (!load.max && !params_real(ps, "rate", 0, 1e9, &load.rate, error)) {
		snprintf(error->accepted, sizeof(error->accepted),
			 "0, 0.001..1e9 frames/s, or max (with count)");
		return false;
	}
	load.counted = params_has(ps, "count");
	if (!params_u64(ps, "count", 0, MAX_COUNT, &load.count, error) ||
	    !params_done(ps, LOAD_KEYS, error))
		return false;
	if (load.max && !load.counted)
		return error_set(error, "count=N with rate=max", "rate=max without count");
	if (!load.max && load.rate < 0.001 && (load.rate != 0 || load.count))
		return error_set(error, "0.001..1e9 frames/s, max, or 0 without a count",
				 "rate=%.60s", rate);
	s->load = load;
	return true;
}

void trailer_prefill(uint8_t *trailer, uint8_t epoch, uint8_t stream, uint8_t queue)
{
	memset(trailer, 0, TRAILER_LEN);
	store_le32(trailer, TRAILER_MAGIC | (uint32_t)epoch << 24);
	trailer[TRAILER_STREAM] = stream;
	trailer[TRAILER_STREAM + 1] = queue;
}

void stream_frame(const struct stream_spec *s, uint8_t *frame)
{
	memset(frame, 0, (size_t)s->frame_size - LG_FCS_LEN);
	memcpy(frame, s->header, s->header_len);
}
