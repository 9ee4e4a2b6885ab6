#include "mapper.h"

struct inside_key {
	be32 ip;
	be16 port;
	uint8_t kind;
};

static bool same_inside(const void *records, uint32_t record, const void *key)
{
	const struct mapping *m = (const struct mapping *)records + record;
	const struct inside_key *k = key;

	return m->in_ip == k->ip && m->in_port == k->port && m->kind == k->kind;
}

static uint64_t hash_of(const struct mapper *m, const struct inside_key *k)
{
	return table_hash(&m->by_inside, k->ip, (uint64_t)k->port << 8 | k->kind);
}

/* The inside end that a packet from the inside has; an error quotes a packet to it. */
static struct inside_key key_of(const struct packet *p)
{
	if (UNLIKELY(p->error))
		return (struct inside_key){p->dst, p->dst_port, p->kind};
	return (struct inside_key){p->src, p->src_port, p->kind};
}

static bool in_pool(const struct config *c, be32 ip)
{
	return host32(ip) - c->pool < c->addresses;
}

static bool is_subscriber(const struct config *c, be32 ip)
{
	return host32(ip) - c->inside < c->subscribers;
}

static uint32_t *outside_of(const struct mapper *m, uint8_t kind, be32 ip, be16 port)
{
	const size_t address = host32(ip) - m->config->pool;

	return &m->outside[kind][address * PORTS + host16(port)];
}

/* The lowest number is used first. */
static void all_spare(struct mapper *m)
{
	for (m->n_spare = 0; m->n_spare < m->config->mappings; m->n_spare++)
		m->spare[m->n_spare] = m->config->mappings - 1 - m->n_spare;
	m->cursor = 0;
}

bool mapper_create(struct mapper *m, const struct config *c, struct published *published,
		   const struct memory *memory)
{
	memset(m, 0, sizeof(*m));
	m->config = c;
	m->published = published;
	m->mappings = memory->get((size_t)c->mappings * sizeof(*m->mappings));
	m->spare = memory->get((size_t)c->mappings * sizeof(*m->spare));
	published->uses = memory->get((size_t)c->mappings * sizeof(*published->uses));
	if (!m->mappings || !m->spare || !published->uses ||
	    !table_create(&m->by_inside, c->mappings, c->seed, memory) ||
	    !blocks_create(&m->blocks, c, memory))
		return false;
	for (unsigned int kind = 0; kind < KINDS; kind++) {
		m->outside[kind] = memory->get((size_t)c->addresses * PORTS * sizeof(uint32_t));
		if (!m->outside[kind])
			return false;
	}
	all_spare(m);
	return true;
}

void mapper_release(struct mapper *m, const struct memory *memory)
{
	void *const all[] = {m->mappings,
			     m->spare,
			     (void *)m->published->uses,
			     m->outside[KIND_UDP],
			     m->outside[KIND_TCP],
			     m->outside[KIND_ICMP]};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i])
			memory->release(all[i]);
	}
	table_release(&m->by_inside, memory);
	blocks_release(&m->blocks, memory);
}

/* What can make a session keeps a mapping that was about to end. What strangers send cannot, unless
 * that is wanted (RFC 4787 REQ-6), and would keep it for ever: as packets go in order, it is done
 * before anything of whoever has the mapping next. */
static void bind(struct mapper *m, struct binding *to, uint32_t number, bool keeps)
{
	struct mapping *found = &m->mappings[number];

	if (UNLIKELY(found->leaving) && keeps)
		found->leaving = false;
	*to = (struct binding){
		.mapping = number,
		.subscriber = found->subscriber,
		.in_ip = found->in_ip,
		.pub_ip = found->pub_ip,
		.in_port = found->in_port,
		.pub_port = found->pub_port,
	};
}

static enum verdict make_mapping(struct mapper *m, const struct inside_key *key, uint64_t hash,
				 uint32_t *made)
{
	const uint32_t subscriber = host32(key->ip) - m->config->inside;
	struct public_port got;
	enum verdict verdict;
	uint32_t number;

	if (m->n_spare == 0)
		return MAPPINGS_FULL;
	verdict =
		blocks_take(&m->blocks, subscriber, key->kind, host16(key->port), m->second, &got);
	if (verdict != PASS)
		return verdict;
	number = m->spare[m->n_spare - 1];
	if (!table_add(&m->by_inside, hash, number)) {
		blocks_give_back(&m->blocks, subscriber, key->kind, got, m->second);
		return MAPPINGS_FULL;
	}
	m->n_spare--;
	m->made++;
	m->mappings[number] = (struct mapping){
		.in_ip = key->ip,
		.pub_ip = net32(m->config->pool + got.address),
		.in_port = key->port,
		.pub_port = net16(got.port),
		.kind = key->kind,
		.live = true,
		.subscriber = subscriber,
	};
	*outside_of(m, key->kind, m->mappings[number].pub_ip, m->mappings[number].pub_port) =
		number + 1;
	*made = number;
	return PASS;
}

/* Whose public address and port this is. */
static enum verdict find_outside(struct mapper *m, struct packet *p, be32 ip, be16 port)
{
	const uint32_t number = *outside_of(m, p->kind, ip, port);

	if (UNLIKELY(number == 0))
		return NO_MAPPING;
	bind(m, &p->down, number - 1,
	     m->config->inbound_refresh && p->kind != KIND_TCP && !p->error);
	return PASS;
}

static enum verdict find_inside(struct mapper *m, struct packet *p)
{
	const struct inside_key key = key_of(p);
	enum verdict verdict = PASS;
	uint32_t number = p->guess;

	/* What was fetched ahead is mostly it; since then others of the burst may have made one. */
	if (UNLIKELY(number == NOTHING || !same_inside(m->mappings, number, &key)))
		number = table_find(&m->by_inside, p->hash, same_inside, m->mappings, &key);
	if (UNLIKELY(number == NOTHING))
		verdict = p->error ? NO_MAPPING : make_mapping(m, &key, p->hash, &number);
	if (UNLIKELY(verdict != PASS))
		return verdict;
	bind(m, &p->up, number, !p->error);
	return PASS;
}

static enum verdict from_inside(struct mapper *m, struct packet *p)
{
	const struct config *c = m->config;
	const struct ipv4 *ip = packet_ipv4(p);
	enum verdict verdict;

	if (!is_subscriber(c, p->error ? p->dst : p->src))
		return NOT_SUBSCRIBER;
	if (is_subscriber(c, ip->dst))
		return PRIVATE_TARGET;
	/* It tells whoever sent the quoted packet. */
	if (p->error && ip->dst != p->src)
		return BAD_QUOTE;
	p->hairpin = in_pool(c, ip->dst);
	/* An identifier is of both ends: it cannot be translated twice. */
	if (UNLIKELY(p->hairpin && p->kind == KIND_ICMP))
		return HAIRPIN_QUERY;
	verdict = find_inside(m, p);
	if (LIKELY(!p->hairpin) || verdict != PASS)
		return verdict;
	p->to = INSIDE;
	return p->error ? find_outside(m, p, p->src, p->src_port)
			: find_outside(m, p, p->dst, p->dst_port);
}

static enum verdict from_outside(struct mapper *m, struct packet *p)
{
	const struct config *c = m->config;
	const struct ipv4 *ip = packet_ipv4(p);

	if (is_subscriber(c, ip->src) || in_pool(c, ip->src))
		return SPOOFED;
	if (!in_pool(c, ip->dst))
		return NOT_POOL;
	if (UNLIKELY(p->error)) {
		if (ip->dst != p->src)
			return BAD_QUOTE;
		return find_outside(m, p, p->src, p->src_port);
	}
	return find_outside(m, p, p->dst, p->dst_port);
}

/* Where a packet is looked for, before anything is looked at: memory takes its time. */
static void fetch(struct mapper *m, struct packet *p)
{
	if (p->from == OUTSIDE) {
		const be32 ip = p->error ? p->src : p->dst;

		if (in_pool(m->config, ip))
			__builtin_prefetch(
				outside_of(m, p->kind, ip, p->error ? p->src_port : p->dst_port));
		return;
	}
	const struct inside_key key = key_of(p);

	p->hash = hash_of(m, &key);
	__builtin_prefetch(table_place(&m->by_inside, p->hash));
}

static void fetch_mapping(struct mapper *m, struct packet *p)
{
	p->guess = NOTHING;
	if (p->from == INSIDE) {
		p->guess = table_guess(&m->by_inside, p->hash);
	} else {
		const be32 ip = p->error ? p->src : p->dst;

		if (in_pool(m->config, ip))
			p->guess =
				*outside_of(m, p->kind, ip, p->error ? p->src_port : p->dst_port) -
				1;
	}
	if (p->guess != NOTHING)
		__builtin_prefetch(&m->mappings[p->guess]);
}

void mapper_run(struct mapper *m, struct packet *const packets[], uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		fetch(m, packets[i]);
	for (uint32_t i = 0; i < n; i++)
		fetch_mapping(m, packets[i]);
	for (uint32_t i = 0; i < n; i++) {
		struct packet *p = packets[i];

		p->verdict = (uint8_t)(p->from == INSIDE ? from_inside(m, p) : from_outside(m, p));
	}
}

static void end_mapping(struct mapper *m, uint32_t number)
{
	struct mapping *gone = &m->mappings[number];
	const struct inside_key key = {gone->in_ip, gone->in_port, gone->kind};
	const struct public_port port = {host32(gone->pub_ip) - m->config->pool,
					 host16(gone->pub_port)};

	table_remove(&m->by_inside, hash_of(m, &key), number);
	*outside_of(m, gone->kind, gone->pub_ip, gone->pub_port) = 0;
	blocks_give_back(&m->blocks, gone->subscriber, gone->kind, port, m->second);
	*gone = (struct mapping){.live = false};
	m->spare[m->n_spare++] = number;
	m->ended++;
}

void mapper_sweep(struct mapper *m, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct mapping *at = &m->mappings[m->cursor];

		if (at->live && atomic_load_explicit(&m->published->uses[m->cursor],
						     memory_order_relaxed) == 0) {
			if (!at->leaving) {
				at->leaving = true;
				at->mark = m->sent;
			}
			/* What `done` counts is visible with it: the second look at `uses` is
			 * after every packet of this mapping. */
			if (atomic_load_explicit(&m->published->done, memory_order_acquire) >=
				    at->mark &&
			    atomic_load_explicit(&m->published->uses[m->cursor],
						 memory_order_relaxed) == 0)
				end_mapping(m, m->cursor);
		}
		m->cursor = m->cursor + 1 == m->config->mappings ? 0 : m->cursor + 1;
	}
}

bool mapper_end_all(struct mapper *m)
{
	mapper_sweep(m, m->config->mappings);
	if (mapper_count(m))
		return false;
	all_spare(m);
	blocks_begin_anew(&m->blocks);
	return true;
}
