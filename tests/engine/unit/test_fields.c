#include "check.h"
#include "fields.h"
#include "stream.h"

#define FRAME 120

/* Ethernet, IPv4 with four octets of options, UDP. */
static void ip4_udp(uint8_t *f)
{
	static const uint8_t head[] = {
		2,    0,  0,  0,	  0,	1,
		2,    0,  0,  0,	  0,	2,
		8,    0, /* Ethernet */
		0x46, 0,  0,  FRAME - 14, 0x12, 0x34,
		0x40, 0,  64, 17,	  0xab, 0xcd, /* IPv4 */
		198,  18, 0,  1,	  198,	19,
		0,    1,  1,  1,	  1,	0, /* addresses, options */
		4,    0,  8,  0,	  0,	FRAME - 14 - 24,
		0,    0, /* UDP */
	};

	memset(f, 0, FRAME);
	memcpy(f, head, sizeof(head));
}

/* The straightforward way, on the finished frame: a right checksum sums up to all ones. */
static uint32_t ip_sum(const uint8_t *f, unsigned int len)
{
	return sum_fold(sum_octets(f + 14, len));
}

static uint32_t udp4_sum(const uint8_t *f, unsigned int udp)
{
	const unsigned int len = (unsigned int)f[udp + 4] << 8 | f[udp + 5];

	return sum_fold(sum_octets(f + 26, 8) + 17 + len + sum_octets(f + udp, len));
}

static uint64_t read_be(const uint8_t *p, unsigned int width)
{
	uint64_t v = 0;

	while (width--)
		v = v << 8 | *p++;
	return v;
}

static void sequences(void)
{
	static const struct field_spec spec[] = {
		{.offset = 0, .width = 1, .base = 250, .step = 1, .count = 3},
		{.offset = 1, .width = 3, .base = 7, .step = 100, .count = 2, .mode = FIELD_CARRY},
		{.offset = 4,
		 .width = 8,
		 .base = 1ULL << 60,
		 .step = 5,
		 .count = 4,
		 .mode = FIELD_CARRY},
		{.offset = 12, .width = 2, .base = 9, .step = 0, .count = 1},
		{.offset = 14, .width = 4, .base = 1, .step = 1, .count = 5},
	};
	const struct checksum_spec none = {.ip = -1, .udp = -1};
	uint8_t frame[64] = {0};
	struct fields fs;

	fields_init(&fs, spec, 5, &none, frame, 64, 0);
	for (unsigned int i = 0; i < 100; i++) {
		fields_write(&fs, frame);
		CHECK_EQ(read_be(frame, 1), 250 + i % 3);
		CHECK_EQ(read_be(frame + 1, 3), 7 + 100 * (i / 3 % 2));
		CHECK_EQ(read_be(frame + 4, 8), (1ULL << 60) + 5 * (i / 6 % 4));
		CHECK_EQ(read_be(frame + 12, 2), 9);
		CHECK_EQ(read_be(frame + 14, 4), 1 + i % 5);
	}
}

static void random_is_even_and_repeatable(void)
{
	const struct field_spec spec = {.offset = 2,
					.width = 2,
					.base = 100,
					.step = 3,
					.count = 16,
					.mode = FIELD_RANDOM,
					.seed = 5};
	const struct checksum_spec none = {.ip = -1, .udp = -1};
	unsigned int seen[16] = {0}, differ = 0;
	uint8_t a[64] = {0}, b[64] = {0}, c[64] = {0};
	struct fields fa, fb, fc;

	fields_init(&fa, &spec, 1, &none, a, 64, 0);
	fields_init(&fb, &spec, 1, &none, b, 64, 0);
	fields_init(&fc, &spec, 1, &none, c, 64, 1);
	for (int i = 0; i < 16000; i++) {
		const uint64_t v = (fields_write(&fa, a), read_be(a + 2, 2));

		fields_write(&fb, b);
		fields_write(&fc, c);
		CHECK(v >= 100 && v <= 145 && (v - 100) % 3 == 0);
		seen[(v - 100) / 3 % 16]++;
		CHECK(memcmp(a, b, 64) == 0);
		differ += memcmp(a, c, 64) != 0;
	}
	for (int i = 0; i < 16; i++)
		CHECK(seen[i] > 850 && seen[i] < 1150);
	CHECK(differ > 14000);
}

/* Even and odd offsets, widths 1..8, inside and outside of what each checksum covers. */
static void checksums_follow(void)
{
	static const struct field_spec spec[] = {
		{.offset = 0, .width = 6, .base = 3, .step = 77777, .count = 1000},
		{.offset = 15, .width = 1, .base = 0, .step = 4, .count = 64},
		{.offset = 18, .width = 2, .base = 0, .step = 257, .count = 250},
		{.offset = 27, .width = 3, .base = 0x120000, .step = 4099, .count = 900},
		{.offset = 30,
		 .width = 4,
		 .base = 0xc6130000,
		 .step = 65537,
		 .count = 3000,
		 .mode = FIELD_RANDOM},
		{.offset = 38, .width = 2, .base = 1024, .step = 1, .count = 60000},
		{.offset = 41, .width = 1, .base = 0, .step = 1, .count = 256},
		{.offset = 47, .width = 8, .base = 1, .step = 0x123456789abcULL, .count = 50000},
	};
	const struct checksum_spec sums = {.ip = 14, .udp = 38};
	struct error error;
	uint8_t f[FRAME];
	struct fields fs;

	ip4_udp(f);
	CHECK(checksum_check(&sums, f, 46, FRAME, &error));
	for (unsigned int i = 0; i < 8; i++)
		CHECK(field_check(&spec[i], 60, &error));
	CHECK(fields_check_layout(spec, 8, &sums, f, &error));
	fields_init(&fs, spec, 8, &sums, f, FRAME, 0);
	for (uint32_t seq = 0; seq < 70000; seq++) {
		uint8_t *trailer = f + FRAME - TRAILER_LEN;
		const uint64_t tsc = seq * 0x123456789abcdefULL;
		uint64_t sum;

		store_le32(trailer + TRAILER_SEQ, seq);
		store_le64(trailer + TRAILER_TSC, 0);
		sum = fields_write(&fs, f) +
		      sum_value(__builtin_bswap32(seq), sum_shift(FRAME - TRAILER_LEN + 10 - 38));
		fields_udp(&fs, f, sum);
		CHECK_EQ(ip_sum(f, 24), 0xffff);
		CHECK_EQ(udp4_sum(f, 38), 0xffff);
		store_le64(trailer + TRAILER_TSC, tsc);
		fields_udp_replace(&fs, f, FRAME - TRAILER_LEN + TRAILER_TSC, 0,
				   __builtin_bswap64(tsc));
		CHECK_EQ(udp4_sum(f, 38), 0xffff);
		CHECK(f[44] || f[45]);
	}
}

static void ip6_udp_follows(void)
{
	const struct field_spec spec = {
		.offset = 30, .width = 8, .base = 5, .step = 3, .count = 100};
	const struct checksum_spec sums = {.ip = 14, .udp = 54};
	struct error error;
	uint8_t f[FRAME] = {0};
	struct fields fs;

	f[14] = 0x60;
	f[19] = FRAME - 54;
	f[20] = 17;
	f[59] = FRAME - 54;
	CHECK(checksum_check(&sums, f, 62, FRAME, &error));
	CHECK(fields_check_layout(&spec, 1, &sums, f, &error));
	fields_init(&fs, &spec, 1, &sums, f, FRAME, 0);
	for (int i = 0; i < 200; i++) {
		fields_udp(&fs, f, fields_write(&fs, f));
		CHECK_EQ(sum_fold(sum_octets(f + 22, 32) + 17 + FRAME - 54 +
				  sum_octets(f + 54, FRAME - 54)),
			 0xffff);
	}
}

/* VXLAN without its UDP checksum: IPv4 at 14, then at 64 another with TCP behind it. */
static void tcp_in_a_tunnel_follows(void)
{
	enum { LEN = 150, IP = 64, TCP = 84 };
	static const struct field_spec spec[] = {
		{.offset = 26, .width = 4, .base = 0xc0000202, .step = 1, .count = 250},
		{.offset = 34, .width = 2, .base = 49152, .step = 1, .count = 7},
		{.offset = 77, .width = 3, .base = 1, .step = 1, .count = 1000},
		{.offset = 84, .width = 2, .base = 1024, .step = 1, .count = 60000},
	};
	const struct checksum_spec sums = {.ip = IP, .udp = TCP, .tcp = true, .outer = 14};
	struct error error;
	uint8_t f[LEN] = {0};
	struct fields fs;

	f[14] = f[IP] = 0x45;
	f[17] = LEN - 14;
	f[23] = 17;
	f[39] = LEN - 34;
	f[IP + 3] = LEN - IP;
	f[IP + 9] = 6;
	f[TCP + 12] = 0x50;
	CHECK(checksum_check(&sums, f, 104, LEN, &error));
	CHECK(fields_check_layout(spec, 4, &sums, f, &error));
	fields_init(&fs, spec, 4, &sums, f, LEN, 0);
	for (uint64_t i = 0; i < 70000; i++) {
		store_le64(f + LEN - TRAILER_LEN + TRAILER_TSC, 0);
		fields_udp(&fs, f, fields_write(&fs, f));
		store_le64(f + LEN - TRAILER_LEN + TRAILER_TSC, i * 77777777);
		fields_udp_replace(&fs, f, LEN - TRAILER_LEN + TRAILER_TSC, 0,
				   __builtin_bswap64(i * 77777777));
		CHECK_EQ(sum_fold(sum_octets(f + 14, 20)), 0xffff);
		CHECK_EQ(sum_fold(sum_octets(f + IP, 20)), 0xffff);
		CHECK_EQ(sum_fold(sum_octets(f + IP + 12, 8) + 6 + LEN - TCP +
				  sum_octets(f + TCP, LEN - TCP)),
			 0xffff);
		CHECK_EQ(read_be(f + 26, 4), 0xc0000202 + i % 250);
	}
	CHECK(!checksum_check(&sums, f, 104, LEN + 1, &error)); /* IP ends before the frame */
	CHECK(!checksum_check(&(struct checksum_spec){.ip = IP, .udp = -1, .outer = 50}, f, 104,
			      LEN, &error));
	CHECK(!checksum_check(&(struct checksum_spec){.ip = 14, .udp = -1, .outer = IP}, f, 104,
			      LEN, &error));
	f[IP + 9] = 17;
	CHECK(!checksum_check(&sums, f, 104, LEN, &error));
}

/* Frames of a NAT: each has the address and port of its number, in whatever order they come. */
static void expected_by_number(void)
{
	enum { FLOWS = 7 };
	static uint8_t ports[2 * FLOWS];
	static const struct field_spec spec[] = {
		{.offset = 12, .width = 2, .base = 0x0800, .step = 1, .count = 1},
		{.offset = 34, .width = 2, .count = FLOWS, .mode = FIELD_TABLE, .table = ports},
		{.offset = 26,
		 .width = 4,
		 .base = 0xc6120000,
		 .step = 1,
		 .count = 3,
		 .mode = FIELD_CARRY},
	};
	const struct checksum_spec none = {.ip = -1, .udp = -1};
	static const uint64_t seqs[] = {0, 1, 2, 3, 20, 21, 6, 7, 1ULL << 40, 5, 6, 7, 8};
	struct fields sent, there;
	uint8_t f[FRAME];

	for (unsigned int i = 0; i < FLOWS; i++)
		ports[2 * i] = (uint8_t)(40 + i * i), ports[2 * i + 1] = (uint8_t)(i * 31);
	fields_expect(&there, spec, 3);
	CHECK_EQ(there.end, 36);
	for (unsigned int k = 0; k < sizeof(seqs) / sizeof(seqs[0]); k++) {
		const uint64_t seq = seqs[k] % (2 * 3 * FLOWS);

		/* Written from the start, as a transmit queue does. */
		ip4_udp(f);
		fields_init(&sent, spec, 3, &none, f, FRAME, 0);
		for (uint64_t i = 0; i <= seq; i++)
			fields_write(&sent, f);
		if (seqs[k] < 1000)
			CHECK(fields_match(&there, f, seqs[k]));
		f[35] ^= 1;
		CHECK(!fields_match(&there, f, seq));
		f[35] ^= 1;
		f[26] ^= 1;
		CHECK(!fields_match(&there, f, seq));
		f[26] ^= 1;
		CHECK(fields_match(&there, f, seq));
		CHECK(!fields_match(&there, f, seq + 1));
	}
}

/* An error of ICMP that quotes a whole frame has another protocol and other addresses. */
static void a_quoting_error_is_not_the_frame(void)
{
	static const struct field_spec spec[] = {
		{.offset = 23, .width = 1, .base = 17, .count = 1},
		{.offset = 26, .width = 4, .base = 0xc6120001, .count = 1},
		{.offset = 30, .width = 4, .base = 0xc6130001, .count = 1},
	};
	struct fields there;
	uint8_t f[FRAME], error[FRAME];

	ip4_udp(f);
	fields_expect(&there, spec, 3);
	CHECK(fields_match(&there, f, 0));
	memcpy(error, f, 34);
	error[23] = 1;
	memcpy(error + 42, f + 14, FRAME - 42);
	CHECK(!fields_match(&there, error, 0));
}

static bool refused(struct field_spec f, const struct checksum_spec *c)
{
	struct error error = {"", ""};
	uint8_t frame[FRAME];
	bool ok;

	ip4_udp(frame);
	ok = field_check(&f, 46, &error) && fields_check_layout(&f, 1, c, frame, &error);
	CHECK(ok || (error.text[0] && error.accepted[0]));
	return !ok;
}

static void bad_fields(void)
{
	const struct checksum_spec c = {.ip = 14, .udp = 38}, none = {.ip = -1, .udp = -1};
	struct error error;
	uint8_t f[FRAME];

	CHECK(refused((struct field_spec){.offset = 0, .width = 9, .count = 1}, &none));
	CHECK(refused((struct field_spec){.offset = 0, .width = 0, .count = 1}, &none));
	CHECK(refused((struct field_spec){.offset = 0, .width = 2, .count = 0}, &none));
	CHECK(refused((struct field_spec){.offset = 45, .width = 2, .count = 1}, &none));
	CHECK(refused((struct field_spec){.offset = 0, .width = 1, .base = 256, .count = 1},
		      &none));
	CHECK(refused((struct field_spec){.offset = 0, .width = 1, .step = 1, .count = 257},
		      &none));
	CHECK(!refused((struct field_spec){.offset = 0, .width = 1, .step = 1, .count = 256},
		       &none));
	CHECK(!refused((struct field_spec){.offset = 0, .width = 8, .step = UINT64_MAX, .count = 2},
		       &none));
	CHECK(refused((struct field_spec){.offset = 0, .width = 8, .step = UINT64_MAX, .count = 3},
		      &none));
	CHECK(refused((struct field_spec){.offset = 24, .width = 2, .count = 1},
		      &c)); /* checksum */
	CHECK(refused((struct field_spec){.offset = 14, .width = 1, .count = 1}, &c)); /* version */
	CHECK(refused((struct field_spec){.offset = 12, .width = 4, .count = 1}, &c));
	CHECK(refused((struct field_spec){.offset = 33, .width = 2, .count = 1},
		      &c)); /* straddles */
	CHECK(refused((struct field_spec){.offset = 44, .width = 2, .count = 1}, &c));
	CHECK(refused((struct field_spec){.offset = 23, .width = 1, .count = 1},
		      &c)); /* protocol */
	CHECK(!refused((struct field_spec){.offset = 26, .width = 4, .count = 1}, &c));

	ip4_udp(f);
	CHECK(!checksum_check(&(struct checksum_spec){.ip = 30, .udp = -1}, f, 46, FRAME, &error));
	CHECK(!checksum_check(&(struct checksum_spec){.ip = 14, .udp = -1}, f, 30, FRAME, &error));
	CHECK(!checksum_check(&(struct checksum_spec){.ip = 14, .udp = -1}, f, 46, 100, &error));
	CHECK(!checksum_check(&(struct checksum_spec){.ip = 14, .udp = 34}, f, 46, FRAME, &error));
	CHECK(!checksum_check(&(struct checksum_spec){.ip = -1, .udp = 38}, f, 46, FRAME, &error));
	CHECK(!checksum_check(&c, f, 46, FRAME + 1, &error)); /* UDP ends before the frame */
	f[23] = 6;
	CHECK(!checksum_check(&c, f, 46, FRAME, &error));
}

void test_fields(void)
{
	sequences();
	random_is_even_and_repeatable();
	checksums_follow();
	ip6_udp_follows();
	tcp_in_a_tunnel_follows();
	expected_by_number();
	a_quoting_error_is_not_the_frame();
	bad_fields();
}
