/* Words of an engine's own command line, which follow "--" after the EAL arguments. */
#ifndef ENGINE_WORDS_H
#define ENGINE_WORDS_H

#include "problem.h"

/* Stores the value of one option. */
typedef bool word_fn(void *options, const char *name, const char *value, struct problem *why);

/* Gives each option to `take`, whose value follows an equals sign or is the next word. argv[0] is
 * skipped; --help ends it. */
bool words_take(int argc, char *const argv[], word_fn *take, void *options, bool *help,
		struct problem *why);

/* A whole number from `min` to `max`. */
bool words_number(const char *name, const char *text, unsigned long min, unsigned long max,
		  unsigned long *out, struct problem *why);

#endif
