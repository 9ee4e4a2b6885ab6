/* An engine's commands on DPDK's telemetry socket: "/command,key=value,key=value". */
#ifndef ENGINE_COMMANDS_H
#define ENGINE_COMMANDS_H

#include <rte_telemetry.h>
#include <rte_version.h>

#include "params.h"

/* Reads its parameters and fills the (already started) dictionary `d`. No two run at once. Who asks
 * what is refused gets {"error", "accepted"}. */
typedef bool command_fn(struct params *ps, struct rte_tel_data *d, struct error *error);

struct command {
	const char *name; /* NULL ends a table */
	command_fn *run;
	const char *help;
};

/* In the table's order: who gets an answer to the last finds all the others there. */
bool commands_register(const struct command commands[], struct error *error);
/* A command that comes from now on waits until the process is gone. */
void commands_end(void);

/* DPDK 23.03 gave it another name, 24.11 took the old one away. */
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
#define tel_dict_uint rte_tel_data_add_dict_uint
#else
#define tel_dict_uint rte_tel_data_add_dict_u64
#endif

#endif
