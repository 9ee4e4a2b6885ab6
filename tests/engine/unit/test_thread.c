#include "check.h"
#include "thread.h"

#include <sys/prctl.h>

static void a_name_has_the_number(void)
{
	char before[16], name[16];

	prctl(PR_GET_NAME, before);
	thread_set_name("loadgen", 63);
	prctl(PR_GET_NAME, name);
	CHECK(strcmp(name, "loadgen-63") == 0);
	prctl(PR_SET_NAME, before);
}

static void sleeps_end_within_a_microsecond(void)
{
	thread_sleep_exactly();
	CHECK_EQ(prctl(PR_GET_TIMERSLACK), 1000);
}

static void either_flag_ends_the_wait(void)
{
	const atomic_bool set = true, clear = false;

	thread_wait_for(&set, &clear);
	thread_wait_for(&clear, &set);
	CHECK(true);
}

void test_thread(void)
{
	a_name_has_the_number();
	sleeps_end_within_a_microsecond();
	either_flag_ends_the_wait();
}
