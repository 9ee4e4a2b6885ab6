/*
 * The NAT without its I/O: bursts of frames come in by standard input, verdicts and translated
 * frames go out. A reference model in Python makes the same decisions, or one of the two is wrong.
 *
 *   in   second (4 octets), number of frames (1), each: side (1), length (2), of that in the first
 *        buffer (2), octets of that
 *   out  each: verdict (1), side (1), length of the first buffer (2), its octets; number of
 * fragments that waited (2), each: the same; number of those that waited in vain (2); number of
 * block events (2), each: second, inside address, public address (4 each), first and last port (2
 * each), given (1)
 *
 * 255 for the number of frames ends all sessions and mappings, after so many mappings (4 octets)
 * have been looked at: the sweep may be anywhere.
 *
 * With --log the events are recorded too; the record's seconds begin in 1970.
 *
 * All numbers are little-endian. With a new second every session and mapping is looked at.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "args.h"
#include "fragments.h"
#include "record.h"
#include "tracker.h"

#define LONGEST	    1600u
#define MOST_EVENTS 4096u
#define END_ALL	    255u

struct core {
	struct options options;
	struct published published;
	struct fragments fragments;
	struct mapper mapper;
	struct tracker tracker;
	struct record record;
	uint16_t late;
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

/* A packet, and at the end of its memory its frame: AddressSanitizer sees who reads on. */
static struct packet *make_packet(uint16_t head)
{
	struct packet *p = malloc(sizeof(*p));
	uint8_t *frame = malloc(head ? head : 1);

	if (!p || !frame)
		abort();
	*p = (struct packet){.frame = frame, .head = head};
	return p;
}

static void free_packet(struct packet *p)
{
	free(p->frame);
	free(p);
}

static void look_at_all(struct core *core, uint32_t second)
{
	struct packet *late;

	core->fragments.second = core->mapper.second = core->tracker.second = second;
	fragments_sweep(&core->fragments, PARTIALS);
	while ((late = fragments_take(&core->fragments.late, FRAGMENT_LATE)) != NULL) {
		free_packet(late);
		core->late++;
	}
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

static void translate(struct core *core, struct packet *at[], uint32_t kept)
{
	kept = passed(at, kept);
	mapper_run(&core->mapper, at, kept);
	kept = passed(at, kept);
	core->mapper.sent += kept;
	tracker_run(&core->tracker, at, kept);
	tracker_done(&core->tracker, kept);
	kept = passed(at, kept);
	for (uint32_t i = 0; i < kept; i++)
		packet_rewrite(at[i], &core->options.macs);
}

static void tell(struct packet *const packets[], uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct packet *p = packets[i];

		put(&p->verdict, 1);
		put(&p->to, 1);
		put(&p->head, 2);
		put(p->frame, p->head);
		if (p->verdict != HELD)
			free_packet(p);
	}
}

/* The fragments that the burst has let go; then what became of blocks. */
static void answer(struct core *core)
{
	struct packet *released[MOST_HELD], *at[BURST];
	uint16_t n = 0;

	while (core->fragments.ready.first)
		released[n++] = fragments_take(&core->fragments.ready, PASS);
	for (uint32_t i = 0; i < n; i += BURST) {
		const uint32_t some = n - i < BURST ? n - i : BURST;

		memcpy(at, released + i, some * sizeof(*at));
		translate(core, at, some);
	}
	put(&n, 2);
	tell(released, n);
	put(&core->late, 2);
	core->late = 0;
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
	for (uint32_t i = 0; core->record.file && i < core->n_events; i += MOST_RECORDS) {
		const uint32_t left = core->n_events - i;

		record_write(&core->record, core->events + i,
			     left < MOST_RECORDS ? left : MOST_RECORDS);
	}
	core->n_events = 0;
	fflush(stdout);
}

static bool burst(struct core *core)
{
	struct packet *packets[BURST], *at[BURST];
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
		answer(core);
		return true;
	}
	if (n > BURST)
		abort();
	for (uint32_t i = 0; i < n; i++) {
		uint8_t from;
		uint16_t length, head;

		get(&from, 1);
		get(&length, 2);
		get(&head, 2);
		if (head > length || head > LONGEST)
			abort();
		at[i] = packets[i] = make_packet(head);
		packets[i]->from = from;
		packets[i]->length = length;
		get(packets[i]->frame, head);
	}
	if (second != core->mapper.second)
		look_at_all(core, second);
	for (uint32_t i = 0; i < n; i++)
		packet_check(packets[i], &core->options.macs);
	fragments_run(&core->fragments, packets, n);
	translate(core, at, n);
	tell(packets, n);
	answer(core);
	return true;
}

int main(int argc, char **argv)
{
	struct core *core = zeroed(sizeof(*core));
	struct error error = {"no memory", ""};
	bool help;

	signal(SIGXFSZ, SIG_IGN); /* a file that takes no more is an error of that write */
	if (!args_parse(&core->options, argc, argv, &help, &error) ||
	    !fragments_create(&core->fragments, core->options.nat.seed, &memory) ||
	    !mapper_create(&core->mapper, &core->options.nat, &core->published, &memory) ||
	    !tracker_create(&core->tracker, &core->options.nat, &core->published, &memory) ||
	    (*core->options.log &&
	     !record_open(&core->record, core->options.log, core->options.log_ipfix, 0, &error))) {
		fprintf(stderr, "core: %s; accepted: %s\n", error.text, error.accepted);
		return 1;
	}
	core->mapper.blocks.note = note;
	core->mapper.blocks.note_to = core;
	while (burst(core))
		;
	fprintf(stderr, "%u sessions, %u mappings, %u blocks\n", tracker_count(&core->tracker),
		mapper_count(&core->mapper), core->mapper.blocks.in_use);
	core->fragments.second = UINT32_MAX / 2;
	look_at_all(core, UINT32_MAX / 2); /* frees what waits */
	fragments_release(&core->fragments, &memory);
	tracker_release(&core->tracker, &memory);
	mapper_release(&core->mapper, &memory);
	if (core->record.file)
		fclose(core->record.file);
	free(core);
	return 0;
}
