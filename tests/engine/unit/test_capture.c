#include <sys/mman.h>

#include "capture.h"
#include "check.h"

static struct capture c;
static struct error error;

static bool arm(uint32_t frames, uint32_t groups, uint32_t longest)
{
	const struct capture_request request = {.frames = frames, .what = CAPTURE_STREAMS};

	return capture_arm(&c, &request, groups, longest, &error);
}

static void slots(void)
{
	struct capture_slot *a, *b;

	CHECK(arm(2, 3, 60));
	CHECK(c.on && c.room == 64);
	a = capture_take(&c, 1);
	b = capture_take(&c, 1);
	CHECK(capture_full(&c, 1) && !capture_full(&c, 2));
	CHECK(a && b && a != b && capture_take(&c, 1) == NULL && capture_take(&c, 1) == NULL);
	memset(a->octets, 0xaa, c.room); /* a sanitizer sees an overlap or an overflow */
	memset(b->octets, 0xbb, c.room);
	CHECK(a->octets[c.room - 1] == 0xaa);
	CHECK(capture_slot_at(&c, 1, 0) == a && capture_slot_at(&c, 1, 1) == b);
	CHECK(capture_slot_at(&c, 1, 2) == NULL && capture_slot_at(&c, 0, 0) == NULL);
	a = capture_take(&c, 2);
	memset(a->octets, 0xcc, c.room);
	b = capture_take(&c, 2);
	memset(b->octets, 0xdd, c.room);
	CHECK(a->octets[0] == 0xcc);
}

static void room(void)
{
	CHECK(arm(10000, 4, 9276)); /* frames are cut where memory ends */
	CHECK(c.room < 9276 && c.room >= CAPTURE_LEAST);
	CHECK(c.stride * 40000 <= CAPTURE_MEMORY);
	CHECK(capture_take(&c, 3) != NULL);
	CHECK(!arm(10000, 512, 60) && strstr(error.accepted, "fewer"));
	CHECK(c.groups == 4 && capture_slot_at(&c, 3, 0) != NULL);
	CHECK(arm(0, 4, 60) && !c.on);
	CHECK(capture_slot_at(&c, 0, 0) == NULL);
	CHECK(arm(1, 0, 60) && !c.on);
}

/* Workers meet no page for the first time while a trial runs. */
static void pages(void)
{
	enum { PAGE = 4096, PAGES = 2000 };
	unsigned char there[PAGES] = {0};
	uintptr_t first;
	unsigned int missing = 0;

	CHECK(arm(10000, 2, 1514));
	CHECK(c.stride * 20000 > (PAGES + 1) * (size_t)PAGE);
	first = ((uintptr_t)c.slots + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	CHECK_EQ(mincore((void *)first, (size_t)PAGES * PAGE, there), 0);
	for (unsigned int i = 0; i < PAGES; i++)
		missing += !(there[i] & 1);
	CHECK_EQ(missing, 0);
}

static void gaps(void)
{
	uint32_t next = 0;

	CHECK(!capture_gap(&next, 0) && !capture_gap(&next, 1));
	CHECK(capture_gap(&next, 3) && next == 4);
	CHECK(!capture_gap(&next, 2) && next == 4); /* late, not missing */
	CHECK(!capture_gap(&next, 4));
	next = 0xffffffffu;
	CHECK(!capture_gap(&next, 0xffffffffu) && next == 0);
	CHECK(capture_gap(&next, 1) && next == 2);
}

void test_capture(void)
{
	slots();
	room();
	pages();
	gaps();
	capture_release(&c);
}
