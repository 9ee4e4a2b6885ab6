/* What every engine on DPDK does alike: starts, answers commands, runs until it is to end, and lets
 * go of its ports. */
#ifndef ENGINE_PROGRAM_H
#define ENGINE_PROGRAM_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "commands.h"
#include "error.h"
#include "wallclock.h"

struct program {
	const char *name;
	atomic_bool *quit; /* set by SIGINT and SIGTERM */
	/* Reads its own options; *help: they asked for the usage, and it is printed. */
	bool (*parse)(int argc, char *const argv[], bool *help, struct error *error);
	bool (*start)(struct error *error);
	const struct command *commands; /* from the start on until the stop */
	void (*run)(void);		/* until `quit` */
	void (*stop)(void); /* before ports are closed, also after a start that failed; or NULL */
};

/* Returns the exit status of the process. */
int program_main(const struct program *p, int argc, char **argv);

/* One moment by a clock of the kernel and by the processor's counter. */
struct wallclock program_clock(clockid_t clock);

/* Frequency of the processor's counter, found in 0.2 s: DPDK rounds what it measures to 10 MHz,
 * which is 0.2 % of a rate at 2.45 GHz. */
uint64_t program_counter_hz(void);

#endif
