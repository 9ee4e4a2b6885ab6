/* Start up, run the workers, shut down. */
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_random.h>

#include "engine.h"

/* How often events of blocks are written to their file. */
#define LOG_US 100000u

struct engine engine;

static bool parse(int argc, char *const argv[], bool *help, struct error *error)
{
	return args_parse(&engine.options, argc, argv, help, error);
}

static bool start(struct error *error)
{
	engine.options.nat.seed = rte_rand();
	engine.hz = program_counter_hz();
	if (!workers_create(error))
		return false;
	/* Seconds, and the record's times of them, begin here: large tables took some
	 * to make. */
	engine.start = rte_rdtsc();
	if (!blocklog_open(engine.options.log, engine.options.log_ipfix, error))
		return false;
	engine.mapper.blocks.note = blocklog_note;
	return ports_start(error);
}

static void run(void)
{
	for (uint32_t i = 0; i < engine.n_workers; i++)
		rte_eal_remote_launch(worker_main, &engine.workers[i], engine.workers[i].lcore);
	while (!atomic_load(&engine.quit)) {
		blocklog_write();
		usleep(LOG_US);
	}
	rte_eal_mp_wait_lcore();
}

int main(int argc, char **argv)
{
	const struct program cgnat = {
		.name = "cgnat",
		.quit = &engine.quit,
		.parse = parse,
		.start = start,
		.commands = telemetry_commands,
		.run = run,
		.stop = blocklog_close,
	};

	return program_main(&cgnat, argc, argv);
}
