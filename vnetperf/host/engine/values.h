/* What a value that a user wrote stands for, or why it is refused as NAME=TEXT. */
#ifndef ENGINE_VALUES_H
#define ENGINE_VALUES_H

#include <stdint.h>

#include "error.h"

/* A whole number from `min` to `max`, decimal or with 0x; *out is left alone otherwise. */
bool value_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out,
		  struct error *error);
/* One of a NULL terminated list of words; *out is its place. */
bool value_choice(const char *name, const char *text, const char *const words[], unsigned int *out,
		  struct error *error);
/* A MAC address as 02:00:00:00:00:01 at the beginning of `text`; returns what follows it, or NULL.
 */
const char *value_mac(const char *text, uint8_t mac[6]);
/* -1: it is none. */
int value_hex_digit(char c);

#endif
