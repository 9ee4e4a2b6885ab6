#include "tscoffset.h"

#include <time.h>

/* The shortest way is found long before. */
#define EXCHANGES 2000
#define NO_MORE	  UINT32_MAX
/* Looks in vain, after which the other probably has no processor: it gets one sooner, and so do we
 * when it has, if we do not spend ours on waiting. */
#define LOOKS	2000
#define REST_NS 100000

static void look_again(uint32_t *looks)
{
	const struct timespec t = {.tv_nsec = REST_NS};

	if (++*looks % LOOKS == 0)
		nanosleep(&t, NULL);
}

void tscoffset_note(struct tscoffset *o, uint64_t before, uint64_t other, uint64_t after)
{
	const int64_t least = (int64_t)(other - after), most = (int64_t)(other - before);

	if (o->exchanges == 0 || least > o->least)
		o->least = least;
	if (o->exchanges == 0 || most < o->most)
		o->most = most;
	o->exchanges++;
}

void tscoffset_ask(struct tscoffset *o, struct tscoffset_line *line, tsc_read now, uint64_t limit)
{
	const uint64_t begin = now();
	uint64_t before = begin;

	for (uint32_t n = 1; n <= EXCHANGES && before - begin < limit; n++) {
		uint64_t answer = 0;
		uint32_t looks = 0;

		atomic_store_explicit(&line->answer, 0, memory_order_relaxed);
		before = now();
		atomic_store_explicit(&line->question, n, memory_order_release);
		while (answer == 0 && now() - begin < limit) {
			answer = atomic_load_explicit(&line->answer, memory_order_acquire);
			if (answer == 0)
				look_again(&looks);
		}
		if (answer)
			tscoffset_note(o, before, answer, now());
	}
	atomic_store_explicit(&line->question, NO_MORE, memory_order_release);
}

void tscoffset_answer(struct tscoffset_line *line, tsc_read now)
{
	uint32_t last = 0, looks = 0, question;

	do {
		question = atomic_load_explicit(&line->question, memory_order_acquire);
		if (question == last)
			look_again(&looks);
		else if (question != NO_MORE)
			atomic_store_explicit(&line->answer, now(), memory_order_release);
		last = question;
	} while (question != NO_MORE);
}
