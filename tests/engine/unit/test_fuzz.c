/* Orders and frames that nobody would send, for FUZZ_SECONDS (1): they are refused, or taken. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "args.h"
#include "check.h"
#include "fields.h"
#include "neighbour.h"
#include "params.h"
#include "steps.h"
#include "stream.h"

#define N_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

static uint64_t state;

static uint32_t draw(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32) % below;
}

static const char *const keys[] = {
	"id",	 "tx_port", "rx_port", "size",	 "rx_size", "header", "l3",   "udp",
	"tcp",	 "outer",   "queue",   "stream", "offset",  "width",  "base", "count",
	"step",	 "mode",    "seed",    "rate",	 "port",    "mac",    "",     "address",
};
static const char *const values[] = {
	"0",	"1",	"2",   "63",  "64",   "65",    "255",	   "256",	 "1500",  "9216",
	"9280", "65535", "-1", "1e9", "nan",  "inf",   "1e308",	   "max",	 "inc",   "carry",
	"random", "",	"14",  "22",  "34",   "54",    "0x7fffffff", "4294967295", "=",   "8",
	"18446744073709551615", "18446744073709551616", "0.5@1", "1@1/0.1@9e9", "/", "@",
};

static void put_header(char *text, size_t room)
{
	size_t len = draw(4) ? 28 + 2 * draw(60) : draw(900);

	len = len < room - 1 ? len : room - 1;
	for (size_t i = 0; i < len; i++)
		text[i] = "0123456789abcdef"[draw(16)];
	if (len > 28 && draw(2)) /* an IPv4 header behind Ethernet */
		memcpy(text + 24, draw(4) ? "0800" : "86dd", 4);
	if (len > 30 && draw(2))
		memcpy(text + 28, "45", 2);
	text[len] = '\0';
}

static void make_order(char *text, size_t room, const char *const first[], unsigned int n)
{
	size_t at = 0;
	unsigned int more = draw(6);

	text[0] = '\0';
	for (unsigned int i = 0; i < n + more && at + 1100 < room; i++) {
		const char *key = i < n ? first[i] : keys[draw(N_OF(keys))];

		if (i < n && !draw(12))
			continue;
		at += (size_t)snprintf(text + at, room - at, "%s%s=", at ? "," : "", key);
		if (strcmp(key, "header") == 0) {
			put_header(text + at, room - at);
			at += strlen(text + at);
		} else if (draw(5)) {
			at += (size_t)snprintf(text + at, room - at, "%u", draw(draw(3) ? 100 : 70000));
		} else {
			at += (size_t)snprintf(text + at, room - at, "%s", values[draw(N_OF(values))]);
		}
	}
	if (at && !draw(8)) /* one octet is any other */
		text[draw((uint32_t)at)] = (char)(1 + draw(255));
}

static void order_of_a_stream(void)
{
	static const char *const add[] = {"id", "tx_port", "rx_port", "size", "header", "l3", "udp"};
	static const char *const field[] = {"offset", "width", "base", "count", "step"};
	static const char *const load[] = {"rate", "count"};
	static struct stream_spec spec;
	static uint8_t frame[LG_MAX_FRAME];
	struct error error;
	struct params ps;
	struct fields fs;
	char text[4096];

	make_order(text, sizeof(text), add, N_OF(add));
	if (!params_parse(&ps, text, &error) || !stream_parse(&spec, &ps, 2, LG_MAX_FRAME, &error))
		return;
	for (uint32_t i = draw(10); i > 0; i--) {
		make_order(text, sizeof(text), field, N_OF(field));
		if (params_parse(&ps, text, &error))
			stream_add_field(&spec, &ps, NULL, 0, &error);
	}
	make_order(text, sizeof(text), load, N_OF(load));
	if (params_parse(&ps, text, &error))
		stream_set_load(&spec, &ps, &error);
	stream_frame(&spec, frame);
	fields_init(&fs, spec.field, spec.n_fields, &spec.checksum, frame,
		    (uint16_t)(spec.frame_size - LG_FCS_LEN), state);
	for (unsigned int i = 0; i < 20; i++)
		fields_udp(&fs, frame, fields_write(&fs, frame));
	CHECK(spec.frame_size >= LG_MIN_FRAME && spec.frame_size <= LG_MAX_FRAME);
	CHECK(spec.n_fields <= LG_MAX_FIELDS && spec.header_len <= LG_MAX_HEADER);
}

static void order_of_steps(void)
{
	static const char *const pieces[] = {"1", "0.5", "@", "/", "1e308", "-1", "nan", "@1/", "9e9"};
	struct load_steps steps;
	struct error error;
	char text[256] = "";

	for (uint32_t i = draw(20); i > 0; i--)
		strcat(text, pieces[draw(N_OF(pieces))]);
	if (!steps_parse(&steps, text, 2e9, &error))
		return;
	CHECK(steps.n <= LG_MAX_STEPS && steps_seconds(&steps) >= 0);
}

static void arguments(void)
{
	static const char *const names[] = {"rx-queues", "tx-queues", "rx-desc", "tx-desc", "mbufs",
					    "rx-burst",	 "turn-us",  "mtu",	 "map",	    "room"};
	static const char *const maps[] = {"rx0.0@0", "tx15.15@63", "rx16.0@0", "rx0.0", "rx", ","};
	static struct options options;
	char text[8][96], *argv[9] = {(char[]){"loadgen"}};
	struct error error;
	bool help;
	int n = 1 + (int)draw(8);

	for (int i = 1; i < n; i++) {
		const char *name = names[draw(N_OF(names))];

		snprintf(text[i - 1], sizeof(text[0]), "--%s=%s", name,
			 draw(2) ? values[draw(N_OF(values))] : maps[draw(N_OF(maps))]);
		argv[i] = text[i - 1];
	}
	if (args_parse(&options, n, argv, &help, &error))
		CHECK(options.n_map <= ARGS_MAX_MAP && options.rx_burst <= LG_MAX_BURST);
}

/* What a DUT sends: the engine answers ARP requests and neighbour solicitations among it. */
static void frames(void)
{
	static const uint8_t arp[] = {8, 6, 0, 1, 8, 0, 6, 4, 0, 1};
	static const uint8_t ipv6[] = {0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255};
	static struct neighbours table;
	struct neighbour_entry entry = {.port = 0, .count = 1 + draw(5)};
	uint8_t reply[NEIGHBOUR_FRAME];
	size_t len = draw(130), at = 12;
	uint8_t *frame = malloc(len ? len : 1); /* its end is watched */
	struct error error;

	for (size_t i = 0; i < len; i++)
		frame[i] = draw(3) ? 0 : (uint8_t)draw(256);
	while (!draw(3) && at + 4 < len) {
		frame[at] = 0x81;
		frame[at + 1] = 0;
		at += 4;
	}
	if (len > at + sizeof(arp))
		memcpy(frame + at, draw(2) ? arp : ipv6, sizeof(arp));
	memset(&table, 0, sizeof(table));
	entry.ipv6 = draw(2);
	neighbour_add(&table, &entry, &error);
	if (draw(2))
		neighbour_add_any(&table, 0, entry.mac, &error);
	CHECK(neighbour_answer(&table, (uint16_t)draw(2), frame, len, reply) <= NEIGHBOUR_FRAME);
	neighbour_announcement(&entry, draw(5), reply);
	free(frame);
}

void test_fuzz(void)
{
	const char *seconds = getenv("FUZZ_SECONDS"), *seed = getenv("FUZZ_SEED");
	time_t end = time(NULL) + (seconds ? atoi(seconds) : 1);
	uint64_t rounds = 0;

	state = seed ? strtoull(seed, NULL, 0) | 1 : 88172645463325252ULL;
	do {
		for (unsigned int i = 0; i < 1000; i++, rounds++) {
			order_of_a_stream();
			order_of_steps();
			arguments();
			frames();
		}
	} while (time(NULL) < end);
	fprintf(stderr, "%llu rounds of four inputs\n", (unsigned long long)rounds);
}
