#include "capture.h"

#include <stdlib.h>

#define PAGE 4096u

/* The first touch of a page stops who does it, for long where pages are huge: not the workers. */
static void touch(uint8_t *octets, size_t len)
{
	for (size_t at = 0; at < len; at += PAGE)
		((volatile uint8_t *)octets)[at] = 0;
}

void capture_release(struct capture *c)
{
	free(c->slots);
	free(c->taken);
	memset(c, 0, sizeof(*c));
}

bool capture_arm(struct capture *c, const struct capture_request *request, uint32_t groups,
		 uint32_t longest, struct error *error)
{
	const uint64_t slots = (uint64_t)request->frames * groups;
	uint64_t room = slots ? CAPTURE_MEMORY / slots : CAPTURE_MEMORY;

	if (room < sizeof(struct capture_slot) + CAPTURE_LEAST)
		return error_set(error, "fewer frames, or those of fewer streams",
				 "%u frames of each of %u do not fit", request->frames, groups);
	capture_release(c);
	if (slots == 0)
		return true;
	room = (room - sizeof(struct capture_slot)) & ~(uint64_t)7;
	longest = (longest + 7) & ~7u;
	c->room = room < longest ? (uint32_t)room : longest;
	c->stride = sizeof(struct capture_slot) + c->room;
	c->slots = calloc(slots, c->stride);
	c->taken = calloc(groups, sizeof(*c->taken));
	if (c->slots == NULL || c->taken == NULL) {
		capture_release(c);
		return error_set(error, "fewer frames, or more memory", "no memory to capture in");
	}
	touch(c->slots, slots * c->stride);
	c->frames = request->frames;
	c->what = request->what;
	c->groups = groups;
	c->on = true;
	return true;
}

static struct capture_slot *slot(const struct capture *c, uint32_t group, uint32_t i)
{
	return (struct capture_slot *)(c->slots + ((size_t)group * c->frames + i) * c->stride);
}

struct capture_slot *capture_take(struct capture *c, uint32_t group)
{
	uint32_t i;

	/* Looked at first, so that the count of a full group does not go round. */
	if (capture_full(c, group))
		return NULL;
	i = atomic_fetch_add_explicit(&c->taken[group], 1, memory_order_relaxed);
	return i < c->frames ? slot(c, group, i) : NULL;
}

const struct capture_slot *capture_slot_at(const struct capture *c, uint32_t group, uint32_t i)
{
	return i < c->frames && i < atomic_load(&c->taken[group]) ? slot(c, group, i) : NULL;
}
