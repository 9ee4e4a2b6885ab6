/* Start up, run the workers, shut down. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_eal.h>
#include <rte_launch.h>

#include "answer.h"
#include "engine.h"
#include "keep.h"
#include "telemetry.h"

struct engine engine = {.control = PTHREAD_MUTEX_INITIALIZER};

static void on_signal(int number)
{
	(void)number;
	atomic_store(&engine.quit, true);
}

static int give_up(const struct problem *why)
{
	fprintf(stderr, "loadgen: %s; accepted: %s\n", why->what, why->accepted);
	return EXIT_FAILURE;
}

/* EAL prints its own usage for --help; ours is asked for behind "--". */
static bool start(int argc, char **argv, struct problem *why)
{
	args_defaults(&engine.options);
	if (!args_parse(&engine.options, argc, argv, why))
		return false;
	if (engine.options.help) {
		fputs(args_usage(), stdout);
		atomic_store(&engine.quit, true);
		return true;
	}
	engine.hz = rte_get_tsc_hz();
	engine.ns_mult = (uint64_t)(((unsigned __int128)LG_NS_PER_S << 32) / engine.hz);
	engine.wall = wall_now();
	return ports_start(why) && answers_create(why) && workers_create(why) &&
	       telemetry_register(why);
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
		workers_compare_clocks();
		printf("ready\n");
		fflush(stdout);
		rte_eal_mp_remote_launch(worker_main, NULL, CALL_MAIN);
		rte_eal_mp_wait_lcore();
	}
	/* Never released: a command that comes now waits until the process is gone. */
	pthread_mutex_lock(&engine.control);
	answers_release();
	workers_release();
	capture_release(&capture);
	ports_stop();
	rte_eal_cleanup();
	return ok ? EXIT_SUCCESS : give_up(&why);
}
