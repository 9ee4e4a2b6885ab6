#include "words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool words_take(int argc, char *const argv[], word_fn *take, void *options, bool *help,
		struct problem *why)
{
	for (int i = 1; i < argc; i++) {
		char name[64];
		const char *equals = strchr(argv[i], '=');
		const char *value = NULL;

		if (strcmp(argv[i], "--help") == 0) {
			*help = true;
			return true;
		}
		if (equals) {
			snprintf(name, sizeof(name), "%.*s", (int)(equals - argv[i]), argv[i]);
			value = equals + 1;
		} else {
			snprintf(name, sizeof(name), "%s", argv[i]);
			value = i + 1 < argc ? argv[i + 1] : NULL;
		}
		if (value == NULL)
			return problem_set(why, "a value after it", "%.60s without a value", name);
		if (!take(options, name, value, why))
			return false;
		if (!equals)
			i++;
	}
	return true;
}

bool words_number(const char *name, const char *text, unsigned long min, unsigned long max,
		  unsigned long *out, struct problem *why)
{
	char accepted[64], *end;

	errno = 0;
	*out = strtoul(text, &end, 10);
	if (errno || end == text || *end || text[0] < '0' || text[0] > '9' || *out < min ||
	    *out > max) {
		snprintf(accepted, sizeof(accepted), "a whole number %lu..%lu", min, max);
		return problem_set(why, accepted, "%s %.60s", name, text);
	}
	return true;
}
