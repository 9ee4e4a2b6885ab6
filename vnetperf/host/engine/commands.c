#include "commands.h"

#include <pthread.h>
#include <string.h>

static const struct command *known;
/* Telemetry has a thread for each of its connections. */
static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;

static int answer(const char *name, const char *text, struct rte_tel_data *d)
{
	struct problem why = {"", ""};
	struct params ps;
	bool ok = params_parse(&ps, text, &why);

	rte_tel_data_start_dict(d);
	if (ok) {
		const struct command *c = known;

		while (strcmp(name, c->name) != 0)
			c++;
		pthread_mutex_lock(&running);
		ok = c->run(&ps, d, &why);
		pthread_mutex_unlock(&running);
	}
	if (!ok) {
		rte_tel_data_start_dict(d);
		rte_tel_data_add_dict_string(d, "error", why.what);
		rte_tel_data_add_dict_string(d, "accepted", why.accepted);
	}
	return 0;
}

bool commands_register(const struct command commands[], struct problem *why)
{
	known = commands;
	for (const struct command *c = known; c->name; c++) {
		if (rte_telemetry_register_cmd(c->name, answer, c->help) != 0)
			return problem_set(why, "a DPDK with telemetry",
					   "telemetry refuses the command %s", c->name);
	}
	return true;
}

void commands_end(void)
{
	pthread_mutex_lock(&running);
}
