/* Writes events of blocks to their file, which goes on where it ended: one that
 * was started again goes on with the record. */
#include "record.h"

#include <errno.h>

#define IPFIX_VERSION  10u
#define TEMPLATE_SET   2u
#define BLOCK_TEMPLATE 256u
#define MESSAGE_LEN    16u
#define SET_LEN	       4u
#define ALLOCATED      16u /* of natEvent: port block allocation */
#define DEALLOCATED    17u

/* What a record has, in its order: number of the element (IANA), octets. */
static const struct element {
	uint16_t number, octets;
} elements[] = {
	{323, 8}, /* observationTimeMilliseconds */
	{230, 1}, /* natEvent */
	{8, 4},	  /* sourceIPv4Address */
	{225, 4}, /* postNATSourceIPv4Address */
	{361, 2}, /* portRangeStart */
	{362, 2}, /* portRangeEnd */
};

#define ELEMENTS   (sizeof(elements) / sizeof(elements[0]))
#define RECORD_LEN 21u

struct message {
	uint8_t octets[MESSAGE_LEN + SET_LEN + MOST_RECORDS * RECORD_LEN];
	size_t n;
};

static void put(struct message *m, uint64_t value, size_t octets)
{
	while (octets--)
		m->octets[m->n++] = (uint8_t)(value >> 8 * octets);
}

/* The headers of a message and of its only set; their lengths are known at the
 * end. */
static void begin(const struct record *r, struct message *m, uint16_t set)
{
	m->n = 0;
	put(m, IPFIX_VERSION, 2);
	put(m, 0, 2);
	put(m, (uint32_t)time(NULL), 4);
	put(m, r->exported, 4);
	put(m, 0, 4); /* observation domain: the whole NAT */
	put(m, set, 2);
	put(m, 0, 2);
}

static void finish(const struct record *r, struct message *m)
{
	const size_t n = m->n;

	m->n = 2;
	put(m, n, 2);
	m->n = MESSAGE_LEN + 2;
	put(m, n - MESSAGE_LEN, 2);
	fwrite(m->octets, n, 1, r->file);
}

static void describe_records(const struct record *r)
{
	struct message m;

	begin(r, &m, TEMPLATE_SET);
	put(&m, BLOCK_TEMPLATE, 2);
	put(&m, ELEMENTS, 2);
	for (size_t i = 0; i < ELEMENTS; i++) {
		put(&m, elements[i].number, 2);
		put(&m, elements[i].octets, 2);
	}
	finish(r, &m);
}

bool record_open(struct record *r, const char *path, bool ipfix, time_t began, struct error *error)
{
	*r = (struct record){.file = fopen(path, "ae"), .ipfix = ipfix, .began = began};
	if (r->file == NULL)
		return error_set(error, "a file that can be written", "%.90s: %s", path,
				 strerror(errno));
	if (ipfix)
		describe_records(r);
	else if (fseek(r->file, 0, SEEK_END) == 0 && ftell(r->file) == 0)
		fprintf(r->file, "# time event inside public first-port last-port\n");
	return fflush(r->file) == 0 ||
	       error_set(error, "a file that can be written", "%.90s: %s", path, strerror(errno));
}

static void address(char *text, size_t n, uint32_t ip)
{
	snprintf(text, n, "%u.%u.%u.%u", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
}

static void write_lines(const struct record *r, const struct block_event events[], uint32_t n)
{
	char at[32], inside[16], outside[16];

	for (const struct block_event *e = events; e < events + n; e++) {
		const time_t when = r->began + e->second;
		struct tm utc;

		gmtime_r(&when, &utc);
		strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &utc);
		address(inside, sizeof(inside), e->in_ip);
		address(outside, sizeof(outside), e->pub_ip);
		fprintf(r->file, "%s %s %s %s %u %u\n", at, e->given ? "assigned" : "released",
			inside, outside, e->first, e->last);
	}
}

static void write_message(struct record *r, const struct block_event events[], uint32_t n)
{
	struct message m;

	begin(r, &m, BLOCK_TEMPLATE);
	for (const struct block_event *e = events; e < events + n; e++) {
		put(&m, ((uint64_t)r->began + e->second) * 1000, 8);
		put(&m, e->given ? ALLOCATED : DEALLOCATED, 1);
		put(&m, e->in_ip, 4);
		put(&m, e->pub_ip, 4);
		put(&m, e->first, 2);
		put(&m, e->last, 2);
	}
	finish(r, &m);
	r->exported += n;
}

bool record_write(struct record *r, const struct block_event events[], uint32_t n)
{
	if (r->ipfix)
		write_message(r, events, n);
	else
		write_lines(r, events, n);
	if (fflush(r->file) == 0)
		return true;
	clearerr(r->file);
	return false;
}
