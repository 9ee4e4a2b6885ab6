/*
 * The timer of the NAT in XDP, as a program of its own: maps are arrays, the clock is a number.
 */
#define VNETPERF_BPF_H /* what follows is in place of it */
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>

#define SEC(name)
#define FIELD(name, value) int(*name)[value]
#define TYPE(name, type)   type *name
#define ALWAYS		   static inline

#define SUBSCRIBERS	 1u
#define BLOCK		 4u
#define PER_ADDRESS	 1u
#define ROOM		 8
#define INSIDE_FIRST	 0x64400001u
#define UDP_S		 300
#define ICMP_S		 60
#define TCP_S		 7440
#define TCP_TRANSITORY_S 240

static void *bpf_map_lookup_elem(void *map, const void *key);
static long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags);
static long bpf_map_delete_elem(void *map, const void *key);
static __u64 bpf_ktime_get_ns(void);
static long bpf_loop(__u32 count, long (*each)(__u32, void *), void *context, __u64 flags);
static long bpf_timer_init(struct bpf_timer *timer, void *map, __u64 clock);
static long bpf_timer_set_callback(struct bpf_timer *timer, void *callback);
static long bpf_timer_start(struct bpf_timer *timer, __u64 ns, __u64 flags);

#include "sessions.c"

static __u64 clock_ns;
static uint64_t place[PLACES], tally[TALLIES];
static uint32_t published;
static struct alarm alarm_of_map;
static struct {
	struct inside key;
	uint32_t offset;
	bool live;
} inside_end; /* one is enough */

static void *bpf_map_lookup_elem(void *map, const void *key)
{
	const uint32_t number = *(const uint32_t *)key;

	if (map == &places)
		return number < PLACES ? &place[number] : NULL;
	if (map == &tallies)
		return &tally[number];
	if (map == &second)
		return &published;
	if (map == &alarms)
		return &alarm_of_map;
	return inside_end.live && !memcmp(&inside_end.key, key, sizeof(inside_end.key))
		       ? &inside_end.offset
		       : NULL;
}

static long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags)
{
	(void)flags;
	memcpy(bpf_map_lookup_elem(map, key), value, sizeof(uint32_t));
	return 0;
}

static long bpf_map_delete_elem(void *map, const void *key)
{
	if (!bpf_map_lookup_elem(map, key))
		return -2;
	inside_end.live = false;
	return 0;
}

static __u64 bpf_ktime_get_ns(void)
{
	return clock_ns;
}

static long bpf_loop(__u32 count, long (*each)(__u32, void *), void *context, __u64 flags)
{
	(void)flags;
	for (__u32 i = 0; i < count && !each(i, context); i++)
		;
	return count;
}

static long bpf_timer_init(struct bpf_timer *timer, void *map, __u64 clock)
{
	return timer != &alarm_of_map.timer || map != &alarms || clock != CLOCK_MONOTONIC;
}

static long bpf_timer_set_callback(struct bpf_timer *timer, void *callback)
{
	return timer != &alarm_of_map.timer || callback != tick;
}

static long bpf_timer_start(struct bpf_timer *timer, __u64 ns, __u64 flags)
{
	(void)ns;
	return timer != &alarm_of_map.timer || flags;
}

static void tick_until(double s)
{
	uint32_t first = 0;

	for (; clock_ns < (__u64)(s * 1e9); clock_ns += TICK_NS)
		tick(&alarms, &first, &alarm_of_map);
}

/* A place of UDP, taken now by the end that has the key, of this offset. */
static void take(uint32_t offset, uint32_t of_key)
{
	inside_end.key = (struct inside){net32(INSIDE_FIRST), net16(1030), KIND_UDP};
	inside_end.offset = of_key;
	inside_end.live = true;
	place[offset] = LIVE | (uint64_t)net16(1030) << PORT_SHIFT | seconds();
}

#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			printf("%s: %d: %s\n", __func__, __LINE__, #what);                         \
			failed = 1;                                                                \
		}                                                                                  \
	} while (0)

static int failed;

/* A packet comes between two ticks: what it is noted with may be the second before. Ticks are no
 * whole number of them apart: each begins when the last has ended. */
static void never_early(void)
{
	clock_ns = 4999000000ULL;
	tick_until(5.0);
	clock_ns = 5008000000ULL;
	take(1, 1);
	CHECK((uint32_t)place[1] == 4);
	clock_ns = 305001000000ULL;
	alarm_of_map.cursor = 1;
	tick_until(305.002); /* looks at it after 299.993 s */
	CHECK(place[1] & LIVE && inside_end.live);
	tick_until(307.5);
	CHECK(!place[1] && !inside_end.live && tally[ENDED] == 1);
	take(1, 1); /* within the first half of a second it is later than what it is looked at by */
	CHECK((uint32_t)place[1] == 307);
	clock_ns = 308100000000ULL;
	published = 308;
	take(1, 1);
	tick_until(308.3);
	CHECK(place[1] & LIVE);
	place[1] = 0;
}

/* Two processors took a place for the same end; the key is of the one that was first. */
static void a_place_ends_with_its_own_key(void)
{
	tally[ENDED] = 0;
	take(2, 3);
	take(3, 3);
	place[3] += 100; /* used since */
	tick_until(clock_ns / 1e9 + 303);
	CHECK(!place[2]);
	CHECK(place[3] & LIVE && inside_end.live && tally[ENDED] == 0);
	tick_until(clock_ns / 1e9 + 100);
	CHECK(!place[3] && !inside_end.live && tally[ENDED] == 1);
}

int main(void)
{
	CHECK(begin(NULL) == 0);
	never_early();
	a_place_ends_with_its_own_key();
	return failed;
}
