#include "bindings.h"
#include "check.h"

#include <stdlib.h>

/* Destination port 7 at 22, address at 4, source port at 20. */
static const struct field_spec constant = {.offset = 22, .width = 2, .base = 7, .count = 1};

static void frame_of(uint8_t *frame, uint32_t address, uint16_t port, uint16_t to)
{
	const uint8_t a[] = {(uint8_t)(address >> 24), (uint8_t)(address >> 16),
			     (uint8_t)(address >> 8), (uint8_t)address};

	memset(frame, 0, 24);
	memcpy(frame + 4, a, sizeof(a));
	frame[20] = (uint8_t)(port >> 8);
	frame[21] = (uint8_t)port;
	frame[22] = (uint8_t)(to >> 8);
	frame[23] = (uint8_t)to;
}

static void each_flow_has_its_own(void)
{
	struct bindings *b = bindings_create(4, 20, 5);
	uint8_t frame[24];

	CHECK(b != NULL);
	for (uint64_t seq = 0; seq < 12; seq++) {
		if (seq % 5 == 3)
			continue; /* did not come out */
		frame_of(frame, 0xc6120000u + (uint32_t)(seq % 5), (uint16_t)(60000 + seq), 7);
		bindings_note(b, &constant, 1, frame, sizeof(frame), seq);
	}
	CHECK_EQ(b->bound[0], 0xc6120000ULL << 16 | 60010);
	CHECK_EQ(b->bound[1], 0xc6120001ULL << 16 | 60011);
	CHECK_EQ(b->bound[2], 0xc6120002ULL << 16 | 60007);
	CHECK_EQ(b->bound[3], 0);
	CHECK_EQ(b->bound[4], 0xc6120004ULL << 16 | 60009);
	bindings_clear(b);
	CHECK_EQ(b->bound[4], 0);
	free(b);
}

static void another_frame_teaches_nothing(void)
{
	struct bindings *b = bindings_create(4, 20, 1);
	uint8_t frame[24];

	frame_of(frame, 0xc6120000u, 60000, 8); /* to another port: it quotes, perhaps */
	bindings_note(b, &constant, 1, frame, sizeof(frame), 0);
	frame_of(frame, 0xc6120000u, 60000, 7);
	bindings_note(b, &constant, 1, frame, 21, 0);
	bindings_note(b, &constant, 1, frame, 23, 0); /* without the whole of what is constant */
	CHECK_EQ(b->bound[0], 0);
	bindings_note(b, &constant, 1, frame, 24, 0);
	CHECK(b->bound[0] != 0);
	free(b);
}

void test_bindings(void)
{
	each_flow_has_its_own();
	another_frame_teaches_nothing();
	CHECK_EQ(bindings_write(NULL, "/nonexistent/bindings"), -1);
}
