/* What can be read and told over DPDK's telemetry. */
#include "engine.h"

#include <errno.h>
#include <stdio.h>

#include <rte_telemetry.h>
#include <rte_version.h>

/* DPDK 23.03 gave it another name, 24.11 took the old one away. */
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
#define add_dict_uint rte_tel_data_add_dict_uint
#else
#define add_dict_uint rte_tel_data_add_dict_u64
#endif

static void add(struct rte_tel_data *d, const char *name, uint64_t number)
{
	add_dict_uint(d, name, number);
}

/* Written by one thread, read by another: each number is whole. */
static void add_read(struct rte_tel_data *d, const char *name, const uint64_t *number)
{
	add(d, name, __atomic_load_n(number, __ATOMIC_RELAXED));
}

static void add_read_ns(struct rte_tel_data *d, const char *name, const uint64_t *cycles)
{
	const uint64_t n = __atomic_load_n(cycles, __ATOMIC_RELAXED);

	add(d, name, (uint64_t)((unsigned __int128)n * WALL_NS_PER_S / engine.hz));
}

static void tell_priority(char *text, size_t octets)
{
	const int error = atomic_load(&engine.worker.policy_error);

	if (engine.options.priority == 0)
		snprintf(text, octets, "none");
	else if (error == NOT_ASKED_YET)
		snprintf(text, octets, "not asked for yet");
	else if (error == 0)
		snprintf(text, octets, "fifo %u", engine.options.priority);
	else if (error == EPERM)
		snprintf(text, octets, "refused: EPERM");
	else
		snprintf(text, octets, "refused: error %d", error);
}

static int tell_info(const char *command, const char *text, struct rte_tel_data *d)
{
	const struct options *o = &engine.options;
	char priority[32];

	(void)command;
	(void)text;
	tell_priority(priority, sizeof(priority));
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "dpdk", rte_version());
	rte_tel_data_add_dict_string(d, "mode", mode_names[o->mode]);
	add(d, "queues", o->queues);
	add(d, "turn_us", o->turn_us);
	add(d, "phase_us", o->phase_us);
	rte_tel_data_add_dict_string(d, "priority", priority);
	add(d, "forwarding", atomic_load(&engine.forwarding));
	return 0;
}

static int tell_turns(const char *command, const char *text, struct rte_tel_data *d)
{
	const struct worker *w = &engine.worker;

	(void)command;
	(void)text;
	rte_tel_data_start_dict(d);
	add_read(d, "sleeps", &w->turns.sleeps);
	add_read(d, "empty", &w->empty);
	add_read(d, "forced", &w->turns.forced);
	add_read(d, "frames", &w->frames);
	add_read(d, "calls", &w->calls);
	add_read(d, "busy_cycles", &w->busy);
	add_read_ns(d, "busy_ns", &w->busy);
	add_read_ns(d, "longest_busy_ns", &w->longest);
	add_read(d, "refused_0", &w->refused[0]);
	add_read(d, "refused_1", &w->refused[1]);
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

bool telemetry_register(struct problem *why)
{
	static const struct {
		const char *name;
		telemetry_cb run;
		const char *help;
	} commands[] = {
		{"/forwarder/turns", tell_turns, "Sleeps, frames, time so far. Parameters: none"},
		{"/forwarder/forward", forward, "Begin to poll the ports. Parameters: none"},
		/* Last: who gets an answer to this finds all the others there. */
		{"/forwarder/info", tell_info, "Version, mode, turn, priority. Parameters: none"},
	};

	for (size_t i = 0; i < RTE_DIM(commands); i++) {
		if (rte_telemetry_register_cmd(commands[i].name, commands[i].run,
					       commands[i].help) != 0)
			return problem_set(why, "a DPDK with telemetry",
					   "telemetry refuses the command %s", commands[i].name);
	}
	return true;
}
