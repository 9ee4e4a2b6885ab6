/*
 * Bindings of a translator: the address and port that it gave each flow, read from the learning
 * frames that came out of it.
 */
#ifndef LOADGEN_BINDINGS_H
#define LOADGEN_BINDINGS_H

#include <stdatomic.h>

#include "fields.h"

/* Flows at most: those of a table of two octets each (MAX_TABLE). */
#define BINDINGS_MAX ((uint64_t)16 << 20)

struct bindings {
	uint16_t address, port; /* where frames have them as they come out: IPv4, UDP or TCP */
	uint64_t count;		/* frame i is of flow i modulo count */
	/* address << 16 | port of each flow, written at once by whichever worker sees it; 0: none
	 * came out yet. */
	_Atomic uint64_t bound[];
};

/* NULL: no memory. */
struct bindings *bindings_create(uint16_t address, uint16_t port, uint64_t count);
/* Forget what was learnt. */
void bindings_clear(struct bindings *b);
/* Learn from frame number `seq`, when it is of the stream: has the values of all `n` expected
 * fields that do not vary. */
void bindings_note(struct bindings *b, const struct field_spec *expected, unsigned int n,
		   const uint8_t *frame, size_t len, uint64_t seq);
/* Write all, eight octets each in the machine's byte order; returns how many are known, -1 when
 * the file cannot be written. */
int64_t bindings_write(const struct bindings *b, const char *path);

#endif
