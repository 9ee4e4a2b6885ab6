#include "fields.h"

#define IP4_LEN	  20
#define IP6_LEN	  40
#define IP4_CSUM  10
#define UDP_CSUM  6
#define TCP_CSUM  16
#define PROTO_UDP 17
#define PROTO_TCP 6

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static bool is_ip4(const uint8_t *ip)
{
	return ip[0] >> 4 == 4;
}

static unsigned int ip_header_len(const uint8_t *ip)
{
	return is_ip4(ip) ? (ip[0] & 15u) * 4 : IP6_LEN;
}

uint64_t sum_octets(const uint8_t *data, size_t len)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum += (uint64_t)data[i] << (i & 1 ? 0 : 8);
	return sum;
}

/* The octets are added as in sum_octets(), whose first octet is at `from`. */
static void field_place(struct field *f, unsigned int from)
{
	f->ip_shift = (uint8_t)sum_shift(f->spec.offset + f->spec.width - from);
}

static bool within(const struct field_spec *f, int from, unsigned int len)
{
	return from >= 0 && f->offset >= from && f->offset + f->width <= from + (int)len;
}

/* The base sum of an IPv4 header whose varied octets are zero; its checksum is filled in. */
static uint32_t ip4_base(uint8_t *ip)
{
	uint32_t base;

	put16(ip + IP4_CSUM, 0);
	base = sum_fold(sum_octets(ip, ip_header_len(ip)));
	put16(ip + IP4_CSUM, ~base & 0xffff);
	return base;
}

/* The value at an index. */
static uint64_t value_at(const struct field_spec *spec, uint64_t index)
{
	if (spec->table)
		return field_value(spec->table + index * spec->width, spec->width);
	return spec->base + index * spec->step;
}

/* The sum of pseudo header, header and payload, varied octets being zero. */
static uint64_t l4_base(struct fields *fs, const struct checksum_spec *c, uint8_t *frame,
			uint16_t frame_len, const uint8_t *addresses, unsigned int n_addresses)
{
	const unsigned int at = (unsigned int)c->udp;
	const unsigned int len = c->tcp ? frame_len - at : get16(frame + at + 4);
	const unsigned int protocol = c->tcp ? PROTO_TCP : PROTO_UDP;

	fs->tcp = c->tcp;
	fs->sum_at = (uint16_t)(at + (c->tcp ? TCP_CSUM : UDP_CSUM));
	put16(frame + fs->sum_at, 0);
	return sum_fold(sum_octets(addresses, n_addresses) + protocol + len +
			sum_octets(frame + at, frame_len - at));
}

void fields_init(struct fields *fs, const struct field_spec *spec, unsigned int n,
		 const struct checksum_spec *c, uint8_t *frame, uint16_t frame_len, uint64_t salt)
{
	const unsigned int ip_len = c->ip >= 0 ? ip_header_len(frame + c->ip) : 0;
	const bool ip4 = c->ip >= 0 && is_ip4(frame + c->ip);
	const int addresses = c->ip + (ip4 ? 12 : 8);

	memset(fs, 0, sizeof(*fs));
	fs->n = (uint8_t)n;
	fs->ip4 = ip4 ? c->ip : -1;
	fs->udp = c->udp;
	fs->outer = c->outer;
	for (unsigned int i = 0; i < n; i++) {
		struct field *f = &fs->field[i];

		f->spec = spec[i];
		f->value = value_at(&f->spec, 0);
		f->random = (spec[i].seed + 1) * 0x9e3779b97f4a7c15ULL ^ (salt << 32) ^ (i + 1);
		if (f->random == 0) /* the one state xorshift never leaves */
			f->random = 1;
		f->in_ip = within(&f->spec, fs->ip4, ip_len);
		f->in_udp = c->udp >= 0 &&
			    (f->spec.offset >= c->udp || within(&f->spec, addresses, ip4 ? 8 : 32));
		field_place(f, c->ip >= 0 ? (unsigned int)c->ip : 0);
		f->in_outer = c->outer && within(&f->spec, c->outer, IP4_LEN);
		f->outer_shift = (uint8_t)sum_shift(f->spec.offset + f->spec.width - c->outer);
		memset(frame + f->spec.offset, 0, f->spec.width);
	}
	if (ip4)
		fs->ip_base = ip4_base(frame + c->ip);
	if (c->outer)
		fs->outer_base = ip4_base(frame + c->outer);
	if (c->udp >= 0)
		fs->udp_base = l4_base(fs, c, frame, frame_len, frame + addresses, ip4 ? 8 : 32);
}

static inline void put_value(uint8_t *p, uint64_t value, unsigned int width)
{
	const uint64_t big = __builtin_bswap64(value << (64 - 8 * width));
	const uint32_t big32 = (uint32_t)big;

	switch (width) {
	case 1:
		*p = (uint8_t)value;
		break;
	case 2:
		memcpy(p, &big32, 2);
		break;
	case 4:
		memcpy(p, &big32, 4);
		break;
	default:
		memcpy(p, &big, width);
	}
}

static inline void field_randomize(struct field *f)
{
	uint64_t x = f->random;

	x ^= x >> 12; /* xorshift64* */
	x ^= x << 25;
	x ^= x >> 27;
	f->random = x;
	x *= 0x2545f4914f6cdd1dULL;
	f->index = (uint64_t)((unsigned __int128)x * f->spec.count >> 64);
	f->value = f->spec.base + f->index * f->spec.step;
}

/* Step to the next value; tells whether the field wrapped around. */
static inline bool field_step(struct field *f)
{
	const bool wraps = UNLIKELY(++f->index >= f->spec.count);

	if (wraps)
		f->index = 0;
	if (UNLIKELY(wraps || f->spec.table))
		f->value = value_at(&f->spec, f->index);
	else
		f->value += f->spec.step;
	return wraps;
}

/* All fields go on by one frame. */
static inline bool field_turn(struct field *f, bool carry)
{
	if (f->spec.mode == FIELD_RANDOM || (f->spec.mode == FIELD_CARRY && !carry))
		return false;
	return field_step(f);
}

void fields_expect(struct fields *fs, const struct field_spec *spec, unsigned int n)
{
	memset(fs, 0, sizeof(*fs));
	fs->n = (uint8_t)n;
	fs->next = UINT64_MAX;
	for (unsigned int i = 0; i < n; i++) {
		fs->field[i].spec = spec[i];
		if (spec[i].offset + spec[i].width > fs->end)
			fs->end = (uint16_t)(spec[i].offset + spec[i].width);
	}
}

/* The values of any frame: where frames do not come in sequence. */
__attribute__((noinline, cold)) static void fields_seek(struct fields *fs, uint64_t seq)
{
	uint64_t turns = seq;

	for (unsigned int i = 0; i < fs->n; i++) {
		struct field *f = &fs->field[i];

		if (f->spec.mode != FIELD_CARRY)
			turns = seq;
		f->index = turns % f->spec.count;
		f->value = value_at(&f->spec, f->index);
		turns /= f->spec.count;
	}
	fs->next = seq;
}

bool fields_match(struct fields *fs, const uint8_t *frame, uint64_t seq)
{
	bool carry = false, same = true;

	if (UNLIKELY(seq != fs->next))
		fields_seek(fs, seq);
	for (unsigned int i = 0; i < fs->n; i++) {
		struct field *f = &fs->field[i];

		same = same && field_value(frame + f->spec.offset, f->spec.width) == f->value;
		carry = field_turn(f, carry);
	}
	fs->next = seq + 1;
	return same;
}

uint64_t fields_write(struct fields *fs, uint8_t *frame)
{
	uint64_t ip = fs->ip_base, udp = 0, outer = fs->outer_base;
	bool carry = false;

	for (unsigned int i = 0; i < fs->n; i++) {
		struct field *f = &fs->field[i];
		uint64_t add;

		if (f->spec.mode == FIELD_RANDOM)
			field_randomize(f);
		put_value(frame + f->spec.offset, f->value, f->spec.width);
		add = sum_value(f->value, f->ip_shift);
		ip += f->in_ip ? add : 0;
		udp += f->in_udp ? add : 0;
		if (UNLIKELY(f->in_outer))
			outer += sum_value(f->value, f->outer_shift);
		carry = field_turn(f, carry);
	}
	if (fs->ip4 >= 0)
		put16(frame + fs->ip4 + IP4_CSUM, ~sum_fold(ip) & 0xffff);
	if (UNLIKELY(fs->outer))
		put16(frame + fs->outer + IP4_CSUM, ~sum_fold(outer) & 0xffff);
	return udp;
}

/* RFC 768: UDP's checksum of zero is sent as all ones, for zero means "none". */
static void put_l4_checksum(const struct fields *fs, uint8_t *frame, uint64_t sum)
{
	const uint32_t checksum = ~sum_fold(sum) & 0xffff;

	put16(frame + fs->sum_at, checksum || fs->tcp ? checksum : 0xffff);
}

void fields_udp(const struct fields *fs, uint8_t *frame, uint64_t sum)
{
	put_l4_checksum(fs, frame, fs->udp_base + sum);
}

void fields_udp_replace(const struct fields *fs, uint8_t *frame, unsigned int offset,
			uint64_t before, uint64_t after)
{
	const unsigned int shift = sum_shift(offset + 8 - (unsigned int)fs->udp);
	uint64_t sum = ~(uint32_t)get16(frame + fs->sum_at) & 0xffff;

	/* RFC 1624: HC' = ~(~HC + ~m + m') */
	sum += ~(uint32_t)sum_fold(sum_value(before, shift)) & 0xffff;
	sum += sum_value(after, shift);
	put_l4_checksum(fs, frame, sum);
}
