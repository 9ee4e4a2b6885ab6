#include "args.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "values.h"

const char *const stage_names[STAGES] = {"rx", "val", "nat", "ct", "tx"};

static const char *const blocks[] = {"computed", "dynamic", NULL};
static const char *const filtering[] = {"endpoint-independent", "address-and-port", NULL};
static const char *const tcp[] = {"loose", "strict", NULL};
static const char *const log_forms[] = {"text", "ipfix", NULL};
static const char *const no_yes[] = {"no", "yes", NULL};

static void set_defaults(struct options *o)
{
	memset(o, 0, sizeof(*o));
	o->nat = (struct config){
		.inside = 0x64400001,
		.subscribers = 1024,
		.pool = 0xc6120000,
		.addresses = 1,
		.block = 63,
		.most_blocks = 4,
		.hold_s = 120,
		.mappings = 65536,
		.sessions = 65536,
		.udp_s = 300,
		.icmp_s = 60,
		.tcp_s = 7440,
		.tcp_transitory_s = 240,
	};
	o->groups[0] = (struct group){STAGE_RX, STAGE_TX};
	o->n_groups = 1;
	o->rx_desc = o->tx_desc = 1024;
	o->room = 2048;
	o->share = 100;
}

static bool address(const struct option *o, void *to, const char *text, struct error *error)
{
	struct in_addr found;

	if (inet_pton(AF_INET, text, &found) != 1)
		return error_set(error, "an IPv4 address", "%s=%.60s", o->name, text);
	*(uint32_t *)to = ntohl(found.s_addr);
	return true;
}

static bool mac_pair(const struct option *o, void *to, const char *text, struct error *error)
{
	uint8_t(*macs)[6] = to;
	const char *second = value_mac(text, macs[INSIDE]);
	const char *after = second && *second == ',' ? value_mac(second + 1, macs[OUTSIDE]) : NULL;

	return (after && *after == '\0') || error_set(error, "two, as 02:00:00:00:00:01,02:...",
						      "%s is no pair of MAC addresses", o->name);
}

static bool stage_list(const struct option *known, void *to, const char *text, struct error *error)
{
	struct options *o = to;
	uint32_t next = STAGE_RX;

	(void)known;
	o->n_groups = 0;
	while (next < STAGES) {
		const size_t n = strlen(stage_names[next]);
		const char after = text[strncmp(text, stage_names[next], n) == 0 ? n : 0];

		if (strncmp(text, stage_names[next], n) != 0 ||
		    (next + 1 < STAGES ? after != '+' && after != '/' : after != '\0'))
			return error_set(error,
					 "rx, val, nat, ct, tx in this order, + or / between",
					 "--stages does not go on with '%s'", stage_names[next]);
		if (next == STAGE_RX || text[-1] == '/')
			o->groups[o->n_groups++].first = (enum stage)next;
		o->groups[o->n_groups - 1].last = (enum stage)next;
		text += n + 1;
		next++;
	}
	return true;
}

/* A number for each group. */
static bool number_list(uint32_t *to, uint32_t *n, const char *name, const char *text,
			struct error *error)
{
	char *end;

	for (*n = 0; *n < STAGES; text = end + 1) {
		to[(*n)++] = (uint32_t)strtoul(text, &end, 10);
		if (end == text || (*end != ',' && *end != '\0'))
			break;
		if (*end == '\0')
			return true;
	}
	return error_set(error, "numbers, as 1,2,3", "%s is no list of numbers", name);
}

static bool lcores(const struct option *o, void *to, const char *text, struct error *error)
{
	struct options *all = to;

	return number_list(all->lcores, &all->n_lcores, o->name, text, error);
}

static bool phases(const struct option *o, void *to, const char *text, struct error *error)
{
	struct options *all = to;

	return number_list(all->phases, &all->n_phases, o->name, text, error);
}

static bool log_file(const struct option *o, void *to, const char *text, struct error *error)
{
	if (strlen(text) >= o->size)
		return error_set(error, "255 octets", "%s is too long", o->name);
	snprintf(to, o->size, "%s", text);
	return true;
}

#define PURPOSE                                                                                    \
	"cgnat [EAL arguments] -- [options]; subscribers at port 0, public addresses at port 1"
#define NUMBER(field, min, max) OPTION_NUMBER(struct options, field, min, max)
#define CHOICE(field, words)	OPTION_CHOICE(struct options, field, words)
#define OTHER(reader, text, field)                                                                 \
	.value = (text), .read = (reader), OPTION_AT(struct options, field)

static const struct option known[] = {
	{"--own", "of the ports", OTHER(mac_pair, "MAC,MAC", macs.own)},
	{"--next-hop", "where frames go", OTHER(mac_pair, "MAC,MAC", macs.next_hop)},
	{"--stages", "of lcores, as rx+val/nat/ct+tx (rx+val+nat+ct+tx: one does all)",
	 .read = stage_list, .value = "LIST"},
	{"--lcores-of-stages", "an lcore for each group (in order of their numbers)",
	 .read = lcores, .value = "LIST"},
	{"--phases", "how much later turns of each group begin, us (0)", .read = phases,
	 .value = "LIST"},
	{"--log", "what blocks were given out and came back", OTHER(log_file, "FILE", log)},
	{"--inside", "first subscriber (100.64.0.1)", OTHER(address, "ADDRESS", nat.inside)},
	{"--subscribers", "their number (1024)", NUMBER(nat.subscribers, 1, 1 << 24)},
	{"--pool", "first public address (198.18.0.0)", OTHER(address, "ADDRESS", nat.pool)},
	{"--addresses", "public addresses (1)", NUMBER(nat.addresses, 1, 65536)},
	{"--block", "ports of a block (63)", NUMBER(nat.block, 1, PORTS - FIRST_PORT)},
	{"--blocks", "how they are given out", CHOICE(nat.dynamic, blocks)},
	{"--most-blocks", "of a subscriber, if dynamic (4)",
	 NUMBER(nat.most_blocks, 1, MOST_BLOCKS)},
	{"--hold", "seconds that a block which came back rests (120)",
	 NUMBER(nat.hold_s, 0, 86400)},
	{"--mappings", "room (65536)", NUMBER(nat.mappings, 1, 1 << 28)},
	{"--sessions", "room (65536)", NUMBER(nat.sessions, 1, 1 << 28)},
	{"--session-limit", "of a subscriber (0: none)", NUMBER(nat.session_limit, 0, UINT32_MAX)},
	{"--filtering", "who may send to a mapping", CHOICE(nat.filtering, filtering)},
	{"--tcp", "strict: connections begin with SYN", CHOICE(nat.strict_tcp, tcp)},
	{"--inbound-refresh", "packets from outside keep sessions of UDP and ICMP",
	 CHOICE(nat.inbound_refresh, no_yes)},
	{"--udp-timeout", "seconds (300)", NUMBER(nat.udp_s, 1, 86400)},
	{"--icmp-timeout", "seconds (60)", NUMBER(nat.icmp_s, 1, 86400)},
	{"--tcp-timeout", "seconds (7440)", NUMBER(nat.tcp_s, 1, 864000)},
	{"--tcp-transitory-timeout", "seconds (240)", NUMBER(nat.tcp_transitory_s, 1, 86400)},
	{"--rx-desc", "descriptors (1024)", NUMBER(rx_desc, 32, 32768)},
	{"--tx-desc", "descriptors (1024)", NUMBER(tx_desc, 32, 32768)},
	{"--room", "octets of frame in a buffer (2048)", NUMBER(room, 1518, 16384)},
	{"--log-form", "of --log", CHOICE(log_ipfix, log_forms)},
	{"--turn-us", "sleep until the next multiple when idle (0: never)",
	 NUMBER(turn_us, 0, 1000000)},
	{"--priority", "of SCHED_FIFO, with turns (0: none)", NUMBER(priority, 0, 99)},
	{"--share", "percent of its processor that a thread takes with a priority (100)",
	 NUMBER(share, 1, 100)},
	{0},
};

bool args_parse(struct options *o, int argc, char *const argv[], bool *help, struct error *error)
{
	set_defaults(o);
	return options_read(known, PURPOSE, o, argc, argv, help, error) &&
	       config_check(&o->nat, error);
}
