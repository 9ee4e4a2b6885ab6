#include "args.h"

#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "values.h"

/* NOLINTNEXTLINE(cert-err34-c): %n tells whether the whole item was read */
#define MAP_FORMAT "%2[rtx]%hu.%hu@%hu%n"

static void set_defaults(struct options *o)
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

static bool map_item(struct options *o, const char *text, struct error *error)
{
	struct queue_map *m = &o->map[o->n_map];
	char kind[3];
	int used = 0;

	if (sscanf(text, MAP_FORMAT, kind, &m->port, &m->queue, &m->worker, &used) != 4 ||
	    text[used] != '\0' || (strcmp(kind, "rx") != 0 && strcmp(kind, "tx") != 0))
		return error_set(error, "items such as tx0.0@1 or rx0.2@0 (port.queue@worker)",
				 "--map item '%.60s'", text);
	if (o->n_map + 1 >= ARGS_MAX_MAP)
		return error_set(error, "each queue once", "too many --map items");
	m->tx = kind[0] == 't';
	o->n_map++;
	return true;
}

static bool map_list(const struct option *o, void *to, const char *text, struct error *error)
{
	char *copy = strdup(text), *rest = copy, *token;
	bool ok = copy != NULL || error_set(error, "more memory", "out of memory");

	(void)o;
	while (ok && (token = strsep(&rest, ",")) != NULL)
		ok = map_item(to, token, error);
	free(copy);
	return ok;
}

/* Numbers of queues by port; the last one holds for all further ports. */
static bool queue_list(const struct option *o, void *to, const char *text, struct error *error)
{
	uint16_t *queues = to;
	char *copy = strdup(text), *rest = copy, *token;
	bool ok = copy != NULL || error_set(error, "more memory", "out of memory");
	uint64_t n = 0;
	unsigned int port = 0;

	while (ok && (token = strsep(&rest, ",")) != NULL) {
		if (port == LG_MAX_PORTS)
			ok = error_set(error, "at most 16 numbers", "%s=%.60s", o->name, text);
		else if ((ok = value_number(o->name, token, 1, LG_MAX_QUEUES, &n, error)))
			queues[port++] = (uint16_t)n;
	}
	for (; ok && port < LG_MAX_PORTS; port++)
		queues[port] = (uint16_t)n;
	free(copy);
	return ok;
}

static bool device(const struct option *o, void *to, const char *text, struct error *error)
{
	struct options *all = to;

	if (all->n_attach == LG_MAX_PORTS)
		return error_set(error, "at most 16", "%s=%.60s", o->name, text);
	all->attach[all->n_attach++] = text;
	return true;
}

static bool mtu(const struct option *o, void *to, const char *text, struct error *error)
{
	struct options *all = to;

	all->mtu_given = true;
	return option_number(o, &all->mtu, text, error);
}

#define NUMBER(field, min, max) OPTION_NUMBER(struct options, field, min, max)
#define QUEUES(field)		.value = "LIST", .read = queue_list, OPTION_AT(struct options, field)

static const struct option known[] = {
	{"--rx-queues",
	 "receive queues by port, all polled, as 2,1; the last number holds for all "
	 "further ports (1)",
	 QUEUES(rx_queues)},
	{"--tx-queues", "transmit queues by port (1)", QUEUES(tx_queues)},
	{"--rx-desc", "descriptors per receive queue (1024)", NUMBER(rx_desc, 32, 32768)},
	{"--tx-desc", "descriptors per transmit queue (1024)", NUMBER(tx_desc, 32, 32768)},
	{"--mbufs", "buffers per pool (0: enough for the rings)", NUMBER(mbufs, 0, 16777216)},
	{"--room", "octets of frame in a buffer, up to 16384 (0: enough for the MTU)",
	 NUMBER(room, 0, 16384)},
	{"--mtu", "largest L3 packet, 68..9262 (1500)", .value = "N", .read = mtu,
	 .size = sizeof(uint16_t), .min = 68, .max = LG_MAX_FRAME - 18},
	{"--rx-burst", "frames per receive call (32)", NUMBER(rx_burst, 1, LG_MAX_BURST)},
	{"--turn-us",
	 "for shared cores: send what is due, then sleep until the next multiple of N us "
	 "(0: never sleep)",
	 NUMBER(turn_us, 0, 1000000)},
	{"--phase-us", "turns begin so much later (0)", NUMBER(phase_us, 0, 1000000)},
	{"--priority", "of SCHED_FIFO while a trial is paced; needs turns (0: none)",
	 NUMBER(priority, 0, 99)},
	{"--share", "percent of its core that a worker with a priority takes (100)",
	 NUMBER(share, 1, 100)},
	{"--nic-time", "1: arrivals by the NIC's clock, where it has one (0)",
	 NUMBER(nic_time, 0, 1)},
	{"--map",
	 "queues to workers, as tx0.0@1,rx0.0@0: port.queue@worker (in turn over all "
	 "lcores)",
	 .value = "LIST", .read = map_list},
	{"--attach", "a device for the next port, behind those of EAL; repeatable", .value = "DEV",
	 .read = device},
	{0},
};

bool args_parse(struct options *o, int argc, char *const argv[], bool *help, struct error *error)
{
	set_defaults(o);
	if (!options_read(known, "loadgen [EAL arguments] -- [options]", o, argc, argv, help,
			  error))
		return false;
	/* One that never sleeps would be stopped by the kernel, and stop all others. */
	if (o->priority && !o->turn_us)
		return error_set(error, "--turn-us as well", "--priority of one that never sleeps");
	return true;
}
