/* What can be read and told over DPDK's telemetry. */
#include "engine.h"

#include <stdio.h>
#include <string.h>

static const char *const verdict_names[] = {
#define NAME(name, text) text,
	VERDICTS(NAME)
#undef NAME
};

/* Telemetry takes names of letters, digits and underscores. */
static void add(struct rte_tel_data *d, const char *name, uint64_t number)
{
	char key[64];
	size_t n = 0;

	for (; name[n] && n + 1 < sizeof(key); n++)
		key[n] = name[n] == ' ' ? '_' : name[n];
	key[n] = '\0';
	tel_dict_uint(d, key, number);
}

/* The only parameter of a command: a number below `end`. */
static bool asked_for(struct params *ps, const char *key, uint32_t end, uint64_t *number,
		      struct error *error)
{
	return params_need(ps, key, error) && params_u64(ps, key, 0, end - 1, number, error) &&
	       params_done(ps, key, error);
}

static bool tell_info(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	const struct config *c = &engine.options.nat;

	if (!params_done(ps, "no parameters", error))
		return false;
	add(d, "protocol", CGNAT_PROTOCOL);
	rte_tel_data_add_dict_string(d, "dpdk", rte_version());
	add(d, "hz", engine.hz);
	add(d, "workers", engine.n_workers);
	add(d, "mappings", c->mappings);
	add(d, "sessions", c->sessions);
	add(d, "blocks", engine.mapper.blocks.count);
	return true;
}

static uint64_t drops(uint64_t side, unsigned int verdict)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < engine.n_workers; i++)
		sum += counter_read(&engine.workers[i].verdicts[side][verdict]);
	return sum;
}

static bool tell_drops(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	uint64_t side = 0;

	if (!asked_for(ps, "port", SIDES, &side, error))
		return false;
	for (unsigned int verdict = PASS + 1; verdict < N_VERDICTS; verdict++)
		add(d, verdict_names[verdict], drops(side, verdict));
	return true;
}

/* Workers that have not yet ended all sessions as telemetry asked. */
static uint32_t count_ending_workers(void)
{
	const uint32_t request = atomic_load(&engine.end_requests);
	uint32_t n = 0;

	for (uint32_t i = 0; i < engine.n_workers; i++)
		n += atomic_load(&engine.workers[i].end_request_done) != request;
	return n;
}

static bool tell_tables(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	const struct mapper *m = &engine.mapper;
	const struct tracker *t = &engine.tracker;

	if (!params_done(ps, "no parameters", error))
		return false;
	add(d, "sessions", tracker_count(t));
	add(d, "sessions made", counter_read(&t->made));
	add(d, "sessions ended", counter_read(&t->ended));
	add(d, "mappings", mapper_count(m));
	add(d, "mappings made", counter_read(&m->made));
	add(d, "mappings ended", counter_read(&m->ended));
	add(d, "datagrams in fragments", fragments_partials(&engine.fragments));
	add(d, "fragments that wait", engine.fragments.held);
	add(d, "blocks", m->blocks.in_use);
	add(d, "blocks given", counter_read(&m->blocks.given));
	add(d, "blocks returned", counter_read(&m->blocks.returned));
	add(d, "block events lost", blocklog_lost());
	add(d, "workers that forget", count_ending_workers());
	return true;
}

static void add_stage(struct rte_tel_data *d, const struct worker *w, enum stage stage)
{
	char name[32];

	snprintf(name, sizeof(name), "%s packets", stage_names[stage]);
	add(d, name, counter_read(&w->work[stage].packets));
	snprintf(name, sizeof(name), "%s cycles", stage_names[stage]);
	add(d, name, counter_read(&w->work[stage].cycles));
}

static bool tell_worker(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	const struct worker *w;
	uint64_t n = 0;

	if (!asked_for(ps, "worker", engine.n_workers, &n, error))
		return false;
	w = &engine.workers[n];
	add(d, "lcore", w->lcore);
	rte_tel_data_add_dict_string(d, "refused", w->refused ? strerror(w->refused) : "");
	add(d, "turns", counter_read(&w->turns));
	add(d, "empty", counter_read(&w->empty));
	add(d, "busy", counter_read(&w->busy));
	add(d, "idle", counter_read(&w->idle));
	for (uint32_t stage = w->group.first; stage <= (uint32_t)w->group.last; stage++)
		add_stage(d, w, (enum stage)stage);
	return true;
}

static bool tell_port(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	uint64_t side = 0, rx = 0, tx = 0;

	if (!asked_for(ps, "port", SIDES, &side, error))
		return false;
	for (uint32_t i = 0; i < engine.n_workers; i++) {
		rx += counter_read(&engine.workers[i].rx[side]);
		tx += counter_read(&engine.workers[i].tx[side]);
	}
	add(d, "rx", rx);
	add(d, "tx", tx);
	return true;
}

static bool forward(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	if (!params_done(ps, "no parameters", error))
		return false;
	atomic_store(&engine.forwarding, true);
	tel_dict_uint(d, "ok", 1);
	return true;
}

/* Done by the threads that own the tables; /cgnat/tables tells when they all have. */
static bool end_sessions(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	if (!params_done(ps, "no parameters", error))
		return false;
	atomic_fetch_add(&engine.end_requests, 1);
	tel_dict_uint(d, "ok", 1);
	return true;
}

const struct command telemetry_commands[] = {
	{"/cgnat/drops", tell_drops, "Packets dropped, by cause. Parameters: port"},
	{"/cgnat/tables", tell_tables, "Sessions, mappings, blocks. Parameters: none"},
	{"/cgnat/worker", tell_worker, "Stages of one worker. Parameters: worker"},
	{"/cgnat/port", tell_port, "Packets of one port. Parameters: port"},
	{"/cgnat/forward", forward, "Begin to poll the ports. Parameters: none"},
	{"/cgnat/forget", end_sessions, "End all sessions. Parameters: none"},
	/* Last, see commands_register(). */
	{"/cgnat/info", tell_info, "Version, room, clock. Parameters: none"},
	{0},
};
