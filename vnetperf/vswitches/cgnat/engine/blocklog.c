/*
 * The record of blocks that were given out and came back: what a provider must be able to answer
 * (RFC 6888 section 4) when blocks are not computed. Lines of text, one for an event.
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

static FILE *file;
static struct rte_ring *ring;
static uint64_t lost;
static time_t began; /* when `second` was 0 */

bool blocklog_open(const char *path, struct problem *why)
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
	if (fseek(file, 0, SEEK_END) == 0 && ftell(file) == 0)
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

void blocklog_write(void)
{
	struct block_event event;
	char at[32], inside[16], outside[16];

	if (file == NULL)
		return;
	while (rte_ring_sc_dequeue_elem(ring, &event, sizeof(event)) == 0) {
		const time_t when = began + event.second;
		struct tm utc;

		gmtime_r(&when, &utc);
		strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &utc);
		address(inside, sizeof(inside), event.in_ip);
		address(outside, sizeof(outside), event.pub_ip);
		fprintf(file, "%s %s %s %s %u %u\n", at, event.given ? "assigned" : "released",
			inside, outside, event.first, event.last);
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
