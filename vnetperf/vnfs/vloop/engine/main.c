/* Start up, forward until the input ends, shut down. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_lcore.h>

#include "engine.h"

/* How often a signal is looked for, which may have come to another thread. */
#define LOOK_MS 100

struct engine engine;

static bool parse(int argc, char *const argv[], bool *help, struct error *error)
{
	return args_parse(&engine.options, argc, argv, help, error);
}

static bool start(struct error *error)
{
	if (rte_lcore_count() != 2)
		return error_set(error, "2: the main one and one that forwards", "%u lcores",
				 rte_lcore_count());
	engine.hz = program_counter_hz();
	atomic_store(&engine.worker.policy_error, NOT_ASKED_YET);
	return ports_start(error);
}

/* Whatever is written to it is passed over. */
static bool input_ended(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char passed_over[256];
	ssize_t n;

	if (poll(&input, 1, LOOK_MS) <= 0)
		return false;
	n = read(STDIN_FILENO, passed_over, sizeof(passed_over));
	return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

static void run(void)
{
	rte_eal_mp_remote_launch(worker_main, NULL, SKIP_MAIN);
	while (!atomic_load(&engine.quit) && !input_ended())
		;
	atomic_store(&engine.quit, true);
	rte_eal_mp_wait_lcore();
}

int main(int argc, char **argv)
{
	const struct program vloop = {
		.name = "vloop",
		.quit = &engine.quit,
		.parse = parse,
		.start = start,
		.commands = telemetry_commands,
		.run = run,
	};

	return program_main(&vloop, argc, argv);
}
