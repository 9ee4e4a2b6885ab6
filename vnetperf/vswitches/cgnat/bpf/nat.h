/* Maps of the NAT in XDP, which its programs share.
 *
 * Subscribers, pool, blocks, room and timers are macros that the loader defines: divisions by them
 * are by constants. A subscriber's ports are computed (RFC 7422), so a place, of which there is one
 * for each public port and kind, says whose it is by its number alone.
 */
#ifndef VNETPERF_NAT_H
#define VNETPERF_NAT_H

#include "bpf_counts.h"

#include "../engine/tcp.h"

/* A place of 64 bits: second of its last use, port within, state of TCP and these two; 0: free. It
 * changes by compare-and-swap alone, so that it always is one processor's. */
#define LIVE	    (1ULL << 63)
#define ENDING	    (1ULL << 62) /* its key is being deleted */
#define STATE_SHIFT 48
#define PORT_SHIFT  32
#define STATE_BITS  0x3fff
#define PLACES_OF   (SUBSCRIBERS * BLOCK) /* of a kind */
#define PLACES	    (KINDS * PLACES_OF)

/* Counters of a port beside the verdicts; PASS counts all that came in. */
enum { NO_TARGET = N_VERDICTS, IS_ENDING, COUNTS };
/* Of all ports. */
enum { MADE, ENDED, TALLIES };

struct inside {
	be32 ip;
	be16 port;
	uint16_t kind;
};

/* Where in its subscriber's block the public port of an inside end is. A full one refuses: it does
 * not forget, as the map that drops the least recently used would. */
struct {
	FIELD(type, BPF_MAP_TYPE_HASH);
	FIELD(max_entries, ROOM);
	TYPE(key, struct inside);
	TYPE(value, uint32_t);
} insides SEC(".maps");

struct {
	FIELD(type, BPF_MAP_TYPE_ARRAY);
	FIELD(max_entries, PLACES);
	TYPE(key, uint32_t);
	TYPE(value, uint64_t);
} places SEC(".maps");

struct {
	FIELD(type, BPF_MAP_TYPE_ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, uint32_t);
	TYPE(value, uint32_t);
} second SEC(".maps");

COUNTERS(tallies, TALLIES);

struct {
	FIELD(type, BPF_MAP_TYPE_DEVMAP);
	FIELD(max_entries, SIDES);
	TYPE(key, uint32_t);
	TYPE(value, uint32_t);
} target SEC(".maps");

ALWAYS uint32_t seconds(void)
{
	uint32_t first = 0;
	uint32_t *now = bpf_map_lookup_elem(&second, &first);

	return now ? *now : 0;
}

#endif
