#include "control.h"

#include "capture_buffer.h"

#include <math.h>
#include <stdlib.h>

/* Time for all workers to take the order before the common start. */
#define MIN_DELAY_S 0.0005
/* A clock that is slewed faster is not followed: NTP corrects a crystal's rate by far less. */
#define SLEWED_MOST 4e-4

struct result result;

static uint64_t cycles(double seconds)
{
	return (uint64_t)llround(seconds * (double)engine.hz);
}

const char *control_state_name(enum state state)
{
	static const char *const names[] = {"idle",	"armed", "running",
					    "draining", "done",	 "learning"};

	return names[state];
}

void control_stream_sums(uint16_t id, struct stream_result *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (unsigned int p = 0; p < engine.n_ports; p++) {
		for (unsigned int i = 0; i < engine.port[p].n_txq; i++) {
			const struct tx_queue *q = engine.port[p].txq[i];

			for (unsigned int k = 0; k < q->n_streams; k++) {
				const struct tx_stream *t = &q->streams[k];

				if (t->spec->id != id)
					continue;
				sum->intended += t->share;
				sum->sent += t->seq - t->refused - t->lapsed;
				sum->refused += t->refused;
				sum->unsent += t->skipped + t->lapsed;
				if (t->first && (!sum->tx_first || t->first < sum->tx_first))
					sum->tx_first = t->first;
				sum->tx_last = RTE_MAX(sum->tx_last, t->last);
			}
		}
	}
	for (unsigned int w = 0; w < engine.n_workers; w++) {
		const struct rx_stream *r = &engine.worker[w]->rx[id];

		sum->received += r->received;
		sum->duplicated += r->duplicated;
		sum->reordered += r->reordered;
		sum->late += r->late;
		sum->misrouted += r->misrouted;
		sum->altered += r->altered;
		sum->bad_latency += r->bad_latency;
		if (r->first && (!sum->rx_first || r->first < sum->rx_first))
			sum->rx_first = r->first;
		sum->rx_last = RTE_MAX(sum->rx_last, r->last);
		sum->rx_port = r->port;
	}
}

static void add_totals(struct rx_totals *sum, const struct rx_totals *from,
		       const struct rx_totals *to)
{
	sum->frames += to->frames - from->frames;
	sum->octets += to->octets - from->octets;
	sum->foreign += to->foreign - from->foreign;
	sum->foreign_octets += to->foreign_octets - from->foreign_octets;
	sum->stale += to->stale - from->stale;
	sum->learning += to->learning - from->learning;
	sum->corrupted += to->corrupted - from->corrupted;
	sum->verified += to->verified - from->verified;
	sum->answered += to->answered - from->answered;
	sum->nic_timed += to->nic_timed - from->nic_timed;
	sum->unanswered += to->unanswered - from->unanswered;
}

void control_port_sums(uint16_t port, struct port_result *sum, bool at_rest)
{
	memset(sum, 0, sizeof(*sum));
	for (unsigned int i = 0; i < engine.port[port].n_rxq; i++) {
		const struct rx_queue *q = &engine.port[port].rxq[i];

		add_totals(&sum->rx, &q->at_run, at_rest ? &q->at_rest : &q->totals);
		/* Those that came between the trials as well: they are the last one's, late. */
		if (at_rest)
			sum->rx.stale +=
				q->stale_to - q->stale_from - (q->at_rest.stale - q->at_run.stale);
	}
	for (unsigned int i = 0; i < engine.port[port].n_txq; i++) {
		const struct tx_queue *q = engine.port[port].txq[i];
		const struct tx_totals *t = &q->totals;

		sum->tx.frames += t->frames;
		sum->tx.calls += t->calls;
		sum->tx.max_burst = RTE_MAX(sum->tx.max_burst, t->max_burst);
		/* At full rate every frame is due at the start: no lag to speak of. */
		if (!q->max) {
			sum->tx.lag_frames += t->lag_frames;
			sum->tx.lag_sum += t->lag_sum;
			sum->tx.lag_max = RTE_MAX(sum->tx.lag_max, t->lag_max);
		}
		sum->tx.turns += t->turns;
		sum->tx.most_in_turn = RTE_MAX(sum->tx.most_in_turn, t->most_in_turn);
		sum->tx.retries += t->retries;
		sum->tx.no_mbufs += t->no_mbufs;
	}
}

static void collect_learning(void)
{
	struct stream_result sum;

	result.learned = result.learn_refused = result.learn_unsent = 0;
	for (uint16_t id = 0; id < LG_MAX_STREAMS; id++) {
		control_stream_sums(id, &sum);
		result.learned += sum.sent;
		result.learn_refused += sum.refused;
		result.learn_unsent += sum.unsent;
	}
}

static void collect(void)
{
	engine.trial.active = false;
	if (engine.trial.learning) {
		collect_learning();
		return;
	}
	result.known = true;
	result.aborted = engine.trial.aborted;
	result.epoch = engine.trial.epoch;
	result.wall_error = UINT64_MAX;
	if (engine.trial.by_wall) {
		const struct wallclock later = program_clock(CLOCK_REALTIME);

		result.wall_error = wallclock_error(&engine.trial.wall, &later);
	}
	result.start = engine.trial.start;
	result.drain_from = atomic_load(&engine.trial.drain_from);
	result.end = atomic_load(&engine.trial.end);
	for (uint16_t id = 0; id < LG_MAX_STREAMS; id++) {
		control_stream_sums(id, &result.stream[id]);
		result.stream[id].known = engine.stream[id] != NULL;
		result.stream[id].tx_port = engine.stream[id] ? engine.stream[id]->tx_port : 0;
		result.stream[id].tail = timeline.n_bins ? trial_timeline_tail(id) : 0;
	}
	for (uint16_t port = 0; port < engine.n_ports; port++)
		control_port_sums(port, &result.port[port], true);
}

static bool all_at_rest(void)
{
	const uint32_t order = atomic_load(&engine.order);

	if (order_phase(order) != PHASE_REST)
		return false;
	for (unsigned int i = 0; i < engine.n_workers; i++) {
		if (atomic_load_explicit(&engine.worker[i]->ack, memory_order_acquire) != order)
			return false;
	}
	return true;
}

enum state control_state(void)
{
	struct trial *t = &engine.trial;

	if (t->active && all_at_rest())
		collect();
	if (!t->active)
		return result.known ? STATE_DONE : STATE_IDLE;
	if (t->learning)
		return STATE_LEARNING;
	if ((int64_t)(rte_rdtsc() - t->start) < 0)
		return STATE_ARMED;
	return atomic_load(&t->drain_from) ? STATE_DRAINING : STATE_RUNNING;
}

bool control_at_rest(struct error *error)
{
	const enum state state = control_state();

	if (!engine.trial.active)
		return true;
	return error_set(error, "wait until it is done, or /loadgen/trial/stop", "the engine is %s",
			 control_state_name(state));
}

/* A trial that was refused must not begin once its workers get to run: then they rest. */
static bool not_followed(struct error *error)
{
	atomic_store(&engine.trial.abort, true);
	engine.trial.aborted = true;
	atomic_store(&engine.order, order_next(atomic_load(&engine.order), PHASE_REST));
	return error_set(error, "lcores that get to run", "workers do not follow");
}

/* Arm, fix the common start, go.  engine.trial has been filled in. */
static bool launch(const struct schedule *schedule, double delay, struct error *error)
{
	struct trial *t = &engine.trial;

	atomic_store(&t->drain_from, 0);
	atomic_store(&t->end, 0);
	atomic_store(&t->abort, false);
	t->aborted = t->flushed = false;
	if (!capture_buffer_arm(!schedule->learning, error))
		return false; /* the last result stays */
	result.known = result.known && schedule->learning;
	timeline = schedule->learning ? timeline : schedule->timeline;
	if (!schedule_apply(schedule, error)) {
		schedule_release_tx();
		return false;
	}
	if (!schedule->learning &&
	    !echo_begin(&t->echo, schedule->echo, schedule->echo_every, ECHO_MAX_ROWS)) {
		schedule_release_tx();
		return error_set(error, "more memory", "no memory for round trips");
	}
	t->active = true;
	if (!workers_order(PHASE_ARM))
		return not_followed(error);
	t->start = rte_rdtsc() + cycles(RTE_MAX(delay, MIN_DELAY_S));
	timeline.start = schedule->learning ? timeline.start : t->start;
	t->echo.next = t->start + timeline.tag;
	if (!workers_order(PHASE_RUN))
		return not_followed(error);
	return true;
}

/* Loads by stream, as they are set. */
static bool schedule_loads(struct schedule *schedule, const struct trial_spec *spec,
			   struct error *error)
{
	uint64_t total = 0;

	schedule->steps = spec->steps.n ? &engine.trial.steps : NULL;
	for (unsigned int id = 0; id < LG_MAX_STREAMS; id++) {
		const struct stream_spec *s = engine.stream[id];

		if (s == NULL)
			continue;
		schedule->rate[id] = s->load.rate;
		schedule->max[id] = s->load.max;
		schedule->count[id] = s->load.count;
		if (schedule->steps && (s->load.counted || s->load.max))
			return error_set(error, "rates without a count, or no steps",
					 "stream %u has a count, and the trial steps", id);
		if (schedule->steps) {
			schedule->count[id] = 0;
			for (unsigned int k = 0; k < spec->steps.n; k++)
				schedule->count[id] += steps_count(&spec->steps, s->load.rate, k);
		} else if (!s->load.counted && s->load.rate > 0) {
			if (!spec->has_duration)
				return error_set(error, "duration, or a count for each stream",
						 "stream %u has a rate but no count", id);
			schedule->count[id] = (uint64_t)llround(s->load.rate * spec->duration);
		}
		total += schedule->count[id];
	}
	if (total == 0)
		return error_set(error, "streams with a load (/loadgen/stream/load)",
				 "no stream has a frame to send");
	return true;
}

/* Seconds until the last frame may come. */
static double longest(const struct schedule *schedule, const struct trial_spec *spec)
{
	double seconds = spec->has_duration ? spec->duration : 0;

	if (schedule->steps)
		seconds = steps_seconds(&spec->steps);
	for (unsigned int id = 0; id < LG_MAX_STREAMS; id++) {
		if (schedule->count[id] && !schedule->max[id])
			seconds =
				RTE_MAX(seconds, (double)schedule->count[id] / schedule->rate[id]);
	}
	return seconds + spec->drain;
}

static bool any_away(const struct schedule *schedule)
{
	for (unsigned int id = 0; id < LG_MAX_STREAMS; id++) {
		if (schedule->count[id] && engine.stream[id]->away)
			return true;
	}
	return false;
}

/* The time of day, at the rate of the clock that is slewed with it and never set. */
static struct wallclock wall_of_trial(void)
{
	struct wallclock steady = program_clock(CLOCK_MONOTONIC);
	struct wallclock wall = program_clock(CLOCK_REALTIME);

	wallclock_rate(&steady, &engine.steady, engine.hz, SLEWED_MOST);
	wall.ns_per_cycle = steady.ns_per_cycle;
	return wall;
}

/* Workers take them from when they are armed on. */
static void set_turns(uint32_t us)
{
	if (engine.options.turn_us == 0)
		return;
	engine.turn_us = us ? us : engine.options.turn_us;
	engine.turn = (uint64_t)((double)engine.hz * engine.turn_us / 1e6);
}

bool control_start(const struct trial_spec *spec, struct error *error)
{
	struct schedule schedule = {.retry = spec->retry,
				    .single = spec->ipdv,
				    .epoch = spec->epoch,
				    .burst = spec->burst,
				    .group = spec->group,
				    .catch_up = spec->catch_up,
				    .max_lag = cycles(spec->max_lag),
				    .echo = spec->echo,
				    .echo_every = cycles(spec->every)};

	if (!control_at_rest(error) || !schedule_loads(&schedule, spec, error) ||
	    !schedule_check(&schedule, error))
		return false;
	if (result.known && result.epoch == spec->epoch)
		return error_set(error, "an epoch other than the last trial's",
				 "epoch %u again: stale frames would count", spec->epoch);
	if (spec->bin > 0 && longest(&schedule, spec) / spec->bin > TIMELINE_MAX_BINS)
		return error_set(error, "at most 1000000 bins", "bins of %g s", spec->bin);
	set_turns(spec->turn_us);
	schedule.timeline = trial_timeline_make(spec, longest(&schedule, spec));
	engine.trial.learning = false;
	engine.trial.by_wall = spec->by_wall;
	engine.trial.wall = wall_of_trial();
	engine.trial.steps = spec->steps;
	engine.trial.epoch = spec->epoch;
	engine.trial.drain = cycles(spec->drain);
	engine.trial.away =
		any_away(&schedule) ? cycles(longest(&schedule, spec) - spec->drain) + 1 : 0;
	return launch(&schedule, spec->delay, error);
}

bool control_learn(uint16_t id, uint64_t count, double rate, double drain, struct error *error)
{
	struct schedule schedule = {.learning = true, .burst = 32, .max_lag = cycles(1)};
	bool any = false, binding = false;

	if (!control_at_rest(error))
		return false;
	for (unsigned int i = 0; i < LG_MAX_STREAMS; i++) {
		if (engine.stream[i] == NULL || (id != LG_MAX_STREAMS && id != i))
			continue;
		schedule.count[i] = count;
		schedule.rate[i] = rate;
		any = true;
		binding = binding || engine.stream[i]->bindings;
		if (engine.stream[i]->bindings)
			bindings_clear(engine.stream[i]->bindings);
	}
	if (!any)
		return error_set(error, "the id of a stream that was added", "no such stream");
	set_turns(0);
	engine.trial.learning = true;
	engine.trial.by_wall = false;
	engine.trial.epoch = 0;
	engine.trial.binding = binding;
	engine.trial.drain = cycles(drain);
	engine.trial.away = 0;
	return launch(&schedule, 0, error);
}

const struct gaps *control_gaps(uint64_t *poll_ns, uint64_t *send_ns)
{
	const uint64_t until = result.drain_from ? result.drain_from : result.end;
	static struct gaps merged;

	hdr_reset(&merged.poll);
	hdr_reset(&merged.send);
	*send_ns = 0;
	for (unsigned int w = 0; w < engine.n_workers; w++) {
		const struct worker *worker = engine.worker[w];

		hdr_merge(&merged.poll, worker->gaps);
		for (unsigned int i = 0; i < worker->n_txq; i++) {
			hdr_merge(&merged.send, worker->txq[i]->gaps);
			*send_ns +=
				worker->txq[i]->n_streams ? cycles_to_ns(until - result.start) : 0;
		}
	}
	*poll_ns = merged.poll.sum; /* they follow one another without a pause */
	return &merged;
}

static const struct worker *server_of(bool tx, uint16_t port, uint16_t queue)
{
	for (unsigned int w = 0; w < engine.n_workers; w++) {
		const struct worker *worker = engine.worker[w];

		for (unsigned int i = 0; i < (tx ? worker->n_txq : worker->n_rxq); i++) {
			if (tx ? worker->txq[i] == engine.port[port].txq[queue]
			       : worker->rxq[i] == &engine.port[port].rxq[queue])
				return worker;
		}
	}
	return engine.worker[0]; /* each queue has one */
}

struct queue_gaps control_queue_gaps(bool tx, uint16_t port, uint16_t queue)
{
	const struct port *p = &engine.port[port];
	const struct worker *worker = server_of(tx, port, queue);
	struct queue_gaps found = {
		.worker = worker->index,
		.gaps = tx ? p->txq[queue]->gaps : worker->gaps,
		.frames = tx ? p->txq[queue]->offered : p->rxq[queue].found,
	};

	for (unsigned int i = 0; i < (tx ? p->n_txq : p->n_rxq); i++)
		found.of_port += tx ? p->txq[i]->offered : p->rxq[i].found;
	return found;
}

const struct hdr *control_histogram(uint16_t id)
{
	static struct hdr merged;

	hdr_reset(&merged);
	for (unsigned int w = 0; w < engine.n_workers; w++) {
		if (engine.worker[w]->rx[id].hdr)
			hdr_merge(&merged, engine.worker[w]->rx[id].hdr);
	}
	return &merged;
}
