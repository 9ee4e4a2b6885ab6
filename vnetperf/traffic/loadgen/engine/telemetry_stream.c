/* Commands that describe streams. */
#include <stdio.h>
#include <stdlib.h>

#include "control.h"
#include "telemetry.h"

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

bool command_stream_field(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	struct stream_spec *s;

	return control_at_rest(why) && stream_named(ps, &s, why) && stream_add_field(s, ps, why) &&
	       reply(d, s);
}

bool command_stream_load(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	struct stream_spec *s;

	return control_at_rest(why) && stream_named(ps, &s, why) && stream_set_load(s, ps, why) &&
	       reply(d, s);
}

bool command_stream_clear(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	if (!params_done(ps, "no parameters", why) || !control_at_rest(why))
		return false;
	/* The last plan points at the streams; its results have been collected. */
	plan_release_tx();
	for (unsigned int i = 0; i < LG_MAX_STREAMS; i++) {
		free(engine.stream[i]);
		engine.stream[i] = NULL;
	}
	rte_tel_data_add_dict_int(d, "ok", 1);
	return true;
}
