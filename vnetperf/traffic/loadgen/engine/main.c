/* Start up, run the workers, shut down. */
#include <math.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_launch.h>

#include "answer.h"
#include "engine.h"
#include "keep.h"
#include "telemetry.h"

/* For how long the counter is compared with the kernel's clock: 100 ns in it are 0.5 ppm. */
#define COUNTER_US 200000u

struct engine engine = {.control = PTHREAD_MUTEX_INITIALIZER};

static bool parse(int argc, char *const argv[], bool *help, struct problem *why)
{
	args_defaults(&engine.options);
	if (!args_parse(&engine.options, argc, argv, why))
		return false;
	*help = engine.options.help;
	return true;
}

/* DPDK rounds a frequency that it measures to 10 MHz, which is 0.2 % of a rate at 2.45 GHz. */
static uint64_t counter_hz(void)
{
	const struct wallclock earlier = clock_now(CLOCK_MONOTONIC_RAW);
	struct wallclock later;

	usleep(COUNTER_US);
	later = clock_now(CLOCK_MONOTONIC_RAW);
	wallclock_rate(&later, &earlier, rte_get_tsc_hz());
	return (uint64_t)llround(LG_NS_PER_S / later.ns_per_cycle);
}

static bool start(struct problem *why)
{
	engine.hz = counter_hz();
	engine.ns_mult = (uint64_t)(((unsigned __int128)LG_NS_PER_S << 32) / engine.hz);
	engine.wall = clock_now(CLOCK_REALTIME);
	if (!ports_start(why) || !answers_create(why) || !workers_create(why) ||
	    !telemetry_register(why))
		return false;
	workers_compare_clocks();
	return true;
}

static void run(void)
{
	rte_eal_mp_remote_launch(worker_main, NULL, CALL_MAIN);
	rte_eal_mp_wait_lcore();
}

static void stop(void)
{
	/* Never released: a command that comes now waits until the process is gone. */
	pthread_mutex_lock(&engine.control);
	answers_release();
	workers_release();
	capture_release(&capture);
	ports_stop();
}

int main(int argc, char **argv)
{
	const struct program loadgen = {
		"loadgen", &engine.quit, parse, args_usage, start, run, stop,
	};

	return program_main(&loadgen, argc, argv);
}
