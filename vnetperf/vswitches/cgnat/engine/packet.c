/* Reads and writes headers; the only part that knows what a frame looks like. */
#include "packet.h"

#include "checksum.h"

#define TYPE_IPV4      0x0800
#define FRAGMENT_BITS  0x3fff /* more fragments, or an offset */
#define OFFSET_BITS    0x1fff
#define MORE_FRAGMENTS 0x2000
#define PROTOCOL_ICMP  1
#define PROTOCOL_TCP   6
#define PROTOCOL_UDP   17
#define UDP_LEN	       8u
#define TCP_LEN	       20u
#define ICMP_LEN       8u
#define QUOTED_LEN     8u /* octets after the header that an error quotes at least (RFC 792) */
#define TCP_SUM	       16u
#define UDP_SUM	       6u

enum {
	ECHO_REPLY = 0,
	UNREACHABLE = 3,
	ECHO_REQUEST = 8,
	TIME_EXCEEDED = 11,
	PARAMETER_PROBLEM = 12,
	TIMESTAMP = 13,
	TIMESTAMP_REPLY = 14,
};

static bool is_query(uint8_t type)
{
	return type == ECHO_REQUEST || type == ECHO_REPLY || type == TIMESTAMP ||
	       type == TIMESTAMP_REPLY;
}

static bool is_error(uint8_t type)
{
	return type == UNREACHABLE || type == TIME_EXCEEDED || type == PARAMETER_PROBLEM;
}

static uint16_t get16(const uint8_t *at)
{
	be16 value;

	memcpy(&value, at, sizeof(value));
	return host16(value);
}

static enum verdict check_tcp(struct packet *p, uint16_t there)
{
	const uint8_t *tcp = p->frame + p->l4;
	const struct ports *ports = (const struct ports *)tcp;

	if (there < TCP_LEN || (tcp[12] >> 4) * 4u < TCP_LEN || (tcp[12] >> 4) * 4u > there)
		return BAD_HEADER;
	p->kind = KIND_TCP;
	p->flags = tcp[13];
	p->src_port = ports->src;
	p->dst_port = ports->dst;
	return PASS;
}

static enum verdict check_udp(struct packet *p, uint16_t there)
{
	const uint8_t *udp = p->frame + p->l4;
	const struct ports *ports = (const struct ports *)udp;

	/* A first fragment has the length of all. */
	if (there < UDP_LEN || get16(udp + 4) < UDP_LEN || (!p->first && get16(udp + 4) > there))
		return BAD_HEADER;
	p->kind = KIND_UDP;
	p->src_port = ports->src;
	p->dst_port = ports->dst;
	return PASS;
}

/* What an error quotes: the header of the packet that it is about, and 8 octets or more. */
static enum verdict check_quoted(struct packet *p, uint16_t there)
{
	const struct ipv4 *q;
	const struct icmp *icmp;
	const struct ports *ports;
	uint16_t header;

	p->q3 = (uint16_t)(p->l4 + ICMP_LEN);
	there = (uint16_t)(there - ICMP_LEN);
	if (there < IPV4_LEN + QUOTED_LEN)
		return BAD_HEADER;
	q = (const struct ipv4 *)(p->frame + p->q3);
	header = (uint16_t)((q->version_ihl & 15) * 4u);
	if (q->version_ihl >> 4 != 4 || header < IPV4_LEN || header + QUOTED_LEN > there)
		return BAD_HEADER;
	/* RFC 5508 REQ-3: nothing is done about a quoted header that was damaged. */
	if (sum_of(p->frame + p->q3, header) != 0xffff)
		return BAD_CHECKSUM;
	if (host16(q->fragment) & OFFSET_BITS)
		return FRAGMENT; /* has no ports */
	p->q4 = (uint16_t)(p->q3 + header);
	p->q4_there = (uint16_t)(there - header);
	p->src = q->src;
	p->dst = q->dst;
	p->error = true;
	icmp = (const struct icmp *)(p->frame + p->q4);
	ports = (const struct ports *)icmp;
	p->src_port = ports->src;
	p->dst_port = ports->dst;
	switch (q->protocol) {
	case PROTOCOL_TCP:
		p->kind = KIND_TCP;
		return PASS;
	case PROTOCOL_UDP:
		p->kind = KIND_UDP;
		return PASS;
	case PROTOCOL_ICMP:
		p->kind = KIND_ICMP;
		p->src_port = p->dst_port = icmp->id;
		return is_query(icmp->type) ? PASS : OTHER_PROTOCOL;
	default:
		return OTHER_PROTOCOL;
	}
}

static enum verdict check_icmp(struct packet *p, uint16_t there)
{
	const struct icmp *icmp = (const struct icmp *)(p->frame + p->l4);

	if (there < ICMP_LEN)
		return BAD_HEADER;
	if (is_query(icmp->type)) {
		p->kind = KIND_ICMP;
		p->src_port = p->dst_port = icmp->id;
		return PASS;
	}
	if (!is_error(icmp->type))
		return OTHER_PROTOCOL;
	if (p->first)
		return FRAGMENT; /* is never that long */
	if (p->l4 + there > p->head)
		return BAD_HEADER; /* is never that long */
	if (sum_of(p->frame + p->l4, there) != 0xffff)
		return BAD_CHECKSUM;
	return check_quoted(p, there);
}

static enum verdict check_upper(struct packet *p, uint8_t protocol, uint16_t there)
{
	/* No header that is read lies across two buffers. */
	if (p->l4 + (there < TCP_LEN ? there : TCP_LEN) > p->head)
		return BAD_HEADER;
	switch (protocol) {
	case PROTOCOL_UDP:
		return check_udp(p, there);
	case PROTOCOL_TCP:
		return check_tcp(p, there);
	case PROTOCOL_ICMP:
		return check_icmp(p, there);
	default:
		return OTHER_PROTOCOL;
	}
}

/* A fragment: the first one has ports. One of TCP that begins within its header would replace
 * flags that were looked at (RFC 1858); all but the last are multiples of 8 octets. */
static enum verdict check_fragment(struct packet *p, uint8_t protocol, uint16_t bits,
				   uint16_t there)
{
	const uint32_t offset = bits & OFFSET_BITS;
	enum verdict verdict;

	if (there == 0 || (bits & MORE_FRAGMENTS && there % 8) || offset * 8 + there > UINT16_MAX ||
	    (protocol == PROTOCOL_TCP && offset && offset * 8 < TCP_LEN))
		return BAD_HEADER;
	if (protocol != PROTOCOL_UDP && protocol != PROTOCOL_TCP && protocol != PROTOCOL_ICMP)
		return OTHER_PROTOCOL;
	p->later = offset != 0;
	p->first = offset == 0;
	verdict = p->later ? PASS : check_upper(p, protocol, there);
	return verdict == PASS ? FRAGMENT_PART : verdict;
}

static enum verdict check_ipv4(struct packet *p)
{
	const struct ipv4 *ip = packet_ipv4(p);
	const uint16_t header = (uint16_t)((ip->version_ihl & 15) * 4u);
	const uint16_t total = host16(ip->length);
	uint16_t there;

	if (ip->version_ihl >> 4 != 4 || header < IPV4_LEN || total < header ||
	    p->l3 + total > p->length || p->l3 + header > p->head)
		return BAD_HEADER;
	if (sum_of(p->frame + p->l3, header) != 0xffff)
		return BAD_CHECKSUM;
	if (ip->ttl <= 1)
		return TTL_ENDED;
	p->l4 = (uint16_t)(p->l3 + header);
	there = (uint16_t)(total - header);
	p->src = ip->src;
	p->dst = ip->dst;
	if (UNLIKELY(host16(ip->fragment) & FRAGMENT_BITS))
		return check_fragment(p, ip->protocol, host16(ip->fragment), there);
	return check_upper(p, ip->protocol, there);
}

void packet_check(struct packet *p, const struct addresses *macs)
{
	const struct ether *ether = (const struct ether *)p->frame;

	p->error = p->hairpin = p->later = p->first = false;
	p->flags = 0;
	p->l3 = ETHER_LEN;
	p->to = p->from == INSIDE ? OUTSIDE : INSIDE;
	if (p->head < ETHER_LEN + IPV4_LEN)
		p->verdict = TOO_SHORT;
	else if (memcmp(ether->to, macs->own[p->from], sizeof(ether->to)) != 0)
		p->verdict = OTHER_MAC;
	else if (host16(ether->type) != TYPE_IPV4)
		p->verdict = NOT_IPV4;
	else
		p->verdict = (uint8_t)check_ipv4(p);
}

/* The checksum of TCP, UDP or an ICMP query covers what changed, unless there is none. */
static void mend_sum(uint8_t kind, uint8_t *l4, uint16_t there, uint32_t address, uint32_t port)
{
	const uint32_t at = kind == KIND_TCP ? TCP_SUM : kind == KIND_UDP ? UDP_SUM : 2;
	/* Of ICMP it is over no addresses. */
	const uint32_t by = kind == KIND_ICMP ? port : address + port;
	be16 sum;

	if (at + sizeof(sum) > there)
		return; /* not quoted */
	memcpy(&sum, l4 + at, sizeof(sum));
	if (kind == KIND_UDP && sum == 0)
		return; /* the sender made none */
	sum = update_checksum(sum, by);
	if (kind == KIND_UDP && sum == 0)
		sum = 0xffff;
	memcpy(l4 + at, &sum, sizeof(sum));
}

/* Writes another address and port into a header and what follows it. */
static void write_side(struct ipv4 *ip, uint8_t *l4, uint16_t there, uint8_t kind, bool source,
		       be32 address, be16 port)
{
	be32 was = source ? ip->src : ip->dst;
	uint8_t *at = kind == KIND_ICMP ? l4 + offsetof(struct icmp, id) : l4 + (source ? 0 : 2);
	uint32_t by = change32(was, address);
	be16 was_port;

	memcpy(&was_port, at, sizeof(was_port));
	mend_sum(kind, l4, there, by, change16(was_port, port));
	memcpy(at, &port, sizeof(port));
	ip->checksum = update_checksum(ip->checksum, by);
	if (source)
		ip->src = address;
	else
		ip->dst = address;
}

static void write_address(struct ipv4 *ip, bool source, be32 address)
{
	ip->checksum = update_checksum(ip->checksum, change32(source ? ip->src : ip->dst, address));
	if (source)
		ip->src = address;
	else
		ip->dst = address;
}

/*
 * The quoted packet went the other way: its source is where the error goes, its destination the one
 * that the error is from. The error's own checksum is made anew: it is over all of that.
 */
static void rewrite_error(struct packet *p, struct ipv4 *ip)
{
	struct ipv4 *q = (struct ipv4 *)(p->frame + p->q3);
	uint8_t *q4 = p->frame + p->q4;
	struct icmp *icmp = (struct icmp *)(p->frame + p->l4);
	const size_t n = host16(ip->length) - (size_t)(p->l4 - p->l3);

	if (p->from == INSIDE) {
		write_side(q, q4, p->q4_there, p->kind, false, p->up.pub_ip, p->up.pub_port);
		write_address(ip, true, p->up.pub_ip);
	}
	if (p->from == OUTSIDE || p->hairpin) {
		write_side(q, q4, p->q4_there, p->kind, true, p->down.in_ip, p->down.in_port);
		write_address(ip, false, p->down.in_ip);
	}
	icmp->checksum = 0;
	icmp->checksum = (be16)~sum_of((const uint8_t *)icmp, n);
}

void packet_rewrite(struct packet *p, const struct addresses *macs)
{
	struct ether *ether = (struct ether *)p->frame;
	struct ipv4 *ip = packet_ipv4(p);
	uint8_t *l4 = p->frame + p->l4;

	if (UNLIKELY(p->error)) {
		rewrite_error(p, ip);
	} else if (UNLIKELY(p->later)) {
		if (p->from == INSIDE)
			write_address(ip, true, p->up.pub_ip);
		if (p->from == OUTSIDE || p->hairpin)
			write_address(ip, false, p->down.in_ip);
	} else {
		if (p->from == INSIDE)
			write_side(ip, l4, PORTS - 1, p->kind, true, p->up.pub_ip, p->up.pub_port);
		if (p->from == OUTSIDE || p->hairpin)
			write_side(ip, l4, PORTS - 1, p->kind, false, p->down.in_ip,
				   p->down.in_port);
	}
	/* The time to live is the first octet of its word. */
	ip->checksum = update_checksum(ip->checksum, change16(ip->ttl, (be16)(ip->ttl - 1)));
	ip->ttl--;
	memcpy(ether->to, macs->next_hop[p->to], sizeof(ether->to));
	memcpy(ether->from, macs->own[p->to], sizeof(ether->from));
}
