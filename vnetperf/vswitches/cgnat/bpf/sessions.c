/* Time, and the end of mappings: what was idle for too long ends, by a timer of the kernel's. */
#include "nat.h"

#define TICK_NS 10000000ULL
/* All in a second, unless that would keep a processor from its work. */
#define OF_A_TICK (PLACES < 6553600u ? PLACES / 100 + 1 : 65536u)
#define SECOND_NS 1000000000ULL
/* What is looked at is judged by a clock that is behind by more than two ticks are ever apart: what
 * came between these was noted with the second of the first one. */
#define BEHIND_NS	(SECOND_NS / 2)
#define CLOCK_MONOTONIC 1

struct sweep {
	uint32_t first; /* place to look at; it stays, or the verifier would walk the loop */
	uint32_t now;
	uint32_t all; /* those that are in use, too */
};

struct alarm {
	struct bpf_timer timer;
	uint32_t cursor;
};

struct {
	FIELD(type, BPF_MAP_TYPE_ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, uint32_t);
	TYPE(value, struct alarm);
} alarms SEC(".maps");

/* In whole seconds: never early (RFC 5382 REQ-5, RFC 5508 REQ-2). */
ALWAYS bool is_idle(uint32_t number, uint64_t place, uint32_t now)
{
	const uint16_t state = place >> STATE_SHIFT & STATE_BITS;
	uint32_t limit = UDP_S;

	if (number >= KIND_ICMP * PLACES_OF)
		limit = ICMP_S;
	else if (number >= KIND_TCP * PLACES_OF)
		limit = tcp_established(state) ? TCP_S : TCP_TRANSITORY_S;
	return (int32_t)(now - (uint32_t)place) > (int32_t)limit;
}

/* The key goes while nobody can take the place, so that no two ends have one. */
static long look_at(uint32_t index, void *given)
{
	const struct sweep *sweep = given;
	uint32_t number = sweep->first + index;
	uint64_t *at = bpf_map_lookup_elem(&places, &number), place;
	struct inside key = {};
	const uint32_t *offset;

	if (!at)
		return 0;
	place = *(volatile uint64_t *)at;
	if (!(place & LIVE) || place & ENDING ||
	    (!sweep->all && !is_idle(number, place, sweep->now)))
		return 0;
	if (__sync_val_compare_and_swap(at, place, place | ENDING) != place)
		return 0; /* used just now */
	key.kind = number / PLACES_OF;
	key.ip = net32(INSIDE_FIRST + number % PLACES_OF / BLOCK);
	key.port = place >> PORT_SHIFT;
	offset = bpf_map_lookup_elem(&insides, &key);
	/* Two processors may have taken a place for one end: the key is of the first. */
	if (offset && *offset == number % BLOCK && !bpf_map_delete_elem(&insides, &key))
		add_one(&tallies, ENDED);
	__sync_val_compare_and_swap(at, place | ENDING, 0);
	return 0;
}

static int tick(void *map, uint32_t *key, struct alarm *alarm)
{
	const uint64_t ns = bpf_ktime_get_ns();
	struct sweep sweep = {.first = alarm->cursor, .now = (ns - BEHIND_NS) / SECOND_NS};
	uint32_t first = 0, now = ns / SECOND_NS;

	(void)map;
	(void)key;
	bpf_map_update_elem(&second, &first, &now, 0);
	bpf_loop(OF_A_TICK, look_at, &sweep, 0);
	alarm->cursor = sweep.first + OF_A_TICK < PLACES ? sweep.first + OF_A_TICK : 0;
	bpf_timer_start(&alarm->timer, TICK_NS, 0);
	return 0;
}

/* Begin to keep time. The timer goes with its map. */
SEC("syscall") int begin(void *context)
{
	uint32_t first = 0;
	struct alarm *alarm = bpf_map_lookup_elem(&alarms, &first);

	(void)context;
	if (!alarm || bpf_timer_init(&alarm->timer, &alarms, CLOCK_MONOTONIC) ||
	    bpf_timer_set_callback(&alarm->timer, tick))
		return 1;
	return (int)bpf_timer_start(&alarm->timer, 0, 0);
}

struct span {
	uint32_t first, count, now, all;
};

/* Look at some places now, and end those that are idle, or all. */
SEC("syscall") int look(struct span *span)
{
	struct sweep sweep = {.first = span->first, .now = span->now, .all = span->all};

	bpf_loop(span->count, look_at, &sweep, 0);
	return 0;
}
