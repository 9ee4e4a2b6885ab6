#include "options.h"

#include <stdio.h>
#include <string.h>

#include "values.h"

static void store(const struct option *o, void *to, uint64_t value)
{
	switch (o->size) {
	case 1:
		*(uint8_t *)to = (uint8_t)value;
		break;
	case 2:
		*(uint16_t *)to = (uint16_t)value;
		break;
	case 4:
		*(uint32_t *)to = (uint32_t)value;
		break;
	default:
		*(uint64_t *)to = value;
	}
}

bool option_number(const struct option *o, void *to, const char *text, struct error *error)
{
	uint64_t value;

	if (!value_number(o->name, text, o->min, o->max, &value, error))
		return false;
	store(o, to, value);
	return true;
}

bool option_choice(const struct option *o, void *to, const char *text, struct error *error)
{
	unsigned int place;

	if (!value_choice(o->name, text, o->words, &place, error))
		return false;
	store(o, to, place);
	return true;
}

static void print(const struct option known[], const char *purpose)
{
	puts(purpose);
	for (const struct option *o = known; o->name; o++) {
		printf("  %s %s", o->name, o->value ? o->value : o->words[0]);
		for (unsigned int i = 1; o->value == NULL && o->words[i]; i++)
			printf("|%s", o->words[i]);
		printf("  %s\n", o->help);
	}
}

static bool read_one(const struct option known[], void *values, const char *name, const char *text,
		     struct error *error)
{
	for (const struct option *o = known; o->name; o++) {
		if (strcmp(name, o->name) == 0)
			return o->read(o, (char *)values + o->at, text, error);
	}
	return error_set(error, "those that --help lists", "unknown option '%.60s'", name);
}

bool options_read(const struct option known[], const char *purpose, void *values, int argc,
		  char *const argv[], bool *help, struct error *error)
{
	for (int i = 1; i < argc; i++) {
		char name[64];
		const char *equals = strchr(argv[i], '=');
		const char *text = NULL;

		if (strcmp(argv[i], "--help") == 0) {
			print(known, purpose);
			*help = true;
			return true;
		}
		if (equals) {
			snprintf(name, sizeof(name), "%.*s", (int)(equals - argv[i]), argv[i]);
			text = equals + 1;
		} else {
			snprintf(name, sizeof(name), "%s", argv[i]);
			text = i + 1 < argc ? argv[i + 1] : NULL;
		}
		if (text == NULL)
			return error_set(error, "a value after it", "%.60s without a value", name);
		if (!read_one(known, values, name, text, error))
			return false;
		if (!equals)
			i++;
	}
	return true;
}
