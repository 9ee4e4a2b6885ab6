/* Just enough of a test framework: a failed check says where and what, and the suite goes on. */
#ifndef UNIT_CHECK_H
#define UNIT_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"

extern unsigned int checks, failures;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		checks++;                                                                          \
		if (!(condition)) {                                                                \
			failures++;                                                                \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);             \
		}                                                                                  \
	} while (0)

#define CHECK_EQ(got, wanted)                                                                      \
	do {                                                                                       \
		uint64_t got_ = (uint64_t)(got), wanted_ = (uint64_t)(wanted);                     \
		checks++;                                                                          \
		if (got_ != wanted_) {                                                             \
			failures++;                                                                \
			printf("%s:%d: %s is %" PRIu64 ", not %" PRIu64 "\n", __FILE__, __LINE__,  \
			       #got, got_, wanted_);                                               \
		}                                                                                  \
	} while (0)

void test_seqtrack(void);
void test_bindings(void), test_capture(void);
void test_echo(void);
void test_gaps(void);
void test_hdr(void);
void test_neighbour(void);
void test_thread(void);
void test_turns(void);
void test_nicclock(void);
void test_worker_phase(void);
void test_pacing(void);
void test_fields(void);
void test_fuzz(void);
void test_params(void);
void test_args(void);
void test_stream(void);
void test_steps(void);
void test_tscoffset(void);
void test_wallclock(void);
void test_timeline(void);
/* Prints "value index lowest" for the cross-check with the Python implementation. */
void print_hdr_layout(void);

#endif
