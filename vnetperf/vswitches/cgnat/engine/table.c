#include "table.h"

/* Half of the slots stay free when the table has all its records: few places overflow. */
#define LOAD 2u

bool table_create(struct table *t, uint32_t records, uint64_t seed, const struct memory *memory)
{
	uint32_t places = 2;

	while ((uint64_t)places * SLOTS < (uint64_t)records * LOAD)
		places *= 2;
	/* Of a random hash about 2 in 100 places overflow; four times as many have room. */
	t->mask = places - 1;
	t->reserve = places;
	t->end = places + places / 8 + 2;
	t->returned = 0;
	t->seed = seed;
	t->places = memory->get((size_t)t->end * sizeof(*t->places));
	return t->places != NULL;
}

void table_release(struct table *t, const struct memory *memory)
{
	if (t->places)
		memory->release(t->places);
	t->places = NULL;
}

static struct place *further(struct table *t, struct place *at)
{
	if (t->returned) {
		at->next = t->returned;
		t->returned = t->places[at->next - 1].next;
		t->places[at->next - 1].next = 0;
	} else if (t->reserve < t->end) {
		at->next = ++t->reserve;
	} else {
		return NULL;
	}
	return &t->places[at->next - 1];
}

bool table_add(struct table *t, uint64_t hash, uint32_t record)
{
	struct place *at = table_place(t, hash);

	for (;;) {
		for (uint32_t i = 0; i < SLOTS; i++) {
			if (at->tag[i])
				continue;
			at->tag[i] = table_tag(hash);
			at->record[i] = record;
			return true;
		}
		at = at->next ? &t->places[at->next - 1] : further(t, at);
		if (!at)
			return false;
	}
}

static bool empty(const struct place *at)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		if (at->tag[i])
			return false;
	}
	return true;
}

void table_remove(struct table *t, uint64_t hash, uint32_t record)
{
	struct place *at = table_place(t, hash), *before = NULL;
	const uint16_t tag = table_tag(hash);

	for (;;) {
		for (uint32_t i = 0; i < SLOTS; i++) {
			if (at->tag[i] != tag || at->record[i] != record)
				continue;
			at->tag[i] = 0;
			if (before && empty(at)) {
				const uint32_t own = before->next;

				before->next = at->next;
				at->next = t->returned;
				t->returned = own;
			}
			return;
		}
		if (!at->next)
			return;
		before = at;
		at = &t->places[at->next - 1];
	}
}
