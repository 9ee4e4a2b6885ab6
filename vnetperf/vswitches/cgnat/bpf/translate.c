/* The program of a port, FROM: INSIDE or OUTSIDE. OWN_0 and so on are MAC addresses.
 *
 * What has no mapping, no target or a header that is wrong is dropped and counted: the kernel's
 * stack never sees a frame. Offsets of headers are looked at where they are used: the verifier
 * follows pointers, not lengths that were compared before.
 */
#include "nat.h"

#include "checksum.h"

#include <linux/if_ether.h>
#include <linux/ip.h>

#define FRAGMENT_BITS 0x3fff /* more fragments, or an offset */
#define OFFSET_BITS   0x1fff
#define PROTOCOL_ICMP 1
#define PROTOCOL_TCP  6
#define PROTOCOL_UDP  17
#define TRIES	      8 /* others may change a place at the same time */

COUNTERS(counts, COUNTS);

struct tcp {
	be16 src, dst;
	be32 sequence, acknowledged;
	uint8_t words, flags;
	be16 window, sum, urgent;
};
struct udp {
	be16 src, dst, length, sum;
};
struct icmp {
	uint8_t type, code;
	be16 sum, id, sequence;
};

/* An end of a mapping. */
struct end {
	uint32_t subscriber, offset; /* of the place in its block */
	uint64_t *place;
	uint64_t value; /* as it was found */
};

/* Of an ICMP error `ip` and what is in it are those of the packet that it quotes. */
struct packet {
	struct iphdr *outer, *ip;
	be16 *src, *dst, *sum; /* of UDP, TCP, or an ICMP query, which has one identifier */
	be16 *error_sum;       /* NULL: it is no error */
	uint8_t kind, flags;
};

ALWAYS bool in_pool(be32 ip)
{
	return host32(ip) - POOL < ADDRESSES;
}

ALWAYS bool is_subscriber(be32 ip)
{
	return host32(ip) - INSIDE_FIRST < SUBSCRIBERS;
}

ALWAYS be32 public_ip(const struct end *end)
{
	return net32(POOL + end->subscriber / PER_ADDRESS);
}

ALWAYS be16 public_port(const struct end *end)
{
	return net16(FIRST_PORT + end->subscriber % PER_ADDRESS * BLOCK + end->offset);
}

ALWAYS be16 inside_port(const struct end *end)
{
	return end->value >> PORT_SHIFT;
}

ALWAYS bool in_use(uint64_t place)
{
	return place & LIVE && !(place & ENDING);
}

ALWAYS uint64_t *place_of(uint8_t kind, const struct end *end)
{
	uint32_t number = kind * PLACES_OF + end->subscriber * BLOCK + end->offset;

	return bpf_map_lookup_elem(&places, &number);
}

struct search {
	uint32_t first, start; /* number of the block's first place; where to begin in it */
	uint64_t value;	       /* what the place becomes */
	uint32_t found;
};

static long take(uint32_t index, void *given)
{
	struct search *search = given;
	uint32_t offset = search->start + index, number;
	uint64_t *at;

	if (offset >= BLOCK)
		offset -= BLOCK;
	number = search->first + offset;
	at = bpf_map_lookup_elem(&places, &number);
	if (!at || *(volatile uint64_t *)at ||
	    __sync_val_compare_and_swap(at, 0, search->value) != 0)
		return 0;
	search->found = offset;
	return 1;
}

/* Whose inside end this is. */
ALWAYS uint32_t find_inside(const struct inside *key, struct end *end)
{
	const uint32_t *offset = bpf_map_lookup_elem(&insides, key);

	if (!offset)
		return NO_MAPPING;
	end->offset = *offset;
	end->place = place_of(key->kind, end);
	if (!end->place)
		return NO_MAPPING;
	end->value = *(volatile uint64_t *)end->place;
	return in_use(end->value) && inside_port(end) == key->port ? PASS : IS_ENDING;
}

/* Whether a place still is of whom it was taken for. */
ALWAYS bool is_kept(const struct end *end)
{
	const uint64_t now = *(volatile uint64_t *)end->place;

	return in_use(now) && (be16)(now >> PORT_SHIFT) == inside_port(end);
}

/* A port of the block that is free is taken first, then its key is added; who adds it second, for
 * a frame that another processor has at the same time, gives its port back. Who ends all sessions
 * may have looked for the key before it was there: then it goes too. */
ALWAYS uint32_t make_mapping(const struct inside *key, struct end *end)
{
	const uint32_t first = FIRST_PORT + end->subscriber % PER_ADDRESS * BLOCK;
	const uint32_t wanted = host16(key->port);
	struct search search = {
		.first = key->kind * PLACES_OF + end->subscriber * BLOCK,
		.start = wanted - first < BLOCK ? wanted - first : wanted % BLOCK,
		.value = LIVE | (uint64_t)key->port << PORT_SHIFT | seconds(),
		.found = BLOCK,
	};
	long refused;

	bpf_loop(BLOCK, take, &search, 0);
	if (search.found >= BLOCK)
		return PORT_LIMIT;
	refused = bpf_map_update_elem(&insides, key, &search.found, BPF_NOEXIST);
	end->offset = search.found;
	end->place = place_of(key->kind, end);
	end->value = search.value;
	if (!end->place)
		return NO_MAPPING;
	if (!refused && !is_kept(end)) {
		const uint32_t *held = bpf_map_lookup_elem(&insides, key);

		if (held && *held == search.found) /* no other processor's by now */
			bpf_map_delete_elem(&insides, key);
		return IS_ENDING;
	}
	if (!refused) {
		add_one(&tallies, MADE);
		return PASS;
	}
	__sync_val_compare_and_swap(end->place, search.value, 0);
	return find_inside(key, end) == PASS ? PASS : MAPPINGS_FULL;
}

ALWAYS uint32_t find_outside(uint8_t kind, be32 ip, be16 port, struct end *end)
{
	const uint32_t place = (uint32_t)host16(port) - FIRST_PORT;
	const uint32_t share = place / BLOCK;

	end->subscriber = (host32(ip) - POOL) * PER_ADDRESS + share;
	end->offset = place % BLOCK;
	if (host16(port) < FIRST_PORT || share >= PER_ADDRESS || end->subscriber >= SUBSCRIBERS)
		return NO_MAPPING;
	end->place = place_of(kind, end);
	if (!end->place)
		return NO_MAPPING;
	end->value = *(volatile uint64_t *)end->place;
	return in_use(end->value) ? PASS : NO_MAPPING;
}

/* RFC 4787 REQ-6: what its subscriber sends keeps a mapping, and segments of TCP both ways. Only
 * what differs is written: most packets leave the line clean. */
ALWAYS uint32_t follow(const struct packet *p, struct end *end, bool out)
{
	const uint32_t now = seconds();

	if (!end->place)
		return NO_MAPPING; /* never: the verifier does not see that */
	for (int i = 0; i < TRIES; i++) {
		uint64_t was = end->value, is = was, found;

		if (p->kind == KIND_TCP) {
			is &= ~((uint64_t)STATE_BITS << STATE_SHIFT);
			is |= (uint64_t)tcp_followed(was >> STATE_SHIFT & STATE_BITS, p->flags, out)
			      << STATE_SHIFT;
		}
		if (out || p->kind == KIND_TCP)
			is = (is & ~0xffffffffULL) | now;
		if (is == was)
			return PASS;
		found = __sync_val_compare_and_swap(end->place, was, is);
		if (found == was)
			return PASS;
		if (!in_use(found) || (be16)(found >> PORT_SHIFT) != inside_port(end))
			return IS_ENDING;
		end->value = found;
	}
	return PASS; /* others have just said the same */
}

ALWAYS void write_address(struct iphdr *ip, bool source, be32 address)
{
	ip->check = update_checksum(ip->check, change32(source ? ip->saddr : ip->daddr, address));
	if (source)
		ip->saddr = address;
	else
		ip->daddr = address;
}

/* Writes another address and port; of a UDP checksum 0 says that there is none. The checksum of an
 * error is over all that. */
ALWAYS void write_side(struct packet *p, bool source, be32 address, be16 port)
{
	be16 *at = source ? p->src : p->dst;
	const be16 was_check = p->ip->check;
	const uint32_t by = change32(source ? p->ip->saddr : p->ip->daddr, address);
	const uint32_t by_port = change16(*at, port);
	uint32_t all = by + by_port;

	if (p->sum && !(p->kind == KIND_UDP && *p->sum == 0)) {
		const be16 was = *p->sum;
		be16 sum = update_checksum(was, p->kind == KIND_ICMP ? by_port : by + by_port);

		if (p->kind == KIND_UDP && sum == 0)
			sum = 0xffff;
		*p->sum = sum;
		all += change16(was, sum);
	}
	*at = port;
	write_address(p->ip, source, address);
	if (p->error_sum)
		*p->error_sum =
			update_checksum(*p->error_sum, all + change16(was_check, p->ip->check));
}

ALWAYS void write_ends(struct ethhdr *ethernet, uint32_t to)
{
	const uint64_t target = to == INSIDE ? HOP_0 : HOP_1, own = to == INSIDE ? OWN_0 : OWN_1;

	for (int i = 0; i < ETH_ALEN; i++) {
		ethernet->h_dest[i] = (uint8_t)(target >> (40 - 8 * i));
		ethernet->h_source[i] = (uint8_t)(own >> (40 - 8 * i));
	}
}

ALWAYS bool is_own(const struct ethhdr *ethernet)
{
	const uint64_t own = FROM == INSIDE ? OWN_0 : OWN_1;
	uint64_t mac = 0;

	for (int i = 0; i < ETH_ALEN; i++)
		mac = mac << 8 | ethernet->h_dest[i];
	return mac == own;
}

/* Whether a header's checksum is right. */
ALWAYS bool is_right(const struct iphdr *ip, const void *end)
{
	const be16 *word = (const be16 *)ip;
	uint32_t sum = 0;

	for (int i = 0; i < 30; i++, word++) {
		if (i >= ip->ihl * 2)
			break;
		if ((const void *)(word + 1) > end)
			return false;
		sum += *word;
	}
	return sum_fold(sum) == 0xffff;
}

ALWAYS bool is_query(uint8_t type)
{
	return type == 8 || type == 0 || type == 13 || type == 14;
}

/* What an error quotes: the header of the packet that it is about, and 8 octets or more. */
ALWAYS uint32_t check_quoted(struct packet *p, struct icmp *error, uint32_t there, void *end)
{
	struct iphdr *ip = (void *)(error + 1);
	uint32_t header;
	void *l4;

	if ((void *)(ip + 1) > end || there < sizeof(*error) + sizeof(*ip) + 8)
		return BAD_HEADER;
	header = ip->ihl * 4;
	l4 = (void *)ip + header;
	if (ip->version != 4 || header < sizeof(*ip) || sizeof(*error) + header + 8 > there ||
	    l4 + 8 > end)
		return BAD_HEADER;
	/* RFC 5508 REQ-3: nothing is done about a quoted header that was damaged. */
	if (!is_right(ip, end))
		return BAD_CHECKSUM;
	if (host16(ip->frag_off) & OFFSET_BITS)
		return FRAGMENT; /* has no ports */
	p->ip = ip;
	p->error_sum = &error->sum;
	p->src = &((struct udp *)l4)->src;
	p->dst = &((struct udp *)l4)->dst;
	if (ip->protocol == PROTOCOL_UDP) {
		p->kind = KIND_UDP;
		p->sum = &((struct udp *)l4)->sum;
		return PASS;
	}
	if (ip->protocol == PROTOCOL_TCP) {
		struct tcp *tcp = l4;

		p->kind = KIND_TCP;
		if ((void *)(&tcp->sum + 1) <= end && sizeof(*error) + header + 18 <= there)
			p->sum = &tcp->sum;
		return PASS;
	}
	if (ip->protocol == PROTOCOL_ICMP) {
		struct icmp *query = l4;

		p->kind = KIND_ICMP;
		p->sum = &query->sum;
		p->src = p->dst = &query->id;
		return is_query(query->type) ? PASS : OTHER_PROTOCOL;
	}
	return OTHER_PROTOCOL;
}

/* Finds the headers, or a verdict. */
ALWAYS uint32_t check(struct packet *p, void *start, void *end, uint64_t length)
{
	struct iphdr *ip = start + sizeof(struct ethhdr);
	const uint32_t header = ip->ihl * 4, total = host16(ip->tot_len);
	void *l4 = (void *)ip + header;
	const uint32_t there = total - header;

	p->outer = p->ip = ip;
	if (ip->version != 4 || header < sizeof(*ip) || total < header ||
	    sizeof(struct ethhdr) + total > length || l4 > end)
		return BAD_HEADER;
	if (!is_right(ip, end))
		return BAD_CHECKSUM;
	if (ip->ttl <= 1)
		return TTL_ENDED;
	if (host16(ip->frag_off) & FRAGMENT_BITS)
		return FRAGMENT;
	if (ip->protocol == PROTOCOL_UDP) {
		struct udp *udp = l4;

		if ((void *)(udp + 1) > end || there < sizeof(*udp) ||
		    host16(udp->length) < sizeof(*udp) || host16(udp->length) > there)
			return BAD_HEADER;
		p->kind = KIND_UDP;
		p->src = &udp->src;
		p->dst = &udp->dst;
		p->sum = &udp->sum;
		return PASS;
	}
	if (ip->protocol == PROTOCOL_TCP) {
		struct tcp *tcp = l4;

		if ((void *)(tcp + 1) > end || there < sizeof(*tcp) ||
		    (tcp->words >> 4) * 4u < sizeof(*tcp) || (tcp->words >> 4) * 4u > there)
			return BAD_HEADER;
		p->kind = KIND_TCP;
		p->flags = tcp->flags;
		p->src = &tcp->src;
		p->dst = &tcp->dst;
		p->sum = &tcp->sum;
		return PASS;
	}
	if (ip->protocol == PROTOCOL_ICMP) {
		struct icmp *icmp = l4;

		if ((void *)(icmp + 1) > end || there < sizeof(*icmp))
			return BAD_HEADER;
		p->kind = KIND_ICMP;
		p->src = p->dst = &icmp->id;
		p->sum = &icmp->sum;
		if (icmp->type == 3 || icmp->type == 11 || icmp->type == 12)
			return check_quoted(p, icmp, there, end);
		return is_query(icmp->type) ? PASS : OTHER_PROTOCOL;
	}
	return OTHER_PROTOCOL;
}

/* An error tells whoever sent the packet that it quotes; it needs mappings, and keeps none. */
ALWAYS uint32_t from_inside(struct packet *p, uint32_t *to)
{
	const bool error = p->error_sum;
	const struct inside key = {error ? p->ip->daddr : p->ip->saddr, error ? *p->dst : *p->src,
				   p->kind};
	struct end up = {}, down = {};
	uint32_t verdict;

	if (!is_subscriber(key.ip))
		return NOT_SUBSCRIBER;
	if (is_subscriber(p->outer->daddr))
		return PRIVATE_TARGET;
	if (error && p->outer->daddr != p->ip->saddr)
		return BAD_QUOTE;
	*to = in_pool(p->outer->daddr) ? INSIDE : OUTSIDE;
	/* An identifier is of both ends: it cannot be translated twice. */
	if (*to == INSIDE && p->kind == KIND_ICMP)
		return HAIRPIN_QUERY;
	if (*to == INSIDE) {
		verdict = find_outside(p->kind, p->outer->daddr, error ? *p->src : *p->dst, &down);
		if (verdict != PASS)
			return verdict;
	}
	up.subscriber = host32(key.ip) - INSIDE_FIRST;
	verdict = find_inside(&key, &up);
	if (verdict == NO_MAPPING && !error)
		verdict = make_mapping(&key, &up);
	if (verdict == PASS && !error)
		verdict = follow(p, &up, true);
	if (verdict == PASS && !error && *to == INSIDE)
		verdict = follow(p, &down, false);
	if (verdict != PASS)
		return verdict;
	write_side(p, !error, public_ip(&up), public_port(&up));
	if (error)
		write_address(p->outer, true, public_ip(&up));
	if (*to == INSIDE)
		write_side(p, error, net32(INSIDE_FIRST + down.subscriber), inside_port(&down));
	if (error && *to == INSIDE)
		write_address(p->outer, false, net32(INSIDE_FIRST + down.subscriber));
	return PASS;
}

ALWAYS uint32_t from_outside(struct packet *p, uint32_t *to)
{
	const bool error = p->error_sum;
	struct end down = {};
	uint32_t verdict;
	be32 inside;

	*to = INSIDE;
	if (is_subscriber(p->outer->saddr) || in_pool(p->outer->saddr))
		return SPOOFED;
	if (!in_pool(p->outer->daddr))
		return NOT_POOL;
	if (error && p->outer->daddr != p->ip->saddr)
		return BAD_QUOTE;
	verdict = find_outside(p->kind, p->outer->daddr, error ? *p->src : *p->dst, &down);
	if (verdict == PASS && !error)
		verdict = follow(p, &down, false);
	if (verdict != PASS)
		return verdict;
	inside = net32(INSIDE_FIRST + down.subscriber);
	write_side(p, error, inside, inside_port(&down));
	if (error)
		write_address(p->outer, false, inside);
	return PASS;
}

SEC("xdp.frags") int forward(struct xdp_md *frame)
{
	void *start = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
	struct ethhdr *ethernet = start;
	struct packet p = {};
	uint32_t verdict, to = OUTSIDE;

	add_one(&counts, PASS);
	if (start + sizeof(*ethernet) + sizeof(*p.outer) > end)
		return count_frame(TOO_SHORT, XDP_DROP);
	if (!is_own(ethernet))
		return count_frame(OTHER_MAC, XDP_DROP);
	if (host16(ethernet->h_proto) != ETH_P_IP)
		return count_frame(NOT_IPV4, XDP_DROP);
	verdict = check(&p, start, end, bpf_xdp_get_buff_len(frame));
	if (verdict == PASS)
		verdict = FROM == INSIDE ? from_inside(&p, &to) : from_outside(&p, &to);
	if (verdict != PASS)
		return count_frame(verdict, XDP_DROP);
	/* The time to live is the first octet of its word. */
	p.outer->check =
		update_checksum(p.outer->check, change16(p.outer->ttl, (be16)(p.outer->ttl - 1)));
	p.outer->ttl--;
	write_ends(ethernet, to);
	/* A place of the map without an interface gives the flags as the verdict. */
	if (bpf_redirect_map(&target, to, XDP_DROP) == XDP_REDIRECT)
		return XDP_REDIRECT;
	return count_frame(NO_TARGET, XDP_DROP);
}
