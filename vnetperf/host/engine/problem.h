/* A refusal told to the user: what is wrong and what would be accepted. */
#ifndef ENGINE_PROBLEM_H
#define ENGINE_PROBLEM_H

#include <stdbool.h>

/* Each text fits one string of a telemetry dictionary (128 octets with its terminator). */
struct problem {
	char what[128];
	char accepted[128];
};

/* Always returns false, so that a check can `return problem_set(...)`. */
bool problem_set(struct problem *p, const char *accepted, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
