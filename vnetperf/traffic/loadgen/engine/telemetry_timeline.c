/* Commands that tell how a trial went on over time, how delays differed, and of round trips. */
#include <errno.h>
#include <rte_eal.h>
#include <stdio.h>
#include <stdlib.h>

#include "control.h"
#include "telemetry.h"

static bool not_written(const char *path, struct error *error)
{
	return error_set(error, "a runtime directory that can be written", "%s: %s", path,
			 strerror(errno));
}

static bool write_rows(const char *path, const void *rows, size_t octets, uint32_t n)
{
	FILE *file = fopen(path, "we");
	bool whole = file != NULL;

	if (whole)
		whole = fwrite(rows, octets, n, file) == n;
	if (file != NULL)
		whole = fclose(file) == 0 && whole;
	return whole;
}

bool command_timeline(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	char name[48], path[512];
	const struct timeline_gap *gap;
	uint64_t *rows;
	uint16_t id;
	bool whole;

	if (!tel_result_stream(ps, &id, error) || !params_done(ps, "stream", error))
		return false;
	if (timeline.n_bins == 0)
		return error_set(error, "bin=SECONDS of /loadgen/trial/start",
				 "the last trial has no timeline");
	rows = calloc(timeline.n_bins, sizeof(*rows) * TIMELINE_COLUMNS);
	if (rows == NULL)
		return error_set(error, "more memory", "no memory for a timeline");
	trial_timeline_rows(id, rows);
	snprintf(name, sizeof(name), "timeline-%u", id);
	snprintf(path, sizeof(path), "%s/%s", rte_eal_get_runtime_dir(), name);
	whole = write_rows(path, rows, sizeof(*rows) * TIMELINE_COLUMNS, timeline.n_bins);
	free(rows);
	if (!whole)
		return not_written(path, error);
	gap = &timeline.gap[result.stream[id].tx_port];
	rte_tel_data_add_dict_string(d, "file", name);
	tel_dict_uint(d, "bins", timeline.n_bins);
	tel_dict_uint(d, "bin_ns", cycles_to_ns(timeline.width));
	tel_dict_uint(d, "gap_ns", cycles_to_ns(gap->gap));
	tel_dict_uint(d, "gap_from_ns", gap->gap ? cycles_to_ns(gap->from - timeline.start) : 0);
	if (result.stream[id].tail > result.start)
		tel_dict_uint(d, "tail_ns", cycles_to_ns(result.stream[id].tail - result.start));
	return true;
}

bool command_ipdv(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	static struct hdr rising, falling;
	char name[48], path[512];
	uint64_t shared;
	int64_t pairs;
	uint16_t id;

	if (!tel_result_stream(ps, &id, error) || !params_done(ps, "stream", error))
		return false;
	if (!timeline.ipdv)
		return error_set(error, "ipdv=1 of /loadgen/trial/start",
				 "the last trial has no differences of delays");
	shared = trial_timeline_differences(id, &rising, &falling);
	snprintf(name, sizeof(name), "ipdv-%u", id);
	snprintf(path, sizeof(path), "%s/%s", rte_eal_get_runtime_dir(), name);
	pairs = tel_write_pairs(path, &rising, &falling);
	if (pairs < 0)
		return not_written(path, error);
	rte_tel_data_add_dict_string(d, "file", name);
	tel_dict_uint(d, "pairs", (uint64_t)pairs);
	tel_dict_uint(d, "shared", shared);
	tel_dict_uint(d, "poll_ns", trial_timeline_poll_ns(result.stream[id].rx_port));
	tel_dict_uint(d, "rising", rising.count);
	tel_dict_uint(d, "rising_min_ns", rising.count ? rising.min : 0);
	tel_dict_uint(d, "rising_max_ns", rising.max);
	tel_dict_uint(d, "falling", falling.count);
	tel_dict_uint(d, "falling_min_ns", falling.count ? falling.min : 0);
	tel_dict_uint(d, "falling_max_ns", falling.max);
	return true;
}

bool command_echoes(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	static const char name[] = "echoes";
	const struct echo *e = &engine.trial.echo;
	char path[512];

	if (!control_at_rest(error) || !params_done(ps, "no parameters", error))
		return false;
	if (e->role == ECHO_NONE)
		return error_set(error, "echo=ask or answer of /loadgen/trial/start",
				 "the last trial has no round trips");
	snprintf(path, sizeof(path), "%s/%s", rte_eal_get_runtime_dir(), name);
	if (!write_rows(path, e->rows, sizeof(*e->rows), echo_rows(e)))
		return not_written(path, error);
	rte_tel_data_add_dict_string(d, "file", name);
	tel_dict_uint(d, "marks", e->marks);
	return true;
}
