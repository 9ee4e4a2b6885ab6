#include "blocks.h"

#define WORD_BITS 64u
#define WORDS	  (PORTS / WORD_BITS) /* of an address's bits */

static uint32_t first_port(const struct blocks *b, uint32_t block)
{
	return FIRST_PORT + block % b->per_address * b->config->block;
}

bool blocks_create(struct blocks *b, const struct config *c, const struct memory *memory)
{
	memset(b, 0, sizeof(*b));
	b->config = c;
	b->per_address = config_blocks_of_address(c);
	b->count = b->per_address * c->addresses;
	b->holders = memory->get(c->subscribers * sizeof(*b->holders));
	b->used = memory->get(b->count * sizeof(*b->used));
	b->since = memory->get(b->count * sizeof(*b->since));
	b->free = memory->get(b->count * sizeof(*b->free));
	b->queues = memory->get(c->addresses * sizeof(*b->queues));
	if (!b->holders || !b->used || !b->since || !b->free || !b->queues)
		return false;
	for (unsigned int kind = 0; kind < KINDS; kind++) {
		b->taken[kind] = memory->get((size_t)c->addresses * WORDS * sizeof(uint64_t));
		if (!b->taken[kind])
			return false;
	}
	blocks_begin_anew(b);
	for (uint32_t i = 0; i < c->subscribers && !c->dynamic; i++)
		b->holders[i] = (struct holder){.n = 1, .block = {i}};
	return true;
}

void blocks_release(struct blocks *b, const struct memory *memory)
{
	void *const all[] = {b->holders,	 b->used,
			     b->since,		 b->free,
			     b->queues,		 b->taken[KIND_UDP],
			     b->taken[KIND_TCP], b->taken[KIND_ICMP]};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i])
			memory->release(all[i]);
	}
}

static uint64_t *bits_of(const struct blocks *b, enum kind kind, uint32_t address)
{
	return b->taken[kind] + (size_t)address * WORDS;
}

/* First port in [from, to) whose bit is clear, or `to`. */
static uint32_t first_clear(const uint64_t *bits, uint32_t from, uint32_t to)
{
	while (from < to) {
		const uint64_t clear = ~bits[from / WORD_BITS] >> (from % WORD_BITS);

		if (clear) {
			from += (uint32_t)__builtin_ctzll(clear);
			return from < to ? from : to;
		}
		from += WORD_BITS - from % WORD_BITS;
	}
	return to;
}

static bool has_port(const struct blocks *b, uint32_t block, uint16_t port)
{
	const uint32_t first = first_port(b, block);

	return port >= first && port < first + b->config->block;
}

/* The port itself if it is of this block and free; else the next free one from its place on, which
 * goes round at the end. */
static bool port_in(const struct blocks *b, uint32_t block, enum kind kind, uint16_t wanted,
		    uint16_t *port)
{
	const uint64_t *bits = bits_of(b, kind, block / b->per_address);
	const uint32_t first = first_port(b, block), end = first + b->config->block;
	const uint32_t start =
		has_port(b, block, wanted) ? wanted : first + wanted % b->config->block;
	uint32_t at = first_clear(bits, start, end);

	if (at == end)
		at = first_clear(bits, first, start);
	*port = (uint16_t)at;
	return at != end && !(bits[at / WORD_BITS] >> (at % WORD_BITS) & 1);
}

static void note(const struct blocks *b, uint32_t subscriber, uint32_t block, uint32_t second,
		 bool given)
{
	const uint32_t first = first_port(b, block);
	const struct block_event event = {
		.second = second,
		.in_ip = b->config->inside + subscriber,
		.pub_ip = b->config->pool + block / b->per_address,
		.first = (uint16_t)first,
		.last = (uint16_t)(first + b->config->block - 1),
		.given = given,
	};

	if (b->note)
		b->note(b->note_to, &event);
}

/* The block of an address that came back first, once it has rested. */
static bool block_of(struct blocks *b, uint32_t address, uint32_t second, uint32_t *block)
{
	struct queue *q = &b->queues[address];

	if (q->n == 0)
		return false;
	*block = b->free[address * b->per_address + q->first];
	/* Blocks come back in the order of time: if this one still rests, so do all. In whole
	 * seconds: never early. */
	if (b->since[*block] && b->config->hold_s &&
	    second - (b->since[*block] - 1) <= b->config->hold_s)
		return false;
	q->first = (q->first + 1) % b->per_address;
	q->n--;
	return true;
}

/* All blocks of a subscriber are of one address: paired pooling, RFC 6888 REQ-2. Addresses are used
 * one after the other, so that subscribers who come in their order get what RFC 7422 would give. */
static bool further_block(struct blocks *b, uint32_t subscriber, uint32_t second)
{
	struct holder *h = &b->holders[subscriber];
	uint32_t block = 0;
	bool got = false;

	if (h->n) {
		got = block_of(b, h->block[0] / b->per_address, second, &block);
	} else {
		while (b->open < b->config->addresses && b->queues[b->open].n == 0)
			b->open++;
		for (uint32_t i = b->open; i < b->config->addresses && !got; i++)
			got = block_of(b, i, second, &block);
	}
	if (!got)
		return false;
	h->block[h->n++] = block;
	b->in_use++;
	b->given++;
	note(b, subscriber, block, second, true);
	return true;
}

static void take(struct blocks *b, uint32_t block, enum kind kind, uint16_t port,
		 struct public_port *got)
{
	got->address = block / b->per_address;
	got->port = port;
	bits_of(b, kind, got->address)[port / WORD_BITS] |= 1ULL << (port % WORD_BITS);
	/* By computation a block is in use when a port of it is. */
	if (b->used[block]++ == 0 && !b->config->dynamic)
		b->in_use++;
}

enum verdict blocks_take(struct blocks *b, uint32_t subscriber, enum kind kind, uint16_t wanted,
			 uint32_t second, struct public_port *got)
{
	struct holder *h = &b->holders[subscriber];
	uint16_t port;

	for (uint32_t i = 0; i < h->n; i++) {
		if (!has_port(b, h->block[i], wanted) ||
		    !port_in(b, h->block[i], kind, wanted, &port) || port != wanted)
			continue;
		take(b, h->block[i], kind, port, got);
		return PASS;
	}
	for (uint32_t i = 0; i < h->n; i++) {
		if (!port_in(b, h->block[i], kind, wanted, &port))
			continue;
		take(b, h->block[i], kind, port, got);
		return PASS;
	}
	if (!b->config->dynamic || h->n == b->config->most_blocks)
		return PORT_LIMIT;
	if (!further_block(b, subscriber, second))
		return NO_BLOCK;
	port_in(b, h->block[h->n - 1], kind, wanted, &port); /* has all its ports */
	take(b, h->block[h->n - 1], kind, port, got);
	return PASS;
}

static void return_block(struct blocks *b, uint32_t subscriber, uint32_t place, uint32_t second)
{
	struct holder *h = &b->holders[subscriber];
	const uint32_t block = h->block[place], address = block / b->per_address;
	struct queue *q = &b->queues[address];

	memmove(&h->block[place], &h->block[place + 1], (h->n - place - 1) * sizeof(h->block[0]));
	h->n--;
	b->since[block] = second + 1;
	b->open = address < b->open ? address : b->open;
	b->free[address * b->per_address + (q->first + q->n++) % b->per_address] = block;
	b->in_use--;
	b->returned++;
	note(b, subscriber, block, second, false);
}

void blocks_give_back(struct blocks *b, uint32_t subscriber, enum kind kind,
		      struct public_port port, uint32_t second)
{
	const struct holder *h = &b->holders[subscriber];
	const uint32_t block =
		port.address * b->per_address + (port.port - FIRST_PORT) / b->config->block;

	bits_of(b, kind, port.address)[port.port / WORD_BITS] &= ~(1ULL << (port.port % WORD_BITS));
	if (--b->used[block])
		return;
	if (!b->config->dynamic) {
		b->in_use--;
		return;
	}
	for (uint32_t i = 0; i < h->n; i++) {
		if (h->block[i] == block) {
			return_block(b, subscriber, i, second);
			return;
		}
	}
}

void blocks_begin_anew(struct blocks *b)
{
	memset(b->since, 0, b->count * sizeof(*b->since));
	for (uint32_t i = 0; i < b->count; i++)
		b->free[i] = i;
	for (uint32_t i = 0; i < b->config->addresses; i++)
		b->queues[i] = (struct queue){.first = 0, .n = b->per_address};
	b->open = 0;
}
