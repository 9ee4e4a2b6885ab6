#include "params.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

static bool item_add(struct params *ps, char *text, struct error *error)
{
	char *equals = strchr(text, '=');

	if (equals == NULL || equals == text)
		return error_set(error, "key=value,key=value", "parameter '%.60s'", text);
	*equals = '\0';
	if (params_has(ps, text))
		return error_set(error, "each key once", "'%.60s' is given twice", text);
	if (ps->n == PARAMS_MAX)
		return error_set(error, "fewer parameters", "more than %u parameters", PARAMS_MAX);
	ps->item[ps->n].key = text;
	ps->item[ps->n].value = equals + 1;
	ps->item[ps->n].used = false;
	ps->n++;
	return true;
}

bool params_parse(struct params *ps, const char *text, struct error *error)
{
	char *rest = ps->text, *token;

	ps->n = 0;
	if (text == NULL || *text == '\0')
		return true;
	if (strlen(text) >= sizeof(ps->text))
		return error_set(error, "at most 1023 characters", "request too long");
	snprintf(ps->text, sizeof(ps->text), "%s", text);
	while ((token = strsep(&rest, ",")) != NULL) {
		if (!item_add(ps, token, error))
			return false;
	}
	return true;
}

bool params_has(const struct params *ps, const char *key)
{
	for (unsigned int i = 0; i < ps->n; i++) {
		if (strcmp(ps->item[i].key, key) == 0)
			return true;
	}
	return false;
}

const char *params_text(struct params *ps, const char *key)
{
	for (unsigned int i = 0; i < ps->n; i++) {
		if (strcmp(ps->item[i].key, key) == 0) {
			ps->item[i].used = true;
			return ps->item[i].value;
		}
	}
	return NULL;
}

bool params_u64(struct params *ps, const char *key, uint64_t min, uint64_t max, uint64_t *out,
		struct error *error)
{
	const char *text = params_text(ps, key);

	return text == NULL || value_number(key, text, min, max, out, error);
}

bool params_real(struct params *ps, const char *key, double min, double max, double *out,
		 struct error *error)
{
	const char *text = params_text(ps, key);
	char range[64], *end;
	double value;

	if (text == NULL)
		return true;
	errno = 0;
	value = strtod(text, &end);
	if (errno || end == text || *end || !isfinite(value) || value < min || value > max) {
		snprintf(range, sizeof(range), "a number %g..%g", min, max);
		return error_set(error, range, "%s=%.60s", key, text);
	}
	*out = value;
	return true;
}

bool params_word(struct params *ps, const char *key, const char *const words[], unsigned int *out,
		 struct error *error)
{
	const char *text = params_text(ps, key);

	return text == NULL || value_choice(key, text, words, out, error);
}

bool params_hex(struct params *ps, const char *key, uint8_t *out, size_t max, size_t *len,
		struct error *error)
{
	const char *text = params_text(ps, key);
	char accepted[64];
	size_t n;

	if (text == NULL)
		return true;
	n = strlen(text);
	if (n % 2 || n / 2 > max) {
		snprintf(accepted, sizeof(accepted),
			 "an even number of hex digits, at most %zu octets", max);
		return error_set(error, accepted, "%s of %zu hex digits", key, n);
	}
	for (size_t i = 0; i < n; i += 2) {
		const int high = value_hex_digit(text[i]);
		const int low = value_hex_digit(text[i + 1]);

		if (high < 0 || low < 0)
			return error_set(error, "hex digits", "%s has '%.2s' at digit %zu", key,
					 text + i, i);
		out[i / 2] = (uint8_t)(high << 4 | low);
	}
	*len = n / 2;
	return true;
}

bool params_need(struct params *ps, const char *key, struct error *error)
{
	char accepted[64];

	if (params_has(ps, key))
		return true;
	snprintf(accepted, sizeof(accepted), "%s=...", key);
	return error_set(error, accepted, "parameter '%s' is missing", key);
}

bool params_done(const struct params *ps, const char *accepted, struct error *error)
{
	for (unsigned int i = 0; i < ps->n; i++) {
		if (!ps->item[i].used)
			return error_set(error, accepted, "unknown parameter '%.60s'",
					 ps->item[i].key);
	}
	return true;
}
