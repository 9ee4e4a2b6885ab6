#include "tracker.h"

struct ends {
	uint32_t mapping;
	be32 ip;
	be16 port;
};

static bool same_ends(const void *records, uint32_t record, const void *key)
{
	const struct session *s = (const struct session *)records + record;
	const struct ends *k = key;

	return s->mapping == k->mapping && s->ip == k->ip && s->port == k->port;
}

static uint64_t hash_of(const struct tracker *t, const struct ends *k)
{
	return table_hash(&t->by_ends, (uint64_t)k->mapping << 32 | k->ip, k->port);
}

/* The lowest number is used first. */
static void all_spare(struct tracker *t)
{
	for (t->n_spare = 0; t->n_spare < t->config->sessions; t->n_spare++)
		t->spare[t->n_spare] = t->config->sessions - 1 - t->n_spare;
	t->cursor = 0;
}

bool tracker_create(struct tracker *t, const struct config *c, struct published *published,
		    const struct memory *memory)
{
	memset(t, 0, sizeof(*t));
	t->config = c;
	t->published = published;
	t->sessions = memory->get((size_t)c->sessions * sizeof(*t->sessions));
	t->of_subscriber = memory->get(c->subscribers * sizeof(*t->of_subscriber));
	t->spare = memory->get((size_t)c->sessions * sizeof(*t->spare));
	if (!t->sessions || !t->of_subscriber || !t->spare ||
	    !table_create(&t->by_ends, c->sessions, ~c->seed, memory))
		return false;
	all_spare(t);
	return true;
}

void tracker_release(struct tracker *t, const struct memory *memory)
{
	if (t->sessions)
		memory->release(t->sessions);
	if (t->of_subscriber)
		memory->release(t->of_subscriber);
	if (t->spare)
		memory->release(t->spare);
	table_release(&t->by_ends, memory);
}

static void count_use(struct tracker *t, uint32_t mapping, uint32_t by)
{
	_Atomic uint32_t *uses = &t->published->uses[mapping];

	/* Nobody else writes it. */
	atomic_store_explicit(uses, atomic_load_explicit(uses, memory_order_relaxed) + by,
			      memory_order_relaxed);
}

static uint32_t limit_of(const struct config *c, const struct session *s)
{
	if (s->kind == KIND_UDP)
		return c->udp_s;
	if (s->kind == KIND_ICMP)
		return c->icmp_s;
	return tcp_established(s->state) ? c->tcp_s : c->tcp_transitory_s;
}

static enum verdict make_session(struct tracker *t, const struct ends *key, uint64_t hash,
				 const struct packet *p, uint32_t subscriber, uint32_t *made)
{
	const struct config *c = t->config;
	uint32_t number;

	if (c->strict_tcp && p->kind == KIND_TCP && !(p->flags & TCP_SYN))
		return TCP_STATE;
	if (c->session_limit && t->of_subscriber[subscriber] >= c->session_limit)
		return SESSION_LIMIT;
	if (t->n_spare == 0)
		return SESSIONS_FULL;
	number = t->spare[t->n_spare - 1];
	if (!table_add(&t->by_ends, hash, number))
		return SESSIONS_FULL;
	t->n_spare--;
	t->made++;
	t->of_subscriber[subscriber]++;
	count_use(t, key->mapping, 1);
	t->sessions[number] = (struct session){
		.mapping = key->mapping,
		.ip = key->ip,
		.port = key->port,
		.kind = p->kind,
		.last = t->second,
		.subscriber = subscriber,
		.live = true,
	};
	*made = number;
	return PASS;
}

/* A packet from an endpoint that its subscriber has not sent to. Its session would keep the
 * mapping, and count among the subscriber's: RFC 4787 REQ-6 has that only where it is configured,
 * for UDP. */
static enum verdict stranger(const struct config *c, const struct packet *p)
{
	if (c->filtering)
		return FILTERED;
	if (!p->error && c->strict_tcp && p->kind == KIND_TCP && !(p->flags & TCP_SYN))
		return TCP_STATE;
	return PASS;
}

/* One packet at one mapping: out of it, or into it from an endpoint. */
static enum verdict follow(struct tracker *t, const struct packet *p, const struct ends *key,
			   uint64_t hash, uint32_t guess, uint32_t subscriber, bool out)
{
	const struct config *c = t->config;
	enum verdict verdict;
	struct session *s;
	uint32_t number = guess;

	if (UNLIKELY(number == NOTHING || !same_ends(t->sessions, number, key)))
		number = table_find(&t->by_ends, hash, same_ends, t->sessions, key);
	if (UNLIKELY(number == NOTHING)) {
		verdict = out ? PASS : stranger(c, p);
		/* RFC 5508 REQ-4, REQ-5: to an error a mapping is enough. */
		if (verdict != PASS || p->error ||
		    (!out && (p->kind == KIND_TCP || !c->inbound_refresh)))
			return verdict;
		verdict = make_session(t, key, hash, p, subscriber, &number);
		if (verdict != PASS)
			return verdict;
	}
	if (UNLIKELY(p->error))
		return PASS; /* RFC 5508 REQ-6: neither keeps a session nor ends it */
	s = &t->sessions[number];
	if (s->kind == KIND_TCP) {
		const uint16_t state = tcp_followed(s->state, p->flags, out);

		if (state != s->state)
			s->state = state;
	}
	/* RFC 4787 REQ-6. Only what differs is written: most packets leave the line clean. */
	if (s->last != t->second && (out || s->kind == KIND_TCP || c->inbound_refresh))
		s->last = t->second;
	return PASS;
}

/* An ICMP query has no port of the endpoint. An error is about a packet that went the other way. */
static struct ends ends_out(const struct packet *p)
{
	if (UNLIKELY(p->error))
		return (struct ends){p->up.mapping, p->src, p->kind == KIND_ICMP ? 0 : p->src_port};
	return (struct ends){p->up.mapping, p->dst, p->kind == KIND_ICMP ? 0 : p->dst_port};
}

static struct ends ends_in(const struct packet *p)
{
	if (UNLIKELY(p->hairpin))
		return (struct ends){p->down.mapping, p->up.pub_ip, p->up.pub_port};
	if (UNLIKELY(p->error))
		return (struct ends){p->down.mapping, p->dst,
				     p->kind == KIND_ICMP ? 0 : p->dst_port};
	return (struct ends){p->down.mapping, p->src, p->kind == KIND_ICMP ? 0 : p->src_port};
}

static enum verdict track(struct tracker *t, const struct packet *p)
{
	const bool out = p->from == INSIDE;
	const struct ends key = out ? ends_out(p) : ends_in(p);
	enum verdict verdict = follow(t, p, &key, p->hash, p->guess,
				      out ? p->up.subscriber : p->down.subscriber, out);

	if (UNLIKELY(p->hairpin) && verdict == PASS) {
		const struct ends other = ends_in(p);

		verdict = follow(t, p, &other, hash_of(t, &other), NOTHING, p->down.subscriber,
				 false);
	}
	return verdict;
}

void tracker_run(struct tracker *t, struct packet *const packets[], uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct packet *p = packets[i];
		const struct ends key = p->from == INSIDE ? ends_out(p) : ends_in(p);

		p->hash = hash_of(t, &key);
		__builtin_prefetch(table_place(&t->by_ends, p->hash));
	}
	for (uint32_t i = 0; i < n; i++) {
		packets[i]->guess = table_guess(&t->by_ends, packets[i]->hash);
		if (packets[i]->guess != NOTHING)
			__builtin_prefetch(&t->sessions[packets[i]->guess]);
	}
	for (uint32_t i = 0; i < n; i++)
		packets[i]->verdict = (uint8_t)track(t, packets[i]);
}

static void end_session(struct tracker *t, uint32_t number)
{
	struct session *gone = &t->sessions[number];
	const struct ends key = {gone->mapping, gone->ip, gone->port};

	table_remove(&t->by_ends, hash_of(t, &key), number);
	t->of_subscriber[gone->subscriber]--;
	count_use(t, gone->mapping, UINT32_MAX); /* one less */
	gone->live = false;
	t->spare[t->n_spare++] = number;
	t->ended++;
}

void tracker_sweep(struct tracker *t, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct session *at = &t->sessions[t->cursor];

		/* In whole seconds: never early (RFC 5382 REQ-5, RFC 5508 REQ-2). */
		if (at->live && t->second - at->last > limit_of(t->config, at))
			end_session(t, t->cursor);
		t->cursor = t->cursor + 1 == t->config->sessions ? 0 : t->cursor + 1;
	}
}

void tracker_end_all(struct tracker *t)
{
	for (uint32_t i = 0; i < t->config->sessions; i++) {
		if (t->sessions[i].live)
			end_session(t, i);
	}
	all_spare(t);
}
