/* What a stream's fields and checksum offsets must satisfy. */
#include "fields.h"

#define IP4_LEN	  20u
#define IP6_LEN	  40u
#define UDP_LEN	  8u
#define TCP_LEN	  20u
#define PROTO_UDP 17u
#define PROTO_TCP 6u

static unsigned int get16(const uint8_t *p)
{
	return (unsigned int)p[0] << 8 | p[1];
}

bool field_check(const struct field_spec *f, uint16_t header_len, struct error *error)
{
	const uint64_t top = f->width >= 8 ? UINT64_MAX : (1ULL << 8 * f->width) - 1;

	if (f->width < 1 || f->width > 8)
		return error_set(error, "1..8 octets", "field width %u", f->width);
	if (f->offset + f->width > header_len)
		return error_set(error, "fields inside the header template",
				 "field at %u..%u, header of %u octets", f->offset,
				 f->offset + f->width, header_len);
	if (f->count < 1)
		return error_set(error, "1 or more", "field count 0");
	if (f->table)
		return true;
	if (f->base > top || (f->count > 1 && f->step > (top - f->base) / (f->count - 1)))
		return error_set(error, "base + (count - 1) * step below 256 ^ width",
				 "field at offset %u overflows its %u octets", f->offset, f->width);
	return true;
}

static bool ip_check(const struct checksum_spec *c, const uint8_t *header, uint16_t header_len,
		     uint16_t frame_len, struct error *error)
{
	const unsigned int ip = (unsigned int)c->ip;
	const uint8_t *h = header + ip;
	unsigned int len, total;

	if (ip + IP4_LEN > header_len)
		return error_set(error, "an offset with a whole IP header behind it",
				 "l3 %u, header of %u octets", ip, header_len);
	if (h[0] >> 4 == 4) {
		len = (h[0] & 15u) * 4;
		total = get16(h + 2);
	} else if (h[0] >> 4 == 6) {
		len = IP6_LEN;
		total = IP6_LEN + get16(h + 4);
	} else {
		return error_set(error, "an IPv4 or IPv6 header", "no IP header at l3 %u", ip);
	}
	if (len < IP4_LEN || ip + len > header_len)
		return error_set(error, "the whole IP header in the template",
				 "IP header of %u octets at %u, template of %u", len, ip,
				 header_len);
	if (total < len || ip + total > frame_len)
		return error_set(error, "total length within the frame without FCS",
				 "IP total length %u at %u, frame of %u octets", total, ip,
				 frame_len);
	return true;
}

static bool l4_check(const struct checksum_spec *c, const uint8_t *header, uint16_t header_len,
		     uint16_t frame_len, struct error *error)
{
	const unsigned int at = (unsigned int)c->udp, wanted = c->tcp ? PROTO_TCP : PROTO_UDP;
	const char *what = c->tcp ? "tcp" : "udp";
	const uint8_t *ip = header + c->ip;
	unsigned int proto, ip_end, ip_total;

	if (c->ip < 0)
		return error_set(error, "l3 as well as udp or tcp", "%s %u without l3", what, at);
	proto = ip[0] >> 4 == 4 ? ip[9] : ip[6];
	ip_end = (unsigned int)c->ip + (ip[0] >> 4 == 4 ? (ip[0] & 15u) * 4 : IP6_LEN);
	ip_total = ip[0] >> 4 == 4 ? get16(ip + 2) : IP6_LEN + get16(ip + 4);
	if (proto != wanted)
		return error_set(error, c->tcp ? "IP protocol 6" : "IP protocol 17",
				 "%s %u, but IP protocol %u", what, at, proto);
	if (at != ip_end || at + (c->tcp ? TCP_LEN : UDP_LEN) > header_len)
		return error_set(error,
				 "the UDP header right behind the IP header, in the template",
				 "%s %u, IP header ends at %u", what, at, ip_end);
	/* The checksum covers the trailer, so it must know how far the datagram goes. */
	if (!c->tcp && at + get16(header + at + 4) != frame_len)
		return error_set(error, "a UDP length that reaches the end of the frame",
				 "UDP length %u at %u, frame of %u octets without FCS",
				 get16(header + at + 4), at, frame_len);
	if (c->tcp && (unsigned int)c->ip + ip_total != frame_len)
		return error_set(error, "an IP length that reaches the end of the frame",
				 "IP length %u at %d, frame of %u octets without FCS", ip_total,
				 c->ip, frame_len);
	return true;
}

static bool outer_check(const struct checksum_spec *c, const uint8_t *header, uint16_t header_len,
			struct error *error)
{
	if (c->outer + IP4_LEN > header_len || header[c->outer] != 0x45)
		return error_set(error, "an IPv4 header of 20 octets in the template",
				 "no IPv4 header at outer %u", c->outer);
	if (c->ip >= 0 && c->outer + (int)IP4_LEN > c->ip)
		return error_set(error, "outer before l3", "outer %u, l3 %d", c->outer, c->ip);
	return true;
}

bool checksum_check(const struct checksum_spec *c, const uint8_t *header, uint16_t header_len,
		    uint16_t frame_len, struct error *error)
{
	if (c->ip >= 0 && !ip_check(c, header, header_len, frame_len, error))
		return false;
	if (c->outer && !outer_check(c, header, header_len, error))
		return false;
	return c->udp < 0 || l4_check(c, header, header_len, frame_len, error);
}

static bool overlap(unsigned int a, unsigned int a_len, unsigned int b, unsigned int b_len)
{
	return a < b + b_len && b < a + a_len;
}

static bool touches(const struct field_spec *f, int at, unsigned int len)
{
	return at >= 0 && overlap(f->offset, f->width, (unsigned int)at, len);
}

/* Octets that the checksum arithmetic relies on must stay as they are. */
static bool touches_fixed(const struct field_spec *f, const struct checksum_spec *c, bool ip4)
{
	if (c->ip >= 0 && touches(f, c->ip, 1))
		return true;
	if (c->ip >= 0 && ip4 && touches(f, c->ip + 10, 2))
		return true;
	if (c->outer && (touches(f, c->outer, 1) || touches(f, c->outer + 10, 2)))
		return true;
	if (c->udp < 0)
		return false;
	return (c->tcp ? touches(f, c->udp + 16, 2) : touches(f, c->udp + 4, 4)) ||
	       touches(f, c->ip + (ip4 ? 2 : 4), 2) || touches(f, c->ip + (ip4 ? 9 : 6), 1);
}

/* Partly inside the summed octets: the arithmetic per field could not follow it. */
static bool straddles(const struct field_spec *f, int at, unsigned int len)
{
	const int end = f->offset + f->width;

	return touches(f, at, len) && (f->offset < at || end > at + (int)len);
}

static bool one_layout(const struct field_spec *f, const struct checksum_spec *c,
		       const uint8_t *header, struct error *error)
{
	const bool ip4 = c->ip >= 0 && header[c->ip] >> 4 == 4;

	if (touches_fixed(f, c, ip4))
		return error_set(error, "fields beside checksum, version, length and protocol",
				 "field at offset %u covers what checksums rely on", f->offset);
	if ((ip4 && straddles(f, c->ip, (header[c->ip] & 15u) * 4)) ||
	    (c->outer && straddles(f, c->outer, IP4_LEN)) ||
	    (c->udp >= 0 && straddles(f, c->ip + (ip4 ? 12 : 8), ip4 ? 8 : 32)) ||
	    (c->udp >= 0 && f->offset < c->udp && f->offset + f->width > c->udp))
		return error_set(error, "fields wholly inside or outside a header or its addresses",
				 "field at offset %u straddles them", f->offset);
	return true;
}

bool fields_check_layout(const struct field_spec *f, unsigned int n, const struct checksum_spec *c,
			 const uint8_t *header, struct error *error)
{
	for (unsigned int i = 0; i < n; i++) {
		if (!one_layout(&f[i], c, header, error))
			return false;
		for (unsigned int j = 0; j < i; j++) {
			if (overlap(f[i].offset, f[i].width, f[j].offset, f[j].width))
				return error_set(error, "fields that do not overlap",
						 "fields at offsets %u and %u overlap", f[j].offset,
						 f[i].offset);
		}
	}
	return true;
}
