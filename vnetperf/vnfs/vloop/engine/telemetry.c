/* What can be read and told over DPDK's telemetry. */
#include "engine.h"

#include <errno.h>
#include <stdio.h>

static void add(struct rte_tel_data *d, const char *name, uint64_t number)
{
	tel_dict_uint(d, name, number);
}

static void add_read(struct rte_tel_data *d, const char *name, const uint64_t *number)
{
	add(d, name, counter_read(number));
}

static void add_read_ns(struct rte_tel_data *d, const char *name, const uint64_t *cycles)
{
	const uint64_t n = counter_read(cycles);

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

static bool tell_info(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	const struct options *o = &engine.options;
	char priority[32];

	if (!params_done(ps, "no parameters", error))
		return false;
	tell_priority(priority, sizeof(priority));
	rte_tel_data_add_dict_string(d, "dpdk", rte_version());
	rte_tel_data_add_dict_string(d, "mode", mode_names[o->mode]);
	add(d, "queues", o->queues);
	add(d, "turn_us", o->turn_us);
	add(d, "phase_us", o->phase_us);
	rte_tel_data_add_dict_string(d, "priority", priority);
	add(d, "forwarding", atomic_load(&engine.forwarding));
	return true;
}

static bool tell_turns(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	const struct worker *w = &engine.worker;

	if (!params_done(ps, "no parameters", error))
		return false;
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
	return true;
}

static bool forward(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	if (!params_done(ps, "no parameters", error))
		return false;
	atomic_store(&engine.forwarding, true);
	add(d, "ok", 1);
	return true;
}

const struct command telemetry_commands[] = {
	{"/forwarder/turns", tell_turns, "Sleeps, frames, time so far. Parameters: none"},
	{"/forwarder/forward", forward, "Begin to poll the ports. Parameters: none"},
	/* Last, see commands_register(). */
	{"/forwarder/info", tell_info, "Version, mode, turn, priority. Parameters: none"},
	{0},
};
