/* Commands that describe streams. */
#include <errno.h>
#include <rte_eal.h>
#include <stdio.h>
#include <stdlib.h>

#include "control.h"
#include "telemetry.h"

/* Values of a field at most, octets: 16 M of eight each. */
#define MAX_TABLE ((size_t)8 << 24)

static bool stream_named(struct params *ps, struct stream_spec **s, struct error *error)
{
	uint64_t id = 0;

	if (!params_need(ps, "stream", error) ||
	    !params_u64(ps, "stream", 0, LG_MAX_STREAMS - 1, &id, error))
		return false;
	*s = engine.stream[id];
	if (*s == NULL)
		return error_set(error, "the id of a stream that was added", "stream=%u",
				 (unsigned int)id);
	return true;
}

static bool reply(struct rte_tel_data *d, const struct stream_spec *s)
{
	tel_dict_uint(d, "stream", s->id);
	tel_dict_uint(d, "fields", s->n_fields);
	return true;
}

bool command_stream_add(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	struct stream_spec parsed, *kept;

	if (!control_at_rest(error) ||
	    !stream_parse(&parsed, ps, engine.n_ports, engine.largest_frame, error))
		return false;
	if (parsed.queue >= engine.port[parsed.tx_port].n_txq)
		return error_set(error, "a transmit queue of the port", "port %u has %u, not %d",
				 parsed.tx_port, engine.port[parsed.tx_port].n_txq, parsed.queue);
	if (engine.stream[parsed.id])
		return error_set(error, "an unused id, or /loadgen/stream/clear before",
				 "stream %u exists", parsed.id);
	kept = malloc(sizeof(*kept));
	if (kept == NULL)
		return error_set(error, "more memory", "no memory for a stream");
	*kept = parsed;
	engine.stream[parsed.id] = kept;
	return reply(d, kept);
}

/* What a file beside the socket has, or NULL where none is named; false: it cannot be read. */
static bool read_table(struct params *ps, uint8_t **table, size_t *octets, struct error *error)
{
	const char *name = params_text(ps, "file");
	char path[512];
	FILE *file;

	*table = NULL;
	*octets = 0;
	if (name == NULL)
		return true;
	if (strchr(name, '/'))
		return error_set(error, "the name of a file beside the socket", "file=%.60s", name);
	snprintf(path, sizeof(path), "%s/%s", rte_eal_get_runtime_dir(), name);
	file = fopen(path, "rb");
	if (file == NULL)
		return error_set(error, "a file beside the socket", "%.60s: %s", name,
				 strerror(errno));
	*table = malloc(MAX_TABLE);
	*octets = *table ? fread(*table, 1, MAX_TABLE, file) : 0;
	fclose(file);
	if (*octets) {
		uint8_t *fit = realloc(*table, *octets);

		*table = fit ? fit : *table;
		return true;
	}
	free(*table);
	*table = NULL;
	return error_set(error, "a file that is not empty, and memory", "%.60s has no values",
			 name);
}

typedef bool add_fn(struct stream_spec *, struct params *, uint8_t *, size_t, struct error *);

static bool add_field(add_fn *add, struct params *ps, struct rte_tel_data *d, struct error *error)
{
	struct stream_spec *s;
	uint8_t *table;
	size_t octets;

	if (!control_at_rest(error) || !stream_named(ps, &s, error) ||
	    !read_table(ps, &table, &octets, error))
		return false;
	if (add(s, ps, table, octets, error))
		return reply(d, s);
	free(table);
	return false;
}

bool command_stream_field(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	return add_field(stream_add_field, ps, d, error);
}

bool command_stream_expect(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	return add_field(stream_add_expected, ps, d, error);
}

bool command_stream_load(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	struct stream_spec *s;

	return control_at_rest(error) && stream_named(ps, &s, error) &&
	       stream_set_load(s, ps, error) && reply(d, s);
}

bool command_stream_bind(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	struct stream_spec *s;

	return control_at_rest(error) && stream_named(ps, &s, error) &&
	       stream_learn_bindings(s, ps, engine.port[s->tx_port].n_txq, error) && reply(d, s);
}

bool command_stream_bindings(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	static const char name[] = "bindings";
	struct stream_spec *s;
	char path[512];
	int64_t known;

	if (!control_at_rest(error) || !stream_named(ps, &s, error) ||
	    !params_done(ps, "stream", error))
		return false;
	if (s->bindings == NULL)
		return error_set(error, "a stream after /loadgen/stream/bind",
				 "stream %u learns no bindings", s->id);
	snprintf(path, sizeof(path), "%s/%s", rte_eal_get_runtime_dir(), name);
	known = bindings_write(s->bindings, path);
	if (known < 0)
		return error_set(error, "a runtime directory that can be written", "%s: %s", path,
				 strerror(errno));
	rte_tel_data_add_dict_string(d, "file", name);
	tel_dict_uint(d, "known", (uint64_t)known);
	return true;
}

bool command_stream_clear(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	if (!params_done(ps, "no parameters", error) || !control_at_rest(error))
		return false;
	/* The last schedule points at the streams; its results have been collected. */
	schedule_release_tx();
	schedule_forget_expected();
	for (unsigned int i = 0; i < LG_MAX_STREAMS; i++) {
		stream_release(engine.stream[i]);
		engine.stream[i] = NULL;
	}
	rte_tel_data_add_dict_int(d, "ok", 1);
	return true;
}
