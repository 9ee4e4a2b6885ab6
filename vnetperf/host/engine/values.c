#include "values.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool value_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out,
		  struct error *error)
{
	/* A leading zero alone is no sign of octal digits. */
	const int base = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
	char accepted[64], *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, base);
	if (errno || end == text || *end || text[0] < '0' || text[0] > '9' || value < min ||
	    value > max) {
		snprintf(accepted, sizeof(accepted), "a whole number %" PRIu64 "..%" PRIu64, min,
			 max);
		return error_set(error, accepted, "%s=%.60s", name, text);
	}
	*out = value;
	return true;
}

bool value_choice(const char *name, const char *text, const char *const words[], unsigned int *out,
		  struct error *error)
{
	char list[100] = "";
	size_t used = 0;

	for (unsigned int i = 0; words[i]; i++) {
		if (strcmp(text, words[i]) == 0) {
			*out = i;
			return true;
		}
		if (used < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
						 i ? ", " : "", words[i]);
	}
	return error_set(error, list, "%s=%.60s", name, text);
}

int value_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

const char *value_mac(const char *text, uint8_t mac[6])
{
	for (unsigned int i = 0; i < 6; i++) {
		const int high = value_hex_digit(text[0]);
		const int low = high < 0 ? -1 : value_hex_digit(text[1]);

		if (low < 0 || (i < 5 && text[2] != ':'))
			return NULL;
		mac[i] = (uint8_t)(high << 4 | low);
		text += i < 5 ? 3 : 2;
	}
	return text;
}
