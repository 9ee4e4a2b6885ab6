/* The commands under /loadgen on DPDK's telemetry socket. */
#ifndef LOADGEN_TELEMETRY_H
#define LOADGEN_TELEMETRY_H

#include "commands.h"
#include "common.h"

extern const struct command telemetry_commands[];

command_fn command_info, command_port, command_worker, command_xstats, command_quit;
command_fn command_stream_add, command_stream_field, command_stream_expect, command_stream_load,
	command_stream_bind, command_stream_bindings, command_stream_clear;
command_fn command_trial_start, command_trial_stop, command_trial_status, command_trial_result;
command_fn command_trial_port, command_turns, command_work, command_gaps, command_queue,
	command_histogram, command_learn;
command_fn command_unplug, command_plug;
command_fn command_timeline, command_ipdv, command_echoes;
command_fn command_neighbour_add, command_neighbour_any, command_neighbour_clear;
command_fn command_neighbour_announce, command_capture, command_captured;

struct hdr;
/* Value and count of every bucket in use, each 64 bits in the machine's byte order; those of
 * `negative` (or NULL) first, with their sign.  Returns how many, or -1. */
int64_t tel_write_pairs(const char *path, const struct hdr *h, const struct hdr *negative);
/* The stream that is asked for, of the last trial. */
bool tel_result_stream(struct params *ps, uint16_t *id, struct error *error);

#endif
