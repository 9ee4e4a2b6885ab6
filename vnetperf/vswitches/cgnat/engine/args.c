#include "args.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "words.h"

const char *const stage_names[STAGES] = {"rx", "val", "nat", "ct", "tx"};

/* What an option's text is, and where its value goes. */
enum form { NUMBER32, NUMBER16, ADDRESS, CHOICE };

struct option {
	const char *name;
	enum form form;
	size_t at;
	unsigned long min, max;
	const char *no, *yes; /* of a choice */
	const char *help;
};

#define AT(field)  offsetof(struct options, field)
#define NAT(field) AT(nat.field)

static const struct option options[] = {
	{"--inside", ADDRESS, NAT(inside), 0, 0, "", "", "first subscriber (100.64.0.1)"},
	{"--subscribers", NUMBER32, NAT(subscribers), 1, 1 << 24, "", "", "their number (1024)"},
	{"--pool", ADDRESS, NAT(pool), 0, 0, "", "", "first public address (198.18.0.0)"},
	{"--addresses", NUMBER32, NAT(addresses), 1, 65536, "", "", "public addresses (1)"},
	{"--block", NUMBER32, NAT(block), 1, PORTS - FIRST_PORT, "", "", "ports of a block (63)"},
	{"--blocks", CHOICE, NAT(dynamic), 0, 0, "computed", "dynamic", "how they are given out"},
	{"--most-blocks", NUMBER32, NAT(most_blocks), 1, MOST_BLOCKS, "", "",
	 "of a subscriber, if dynamic (4)"},
	{"--hold", NUMBER32, NAT(hold_s), 0, 86400, "", "",
	 "seconds that a block which came back rests (120)"},
	{"--mappings", NUMBER32, NAT(mappings), 1, 1 << 28, "", "", "room (65536)"},
	{"--sessions", NUMBER32, NAT(sessions), 1, 1 << 28, "", "", "room (65536)"},
	{"--session-limit", NUMBER32, NAT(session_limit), 0, UINT32_MAX, "", "",
	 "of a subscriber (0: none)"},
	{"--filtering", CHOICE, NAT(filtering), 0, 0, "endpoint-independent", "address-and-port",
	 "who may send to a mapping"},
	{"--tcp", CHOICE, NAT(strict_tcp), 0, 0, "loose", "strict",
	 "strict: connections begin with SYN"},
	{"--inbound-refresh", CHOICE, NAT(inbound_refresh), 0, 0, "no", "yes",
	 "packets from outside keep sessions of UDP and ICMP"},
	{"--udp-timeout", NUMBER32, NAT(udp_s), 1, 86400, "", "", "seconds (300)"},
	{"--icmp-timeout", NUMBER32, NAT(icmp_s), 1, 86400, "", "", "seconds (60)"},
	{"--tcp-timeout", NUMBER32, NAT(tcp_s), 1, 864000, "", "", "seconds (7440)"},
	{"--tcp-transitory-timeout", NUMBER32, NAT(tcp_transitory_s), 1, 86400, "", "",
	 "seconds (240)"},
	{"--rx-desc", NUMBER16, AT(rx_desc), 32, 32768, "", "", "descriptors (1024)"},
	{"--tx-desc", NUMBER16, AT(tx_desc), 32, 32768, "", "", "descriptors (1024)"},
	{"--room", NUMBER16, AT(room), 1518, 16384, "", "", "octets of frame in a buffer (2048)"},
	{"--log-form", CHOICE, AT(log_ipfix), 0, 0, "text", "ipfix", "of --log"},
	{"--turn-us", NUMBER32, AT(turn_us), 0, 1000000, "", "",
	 "sleep until the next multiple when idle (0: never)"},
	{"--priority", NUMBER16, AT(priority), 0, 99, "", "",
	 "of SCHED_FIFO, with turns (0: none)"},
	{"--share", NUMBER16, AT(share), 1, 100, "", "",
	 "percent of its processor that a thread takes with a priority (100)"},
};

#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

void args_defaults(struct options *o)
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

const char *args_usage(void)
{
	static char text[4096];
	size_t n = (size_t)snprintf(
		text, sizeof(text),
		"cgnat [EAL arguments] -- [options]; subscribers at port 0, public addresses at "
		"port 1\n"
		"  --own MAC,MAC  of the ports\n"
		"  --next-hop MAC,MAC  where frames go\n"
		"  --stages LIST  of lcores, as rx+val/nat/ct+tx (rx+val+nat+ct+tx: one does all)\n"
		"  --lcores-of-stages LIST  an lcore for each group (in order of their numbers)\n"
		"  --phases LIST  how much later turns of each group begin, us (0)\n"
		"  --log FILE  what blocks were given out and came back\n");

	for (size_t i = 0; i < N_OPTIONS && n < sizeof(text); i++) {
		const struct option *o = &options[i];

		n += (size_t)snprintf(text + n, sizeof(text) - n, "  %s %s%s%s  %s\n", o->name,
				      o->form == CHOICE ? o->no : "N", o->form == CHOICE ? "|" : "",
				      o->yes, o->help);
	}
	return text;
}

static bool store(const struct option *o, void *to, const char *text, struct problem *why)
{
	char accepted[64];
	struct in_addr address;
	unsigned long n = 0;

	switch (o->form) {
	case NUMBER32:
	case NUMBER16:
		if (!words_number(o->name, text, o->min, o->max, &n, why))
			return false;
		if (o->form == NUMBER32)
			*(uint32_t *)to = (uint32_t)n;
		else
			*(uint16_t *)to = (uint16_t)n;
		return true;
	case ADDRESS:
		if (inet_pton(AF_INET, text, &address) != 1)
			return problem_set(why, "an IPv4 address", "%s %.60s", o->name, text);
		*(uint32_t *)to = ntohl(address.s_addr);
		return true;
	default:
		if (strcmp(text, o->no) != 0 && strcmp(text, o->yes) != 0) {
			snprintf(accepted, sizeof(accepted), "%s, %s", o->no, o->yes);
			return problem_set(why, accepted, "%s %.60s", o->name, text);
		}
		*(bool *)to = strcmp(text, o->yes) == 0;
		return true;
	}
}

static bool mac_pair(const char *name, const char *text, uint8_t macs[SIDES][6],
		     struct problem *why)
{
	for (unsigned int side = 0; side < SIDES; side++) {
		for (unsigned int i = 0; i < 6; i++) {
			const char after = i < 5 ? ':' : side + 1 < SIDES ? ',' : '\0';
			char *end;
			const unsigned long octet = strtoul(text, &end, 16);

			if (end != text + 2 || octet > 0xff || *end != after)
				return problem_set(why, "two, as 02:00:00:00:00:01,02:...",
						   "%s is no pair of MAC addresses", name);
			macs[side][i] = (uint8_t)octet;
			text = end + 1;
		}
	}
	return true;
}

static bool stage_list(struct options *o, const char *text, struct problem *why)
{
	uint32_t next = STAGE_RX;

	o->n_groups = 0;
	while (next < STAGES) {
		const size_t n = strlen(stage_names[next]);
		const char after = text[strncmp(text, stage_names[next], n) == 0 ? n : 0];

		if (strncmp(text, stage_names[next], n) != 0 ||
		    (next + 1 < STAGES ? after != '+' && after != '/' : after != '\0'))
			return problem_set(why,
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
			struct problem *why)
{
	char *end;

	for (*n = 0; *n < STAGES; text = end + 1) {
		to[(*n)++] = (uint32_t)strtoul(text, &end, 10);
		if (end == text || (*end != ',' && *end != '\0'))
			break;
		if (*end == '\0')
			return true;
	}
	return problem_set(why, "numbers, as 1,2,3", "%s is no list of numbers", name);
}

static bool option(void *to, const char *name, const char *value, struct problem *why)
{
	struct options *o = to;

	if (strcmp(name, "--own") == 0)
		return mac_pair(name, value, o->macs.own, why);
	if (strcmp(name, "--next-hop") == 0)
		return mac_pair(name, value, o->macs.next_hop, why);
	if (strcmp(name, "--stages") == 0)
		return stage_list(o, value, why);
	if (strcmp(name, "--lcores-of-stages") == 0)
		return number_list(o->lcores, &o->n_lcores, name, value, why);
	if (strcmp(name, "--phases") == 0)
		return number_list(o->phases, &o->n_phases, name, value, why);
	if (strcmp(name, "--log") == 0) {
		if (strlen(value) >= sizeof(o->log))
			return problem_set(why, "255 octets", "--log is too long");
		snprintf(o->log, sizeof(o->log), "%s", value);
		return true;
	}
	for (size_t i = 0; i < N_OPTIONS; i++) {
		if (strcmp(name, options[i].name) == 0)
			return store(&options[i], (char *)o + options[i].at, value, why);
	}
	return problem_set(why, "those that --help lists", "unknown option '%.60s'", name);
}

bool args_parse(struct options *o, int argc, char *const argv[], struct problem *why)
{
	return words_take(argc, argv, option, o, &o->help, why) && config_check(&o->nat, why);
}
