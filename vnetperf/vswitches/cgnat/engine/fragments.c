#include "fragments.h"

#define OFFSET_BITS    0x1fff
#define MORE_FRAGMENTS 0x2000

static bool same_datagram(const void *records, uint32_t record, const void *key)
{
	const struct partial *p = (const struct partial *)records + record;
	const struct partial *k = key;

	return p->src == k->src && p->dst == k->dst && p->id == k->id &&
	       p->protocol == k->protocol && p->from == k->from;
}

static uint64_t hash_of(const struct fragments *f, const struct partial *k)
{
	return table_hash(&f->by_datagram, (uint64_t)k->src << 32 | k->dst,
			  (uint64_t)k->id << 16 | k->protocol << 8 | k->from);
}

bool fragments_create(struct fragments *f, uint64_t seed, const struct memory *memory)
{
	memset(f, 0, sizeof(*f));
	f->partials = memory->get(PARTIALS * sizeof(*f->partials));
	f->spare = memory->get(PARTIALS * sizeof(*f->spare));
	if (!f->partials || !f->spare ||
	    !table_create(&f->by_datagram, PARTIALS, seed ^ PARTIALS, memory))
		return false;
	while (f->n_spare < PARTIALS) {
		f->spare[f->n_spare] = PARTIALS - 1 - f->n_spare;
		f->n_spare++;
	}
	return true;
}

void fragments_release(struct fragments *f, const struct memory *memory)
{
	if (f->partials)
		memory->release(f->partials);
	if (f->spare)
		memory->release(f->spare);
	table_release(&f->by_datagram, memory);
}

static void append(struct packets *to, struct packet *p)
{
	p->next = NULL;
	if (to->first)
		to->last->next = p;
	else
		to->first = p;
	to->last = p;
}

struct packet *fragments_take(struct packets *of, enum verdict verdict)
{
	struct packet *p = of->first;

	if (p == NULL)
		return NULL;
	of->first = p->next;
	p->verdict = (uint8_t)verdict;
	return p;
}

/* Those that wait go on, or are too late. */
static void let_go(struct fragments *f, struct partial *of, struct packets *to)
{
	struct packet *p = of->held, *next;

	for (; p; p = next) {
		next = p->next;
		f->held--;
		append(to, p);
	}
	of->held = NULL;
}

static void remove_partial(struct fragments *f, uint32_t number)
{
	struct partial *partial = &f->partials[number];

	let_go(f, partial, &f->late);
	table_remove(&f->by_datagram, hash_of(f, partial), number);
	partial->live = false;
	f->spare[f->n_spare++] = number;
}

/* The datagram of a packet; NOTHING when there is no room for another one. */
static uint32_t find(struct fragments *f, const struct partial *key)
{
	const uint64_t hash = hash_of(f, key);
	uint32_t number = table_find(&f->by_datagram, hash, same_datagram, f->partials, key);

	if (number != NOTHING || f->n_spare == 0)
		return number;
	number = f->spare[f->n_spare - 1];
	if (!table_add(&f->by_datagram, hash, number))
		return NOTHING;
	f->n_spare--;
	f->partials[number] = *key;
	f->partials[number].live = true;
	f->partials[number].since = f->second;
	return number;
}

static void know(const struct partial *of, struct packet *p)
{
	p->kind = of->kind;
	p->flags = of->flags;
	p->src_port = of->src_port;
	p->dst_port = of->dst_port;
}

/* The first one's ports are those of all; they follow it. */
static void learn(struct fragments *f, struct partial *of, const struct packet *p)
{
	of->known = true;
	of->kind = p->kind;
	of->flags = p->flags;
	of->src_port = p->src_port;
	of->dst_port = p->dst_port;
	for (struct packet *held = of->held; held; held = held->next)
		know(of, held);
	let_go(f, of, &f->ready);
}

static enum verdict wait_for_first(struct fragments *f, struct partial *of, struct packet *p)
{
	struct packet **end = &of->held;

	if (f->held == MOST_HELD)
		return FRAGMENTS_FULL;
	while (*end)
		end = &(*end)->next;
	p->next = NULL;
	*end = p;
	f->held++;
	return HELD;
}

static enum verdict take(struct fragments *f, struct packet *p)
{
	const struct ipv4 *ip = packet_ipv4(p);
	const uint16_t bits = host16(ip->fragment);
	const uint32_t offset = (bits & OFFSET_BITS) * 8u;
	const uint32_t octets = host16(ip->length) - (ip->version_ihl & 15) * 4u;
	const struct partial key = {.src = ip->src,
				    .dst = ip->dst,
				    .id = ip->id,
				    .protocol = ip->protocol,
				    .from = p->from};
	const uint32_t number = find(f, &key);
	enum verdict verdict = PASS;
	struct partial *of;

	if (number == NOTHING)
		return FRAGMENTS_FULL;
	of = &f->partials[number];
	if (offset == 0)
		learn(f, of, p);
	else if (of->known)
		know(of, p);
	else
		verdict = wait_for_first(f, of, p);
	if (verdict == FRAGMENTS_FULL)
		return verdict;
	of->octets += octets;
	if (!(bits & MORE_FRAGMENTS))
		of->total = offset + octets;
	/* Of one that came twice more octets came than there are: what is missing then waits for a
	 * first one in vain. */
	if (of->known && of->total && of->octets >= of->total)
		remove_partial(f, number);
	return verdict;
}

void fragments_run(struct fragments *f, struct packet *const packets[], uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (UNLIKELY(packets[i]->verdict == FRAGMENT_PART))
			packets[i]->verdict = (uint8_t)take(f, packets[i]);
	}
}

void fragments_sweep(struct fragments *f, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (f->partials[f->cursor].live &&
		    f->second - f->partials[f->cursor].since > PARTIAL_S)
			remove_partial(f, f->cursor);
		f->cursor = f->cursor + 1 == PARTIALS ? 0 : f->cursor + 1;
	}
}
