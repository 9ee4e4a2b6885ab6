#include "problem.h"

#include <stdarg.h>
#include <stdio.h>

void problem_write(struct problem *p, const char *accepted, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is unknown to it */
	vsnprintf(p->what, sizeof(p->what), format, args);
	va_end(args);
	snprintf(p->accepted, sizeof(p->accepted), "%s", accepted);
}
