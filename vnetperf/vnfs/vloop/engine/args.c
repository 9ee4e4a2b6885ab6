#include "args.h"

#include "options.h"
#include "values.h"

const char *const mode_names[] = {"io", "mac", "macswap", "5tswap", NULL};

static bool peer(const struct option *o, void *to, const char *text, struct error *error)
{
	const char *after = value_mac(text, to);

	return (after && *after == '\0') ||
	       error_set(error, "as 02:00:00:00:00:01", "%s=%.60s", o->name, text);
}

#define PEER(number)		.value = "MAC", .read = peer, OPTION_AT(struct options, peer[number])
#define NUMBER(field, min, max) OPTION_NUMBER(struct options, field, min, max)

static const struct option known[] = {
	{"--mode", "as testpmd's --forward-mode (io)",
	 OPTION_CHOICE(struct options, mode, mode_names)},
	{"--peer0", "where port 0 sends to, of mode mac", PEER(0)},
	{"--peer1", "where port 1 sends to, of mode mac", PEER(1)},
	{"--queues", "queue pairs of each port (1)", NUMBER(queues, 1, 128)},
	{"--rx-desc", "descriptors of a receive queue (1024)", NUMBER(rx_desc, 32, 32768)},
	{"--tx-desc", "descriptors of a transmit queue (1024)", NUMBER(tx_desc, 32, 32768)},
	{"--buffers", "of the pool (16384)", NUMBER(buffers, 1024, 1 << 26)},
	{"--room", "octets of frame in a buffer (2048)", NUMBER(room, 1518, 16384)},
	{"--max-frame", "octets, told to the drivers (0: not told)", NUMBER(max_frame, 0, 65535)},
	{"--node", "NUMA node of buffers and rings (0)", NUMBER(node, 0, 63)},
	{"--turn-us", "sleeps to the next multiple (0: never)", NUMBER(turn_us, 0, 1000000)},
	{"--phase-us", "of the multiples in the monotonic clock (0)", NUMBER(phase_us, 0, 999999)},
	{"--priority", "of SCHED_FIFO, with --turn-us (0: normal)", NUMBER(priority, 0, 99)},
	{"--share", "percent of its processor, with --priority (80)", NUMBER(share, 1, 100)},
	{0},
};

bool args_parse(struct options *o, int argc, char *const argv[], bool *help, struct error *error)
{
	*o = (struct options){
		.queues = 1,
		.rx_desc = 1024,
		.tx_desc = 1024,
		.buffers = 16384,
		.room = 2048,
		.share = 80,
		.peer = {{0x02}, {0x02, [5] = 1}},
	};
	if (!options_read(known,
			  "vloop [EAL arguments] -- [options]; forwards between port 0 and port 1",
			  o, argc, argv, help, error))
		return false;
	if (o->phase_us && o->phase_us >= o->turn_us)
		return error_set(error, "less than --turn-us", "--phase-us=%u", o->phase_us);
	/* It would hold its processor for ever. */
	if (o->priority && o->turn_us == 0)
		return error_set(error, "--turn-us above 0 with it", "--priority=%u", o->priority);
	return true;
}
