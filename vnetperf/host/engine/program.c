#include "program.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/eventfd.h>

#include <rte_alarm.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>

/* Longest wait for the interrupt thread before a port is stopped, and for its last rest. */
#define INTERRUPTS_MS 500u
#define REST_MS	      5000u
/* Readings of a clock, of which the shortest counts. */
#define CLOCK_LOOKS 16
/* For how long the counter is compared with the kernel's clock: 100 ns in it are 0.5 ppm. */
#define COUNTER_US 200000u
/* DPDK may round the counter's rate to 10 MHz. */
#define DPDK_OFF 1e-2

static atomic_bool *quit;

static void set_flag(void *flag)
{
	atomic_store((atomic_bool *)flag, true);
}

static void block_thread(void *flag)
{
	set_flag(flag);
	for (;;)
		pause();
}

static void wait_for_flag(atomic_bool *flag, unsigned int most_ms)
{
	for (unsigned int ms = 0; ms < most_ms && !atomic_load(flag); ms++)
		usleep(1000);
}

/* Waits until EAL's interrupt thread has handled what there is now. A memif whose far end hangs up
 * disconnects in that thread: no port may be stopped or closed while it is at it. Alarms run there
 * too, one event after the other: ours comes last. */
static void finish_interrupts(void)
{
	static atomic_bool finished; /* static: a late alarm finds it */

	atomic_store(&finished, false);
	if (rte_eal_alarm_set(1, set_flag, &finished) == 0)
		wait_for_flag(&finished, INTERRUPTS_MS);
}

/* The interrupt thread outlives rte_eal_cleanup(), which wakes it up to look anew at what
 * interrupts are handled with, and unmaps that: a thread that gets its processor late would crash.
 * It rests in an interrupt of its own; the alarms' would be waited for.
 */
static void block_interrupt_thread(void)
{
	static atomic_bool resting;
	struct rte_intr_handle *last = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);

	if (last != NULL && rte_intr_fd_set(last, eventfd(1, EFD_CLOEXEC)) == 0 &&
	    rte_intr_type_set(last, RTE_INTR_HANDLE_EXT) == 0 &&
	    rte_intr_callback_register(last, block_thread, &resting) == 0)
		wait_for_flag(&resting, REST_MS);
	rte_intr_instance_free(last); /* what is registered is a copy */
}

/* All are stopped before the first is closed, which may be the far end of another. */
static void close_ports(void)
{
	uint16_t port;

	RTE_ETH_FOREACH_DEV(port)
	{
		rte_eth_dev_stop(port);
		finish_interrupts();
	}
	RTE_ETH_FOREACH_DEV(port)
	{
		rte_eth_dev_close(port);
	}
}

static void on_signal(int number)
{
	(void)number;
	atomic_store(quit, true);
}

int program_main(const struct program *p, int argc, char **argv)
{
	struct error error = {"", ""};
	bool help = false, ok;
	int used;

	/* A telemetry client or a vhost-user peer that has gone is an error of that write alone. */
	signal(SIGPIPE, SIG_IGN);
	used = rte_eal_init(argc, argv);
	if (used < 0)
		return EXIT_FAILURE; /* EAL has said why */
	quit = p->quit;
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	/* EAL prints its own usage for --help; ours is asked for behind "--". */
	ok = p->parse(argc - used, argv + used, &help, &error);
	if (ok && !help)
		ok = p->start(&error) && commands_register(p->commands, &error);
	if (ok && !help && !atomic_load(quit)) {
		printf("ready\n");
		fflush(stdout);
		p->run();
	}
	commands_end();
	if (p->stop)
		p->stop();
	close_ports();
	block_interrupt_thread();
	rte_eal_cleanup();
	if (ok)
		return EXIT_SUCCESS;
	fprintf(stderr, "%s: %s; accepted: %s\n", p->name, error.text, error.accepted);
	return EXIT_FAILURE;
}

struct wallclock program_clock(clockid_t clock)
{
	struct wallclock found = {0};
	struct timespec t;

	for (unsigned int i = 0; i < CLOCK_LOOKS; i++) {
		const uint64_t before = rte_rdtsc_precise();

		clock_gettime(clock, &t);
		wallclock_note(&found, before,
			       (uint64_t)t.tv_sec * WALL_NS_PER_S + (uint64_t)t.tv_nsec,
			       rte_rdtsc_precise());
	}
	return found;
}

uint64_t program_counter_hz(void)
{
	const struct wallclock earlier = program_clock(CLOCK_MONOTONIC_RAW);
	struct wallclock later;

	usleep(COUNTER_US);
	later = program_clock(CLOCK_MONOTONIC_RAW);
	wallclock_rate(&later, &earlier, rte_get_tsc_hz(), DPDK_OFF);
	return (uint64_t)llround((double)WALL_NS_PER_S / later.ns_per_cycle);
}
