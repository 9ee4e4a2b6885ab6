/* Commands that run trials and read their results. */
#include <errno.h>
#include <rte_eal.h>
#include <stdio.h>
#include <string.h>

#include "control.h"
#include "telemetry.h"

#define START_KEYS                                                                                 \
	"epoch duration steps delay drain burst group catch_up max_lag policy bin tag event ipdv " \
	"clock echo every turn"

static bool steps(struct params *ps, struct trial_spec *spec, struct error *error)
{
	const char *text = params_text(ps, "steps");

	if (text == NULL)
		return true;
	if (params_has(ps, "duration"))
		return error_set(error, "duration or steps", "duration and steps");
	return steps_parse(&spec->steps, text, (double)engine.hz, error);
}

bool command_trial_start(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	static const char *const policies[] = {"drop", "retry", NULL};
	static const char *const clocks[] = {"tsc", "wall", NULL};
	static const char *const echoes[] = {"none", "ask", "answer", NULL};
	struct trial_spec spec = {.burst = 32, .drain = 1, .max_lag = 0.01, .every = 0.001};
	uint64_t epoch = 0, burst = spec.burst, group = 1, catch_up = 0, ipdv = 0, turn = 0;
	unsigned int policy = 0, clock = 0, echo = ECHO_NONE;

	if (!params_need(ps, "epoch", error) || !params_u64(ps, "epoch", 1, 255, &epoch, error) ||
	    !params_real(ps, "duration", 1e-6, 1e6, &spec.duration, error) ||
	    !params_real(ps, "delay", 0, 3600, &spec.delay, error) ||
	    !params_real(ps, "drain", 0, 3600, &spec.drain, error) ||
	    !params_real(ps, "max_lag", 1e-6, 3600, &spec.max_lag, error) ||
	    !params_u64(ps, "burst", 1, LG_MAX_BURST, &burst, error) ||
	    !params_u64(ps, "group", 1, 65536, &group, error) ||
	    !params_u64(ps, "catch_up", 0, 1000000000, &catch_up, error) ||
	    !params_word(ps, "policy", policies, &policy, error) || !steps(ps, &spec, error) ||
	    !params_real(ps, "bin", 1e-6, 1e6, &spec.bin, error) ||
	    !params_real(ps, "tag", 0, 1e6, &spec.tag, error) ||
	    !params_real(ps, "event", 0, 1e6, &spec.event, error) ||
	    !params_u64(ps, "ipdv", 0, 1, &ipdv, error) ||
	    !params_word(ps, "clock", clocks, &clock, error) ||
	    !params_word(ps, "echo", echoes, &echo, error) ||
	    !params_real(ps, "every", 1e-6, 1e6, &spec.every, error) ||
	    !params_u64(ps, "turn", 1, 1000000, &turn, error) ||
	    !params_done(ps, START_KEYS, error))
		return false;
	if (echo != ECHO_NONE && clock != 1)
		return error_set(error, "clock=wall", "echo=%s by the counter", echoes[echo]);
	spec.echo = (enum echo_role)echo;
	spec.turn_us = (uint32_t)turn;
	spec.ipdv = ipdv == 1;
	spec.by_wall = clock == 1;
	spec.epoch = (uint8_t)epoch;
	spec.burst = (uint16_t)burst;
	spec.group = (uint32_t)group;
	spec.catch_up = (uint32_t)catch_up;
	spec.retry = policy == 1;
	spec.has_duration = params_has(ps, "duration");
	if (!control_start(&spec, error))
		return false;
	tel_dict_uint(d, "epoch", spec.epoch);
	return true;
}

bool command_trial_stop(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	if (!params_done(ps, "no parameters", error))
		return false;
	control_state();
	if (!engine.trial.active)
		return error_set(error, "a trial or learning that is going on", "nothing to stop");
	atomic_store(&engine.trial.abort, true);
	rte_tel_data_add_dict_int(d, "ok", 1);
	return true;
}

static void add_stream(struct stream_result *sum, const struct stream_result *s)
{
	sum->intended += s->intended;
	sum->sent += s->sent;
	sum->refused += s->refused;
	sum->unsent += s->unsent;
	sum->received += s->received;
	sum->duplicated += s->duplicated;
	sum->reordered += s->reordered;
	sum->late += s->late;
	sum->misrouted += s->misrouted;
	sum->altered += s->altered;
	sum->bad_latency += s->bad_latency;
}

static void put_stream(struct rte_tel_data *d, const struct stream_result *s)
{
	tel_dict_uint(d, "intended", s->intended);
	tel_dict_uint(d, "sent", s->sent);
	tel_dict_uint(d, "refused", s->refused);
	tel_dict_uint(d, "unsent", s->unsent);
	tel_dict_uint(d, "received", s->received);
	tel_dict_uint(d, "duplicated", s->duplicated);
	tel_dict_uint(d, "reordered", s->reordered);
	tel_dict_uint(d, "late", s->late);
	tel_dict_uint(d, "misrouted", s->misrouted);
	tel_dict_uint(d, "altered", s->altered);
	tel_dict_uint(d, "bad_latency", s->bad_latency);
}

static void put_time(struct rte_tel_data *d, const char *name, uint64_t tsc, uint64_t start)
{
	if (tsc > start)
		tel_dict_uint(d, name, cycles_to_ns(tsc - start));
}

static void put_rx(struct rte_tel_data *d, const struct rx_totals *t)
{
	tel_dict_uint(d, "rx_frames", t->frames);
	tel_dict_uint(d, "rx_octets", t->octets);
	tel_dict_uint(d, "foreign", t->foreign);
	tel_dict_uint(d, "foreign_octets", t->foreign_octets);
	tel_dict_uint(d, "stale", t->stale);
	tel_dict_uint(d, "learning", t->learning);
	tel_dict_uint(d, "corrupted", t->corrupted);
	tel_dict_uint(d, "verified", t->verified);
	tel_dict_uint(d, "answered", t->answered);
	tel_dict_uint(d, "unanswered", t->unanswered);
	tel_dict_uint(d, "nic_timed", t->nic_timed);
}

bool command_trial_status(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	const struct trial *t = &engine.trial;
	struct stream_result sum = {0}, one;
	enum state state;
	bool live;

	if (!params_done(ps, "no parameters", error))
		return false;
	state = control_state();
	live = state == STATE_ARMED || state == STATE_RUNNING || state == STATE_DRAINING;
	rte_tel_data_add_dict_string(d, "state", control_state_name(state));
	tel_dict_uint(d, "learned", result.learned);
	tel_dict_uint(d, "learn_refused", result.learn_refused);
	tel_dict_uint(d, "learn_unsent", result.learn_unsent);
	if (!live && !result.known)
		return true;
	for (uint16_t id = 0; id < LG_MAX_STREAMS; id++) {
		if (live)
			control_stream_sums(id, &one);
		add_stream(&sum, live ? &one : &result.stream[id]);
	}
	put_stream(d, &sum);
	tel_dict_uint(d, "epoch", live ? t->epoch : result.epoch);
	rte_tel_data_add_dict_int(d, "aborted", !live && result.aborted);
	if (live) {
		put_time(d, "elapsed_ns", rte_rdtsc(), t->start);
		return true;
	}
	put_time(d, "elapsed_ns", result.end, result.start);
	put_time(d, "tx_end_ns", result.drain_from, result.start);
	if (result.wall_error != UINT64_MAX)
		tel_dict_uint(d, "wall_error_ns", result.wall_error);
	return true;
}

static bool need_result(struct error *error)
{
	control_state();
	if (result.known)
		return true;
	return error_set(error, "a trial that is done", "there is no result");
}

bool tel_result_stream(struct params *ps, uint16_t *id, struct error *error)
{
	uint64_t value = 0;

	if (!need_result(error) || !params_need(ps, "stream", error) ||
	    !params_u64(ps, "stream", 0, LG_MAX_STREAMS - 1, &value, error))
		return false;
	*id = (uint16_t)value;
	if (!result.stream[value].known)
		return error_set(error, "a stream that was set when the last trial started",
				 "stream=%u", *id);
	return true;
}

bool command_trial_result(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	const struct stream_result *s;
	const struct hdr *h;
	uint16_t id;

	if (!tel_result_stream(ps, &id, error) || !params_done(ps, "stream", error))
		return false;
	s = &result.stream[id];
	h = control_histogram(id);
	put_stream(d, s);
	put_time(d, "tx_first_ns", s->tx_first, result.start);
	put_time(d, "tx_last_ns", s->tx_last, result.start);
	put_time(d, "rx_first_ns", s->rx_first, result.start);
	put_time(d, "rx_last_ns", s->rx_last, result.start);
	tel_dict_uint(d, "latency_count", h->count);
	tel_dict_uint(d, "latency_sum_ns", h->sum);
	tel_dict_uint(d, "latency_min_ns", h->count ? h->min : 0);
	tel_dict_uint(d, "latency_max_ns", h->max);
	tel_dict_uint(d, "latency_over", h->over);
	return true;
}

bool command_trial_port(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	const struct port_result *p;
	uint64_t port = 0;

	if (!need_result(error) || !params_need(ps, "port", error) ||
	    !params_u64(ps, "port", 0, engine.n_ports - 1u, &port, error) ||
	    !params_done(ps, "port", error))
		return false;
	p = &result.port[port];
	put_rx(d, &p->rx);
	tel_dict_uint(d, "tx_frames", p->tx.frames);
	tel_dict_uint(d, "tx_calls", p->tx.calls);
	tel_dict_uint(d, "max_burst", p->tx.max_burst);
	tel_dict_uint(d, "lag_frames", p->tx.lag_frames);
	tel_dict_uint(d, "lag_sum_ns", cycles_to_ns(p->tx.lag_sum));
	tel_dict_uint(d, "lag_max_ns", cycles_to_ns(p->tx.lag_max));
	tel_dict_uint(d, "turns", p->tx.turns);
	tel_dict_uint(d, "most_in_turn", p->tx.most_in_turn);
	tel_dict_uint(d, "retries", p->tx.retries);
	tel_dict_uint(d, "no_mbufs", p->tx.no_mbufs);
	return true;
}

bool command_turns(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	const struct turns_result *t;
	uint64_t worker = 0;

	if (!need_result(error) || !params_need(ps, "worker", error) ||
	    !params_u64(ps, "worker", 0, engine.n_workers - 1u, &worker, error) ||
	    !params_done(ps, "worker", error))
		return false;
	t = &engine.worker[worker]->taken;
	tel_dict_uint(d, "sleeps", t->sleeps);
	tel_dict_uint(d, "forced", t->forced);
	tel_dict_uint(d, "slept_ns", cycles_to_ns(t->slept));
	tel_dict_uint(d, "time_ns", cycles_to_ns(t->time));
	rte_tel_data_add_dict_int(d, "prompt", t->prompt);
	rte_tel_data_add_dict_string(d, "refused", t->refused ? strerror(t->refused) : "");
	return true;
}

bool command_work(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	const struct work *work;
	uint64_t worker = 0;

	if (!need_result(error) || !params_need(ps, "worker", error) ||
	    !params_u64(ps, "worker", 0, engine.n_workers - 1u, &worker, error) ||
	    !params_done(ps, "worker", error))
		return false;
	work = &engine.worker[worker]->work;
	tel_dict_uint(d, "rounds", work->rounds);
	tel_dict_uint(d, "busy_rounds", work->busy_rounds);
	tel_dict_uint(d, "busy_cycles", work->busy);
	tel_dict_uint(d, "idle_cycles", work->idle);
	tel_dict_uint(d, "frames", work->frames);
	tel_dict_uint(d, "still_rounds", work->still_rounds);
	tel_dict_uint(d, "still_cycles", work->still);
	return true;
}

static void put_gaps(struct rte_tel_data *d, const char *kind, const struct hdr *h, uint64_t time)
{
	static const struct {
		const char *name;
		double share;
	} levels[] = {{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}};
	char name[32];

	snprintf(name, sizeof(name), "%s_max_ns", kind);
	tel_dict_uint(d, name, h->max);
	for (unsigned int i = 0; i < RTE_DIM(levels); i++) {
		snprintf(name, sizeof(name), "%s_%s_ns", kind, levels[i].name);
		tel_dict_uint(d, name, gaps_percentile(h, time, levels[i].share));
	}
}

bool command_gaps(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	uint64_t poll_ns, send_ns;
	const struct gaps *g;

	if (!need_result(error) || !params_done(ps, "no parameters", error))
		return false;
	g = control_gaps(&poll_ns, &send_ns);
	put_gaps(d, "poll", &g->poll, poll_ns);
	put_gaps(d, "send", &g->send, send_ns);
	return true;
}

/* Frames are dealt out to a port's queues as they were in the trial; evenly where none came. */
static double queue_share(const struct queue_gaps *q, unsigned int queues)
{
	return q->of_port ? (double)q->frames / (double)q->of_port : 1.0 / queues;
}

bool command_queue(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	static const char *const ways[] = {"rx", "tx", NULL};
	uint64_t port = 0, queue = 0, ring = 0, hold;
	unsigned int tx = 0, queues;
	struct queue_gaps found;
	double rate = 0, share;

	if (!need_result(error) || !params_need(ps, "way", error) ||
	    !params_need(ps, "port", error) || !params_need(ps, "queue", error) ||
	    !params_word(ps, "way", ways, &tx, error) ||
	    !params_u64(ps, "port", 0, engine.n_ports - 1u, &port, error))
		return false;
	queues = tx ? engine.port[port].n_txq : engine.port[port].n_rxq;
	if (!params_u64(ps, "queue", 0, queues - 1u, &queue, error) ||
	    !params_real(ps, "rate", 0, 1e12, &rate, error) ||
	    !params_u64(ps, "ring", 0, 1000000000, &ring, error) ||
	    !params_done(ps, "way port queue rate ring", error))
		return false;
	found = control_queue_gaps(tx == 1, (uint16_t)port, (uint16_t)queue);
	share = queue_share(&found, queues);
	hold = ring ? gaps_hold(ring, rate * share) : UINT64_MAX;
	tel_dict_uint(d, "worker", found.worker);
	tel_dict_uint(d, "share_ppm", (uint64_t)(share * 1e6));
	tel_dict_uint(d, "max_ns", found.gaps->max);
	tel_dict_uint(d, "hold_ns", hold);
	tel_dict_uint(d, "over_ns", gaps_over(found.gaps, hold));
	return true;
}

static bool put_pairs(FILE *file, int64_t value, uint64_t count)
{
	const uint64_t pair[2] = {(uint64_t)value, count};

	return fwrite(pair, sizeof(pair), 1, file) == 1;
}

int64_t tel_write_pairs(const char *path, const struct hdr *h, const struct hdr *negative)
{
	FILE *file = fopen(path, "we");
	int64_t pairs = 0;
	bool whole = file != NULL;

	for (uint32_t i = HDR_COUNTS; negative && whole && i-- > 0;) {
		if (negative->counts[i] == 0)
			continue;
		whole = put_pairs(file, -(int64_t)hdr_value(i), negative->counts[i]);
		pairs++;
	}
	for (uint32_t i = 0; whole && i < HDR_COUNTS; i++) {
		if (h->counts[i] == 0)
			continue;
		whole = put_pairs(file, (int64_t)hdr_value(i), h->counts[i]);
		pairs++;
	}
	if (file != NULL)
		whole = fclose(file) == 0 && whole;
	return whole ? pairs : -1;
}

/*
 * A file and not a reply: a histogram of some thousand buckets would take dozens of replies, and
 * on a shared CPU each of them waits for its turn.
 */
bool command_histogram(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	char name[48], path[512];
	int64_t pairs;
	uint16_t id;

	if (!tel_result_stream(ps, &id, error) || !params_done(ps, "stream", error))
		return false;
	snprintf(name, sizeof(name), "histogram-%u", id);
	snprintf(path, sizeof(path), "%s/%s", rte_eal_get_runtime_dir(), name);
	pairs = tel_write_pairs(path, control_histogram(id), NULL);
	if (pairs < 0)
		return error_set(error, "a runtime directory that can be written", "%s: %s", path,
				 strerror(errno));
	rte_tel_data_add_dict_string(d, "file", name);
	tel_dict_uint(d, "pairs", (uint64_t)pairs);
	return true;
}

bool command_learn(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	uint64_t id = LG_MAX_STREAMS, count = 1;
	double rate = 10000, drain = 0;

	if (!params_u64(ps, "stream", 0, LG_MAX_STREAMS - 1, &id, error) ||
	    !params_u64(ps, "count", 1, 1000000000, &count, error) ||
	    !params_real(ps, "rate", 1, 1e9, &rate, error) ||
	    !params_real(ps, "drain", 0, 60, &drain, error) ||
	    !params_done(ps, "stream count rate drain", error) ||
	    !control_learn((uint16_t)id, count, rate, drain, error))
		return false;
	tel_dict_uint(d, "count", count);
	return true;
}
