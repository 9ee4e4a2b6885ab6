/* A refusal told to the user: what is wrong and what would be accepted. */
#ifndef ENGINE_ERROR_H
#define ENGINE_ERROR_H

#include <stdbool.h>

/* Each text fits one string of a telemetry dictionary (128 octets with its terminator). */
struct error {
	char text[128];
	char accepted[128];
};

void error_write(struct error *error, const char *accepted, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Always false, so that a check can `return error_set(...)`, and a compiler that optimises each
 * file by itself sees that whatever the check was to fill is not used.
 */
#define error_set(...) (error_write(__VA_ARGS__), false)

#endif
