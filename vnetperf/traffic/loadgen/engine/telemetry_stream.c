/* Commands that describe streams. */
#include <errno.h>
#include <rte_eal.h>
#include <stdio.h>
#include <stdlib.h>

#include "control.h"
#include "telemetry.h"

/* Values of a field at most, octets: 16 M of eight each. */
#define MAX_TABLE ((size_t)8 << 24)

static bool stream_named(struct params *ps, struct stream_spec **s, struct problem *why)
{
	uint64_t id = 0;

	if (!params_need(ps, "stream", why) ||
	    !params_u64(ps, "stream", 0, LG_MAX_STREAMS - 1, &id, why))
		return false;
	*s = engine.stream[id];
	if (*s == NULL)
		return problem_set(why, "the id of a stream that was added", "stream=%u",
				   (unsigned int)id);
	return true;
}

static bool reply(struct rte_tel_data *d, const struct stream_spec *s)
{
	tel_dict_uint(d, "stream", s->id);
	tel_dict_uint(d, "fields", s->n_fields);
	return true;
}

bool command_stream_add(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	struct stream_spec parsed, *kept;

	if (!control_at_rest(why) ||
	    !stream_parse(&parsed, ps, engine.n_ports, engine.largest_frame, why))
		return false;
	if (parsed.queue >= engine.port[parsed.tx_port].n_txq)
		return problem_set(why, "a transmit queue of the port", "port %u has %u, not %d",
				   parsed.tx_port, engine.port[parsed.tx_port].n_txq, parsed.queue);
	if (engine.stream[parsed.id])
		return problem_set(why, "an unused id, or /loadgen/stream/clear before",
				   "stream %u exists", parsed.id);
	kept = malloc(sizeof(*kept));
	if (kept == NULL)
		return problem_set(why, "more memory", "no memory for a stream");
	*kept = parsed;
	engine.stream[parsed.id] = kept;
	return reply(d, kept);
}

/* What a file beside the socket has, or NULL where none is named; false: it cannot be read. */
static bool read_table(struct params *ps, uint8_t **table, size_t *octets, struct problem *why)
{
	const char *name = params_text(ps, "file");
	char path[512];
	FILE *file;

	*table = NULL;
	*octets = 0;
	if (name == NULL)
		return true;
	if (strchr(name, '/'))
		return problem_set(why, "the name of a file beside the socket", "file=%.60s", name);
	snprintf(path, sizeof(path), "%s/%s", rte_eal_get_runtime_dir(), name);
	file = fopen(path, "rb");
	if (file == NULL)
		return problem_set(why, "a file beside the socket", "%.60s: %s", name,
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
	return problem_set(why, "a file that is not empty, and memory", "%.60s has no values",
			   name);
}

typedef bool add_fn(struct stream_spec *, struct params *, uint8_t *, size_t, struct problem *);

static bool add_field(add_fn *add, struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	struct stream_spec *s;
	uint8_t *table;
	size_t octets;

	if (!control_at_rest(why) || !stream_named(ps, &s, why) ||
	    !read_table(ps, &table, &octets, why))
		return false;
	if (add(s, ps, table, octets, why))
		return reply(d, s);
	free(table);
	return false;
}

bool command_stream_field(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	return add_field(stream_add_field, ps, d, why);
}

bool command_stream_expect(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	return add_field(stream_add_expected, ps, d, why);
}

bool command_stream_load(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	struct stream_spec *s;

	return control_at_rest(why) && stream_named(ps, &s, why) && stream_set_load(s, ps, why) &&
	       reply(d, s);
}

bool command_stream_bind(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	struct stream_spec *s;

	return control_at_rest(why) && stream_named(ps, &s, why) &&
	       stream_learn_bindings(s, ps, engine.port[s->tx_port].n_txq, why) && reply(d, s);
}

bool command_stream_bindings(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	static const char name[] = "bindings";
	struct stream_spec *s;
	char path[512];
	int64_t known;

	if (!control_at_rest(why) || !stream_named(ps, &s, why) || !params_done(ps, "stream", why))
		return false;
	if (s->bindings == NULL)
		return problem_set(why, "a stream after /loadgen/stream/bind",
				   "stream %u learns no bindings", s->id);
	snprintf(path, sizeof(path), "%s/%s", rte_eal_get_runtime_dir(), name);
	known = bindings_write(s->bindings, path);
	if (known < 0)
		return problem_set(why, "a runtime directory that can be written", "%s: %s", path,
				   strerror(errno));
	rte_tel_data_add_dict_string(d, "file", name);
	tel_dict_uint(d, "known", (uint64_t)known);
	return true;
}

bool command_stream_clear(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	if (!params_done(ps, "no parameters", why) || !control_at_rest(why))
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
