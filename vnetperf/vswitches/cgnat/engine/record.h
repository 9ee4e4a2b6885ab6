/*
 * The record of blocks that were given out and came back: what a provider must
 * be able to answer (RFC 6888 section 4) when blocks are not computed. Lines of
 * text, one for an event, or messages of IPFIX (RFC 7011, in a file as RFC 5655
 * has it) with the elements of RFC 8158.
 */
#ifndef CGNAT_RECORD_H
#define CGNAT_RECORD_H

#include <stdio.h>
#include <time.h>

#include "blocks.h"

/* Events that are written at once: a message is no longer than a packet. */
#define MOST_RECORDS 60u

struct record {
	FILE *file;
	bool ipfix;
	time_t began;	   /* when `second` was 0 */
	uint32_t exported; /* records in messages so far */
};

bool record_open(struct record *r, const char *path, bool ipfix, time_t began, struct error *error);
/* Writes up to MOST_RECORDS; false when the file does not take them. */
bool record_write(struct record *r, const struct block_event events[], uint32_t n);

#endif
