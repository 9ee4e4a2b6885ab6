/* Start up, run the workers, shut down. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_random.h>

#include "engine.h"

/* How often events of blocks are written to their file. */
#define LOG_US 100000u

struct engine engine;

static void on_signal(int number)
{
	(void)number;
	atomic_store(&engine.quit, true);
}

static int give_up(const struct problem *why)
{
	fprintf(stderr, "cgnat: %s; accepted: %s\n", why->what, why->accepted);
	return EXIT_FAILURE;
}

static bool start(int argc, char **argv, struct problem *why)
{
	args_defaults(&engine.options);
	engine.options.nat.seed = rte_rand();
	if (!args_parse(&engine.options, argc, argv, why))
		return false;
	if (engine.options.help) {
		fputs(args_usage(), stdout);
		atomic_store(&engine.quit, true);
		return true;
	}
	engine.hz = rte_get_tsc_hz();
	engine.start = rte_rdtsc();
	if (!workers_create(why) || !blocklog_open(engine.options.log, why))
		return false;
	engine.mapper.blocks.note = blocklog_note;
	return ports_start(why) && telemetry_register(why);
}

int main(int argc, char **argv)
{
	struct problem why = {"", ""};
	const int used = rte_eal_init(argc, argv);
	bool ok;

	if (used < 0)
		return EXIT_FAILURE; /* EAL has said why */
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	ok = start(argc - used, argv + used, &why);
	if (ok && !atomic_load(&engine.quit)) {
		printf("ready\n");
		fflush(stdout);
		rte_eal_mp_remote_launch(worker_main, NULL, SKIP_MAIN);
		while (!atomic_load(&engine.quit)) {
			blocklog_write();
			usleep(LOG_US);
		}
		rte_eal_mp_wait_lcore();
	}
	blocklog_close();
	ports_stop();
	rte_eal_cleanup();
	return ok ? EXIT_SUCCESS : give_up(&why);
}
