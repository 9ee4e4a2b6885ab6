/* Start up, run the workers, shut down. */
#include <rte_launch.h>

#include "capture_buffer.h"
#include "engine.h"
#include "neighbour_reply.h"
#include "telemetry.h"

struct engine engine;

static bool parse(int argc, char *const argv[], bool *help, struct error *error)
{
	return args_parse(&engine.options, argc, argv, help, error);
}

static bool start(struct error *error)
{
	engine.hz = program_counter_hz();
	engine.ns_mult = (uint64_t)(((unsigned __int128)WALL_NS_PER_S << 32) / engine.hz);
	engine.turn_us = engine.options.turn_us;
	engine.turn = (uint64_t)((double)engine.hz * engine.options.turn_us / 1e6);
	engine.steady = program_clock(CLOCK_MONOTONIC);
	if (!ports_start(error) || !replies_create(error) || !workers_create(error))
		return false;
	workers_compare_clocks();
	return true;
}

static void run(void)
{
	struct worker *main_worker = engine.worker[0];

	for (unsigned int i = 0; i < engine.n_workers; i++) {
		struct worker *w = engine.worker[i];

		if (w->lcore == rte_get_main_lcore())
			main_worker = w;
		else
			rte_eal_remote_launch(worker_main, w, w->lcore);
	}
	worker_main(main_worker);
	rte_eal_mp_wait_lcore();
}

static void stop(void)
{
	replies_release();
	workers_release();
	capture_release(&capture);
}

int main(int argc, char **argv)
{
	const struct program loadgen = {
		.name = "loadgen",
		.quit = &engine.quit,
		.parse = parse,
		.start = start,
		.commands = telemetry_commands,
		.run = run,
		.stop = stop,
	};

	return program_main(&loadgen, argc, argv);
}
