#include "check.h"
#include "echo.h"

static struct echo e;

static void one_frame_asks_each_time_it_is_due(void)
{
	CHECK(echo_begin(&e, ECHO_ASK, 100, 4));
	e.next = 1000;
	CHECK(!echo_marks(&e, 2, 999));
	CHECK(echo_marks(&e, 2, 1000));
	CHECK(!echo_marks(&e, 2, 1099));
	CHECK(echo_marks(&e, 2, 1150)); /* late: the next one is due as it was */
	CHECK(!echo_marks(&e, 2, 1199));
	CHECK(echo_marks(&e, 2, 1200));
	CHECK(echo_marks(&e, 2, 5000)); /* after a stall one, and not those that were due */
	CHECK(!echo_marks(&e, 2, 5001));
	CHECK(echo_marks(&e, 2, 5100));
	CHECK_EQ(e.marks, 5);
	CHECK_EQ(echo_rows(&e), 0);
}

static void who_asks_records_answers(void)
{
	CHECK(echo_begin(&e, ECHO_ASK, 100, 2));
	echo_came(&e, 4000, 50); /* no answer: a frame like any other */
	CHECK_EQ(echo_rows(&e), 0);
	for (uint64_t i = 0; i < 4; i++)
		echo_came(&e, 4001 + 2 * i, 60 + i);
	CHECK_EQ(echo_rows(&e), 2); /* as many as there is room for */
	CHECK_EQ(e.rows[0].left, 4001);
	CHECK_EQ(e.rows[0].ns, 60);
	CHECK_EQ(e.rows[1].left, 4003);
}

static void a_frame_is_answered_once_by_the_next_that_leaves(void)
{
	CHECK(echo_begin(&e, ECHO_ANSWER, 100, 2));
	CHECK(!echo_marks(&e, 500, 0)); /* nobody has asked */
	echo_came(&e, 900, 510);
	CHECK(!echo_marks(&e, 520, 0)); /* nor does a frame without the mark */
	echo_came(&e, 899, 400);
	echo_came(&e, 901, 530); /* the first is not answered yet, and never is */
	CHECK(echo_marks(&e, 540, 0));
	CHECK(!echo_marks(&e, 542, 0));
	CHECK_EQ(echo_rows(&e), 1);
	CHECK_EQ(e.rows[0].asked, 901);
	CHECK_EQ(e.rows[0].left, 541);
	CHECK_EQ(e.rows[0].ns, 10);
	echo_came(&e, 905, 560);
	CHECK(echo_marks(&e, 558, 0)); /* a worker's clock is behind another's */
	CHECK_EQ(e.rows[1].ns, 0);
}

static void a_trial_begins_anew(void)
{
	CHECK(echo_begin(&e, ECHO_ANSWER, 100, 2));
	CHECK_EQ(echo_rows(&e), 0);
	CHECK(!echo_marks(&e, 2, 0));
	CHECK(echo_begin(&e, ECHO_NONE, 100, 2));
	CHECK(e.rows == NULL);
	echo_release(&e);
}

void test_echo(void)
{
	one_frame_asks_each_time_it_is_due();
	who_asks_records_answers();
	a_frame_is_answered_once_by_the_next_that_leaves();
	a_trial_begins_anew();
}
