/*
 * The NAT without its I/O: bursts of frames come in by standard input, verdicts and translated
 * frames go out. A reference model in Python makes the same decisions, or one of the two is wrong.
 *
 *   in   second (4 octets), number of frames (1), each: side (1), length (2), of that in the first
 *        buffer (2), octets of that
 *   out  each: verdict (1), side (1), length of the first buffer (2), its octets; number of block
 * events (2), each: second, inside address, public address (4 each), first and last port (2 each),
 * given (1)
 *
 * 255 for the number of frames ends all sessions and mappings, after so many mappings (4 octets)
 * have been looked at: the sweep may be anywhere.
 *
 * All numbers are little-endian. With a new second every session and mapping is looked at.
 */
#include <stdio.h>
#include <stdlib.h>

#include "args.h"
#include "tracker.h"

#define LONGEST	    1600u
#define MOST_EVENTS 4096u
#define END_ALL	    255u

struct core {
	struct options options;
	struct published published;
	struct mapper mapper;
	struct tracker tracker;
	struct packet packets[BURST];
	uint8_t frames[BURST][LONGEST];
	struct block_event events[MOST_EVENTS];
	uint16_t n_events;
};

static void *zeroed(size_t octets)
{
	void *got = aligned_alloc(64, (octets + 63) / 64 * 64);

	if (got)
		memset(got, 0, (octets + 63) / 64 * 64);
	return got;
}

static const struct memory memory = {zeroed, free};

static void get(void *to, size_t n)
{
	if (fread(to, 1, n, stdin) != n) {
		fprintf(stderr, "core: input ends within a burst\n");
		exit(2);
	}
}

static void put(const void *from, size_t n)
{
	fwrite(from, 1, n, stdout);
}

static void note(void *to, const struct block_event *event)
{
	struct core *core = to;

	if (core->n_events == MOST_EVENTS)
		abort();
	core->events[core->n_events++] = *event;
}

static void look_at_all(struct core *core, uint32_t second)
{
	core->mapper.second = core->tracker.second = second;
	tracker_sweep(&core->tracker, core->options.nat.sessions);
	mapper_sweep(&core->mapper, core->options.nat.mappings);
}

static uint32_t passed(struct packet *of[], uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (of[i]->verdict == PASS)
			of[kept++] = of[i];
	}
	return kept;
}

static void translate(struct core *core, uint32_t n)
{
	struct packet *at[BURST];
	uint32_t kept;

	for (uint32_t i = 0; i < n; i++) {
		at[i] = &core->packets[i];
		packet_check(at[i], &core->options.macs);
	}
	kept = passed(at, n);
	mapper_run(&core->mapper, at, kept);
	kept = passed(at, kept);
	core->mapper.sent += kept;
	tracker_run(&core->tracker, at, kept);
	tracker_done(&core->tracker, kept);
	kept = passed(at, kept);
	for (uint32_t i = 0; i < kept; i++)
		packet_rewrite(at[i], &core->options.macs);
}

static void answer(struct core *core, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct packet *p = &core->packets[i];

		put(&p->verdict, 1);
		put(&p->to, 1);
		put(&p->head, 2);
		put(p->frame, p->head);
	}
	put(&core->n_events, 2);
	for (uint32_t i = 0; i < core->n_events; i++) {
		const struct block_event *e = &core->events[i];

		put(&e->second, 4);
		put(&e->in_ip, 4);
		put(&e->pub_ip, 4);
		put(&e->first, 2);
		put(&e->last, 2);
		put(&e->given, 1);
	}
	core->n_events = 0;
	fflush(stdout);
}

static bool burst(struct core *core)
{
	uint32_t second, looked_at;
	uint8_t n;

	if (fread(&second, 1, sizeof(second), stdin) != sizeof(second))
		return false;
	get(&n, 1);
	if (n == END_ALL) {
		get(&looked_at, sizeof(looked_at));
		mapper_sweep(&core->mapper, looked_at);
		tracker_end_all(&core->tracker);
		if (!mapper_end_all(&core->mapper))
			abort();
		answer(core, 0);
		return true;
	}
	if (n > BURST)
		abort();
	for (uint32_t i = 0; i < n; i++) {
		struct packet *p = &core->packets[i];
		uint8_t from;
		uint16_t length, head;

		get(&from, 1);
		get(&length, 2);
		get(&head, 2);
		if (head > length || head > LONGEST)
			abort();
		/* At the end of its memory: AddressSanitizer then sees who reads on. */
		*p = (struct packet){.frame = core->frames[i] + LONGEST - head,
				     .from = from,
				     .length = length,
				     .head = head};
		get(p->frame, head);
	}
	if (second != core->mapper.second)
		look_at_all(core, second);
	translate(core, n);
	answer(core, n);
	return true;
}

int main(int argc, char **argv)
{
	struct core *core = zeroed(sizeof(*core));
	struct problem why = {"no memory", ""};

	args_defaults(&core->options);
	if (!args_parse(&core->options, argc, argv, &why) ||
	    !mapper_create(&core->mapper, &core->options.nat, &core->published, &memory) ||
	    !tracker_create(&core->tracker, &core->options.nat, &core->published, &memory)) {
		fprintf(stderr, "core: %s; accepted: %s\n", why.what, why.accepted);
		return 1;
	}
	core->mapper.blocks.note = note;
	core->mapper.blocks.note_to = core;
	while (burst(core))
		;
	fprintf(stderr, "%u sessions, %u mappings, %u blocks\n", tracker_count(&core->tracker),
		mapper_count(&core->mapper), core->mapper.blocks.in_use);
	tracker_release(&core->tracker, &memory);
	mapper_release(&core->mapper, &memory);
	free(core);
	return 0;
}
