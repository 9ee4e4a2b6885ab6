/* An engine's own command line, which follows "--" after the EAL arguments: a table of options says
 * what it takes, where it goes and what --help tells of it. */
#ifndef ENGINE_OPTIONS_H
#define ENGINE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

struct option;

/* Reads the text of an option into `to`: where the option's value is, or else all of them. */
typedef bool option_fn(const struct option *o, void *to, const char *text, struct error *error);

struct option {
	const char *name; /* with its dashes; NULL ends a table */
	const char *help;
	const char *value; /* what it is, for --help; NULL: one of `words` */
	option_fn *read;
	size_t at, size;	  /* of the value among all */
	unsigned long min, max;	  /* of a number */
	const char *const *words; /* of a choice, ended by NULL */
};

/* An integer or bool of any size. */
option_fn option_number;
/* The place of the word, into an enum or bool. */
option_fn option_choice;

#define OPTION_AT(type, field) .at = offsetof(type, field), .size = sizeof(((type *)0)->field)
#define OPTION_NUMBER(type, field, least, most)                                                    \
	.value = "N", .read = option_number, OPTION_AT(type, field), .min = (least), .max = (most)
#define OPTION_CHOICE(type, field, of) .read = option_choice, OPTION_AT(type, field), .words = (of)

/* Reads all options into `values`; a value follows an equals sign or is the next word. argv[0] is
 * skipped. --help prints `purpose` and the options, sets *help and ends it. */
bool options_read(const struct option known[], const char *purpose, void *values, int argc,
		  char *const argv[], bool *help, struct error *error);

#endif
