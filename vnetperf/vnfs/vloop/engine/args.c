#include "args.h"

#include <stdio.h>
#include <stdlib.h>

#include "words.h"

const char *const mode_names[MODES] = {"io", "mac", "macswap", "5tswap"};

/* An option with a number. */
struct option {
	const char *name;
	size_t at;
	unsigned long min, max;
	const char *help;
};

#define AT(field) offsetof(struct options, field)

static const struct option options[] = {
	{"--queues", AT(queues), 1, 128, "queue pairs of each port (1)"},
	{"--rx-desc", AT(rx_desc), 32, 32768, "descriptors of a receive queue (1024)"},
	{"--tx-desc", AT(tx_desc), 32, 32768, "descriptors of a transmit queue (1024)"},
	{"--buffers", AT(buffers), 1024, 1 << 26, "of the pool (16384)"},
	{"--room", AT(room), 1518, 16384, "octets of frame in a buffer (2048)"},
	{"--max-frame", AT(max_frame), 0, 65535, "octets, told to the drivers (0: not told)"},
	{"--node", AT(node), 0, 63, "NUMA node of buffers and rings (0)"},
	{"--turn-us", AT(turn_us), 0, 1000000, "sleeps to the next multiple (0: never)"},
	{"--phase-us", AT(phase_us), 0, 999999, "of the multiples in the monotonic clock (0)"},
	{"--priority", AT(priority), 0, 99, "of SCHED_FIFO, with --turn-us (0: normal)"},
	{"--share", AT(share), 1, 100, "percent of its processor, with --priority (80)"},
};

#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

void args_defaults(struct options *o)
{
	*o = (struct options){
		.queues = 1,
		.rx_desc = 1024,
		.tx_desc = 1024,
		.buffers = 16384,
		.room = 2048,
		.share = 80,
	};
	for (unsigned int port = 0; port < PORTS; port++) {
		o->peer[port][0] = 0x02;
		o->peer[port][5] = (uint8_t)port;
	}
}

const char *args_usage(void)
{
	static char text[2048];
	size_t n = (size_t)snprintf(
		text, sizeof(text),
		"vloop [EAL arguments] -- [options]; forwards between port 0 and port 1\n"
		"  --mode io|mac|macswap|5tswap  as testpmd's --forward-mode (io)\n"
		"  --peer0 MAC, --peer1 MAC  where the port sends to, of mode mac\n");

	for (size_t i = 0; i < N_OPTIONS && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "  %s N  %s\n", options[i].name,
				      options[i].help);
	return text;
}

static bool mac_address(const char *name, const char *text, uint8_t mac[MAC_OCTETS],
			struct problem *why)
{
	const char *at = text;

	for (unsigned int i = 0; i < MAC_OCTETS; i++) {
		char *end;
		const unsigned long octet = strtoul(at, &end, 16);

		if (end != at + 2 || octet > 0xff || *end != (i + 1 < MAC_OCTETS ? ':' : '\0'))
			return problem_set(why, "as 02:00:00:00:00:01", "%s %.60s", name, text);
		mac[i] = (uint8_t)octet;
		at = end + 1;
	}
	return true;
}

static bool mode_named(struct options *o, const char *text, struct problem *why)
{
	for (unsigned int mode = 0; mode < MODES; mode++) {
		if (strcmp(text, mode_names[mode]) == 0) {
			o->mode = (enum mode)mode;
			return true;
		}
	}
	return problem_set(why, "io, mac, macswap, 5tswap", "--mode %.60s", text);
}

static bool option(void *to, const char *name, const char *value, struct problem *why)
{
	struct options *o = to;
	unsigned long n;

	if (strcmp(name, "--mode") == 0)
		return mode_named(o, value, why);
	if (strcmp(name, "--peer0") == 0)
		return mac_address(name, value, o->peer[0], why);
	if (strcmp(name, "--peer1") == 0)
		return mac_address(name, value, o->peer[1], why);
	for (size_t i = 0; i < N_OPTIONS; i++) {
		const struct option *known = &options[i];

		if (strcmp(name, known->name) != 0)
			continue;
		if (!words_number(name, value, known->min, known->max, &n, why))
			return false;
		*(uint32_t *)(void *)((char *)o + known->at) = (uint32_t)n;
		return true;
	}
	return problem_set(why, "those that --help lists", "unknown option '%.60s'", name);
}

bool args_parse(struct options *o, int argc, char *const argv[], struct problem *why)
{
	if (!words_take(argc, argv, option, o, &o->help, why))
		return false;
	if (o->help)
		return true;
	if (o->phase_us && o->phase_us >= o->turn_us)
		return problem_set(why, "less than --turn-us", "--phase-us %u", o->phase_us);
	/* It would hold its processor for ever. */
	if (o->priority && o->turn_us == 0)
		return problem_set(why, "--turn-us above 0 with it", "--priority %u", o->priority);
	return true;
}
