#include "thread.h"

#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NAME_OCTETS    16
#define TIMER_SLACK_NS 1000UL
#define POLL_US	       1000u

void thread_set_name(const char *program, unsigned int number)
{
	char name[NAME_OCTETS];

	snprintf(name, sizeof(name), "%s-%u", program, number);
	prctl(PR_SET_NAME, name);
}

void thread_sleep_exactly(void)
{
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
}

void thread_wait_for(const atomic_bool *flag, const atomic_bool *other)
{
	while (!atomic_load(flag) && !atomic_load(other))
		usleep(POLL_US);
}
