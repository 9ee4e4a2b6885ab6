/*
 * The thread that owns the blocks never waits for a disk: it puts events into a
 * ring, which the main lcore empties into the file. Events that found no room
 * there, or in the file, are counted.
 */
#include "engine.h"

#include <rte_ring_elem.h>

#include "record.h"

#define EVENTS 16384u

static struct record record;
static struct rte_ring *ring;
static uint64_t lost, unwritten; /* each written by one thread */

bool blocklog_open(const char *path, bool ipfix, struct error *error)
{
	if (*path == '\0')
		return true;
	/* The first second is 1. */
	if (!record_open(&record, path, ipfix, time(NULL) - 1, error))
		return false;
	ring = rte_ring_create_elem("cgnat_log", sizeof(struct block_event), EVENTS, SOCKET_ID_ANY,
				    RING_F_SP_ENQ | RING_F_SC_DEQ);
	return ring != NULL ||
	       error_set(error, "more memory", "no memory for the record of blocks");
}

void blocklog_note(void *unused, const struct block_event *event)
{
	struct block_event own = *event;

	(void)unused;
	if (ring && rte_ring_sp_enqueue_elem(ring, &own, sizeof(own)) != 0)
		lost++;
}

void blocklog_write(void)
{
	struct block_event events[MOST_RECORDS];
	uint32_t n;

	while (ring && (n = rte_ring_sc_dequeue_burst_elem(ring, events, sizeof(events[0]),
							   MOST_RECORDS, NULL)) > 0) {
		if (!record_write(&record, events, n))
			unwritten += n;
	}
}

uint64_t blocklog_lost(void)
{
	return counter_read(&lost) + counter_read(&unwritten);
}

void blocklog_close(void)
{
	blocklog_write();
	if (record.file)
		fclose(record.file);
	record.file = NULL;
	rte_ring_free(ring);
	ring = NULL;
}
