/* What can be read and told over DPDK's telemetry. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include <rte_telemetry.h>
#include <rte_version.h>

/* DPDK 23.03 gave it another name, 24.11 took the old one away. */
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
#define add_dict_uint rte_tel_data_add_dict_uint
#else
#define add_dict_uint rte_tel_data_add_dict_u64
#endif

static const char *const verdict_names[] = {
#define NAME(name, text) text,
	VERDICTS(NAME)
#undef NAME
};

/* Written by one thread, read by another: each number is whole. */
static uint64_t read_number(const uint64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

/* Telemetry takes names of letters, digits and underscores. */
static void add(struct rte_tel_data *d, const char *name, uint64_t number)
{
	char key[64];
	size_t n = 0;

	for (; name[n] && n + 1 < sizeof(key); n++)
		key[n] = name[n] == ' ' ? '_' : name[n];
	key[n] = '\0';
	add_dict_uint(d, key, number);
}

static int tell_info(const char *command, const char *text, struct rte_tel_data *d)
{
	const struct config *c = &engine.options.nat;

	(void)command;
	(void)text;
	rte_tel_data_start_dict(d);
	add(d, "protocol", CGNAT_PROTOCOL);
	rte_tel_data_add_dict_string(d, "dpdk", rte_version());
	add(d, "hz", engine.hz);
	add(d, "workers", engine.n_workers);
	add(d, "mappings", c->mappings);
	add(d, "sessions", c->sessions);
	add(d, "blocks", engine.mapper.blocks.count);
	return 0;
}

static uint64_t drops(unsigned long side, unsigned int verdict)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < engine.n_workers; i++)
		sum += read_number(&engine.workers[i].verdicts[side][verdict]);
	return sum;
}

static int tell_drops(const char *command, const char *text, struct rte_tel_data *d)
{
	const unsigned long side = text ? strtoul(text, NULL, 10) : 0;

	(void)command;
	if (side >= SIDES)
		return -1;
	rte_tel_data_start_dict(d);
	for (unsigned int verdict = PASS + 1; verdict < N_VERDICTS; verdict++)
		add(d, verdict_names[verdict], drops(side, verdict));
	return 0;
}

/* Workers that have yet to do what they were asked. */
static uint32_t forgetting(void)
{
	const uint32_t asked = atomic_load(&engine.forget);
	uint32_t n = 0;

	for (uint32_t i = 0; i < engine.n_workers; i++)
		n += atomic_load(&engine.workers[i].forgot) != asked;
	return n;
}

static int tell_tables(const char *command, const char *text, struct rte_tel_data *d)
{
	const struct mapper *m = &engine.mapper;
	const struct tracker *t = &engine.tracker;

	(void)command;
	(void)text;
	rte_tel_data_start_dict(d);
	add(d, "sessions", tracker_count(t));
	add(d, "sessions made", read_number(&t->made));
	add(d, "sessions ended", read_number(&t->ended));
	add(d, "mappings", mapper_count(m));
	add(d, "mappings made", read_number(&m->made));
	add(d, "mappings ended", read_number(&m->ended));
	add(d, "datagrams in fragments", fragments_partials(&engine.fragments));
	add(d, "fragments that wait", engine.fragments.held);
	add(d, "blocks", m->blocks.in_use);
	add(d, "blocks given", read_number(&m->blocks.given));
	add(d, "blocks returned", read_number(&m->blocks.returned));
	add(d, "block events lost", blocklog_lost());
	add(d, "workers that forget", forgetting());
	return 0;
}

static void add_stage(struct rte_tel_data *d, const struct worker *w, enum stage stage)
{
	char name[32];

	snprintf(name, sizeof(name), "%s packets", stage_names[stage]);
	add(d, name, read_number(&w->work[stage].packets));
	snprintf(name, sizeof(name), "%s cycles", stage_names[stage]);
	add(d, name, read_number(&w->work[stage].cycles));
}

static int tell_worker(const char *command, const char *text, struct rte_tel_data *d)
{
	const unsigned long n = text ? strtoul(text, NULL, 10) : 0;
	const struct worker *w = &engine.workers[n < engine.n_workers ? n : 0];

	(void)command;
	if (n >= engine.n_workers)
		return -1;
	rte_tel_data_start_dict(d);
	add(d, "lcore", w->lcore);
	rte_tel_data_add_dict_string(d, "refused", w->refused ? strerror(w->refused) : "");
	add(d, "turns", read_number(&w->turns));
	add(d, "empty", read_number(&w->empty));
	add(d, "busy", read_number(&w->busy));
	add(d, "idle", read_number(&w->idle));
	for (uint32_t stage = w->group.first; stage <= (uint32_t)w->group.last; stage++)
		add_stage(d, w, (enum stage)stage);
	return 0;
}

static int tell_port(const char *command, const char *text, struct rte_tel_data *d)
{
	const unsigned long side = text ? strtoul(text, NULL, 10) : 0;
	uint64_t rx = 0, tx = 0;

	(void)command;
	if (side >= SIDES)
		return -1;
	for (uint32_t i = 0; i < engine.n_workers; i++) {
		rx += read_number(&engine.workers[i].rx[side]);
		tx += read_number(&engine.workers[i].tx[side]);
	}
	rte_tel_data_start_dict(d);
	add(d, "rx", rx);
	add(d, "tx", tx);
	return 0;
}

static int forward(const char *command, const char *text, struct rte_tel_data *d)
{
	(void)command;
	(void)text;
	atomic_store(&engine.forwarding, true);
	rte_tel_data_start_dict(d);
	return 0;
}

/* Done by the threads that own the tables; /cgnat/tables tells when they all have. */
static int forget(const char *command, const char *text, struct rte_tel_data *d)
{
	(void)command;
	(void)text;
	atomic_fetch_add(&engine.forget, 1);
	rte_tel_data_start_dict(d);
	return 0;
}

bool telemetry_register(struct problem *why)
{
	static const struct {
		const char *name;
		telemetry_cb run;
		const char *help;
	} commands[] = {
		{"/cgnat/drops", tell_drops, "Packets dropped, by cause. Parameters: port"},
		{"/cgnat/tables", tell_tables, "Sessions, mappings, blocks. Parameters: none"},
		{"/cgnat/worker", tell_worker, "Stages of one worker. Parameters: worker"},
		{"/cgnat/port", tell_port, "Packets of one port. Parameters: port"},
		{"/cgnat/forward", forward, "Begin to poll the ports. Parameters: none"},
		{"/cgnat/forget", forget, "End all sessions. Parameters: none"},
		/* Last: who gets an answer to this finds all the others there. */
		{"/cgnat/info", tell_info, "Version, room, clock. Parameters: none"},
	};

	for (size_t i = 0; i < RTE_DIM(commands); i++) {
		if (rte_telemetry_register_cmd(commands[i].name, commands[i].run,
					       commands[i].help) != 0)
			return problem_set(why, "a DPDK with telemetry",
					   "telemetry refuses the command %s", commands[i].name);
	}
	return true;
}
