#include "commands.h"

#include <pthread.h>
#include <string.h>

static const struct command *known;
/* Telemetry has a thread for each of its connections. */
static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;

static int answer(const char *name, const char *text, struct rte_tel_data *d)
{
	struct error error = {"", ""};
	struct params ps;
	bool ok = params_parse(&ps, text, &error);

	rte_tel_data_start_dict(d);
	if (ok) {
		const struct command *c = known;

		while (strcmp(name, c->name) != 0)
			c++;
		pthread_mutex_lock(&running);
		ok = c->run(&ps, d, &error);
		pthread_mutex_unlock(&running);
	}
	if (!ok) {
		rte_tel_data_start_dict(d);
		rte_tel_data_add_dict_string(d, "error", error.text);
		rte_tel_data_add_dict_string(d, "accepted", error.accepted);
	}
	return 0;
}

bool commands_register(const struct command commands[], struct error *error)
{
	known = commands;
	for (const struct command *c = known; c->name; c++) {
		if (rte_telemetry_register_cmd(c->name, answer, c->help) != 0)
			return error_set(error, "a DPDK with telemetry",
					 "telemetry refuses the command %s", c->name);
	}
	return true;
}

void commands_end(void)
{
	pthread_mutex_lock(&running);
}
