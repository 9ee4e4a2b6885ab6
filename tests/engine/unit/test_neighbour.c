#include "check.h"
#include "fields.h"
#include "neighbour.h"

static struct neighbours table;
static struct error error;
static uint8_t reply[NEIGHBOUR_FRAME];

static const uint8_t asker[6] = {2, 0, 0, 0, 0, 9};

static struct neighbour_entry ipv4(uint16_t port, uint8_t last, uint64_t count)
{
	return (struct neighbour_entry){.port = port,
					.address = {198, 18, 0, last},
					.mac = {2, 0x76, 0x65, 0, 0, 1},
					.count = count};
}

/* An ARP request of 192.0.2.9 for 198.18.0.`last`, behind `tags` VLAN tags. */
static size_t request(uint8_t *frame, unsigned int tags, uint8_t last)
{
	static const uint8_t fixed[8] = {0, 1, 8, 0, 6, 4, 0, 1};
	static const uint8_t sender[4] = {192, 0, 2, 9};
	uint8_t *p = frame;

	memset(frame, 0, 128);
	memset(p, 0xff, 6);
	memcpy(p + 6, asker, 6);
	p += 12;
	for (unsigned int i = 0; i < tags; i++, p += 4) {
		p[0] = 0x81;
		p[3] = (uint8_t)(i + 1);
	}
	p[0] = 8;
	p[1] = 6;
	memcpy(p + 2, fixed, sizeof(fixed));
	memcpy(p + 10, asker, 6);
	memcpy(p + 16, sender, 4);
	p[26] = 198;
	p[27] = 18;
	p[29] = last;
	return 42 + 4 * (size_t)tags;
}

static void arp(void)
{
	uint8_t frame[128];
	size_t len = request(frame, 0, 5);
	struct neighbour_entry entry = ipv4(1, 1, 10);

	memset(&table, 0, sizeof(table));
	CHECK_EQ(neighbour_answer(&table, 1, frame, len, reply), 0);
	CHECK(neighbour_add(&table, &entry, &error));
	CHECK_EQ(neighbour_answer(&table, 0, frame, len, reply), 0); /* another port's */
	CHECK_EQ(neighbour_answer(&table, 1, frame, len, reply), 60);
	CHECK(memcmp(reply, asker, 6) == 0 && memcmp(reply + 6, entry.mac, 6) == 0);
	CHECK(reply[12] == 8 && reply[13] == 6 && reply[21] == 2);
	CHECK(memcmp(reply + 22, entry.mac, 6) == 0 && memcmp(reply + 28, frame + 38, 4) == 0);
	CHECK(memcmp(reply + 32, asker, 6) == 0 && memcmp(reply + 38, frame + 28, 4) == 0);
	for (len = 0; len < 42; len++)
		CHECK_EQ(neighbour_answer(&table, 1, frame, len, reply), 0);
	len = request(frame, 0, 11); /* one above the last */
	CHECK_EQ(neighbour_answer(&table, 1, frame, len, reply), 0);
	len = request(frame, 0, 0);
	CHECK_EQ(neighbour_answer(&table, 1, frame, len, reply), 0);
	len = request(frame, 0, 10);
	CHECK_EQ(neighbour_answer(&table, 1, frame, len, reply), 60);
	frame[21] = 2; /* a reply asks for nothing */
	CHECK_EQ(neighbour_answer(&table, 1, frame, len, reply), 0);
}

static void tags(void)
{
	uint8_t frame[128];

	for (unsigned int n = 1; n <= 2; n++) {
		const size_t len = request(frame, n, 3);

		CHECK_EQ(neighbour_answer(&table, 1, frame, len, reply), 60);
		CHECK(memcmp(reply + 12, frame + 12, (size_t)4 * n + 2) == 0);
		CHECK_EQ(reply[12 + 4 * n + 9], 2);
	}
	CHECK_EQ(neighbour_answer(&table, 1, frame, request(frame, 3, 3), reply), 0);
}

/* Who asks for its own address must not be told that it has one already. */
static void probes(void)
{
	uint8_t frame[128];
	const size_t len = request(frame, 0, 3);

	memcpy(frame + 28, frame + 38, 4);
	CHECK_EQ(neighbour_answer(&table, 1, frame, len, reply), 0);
	memset(frame + 28, 0, 4);
	CHECK_EQ(neighbour_answer(&table, 1, frame, len, reply), 0);
}

/* A frame from a group's address has no station behind it. */
static void groups(void)
{
	uint8_t frame[128];
	const size_t len = request(frame, 0, 3);

	CHECK_EQ(neighbour_answer(&table, 1, frame, len, reply), 60);
	memset(frame + 6, 0xff, 6);
	CHECK_EQ(neighbour_answer(&table, 1, frame, len, reply), 0);
}

static void steps_and_any(void)
{
	static const uint8_t group[6] = {0x33, 0x33, 0, 0, 0, 1};
	uint8_t frame[128];
	struct neighbour_entry entry = ipv4(0, 1, 200);
	size_t len = request(frame, 0, 200);

	entry.mac_steps = true;
	entry.mac[5] = 100;
	memset(&table, 0, sizeof(table));
	CHECK(neighbour_add(&table, &entry, &error));
	CHECK_EQ(neighbour_answer(&table, 0, frame, len, reply), 60);
	CHECK(reply[9] == 0 && reply[10] == 1 && reply[11] == 43); /* 100 + 199 = 0x12b */
	len = request(frame, 0, 250);
	CHECK_EQ(neighbour_answer(&table, 0, frame, len, reply), 0);
	CHECK(!neighbour_add_any(&table, 0, group, &error) && strstr(error.text, "group"));
	CHECK_EQ(neighbour_answer(&table, 0, frame, len, reply), 0);
	CHECK(neighbour_add_any(&table, 0, asker, &error));
	CHECK(neighbour_add_any(&table, 0, asker, &error));
	CHECK(!neighbour_add_any(&table, 0, entry.mac, &error) && strstr(error.text, "another"));
	CHECK_EQ(neighbour_answer(&table, 0, frame, len, reply), 60);
	CHECK(memcmp(reply + 22, asker, 6) == 0);
}

static void limits(void)
{
	struct neighbour_entry entry = ipv4(0, 1, 0);

	memset(&table, 0, sizeof(table));
	CHECK(!neighbour_add(&table, &entry, &error));
	memset(entry.address, 0xff, 4);
	entry.count = 1;
	CHECK(neighbour_add(&table, &entry, &error));
	entry.count = 2;
	CHECK(!neighbour_add(&table, &entry, &error) && strstr(error.text, "2 addresses"));
	entry.count = 1;
	entry.mac[0] = 1;
	CHECK(!neighbour_add(&table, &entry, &error) && strstr(error.text, "group"));
	entry.mac[0] = 2;
	while (table.n < NEIGHBOUR_MAX)
		CHECK(neighbour_add(&table, &entry, &error));
	CHECK(!neighbour_add(&table, &entry, &error) && strstr(error.accepted, "1024"));
}

static const uint8_t home[16] = {0x20, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10};

static size_t solicitation(uint8_t *frame, uint8_t last)
{
	uint8_t *ip = frame + 14;

	memset(frame, 0, 128);
	frame[0] = frame[1] = 0x33;
	memcpy(frame + 6, asker, 6);
	frame[12] = 0x86;
	frame[13] = 0xdd;
	ip[0] = 0x60;
	ip[5] = 32;
	ip[6] = 58;
	ip[7] = 255;
	ip[8] = 0xfe;
	ip[9] = 0x80;
	ip[23] = 9;
	ip[40] = 135;
	memcpy(ip + 48, home, 16);
	ip[63] = last;
	ip[64] = 1;
	ip[65] = 1;
	return 86;
}

/* Sum over pseudo header and message: all ones when the checksum is right. */
static uint32_t icmp_sum(const uint8_t *ip)
{
	return sum_fold(sum_octets(ip + 8, 32) + 32 + 58 + sum_octets(ip + 40, 32));
}

static void ipv6(void)
{
	struct neighbour_entry entry = {
		.port = 2, .ipv6 = true, .mac = {2, 0, 0, 0, 0, 7}, .count = 3};
	uint8_t frame[128];
	size_t len = solicitation(frame, 0x12);

	memcpy(entry.address, home, 16);
	memset(&table, 0, sizeof(table));
	CHECK(neighbour_add(&table, &entry, &error));
	CHECK_EQ(neighbour_answer(&table, 2, frame, len, reply), 86);
	CHECK(memcmp(reply, asker, 6) == 0 && memcmp(reply + 6, entry.mac, 6) == 0);
	CHECK(reply[54] == 136 && reply[58] == 0x60 && reply[14 + 7] == 255);
	CHECK(memcmp(reply + 22, frame + 62, 16) == 0); /* from the address asked for */
	CHECK(memcmp(reply + 38, frame + 22, 16) == 0); /* to who asked */
	CHECK(memcmp(reply + 62, frame + 62, 16) == 0 && reply[78] == 2 && reply[79] == 1);
	CHECK(memcmp(reply + 80, entry.mac, 6) == 0);
	CHECK_EQ(icmp_sum(reply + 14), 0xffff);
	CHECK_EQ(neighbour_answer(&table, 2, frame, solicitation(frame, 0x13), reply), 0);
	CHECK_EQ(neighbour_answer(&table, 2, frame, solicitation(frame, 0x0f), reply), 0);
	len = solicitation(frame, 0x10);
	CHECK_EQ(neighbour_answer(&table, 2, frame, 77, reply), 0);
	frame[14 + 7] = 254; /* it came through a router */
	CHECK_EQ(neighbour_answer(&table, 2, frame, len, reply), 0);
	len = solicitation(frame, 0x10);
	memset(frame + 22, 0, 16); /* duplicate address detection */
	CHECK_EQ(neighbour_answer(&table, 2, frame, len, reply), 0);
}

static void announcements(void)
{
	struct neighbour_entry entry = ipv4(0, 255, 2);

	CHECK_EQ(neighbour_announcement(&entry, 1, reply), 60);
	CHECK(reply[0] == 0xff && reply[21] == 1 && reply[30] == 1 && reply[31] == 0);
	CHECK(memcmp(reply + 28, reply + 38, 4) == 0 && memcmp(reply + 22, entry.mac, 6) == 0);
	entry.ipv6 = true;
	memcpy(entry.address, home, 16);
	CHECK_EQ(neighbour_announcement(&entry, 2, reply), 86);
	CHECK(reply[0] == 0x33 && reply[54] == 136 && reply[58] == 0x20 && reply[77] == 0x12);
	CHECK_EQ(icmp_sum(reply + 14), 0xffff);
}

void test_neighbour(void)
{
	arp();
	tags();
	probes();
	groups();
	steps_and_any();
	limits();
	ipv6();
	announcements();
}
