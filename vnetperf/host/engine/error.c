#include "error.h"

#include <stdarg.h>
#include <stdio.h>

void error_write(struct error *error, const char *accepted, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is unknown to it */
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	snprintf(error->accepted, sizeof(error->accepted), "%s", accepted);
}
