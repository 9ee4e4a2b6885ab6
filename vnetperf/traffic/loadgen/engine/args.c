#include "args.h"

#include <stdio.h>
#include <stdlib.h>

#include "words.h"

/* NOLINTNEXTLINE(cert-err34-c): %n tells whether the whole item was read */
#define MAP_FORMAT "%2[rtx]%hu.%hu@%hu%n"

void args_defaults(struct options *o)
{
	memset(o, 0, sizeof(*o));
	for (unsigned int port = 0; port < LG_MAX_PORTS; port++)
		o->rx_queues[port] = o->tx_queues[port] = 1;
	o->rx_desc = 1024;
	o->tx_desc = 1024;
	o->mtu = 1500;
	o->rx_burst = 32;
	o->share = 100;
}

const char *args_usage(void)
{
	return "loadgen [EAL arguments] -- [options]\n"
	       "  --rx-queues L   receive queues by port, all polled, as 2,1 (1);\n"
	       "                  the last number is that of all further ports\n"
	       "  --tx-queues L   transmit queues by port (1)\n"
	       "  --rx-desc N     descriptors per receive queue (1024)\n"
	       "  --tx-desc N     descriptors per transmit queue (1024)\n"
	       "  --mbufs N       buffers per pool (0: enough for the rings)\n"
	       "  --room N        octets of frame in a buffer, up to 16384 (0: enough for the "
	       "MTU)\n"
	       "  --mtu N         largest L3 packet, 68..9262 (1500)\n"
	       "  --rx-burst N    frames per receive call (32)\n"
	       "  --turn-us N     for shared cores: send what is due, then sleep until the next\n"
	       "                  multiple of N us (0: never sleep)\n"
	       "  --phase-us N    turns begin so much later (0)\n"
	       "  --priority N    of SCHED_FIFO while a trial is paced; needs turns (0: none)\n"
	       "  --share N       percent of its core that a worker with a priority takes (100)\n"
	       "  --nic-time N    1: arrivals by the NIC's clock, where it has one (0)\n"
	       "  --map LIST      queues to workers, as tx0.0@1,rx0.0@0: port.queue@worker\n"
	       "                  (default: in turn over all lcores)\n"
	       "  --attach DEV    a device for the next port, behind those of EAL; repeatable\n"
	       "  --help\n";
}

static bool map_item(struct options *o, const char *text, struct problem *why)
{
	struct queue_map *m = &o->map[o->n_map];
	char kind[3];
	int used = 0;

	if (sscanf(text, MAP_FORMAT, kind, &m->port, &m->queue, &m->worker, &used) != 4 ||
	    text[used] != '\0' || (strcmp(kind, "rx") != 0 && strcmp(kind, "tx") != 0))
		return problem_set(why, "items such as tx0.0@1 or rx0.2@0 (port.queue@worker)",
				   "--map item '%.60s'", text);
	if (o->n_map + 1 >= ARGS_MAX_MAP)
		return problem_set(why, "each queue once", "too many --map items");
	m->tx = kind[0] == 't';
	o->n_map++;
	return true;
}

static bool map_list(struct options *o, const char *text, struct problem *why)
{
	char *copy = strdup(text), *rest = copy, *token;
	bool ok = copy != NULL || problem_set(why, "", "out of memory");

	while (ok && (token = strsep(&rest, ",")) != NULL)
		ok = map_item(o, token, why);
	free(copy);
	return ok;
}

/* Numbers of queues by port; the last one holds for all further ports. */
static bool queue_list(uint16_t *queues, const char *name, const char *text, struct problem *why)
{
	char *copy = strdup(text), *rest = copy, *token;
	bool ok = copy != NULL || problem_set(why, "", "out of memory");
	unsigned long n = 0;
	unsigned int port = 0;

	while (ok && (token = strsep(&rest, ",")) != NULL) {
		if (port == LG_MAX_PORTS)
			ok = problem_set(why, "at most 16 numbers", "%s %.60s", name, text);
		else if ((ok = words_number(name, token, 1, LG_MAX_QUEUES, &n, why)))
			queues[port++] = (uint16_t)n;
	}
	for (; ok && port < LG_MAX_PORTS; port++)
		queues[port] = (uint16_t)n;
	free(copy);
	return ok;
}

static const struct {
	const char *name;
	unsigned long min, max;
} numbers[] = {
	{"--rx-desc", 32, 32768},   {"--tx-desc", 32, 32768},
	{"--mbufs", 0, 16777216},   {"--mtu", 68, LG_MAX_FRAME - 18},
	{"--room", 0, 16384},	    {"--rx-burst", 1, LG_MAX_BURST},
	{"--turn-us", 0, 1000000},  {"--nic-time", 0, 1},
	{"--phase-us", 0, 1000000}, {"--priority", 0, 99},
	{"--share", 1, 100},
};

static void store(struct options *o, unsigned int which, unsigned long value)
{
	switch (which) {
	case 0:
		o->rx_desc = (uint16_t)value;
		break;
	case 1:
		o->tx_desc = (uint16_t)value;
		break;
	case 2:
		o->mbufs = (uint32_t)value;
		break;
	case 3:
		o->mtu = (uint16_t)value;
		o->mtu_given = true;
		break;
	case 4:
		o->room = (uint16_t)value;
		break;
	case 5:
		o->rx_burst = (uint16_t)value;
		break;
	case 6:
		o->turn_us = (uint32_t)value;
		break;
	case 7:
		o->nic_time = value == 1;
		break;
	case 8:
		o->phase_us = (uint32_t)value;
		break;
	case 9:
		o->priority = (uint16_t)value;
		break;
	default:
		o->share = (uint16_t)value;
	}
}

static bool option(void *to, const char *name, const char *value, struct problem *why)
{
	struct options *o = to;
	unsigned long n = 0;

	if (strcmp(name, "--map") == 0)
		return map_list(o, value, why);
	if (strcmp(name, "--attach") == 0) {
		if (o->n_attach == LG_MAX_PORTS)
			return problem_set(why, "at most 16", "--attach %.60s", value);
		o->attach[o->n_attach++] = value;
		return true;
	}
	if (strcmp(name, "--rx-queues") == 0)
		return queue_list(o->rx_queues, name, value, why);
	if (strcmp(name, "--tx-queues") == 0)
		return queue_list(o->tx_queues, name, value, why);
	for (unsigned int i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (strcmp(name, numbers[i].name) != 0)
			continue;
		if (!words_number(name, value, numbers[i].min, numbers[i].max, &n, why))
			return false;
		store(o, i, n);
		return true;
	}
	return problem_set(why,
			   "--rx-queues --tx-queues --rx-desc --tx-desc --mbufs --room --mtu "
			   "--rx-burst --turn-us --phase-us --priority --share --nic-time --map "
			   "--attach --help",
			   "unknown option '%.60s'", name);
}

bool args_parse(struct options *o, int argc, char *const argv[], struct problem *why)
{
	if (!words_take(argc, argv, option, o, &o->help, why))
		return false;
	/* One that never sleeps would be stopped by the kernel, and stop all others. */
	if (o->priority && !o->turn_us)
		return problem_set(why, "--turn-us as well", "--priority of one that never sleeps");
	return true;
}
