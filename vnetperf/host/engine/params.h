/* Parameters of a command: "key=value,key=value".  Every key must be known, given once, in range.
 */
#ifndef ENGINE_PARAMS_H
#define ENGINE_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#define PARAMS_MAX 24

struct params {
	char text[1024];
	unsigned int n;
	struct {
		const char *key;
		const char *value;
		bool used;
	} item[PARAMS_MAX];
};

/* text may be NULL (no parameters). */
bool params_parse(struct params *ps, const char *text, struct error *error);
bool params_has(const struct params *ps, const char *key);
/* The value, or NULL; marks the key as known. */
const char *params_text(struct params *ps, const char *key);
/* Without the key *out is left alone and true is returned. */
bool params_u64(struct params *ps, const char *key, uint64_t min, uint64_t max, uint64_t *out,
		struct error *error);
bool params_real(struct params *ps, const char *key, double min, double max, double *out,
		 struct error *error);
/* One of a NULL terminated list of words; *out is its place. */
bool params_word(struct params *ps, const char *key, const char *const words[], unsigned int *out,
		 struct error *error);
bool params_hex(struct params *ps, const char *key, uint8_t *out, size_t max, size_t *len,
		struct error *error);
/* Refuses when the key is missing. */
bool params_need(struct params *ps, const char *key, struct error *error);
/* To be called last: refuses keys that nobody asked for.  accepted: the list of keys. */
bool params_done(const struct params *ps, const char *accepted, struct error *error);

#endif
