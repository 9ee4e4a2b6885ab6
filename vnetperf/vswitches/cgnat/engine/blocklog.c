/*
 * The record of blocks that were given out and came back: what a provider must be able to answer
 * (RFC 6888 section 4) when blocks are not computed. Lines of text, one for an event, or messages
 * of IPFIX (RFC 7011, in a file as RFC 5655 has it) with the elements of RFC 8158.
 *
 * The thread that owns the blocks never waits for a disk: it puts events into a ring, which the
 * main lcore empties into the file. Events that found no room are counted.
 */
#include "engine.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <rte_ring_elem.h>

#define EVENTS 16384u

#define IPFIX_VERSION  10u
#define TEMPLATE_SET   2u
#define BLOCK_TEMPLATE 256u
#define MESSAGE_LEN    16u
#define SET_LEN	       4u
#define ALLOCATED      16u /* of natEvent: port block allocation */
#define DEALLOCATED    17u
/* Records of a message: it is no longer than a packet. */
#define MOST_RECORDS 60u

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

static FILE *file;
static struct rte_ring *ring;
static uint64_t lost;
static time_t began; /* when `second` was 0 */
static bool ipfix;
static uint32_t exported; /* records in messages so far */

static void put(struct message *m, uint64_t value, size_t octets)
{
	while (octets--)
		m->octets[m->n++] = (uint8_t)(value >> 8 * octets);
}

/* The headers of a message and of its only set; their lengths are known at the end. */
static void begin(struct message *m, uint16_t set)
{
	m->n = 0;
	put(m, IPFIX_VERSION, 2);
	put(m, 0, 2);
	put(m, (uint32_t)time(NULL), 4);
	put(m, exported, 4);
	put(m, 0, 4); /* observation domain: the whole NAT */
	put(m, set, 2);
	put(m, 0, 2);
}

static void finish(struct message *m)
{
	const size_t n = m->n;

	m->n = 2;
	put(m, n, 2);
	m->n = MESSAGE_LEN + 2;
	put(m, n - MESSAGE_LEN, 2);
	fwrite(m->octets, n, 1, file);
}

static void describe_records(void)
{
	struct message m;

	begin(&m, TEMPLATE_SET);
	put(&m, BLOCK_TEMPLATE, 2);
	put(&m, ELEMENTS, 2);
	for (size_t i = 0; i < ELEMENTS; i++) {
		put(&m, elements[i].number, 2);
		put(&m, elements[i].octets, 2);
	}
	finish(&m);
}

bool blocklog_open(const char *path, bool as_ipfix, struct problem *why)
{
	if (*path == '\0')
		return true;
	began = time(NULL) - 1; /* the first second is 1 */
	file = fopen(path, "ae");
	if (file == NULL)
		return problem_set(why, "a file that can be written", "%.90s: %s", path,
				   strerror(errno));
	ring = rte_ring_create_elem("cgnat_log", sizeof(struct block_event), EVENTS, SOCKET_ID_ANY,
				    RING_F_SP_ENQ | RING_F_SC_DEQ);
	if (ring == NULL)
		return problem_set(why, "more memory", "no memory for the record of blocks");
	/* One that was started again goes on with the record. */
	ipfix = as_ipfix;
	if (ipfix)
		describe_records();
	else if (fseek(file, 0, SEEK_END) == 0 && ftell(file) == 0)
		fprintf(file, "# time event inside public first-port last-port\n");
	return true;
}

void blocklog_note(void *unused, const struct block_event *event)
{
	struct block_event own = *event;

	(void)unused;
	if (ring && rte_ring_sp_enqueue_elem(ring, &own, sizeof(own)) != 0)
		lost++;
}

static void address(char *text, size_t n, uint32_t ip)
{
	snprintf(text, n, "%u.%u.%u.%u", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
}

static void write_lines(const struct block_event events[], uint32_t n)
{
	char at[32], inside[16], outside[16];

	for (const struct block_event *e = events; e < events + n; e++) {
		const time_t when = began + e->second;
		struct tm utc;

		gmtime_r(&when, &utc);
		strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &utc);
		address(inside, sizeof(inside), e->in_ip);
		address(outside, sizeof(outside), e->pub_ip);
		fprintf(file, "%s %s %s %s %u %u\n", at, e->given ? "assigned" : "released", inside,
			outside, e->first, e->last);
	}
}

static void write_message(const struct block_event events[], uint32_t n)
{
	struct message m;

	begin(&m, BLOCK_TEMPLATE);
	for (const struct block_event *e = events; e < events + n; e++) {
		put(&m, ((uint64_t)began + e->second) * 1000, 8);
		put(&m, e->given ? ALLOCATED : DEALLOCATED, 1);
		put(&m, e->in_ip, 4);
		put(&m, e->pub_ip, 4);
		put(&m, e->first, 2);
		put(&m, e->last, 2);
	}
	finish(&m);
	exported += n;
}

void blocklog_write(void)
{
	struct block_event events[MOST_RECORDS];
	uint32_t n;

	if (file == NULL)
		return;
	while ((n = rte_ring_sc_dequeue_burst_elem(ring, events, sizeof(events[0]), MOST_RECORDS,
						   NULL)) > 0) {
		if (ipfix)
			write_message(events, n);
		else
			write_lines(events, n);
	}
	fflush(file);
}

uint64_t blocklog_lost(void)
{
	return __atomic_load_n(&lost, __ATOMIC_RELAXED);
}

void blocklog_close(void)
{
	blocklog_write();
	if (file)
		fclose(file);
	file = NULL;
	rte_ring_free(ring);
	ring = NULL;
}
