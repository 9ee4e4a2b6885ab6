/* Trials: set up, started, ended, summed up.  All functions are for commands, of which no two run
 * at once. */
#ifndef LOADGEN_CONTROL_H
#define LOADGEN_CONTROL_H

#include "engine.h"

/* How a trial is to be run; times in s. */
struct trial_spec {
	uint8_t epoch;
	bool has_duration;
	bool retry;
	uint16_t burst;
	uint32_t group;	   /* frames of each burst; 1: evenly */
	uint32_t catch_up; /* overdue frames of a queue sent after a stall, at most; 0: any */
	double duration, delay, drain, max_lag;
	double bin;	  /* of timelines; 0: none */
	double tag;	  /* frames sent before are in no latency */
	double event;	  /* gaps between arrivals that end before do not count */
	uint32_t turn_us; /* of workers that take turns; 0: as at the start */
	bool ipdv;
	bool by_wall; /* stamps are of the wall clock */
	enum echo_role echo;
	double every; /* between frames that ask for the round trip */
	struct load_steps steps;
};

struct stream_result {
	bool known;
	uint64_t intended, sent, refused, unsent;
	uint64_t received, duplicated, reordered, late, misrouted, altered, bad_latency;
	uint64_t tx_first, tx_last, rx_first, rx_last; /* TSC, 0: never */
	uint16_t tx_port, rx_port;
	uint64_t tail; /* TSC of the last frame, when it and maybe more before it never came */
};

struct port_result {
	struct rx_totals rx;
	struct tx_totals tx;
};

/* The last finished trial; stays until the next one starts. */
struct result {
	bool known, aborted;
	uint8_t epoch;
	uint64_t start, drain_from, end;	       /* TSC */
	uint64_t wall_error;			       /* ns; UINT64_MAX: stamps were of the TSC */
	uint64_t learned, learn_refused, learn_unsent; /* of the last learning */
	struct stream_result stream[LG_MAX_STREAMS];
	struct port_result port[LG_MAX_PORTS];
};

extern struct result result;

/* Also collects a trial that has ended since the last call. */
enum state control_state(void);
const char *control_state_name(enum state state);
/* Refuses while a trial or learning is going on. */
bool control_at_rest(struct error *error);
bool control_start(const struct trial_spec *spec, struct error *error);
/* Send `count` learning frames of one stream (or all: id LG_MAX_STREAMS) at `rate` each.  Their
 * bindings are learnt anew, from what comes out until `drain` seconds after the last. */
bool control_learn(uint16_t id, uint64_t count, double rate, double drain, struct error *error);
/* Sums over all workers and queues, also while they run. */
void control_stream_sums(uint16_t id, struct stream_result *sum);
void control_port_sums(uint16_t port, struct port_result *sum, bool at_rest);
/* The histogram of a stream over all workers; valid until the next call. */
const struct hdr *control_histogram(uint16_t id);
/* Gaps of all workers in the last trial, likewise; in *poll_ns and *send_ns the time they are in:
 * that of all workers, and of all queues that sent. */
const struct gaps *control_gaps(uint64_t *poll_ns, uint64_t *send_ns);

/* The same of one queue: of sending its own, of polling those of the worker that serves it. */
struct queue_gaps {
	unsigned int worker;
	const struct hdr *gaps;
	uint64_t frames, of_port; /* through the queue, and through all of its kind at the port */
};
struct queue_gaps control_queue_gaps(bool tx, uint16_t port, uint16_t queue);

/* schedule.c: what queues and workers need for the coming trial. */
struct schedule {
	bool learning, retry, single;
	uint8_t epoch;
	uint16_t burst;
	uint32_t group, catch_up;
	uint64_t max_lag;
	/* by stream id; count 0: rests */
	double rate[LG_MAX_STREAMS];
	uint64_t count[LG_MAX_STREAMS];
	bool max[LG_MAX_STREAMS];
	const struct load_steps *steps; /* NULL: one load all the time */
	struct timeline timeline;
	enum echo_role echo;
	uint64_t echo_every; /* cycles */
};
bool schedule_check(const struct schedule *schedule, struct error *error);
bool schedule_apply(const struct schedule *schedule, struct error *error);
void schedule_release_tx(void);
void schedule_release_rx(void);
void schedule_forget_expected(void);
/* trial_timeline.c: the timeline of the coming trial, of `longest` seconds with all waits. */
struct timeline trial_timeline_make(const struct trial_spec *spec, double longest);
bool trial_timeline_add_tx(struct tx_stream *t);
bool trial_timeline_add_rx(struct rx_stream *r, const struct stream_spec *s);
void trial_timeline_release(void);
/* Whether a stream's last frames never came: then when the last one left, else 0. */
uint64_t trial_timeline_tail(uint16_t id);
/* Add a stream's bins up: timeline.n_bins rows of TIMELINE_COLUMNS. */
void trial_timeline_rows(uint16_t id, uint64_t *rows);
/* Differences of delays of a stream; returns how many have none, for one stamp of departure. */
uint64_t trial_timeline_differences(uint16_t id, struct hdr *rising, struct hdr *falling);
/* Mean time between polls of a port that found frames, and the poll before; ns. */
uint64_t trial_timeline_poll_ns(uint16_t port);

#endif
