/* Registration of the commands, and the shape that all replies share. */
#include "telemetry.h"

#include <stdio.h>

#include "engine.h"

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct {
	const char *name;
	command_fn *run;
	const char *help;
} commands[] = {
	{"/loadgen/port", command_port, "One port: name, MAC, link. Parameters: port"},
	{"/loadgen/port/unplug", command_unplug,
	 "Let go of a port: what it is to send is refused. Parameters: port"},
	{"/loadgen/port/plug", command_plug, "Take it up again. Parameters: port"},
	{"/loadgen/worker", command_worker, "One worker: lcore, thread. Parameters: worker"},
	{"/loadgen/xstats", command_xstats, "A port's xstats. Parameters: port, offset"},
	{"/loadgen/stream/add", command_stream_add,
	 "Parameters: id, tx_port, rx_port, queue, size, header, l3, udp, tcp, outer"},
	{"/loadgen/stream/field", command_stream_field,
	 "Parameters: stream, offset, width, base, step, count, mode, seed, file"},
	{"/loadgen/stream/expect", command_stream_expect,
	 "What frames must have when they come back. Parameters: as of stream/field"},
	{"/loadgen/stream/bind", command_stream_bind,
	 "Learn the address and port that each flow has when it comes out. Parameters: stream, "
	 "address, port, count"},
	{"/loadgen/stream/bindings", command_stream_bindings,
	 "Write what was learnt to a file. Parameters: stream"},
	{"/loadgen/stream/load", command_stream_load, "Parameters: stream, rate, count"},
	{"/loadgen/stream/clear", command_stream_clear, "Forget all streams. Parameters: none"},
	{"/loadgen/trial/start", command_trial_start,
	 "Parameters: epoch, duration, steps, delay, drain, burst, group, catch_up, max_lag, "
	 "policy, "
	 "bin, tag, ipdv, echo"},
	{"/loadgen/trial/stop", command_trial_stop, "Abort the trial. Parameters: none"},
	{"/loadgen/trial/status", command_trial_status, "State and live sums. Parameters: none"},
	{"/loadgen/trial/result", command_trial_result, "One stream. Parameters: stream"},
	{"/loadgen/trial/port", command_trial_port, "One port in the trial. Parameters: port"},
	{"/loadgen/trial/turns", command_turns, "Turns of a worker in the last trial: worker"},
	{"/loadgen/trial/work", command_work,
	 "Rounds and cycles of a worker in the last trial: worker"},
	{"/loadgen/trial/gaps", command_gaps,
	 "When nobody polled or sent, in the trial. Parameters: none"},
	{"/loadgen/trial/queue", command_queue,
	 "The same of one queue. Parameters: way, port, queue, rate (of the port), ring (frames)"},
	{"/loadgen/trial/histogram", command_histogram,
	 "Written to a file beside the socket. Parameters: stream"},
	{"/loadgen/trial/timeline", command_timeline,
	 "Written to a file beside the socket. Parameters: stream"},
	{"/loadgen/trial/ipdv", command_ipdv,
	 "Written to a file beside the socket. Parameters: stream"},
	{"/loadgen/trial/echoes", command_echoes,
	 "Round trips, written to a file beside the socket. Parameters: none"},
	{"/loadgen/capture", command_capture,
	 "Keep a trial's first frames. Parameters: frames, what"},
	{"/loadgen/trial/capture", command_captured,
	 "What was kept, written to a file beside the socket. Parameters: none"},
	{"/loadgen/learn", command_learn,
	 "Send learning frames. Parameters: stream, count, rate, "
	 "drain"},
	{"/loadgen/neighbour/add", command_neighbour_add,
	 "Answer for addresses. Parameters: port, address, mac, count, mac_steps"},
	{"/loadgen/neighbour/any", command_neighbour_any,
	 "Answer for every address asked for. Parameters: port, mac"},
	{"/loadgen/neighbour/clear", command_neighbour_clear, "Answer nobody. Parameters: none"},
	{"/loadgen/neighbour/announce", command_neighbour_announce,
	 "Send gratuitous ARP and advertisements. Parameters: none"},
	{"/loadgen/quit", command_quit, "End the engine. Parameters: none"},
	/* Last: who gets an answer to this finds all the others there. */
	{"/loadgen/info", command_info, "Version, limits, clock. Parameters: none"},
};

/* One entry for all commands: parse, run alone, turn a refusal into {"error", "accepted"}. */
static int dispatch(const char *cmd, const char *text, struct rte_tel_data *d)
{
	struct problem why = {"", ""};
	struct params ps;
	bool ok = params_parse(&ps, text, &why);

	rte_tel_data_start_dict(d);
	if (ok) {
		pthread_mutex_lock(&engine.control);
		for (unsigned int i = 0; i < N_COMMANDS; i++) {
			if (strcmp(cmd, commands[i].name) == 0)
				ok = commands[i].run(&ps, d, &why);
		}
		pthread_mutex_unlock(&engine.control);
	}
	if (!ok) {
		rte_tel_data_start_dict(d);
		rte_tel_data_add_dict_string(d, "error", why.what);
		rte_tel_data_add_dict_string(d, "accepted", why.accepted);
	}
	return 0;
}

bool telemetry_register(struct problem *why)
{
	for (unsigned int i = 0; i < N_COMMANDS; i++) {
		if (rte_telemetry_register_cmd(commands[i].name, dispatch, commands[i].help) != 0)
			return problem_set(why, "a DPDK with telemetry",
					   "telemetry refuses the command %s", commands[i].name);
	}
	return true;
}
