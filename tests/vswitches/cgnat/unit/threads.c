/*
 * The stages "nat" and "ct" in two threads, mappings ending all the time: under ThreadSanitizer.
 *
 * With each packet goes who its mapping belongs to. A mapping that was given to somebody else while
 * the other stage still had a session of it, or a packet on its way, is seen there.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "args.h"
#include "tracker.h"

#define ROUNDS	 20000u
#define RING	 256u
#define MAPPINGS 64u

struct item {
	struct packet packet;
	uint8_t frame[64];
};

struct lane {
	struct options options;
	struct published published;
	struct mapper mapper;
	struct tracker tracker;
	struct item items[RING];
	_Atomic uint32_t put, taken;
	_Atomic uint32_t second;
	struct binding known[MAPPINGS];
	bool has[MAPPINGS];
	uint64_t wrong;
};

static void *zeroed(size_t octets)
{
	void *got = aligned_alloc(64, (octets + 63) / 64 * 64);

	if (got)
		memset(got, 0, (octets + 63) / 64 * 64);
	return got;
}

static const struct memory memory = {zeroed, free};

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* As if validation had passed it: UDP, from one of many ports, to one of few endpoints. */
static void fill(struct item *item, uint64_t *state)
{
	struct packet *p = &item->packet;

	memset(item, 0, sizeof(*item));
	p->frame = item->frame;
	p->l3 = ETHER_LEN;
	p->from = INSIDE;
	p->to = OUTSIDE;
	p->src = net32(0x64400001 + (uint32_t)(next(state) % 4));
	p->dst = net32(0xc6330001);
	p->src_port = net16((uint16_t)(next(state) % 200));
	p->dst_port = net16((uint16_t)(next(state) % 3));
	packet_ipv4(p)->dst = p->dst;
	packet_ipv4(p)->src = p->src;
}

static void check(struct lane *lane, const struct packet *p)
{
	const uint32_t n = p->up.mapping;

	if (atomic_load_explicit(&lane->published.uses[n], memory_order_relaxed) && lane->has[n] &&
	    (lane->known[n].in_ip != p->up.in_ip || lane->known[n].in_port != p->up.in_port))
		lane->wrong++;
	lane->known[n] = p->up;
	lane->has[n] = true;
}

static void *track(void *of)
{
	struct lane *lane = of;
	uint32_t taken = 0;

	while (taken < ROUNDS) {
		struct packet *p = &lane->items[taken % RING].packet;

		if (atomic_load_explicit(&lane->put, memory_order_acquire) == taken) {
			sched_yield();
			continue;
		}
		lane->tracker.second = atomic_load(&lane->second);
		if (p->verdict == PASS) {
			check(lane, p);
			tracker_run(&lane->tracker, &p, 1);
			tracker_done(&lane->tracker, 1);
		}
		tracker_sweep(&lane->tracker, 16);
		atomic_store_explicit(&lane->taken, ++taken, memory_order_release);
	}
	return NULL;
}

static void map(struct lane *lane, uint64_t state)
{
	for (uint32_t put = 0; put < ROUNDS;) {
		struct item *item = &lane->items[put % RING];
		struct packet *p = &item->packet;

		if (put - atomic_load_explicit(&lane->taken, memory_order_acquire) == RING) {
			sched_yield();
			continue;
		}
		fill(item, &state);
		mapper_run(&lane->mapper, &p, 1);
		lane->mapper.sent += p->verdict == PASS;
		atomic_store_explicit(&lane->put, ++put, memory_order_release);
		lane->mapper.second = put / 64;
		atomic_store(&lane->second, put / 64);
		mapper_sweep(&lane->mapper, 16);
	}
}

/* Of somebody whom no subscriber has sent to, to what the first live mapping is known by. */
static uint8_t from_stranger(struct lane *lane)
{
	struct item *item = &lane->items[0];
	struct packet *p = &item->packet;
	const struct mapping *at = lane->mapper.mappings;
	uint64_t state = 1;

	while (!at->live)
		at++;
	fill(item, &state);
	p->from = OUTSIDE;
	packet_ipv4(p)->src = p->src = net32(0xcb007109);
	packet_ipv4(p)->dst = p->dst = at->pub_ip;
	p->dst_port = at->pub_port;
	mapper_run(&lane->mapper, &p, 1);
	return p->verdict;
}

/* A mapping without a session, its packet on its way: a stranger's behind it keeps it no longer. */
static bool strangers_keep_nothing(struct lane *lane)
{
	struct packet *first = &lane->items[1].packet;
	uint64_t state = 1;
	bool there, gone;

	/* All packets are done: without sessions nothing keeps a mapping. */
	lane->tracker.second = lane->mapper.second = UINT32_MAX / 2;
	tracker_sweep(&lane->tracker, lane->options.nat.sessions);
	mapper_sweep(&lane->mapper, MAPPINGS);
	fill(&lane->items[1], &state);
	mapper_run(&lane->mapper, &first, 1);
	lane->mapper.sent++;
	mapper_sweep(&lane->mapper, MAPPINGS);
	there = mapper_count(&lane->mapper) == 1 && from_stranger(lane) == PASS;
	lane->mapper.sent++;
	tracker_done(&lane->tracker, 1);
	mapper_sweep(&lane->mapper, MAPPINGS);
	gone = !mapper_count(&lane->mapper);
	tracker_done(&lane->tracker, 1);
	return there && gone;
}

int main(int argc, char **argv)
{
	struct lane *lane = zeroed(sizeof(*lane));
	struct config *c = &lane->options.nat;
	pthread_t thread;
	uint64_t ended;
	bool good, kept_out, help;
	struct error error;

	args_parse(&lane->options, 1, argv, &help, &error);
	c->subscribers = 4;
	c->mappings = MAPPINGS;
	c->sessions = 2 * MAPPINGS;
	c->udp_s = 1;
	if (argc != 2 || !mapper_create(&lane->mapper, c, &lane->published, &memory) ||
	    !tracker_create(&lane->tracker, c, &lane->published, &memory) ||
	    pthread_create(&thread, NULL, track, lane) != 0)
		return 2;
	map(lane, strtoull(argv[1], NULL, 10) + 1);
	pthread_join(thread, NULL);
	ended = lane->mapper.ended;
	kept_out = strangers_keep_nothing(lane);
	mapper_sweep(&lane->mapper, c->mappings);
	printf("%llu mappings made, %llu ended meanwhile, %llu wrong, %u left, %u sessions%s\n",
	       (unsigned long long)lane->mapper.made, (unsigned long long)ended,
	       (unsigned long long)lane->wrong, mapper_count(&lane->mapper),
	       tracker_count(&lane->tracker), kept_out ? "" : ", strangers keep mappings");
	good = kept_out && ended > 100 && !lane->wrong && !mapper_count(&lane->mapper) &&
	       !tracker_count(&lane->tracker);
	tracker_release(&lane->tracker, &memory);
	mapper_release(&lane->mapper, &memory);
	free(lane);
	return good ? 0 : 1;
}
