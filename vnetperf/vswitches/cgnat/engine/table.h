/* Finds a record by the hash of its key: one cache line for the place, one for the record.
 *
 * A place has eight tags and eight numbers of records; what finds no room there goes to a further
 * place of a common reserve. One thread owns a table, for reading too. */
#ifndef CGNAT_TABLE_H
#define CGNAT_TABLE_H

#include "common.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define SLOTS	8u
#define NOTHING UINT32_MAX

struct place {
	uint16_t tag[SLOTS]; /* 0: the slot is free */
	uint32_t record[SLOTS];
	uint32_t next; /* number of a further place + 1; 0 for none */
	uint32_t unused[3];
};

struct table {
	struct place *places; /* those by hash, then the reserve */
	uint32_t mask;	      /* places by hash - 1, a power of two */
	uint32_t reserve;     /* first place of the reserve that was never used */
	uint32_t end;	      /* places in all */
	uint32_t returned;    /* first place that came back + 1; linked by `next` */
	uint64_t seed;
};

/* Whether a record has a key; inlined into the lookup. */
typedef bool same_fn(const void *records, uint32_t record, const void *key);

bool table_create(struct table *t, uint32_t records, uint64_t seed, const struct memory *memory);
void table_release(struct table *t, const struct memory *memory);
/* False when there is no room. The record is not in the table yet. */
bool table_add(struct table *t, uint64_t hash, uint32_t record);
void table_remove(struct table *t, uint64_t hash, uint32_t record);

/* Two words mixed by multiplication to 128 bits. Who does not know the seed cannot choose keys that
 * meet in one place. */
static inline uint64_t table_hash(const struct table *t, uint64_t a, uint64_t b)
{
	const unsigned __int128 one =
		(unsigned __int128)(a ^ t->seed) * (b ^ 0x9e3779b97f4a7c15ULL);
	const uint64_t folded = (uint64_t)one ^ (uint64_t)(one >> 64);
	const unsigned __int128 two = (unsigned __int128)(folded ^ t->seed) * 0xd6e8feb86659fd93ULL;

	return (uint64_t)two ^ (uint64_t)(two >> 64);
}

static inline uint16_t table_tag(uint64_t hash)
{
	const uint16_t tag = (uint16_t)(hash >> 48);

	return tag ? tag : 1;
}

static inline struct place *table_place(const struct table *t, uint64_t hash)
{
	return &t->places[hash & t->mask];
}

/* Two bits for each slot with this tag. Which slot it is nobody can predict: a loop that ends there
 * would cost more than to look at all of them. */
static inline uint32_t table_matches(const struct place *at, uint16_t tag)
{
#ifdef __SSE2__
	const __m128i tags = _mm_load_si128((const __m128i *)at->tag);

	return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi16(tags, _mm_set1_epi16((short)tag)));
#else
	uint32_t found = 0;

	for (uint32_t i = 0; i < SLOTS; i++)
		found |= (at->tag[i] == tag ? 3u : 0) << 2 * i;
	return found;
#endif
}

/* First record of a place with this tag: very likely the one, and worth being fetched early. */
static inline uint32_t table_guess(const struct table *t, uint64_t hash)
{
	const struct place *at = table_place(t, hash);
	const uint32_t found = table_matches(at, table_tag(hash));

	return found ? at->record[(uint32_t)__builtin_ctz(found) / 2] : NOTHING;
}

__attribute__((always_inline)) static inline uint32_t table_find(const struct table *t,
								 uint64_t hash, same_fn *same,
								 const void *records,
								 const void *key)
{
	const struct place *at = table_place(t, hash);
	const uint16_t tag = table_tag(hash);

	for (;;) {
		for (uint32_t found = table_matches(at, tag); found; found &= found - 1) {
			const uint32_t slot = (uint32_t)__builtin_ctz(found) / 2;

			if (LIKELY(same(records, at->record[slot], key)))
				return at->record[slot];
			found &= found - 1; /* two bits of a slot */
		}
		if (LIKELY(!at->next))
			return NOTHING;
		at = &t->places[at->next - 1];
	}
}

#endif
