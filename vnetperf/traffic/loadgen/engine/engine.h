/* What the DPDK parts of the engine share: ports, queues, workers, the trial. */
#ifndef LOADGEN_ENGINE_H
#define LOADGEN_ENGINE_H

#include <stdatomic.h>
#include <sys/types.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "afpacket.h"
#include "args.h"
#include "common.h"
#include "counter.h"
#include "echo.h"
#include "gaps.h"
#include "hdr.h"
#include "nicclock.h"
#include "pacing.h"
#include "program.h"
#include "seqtrack.h"
#include "steps.h"
#include "stream.h"
#include "thread.h"
#include "timeline.h"
#include "tscoffset.h"
#include "turns.h"
#include "wallclock.h"
#include "worker_phase.h"

/* Frames that belong to no stream of the running trial, and totals; per receive queue. */
struct rx_totals {
	uint64_t frames, octets;	  /* everything received; octets with FCS */
	uint64_t foreign, foreign_octets; /* no trailer of ours */
	uint64_t stale;			  /* ours, of another trial, or come after its end */
	uint64_t learning;
	uint64_t corrupted;  /* of this trial, but with a stream or sequence never sent */
	uint64_t verified;   /* frames whose payload was compared with what was sent */
	uint64_t answered;   /* asked for an address of ours, and were told */
	uint64_t nic_timed;  /* arrivals told by the NIC's clock */
	uint64_t unanswered; /* likewise, when answers were asked for faster than they leave */
};

struct rx_queue {
	uint16_t port, queue;
	bool nic_time;	   /* frames may bear the NIC's time */
	bool times_polls;  /* differences of delays are asked for */
	uint64_t clock_at; /* TSC at which its clock is read again */
	/* The last poll, TSC; cycles from a poll to the next that found frames, and how many did.
	 */
	uint64_t polled, waits, finds;
	struct nicclock clock;
	uint64_t *expected; /* [stream][most_txq]: one above the highest seen here */
	struct rx_totals totals, at_run, at_rest;
	/* totals.stale when the last trial ended, and the one before: learning is no trial */
	uint64_t stale_to, stale_from;
	uint64_t found; /* frames of the last trial, whosever they were, without learning */
	uint32_t follows[LG_MAX_STREAMS][LG_MAX_QUEUES]; /* next number, while gaps are captured */
};

/* One stream as one worker receives it. */
struct rx_stream {
	uint64_t received, duplicated, reordered, late, misrouted;
	uint64_t altered;	/* of another length, header or payload than must be */
	uint64_t bad_latency;	/* arrival before departure: clocks disagree */
	uint64_t first, last;	/* TSC of arrivals */
	struct hdr *hdr;	/* NULL: this worker never polls the stream's port */
	struct seqtrack *track; /* [tx queue], shared by all workers */
	uint16_t port;
	uint16_t n_track;
	uint16_t len;		      /* octets without FCS that a frame must have; 0: any */
	uint16_t pad;		      /* zeros before the trailer */
	struct fields *expected;      /* what its frames must have; NULL: not looked at */
	struct timeline_rx *timeline; /* NULL: not asked for */
};

/* One stream as one transmit queue sends it. */
struct tx_stream {
	uint64_t seq;	  /* sequence numbers used */
	uint64_t refused; /* used, but the driver did not take the frame */
	uint64_t lapsed;  /* used, retried in vain, given up */
	uint64_t skipped; /* given up before a sequence number was used */
	uint64_t first, last;
	uint8_t *frame; /* prefilled, frame_len octets */
	uint32_t tag;	/* of the buffers that hold this frame */
	uint16_t frame_len;
	bool varied; /* fields or a UDP checksum to be written per frame */
	struct fields fields;
	const struct stream_spec *spec;
	uint64_t share;		      /* frames intended here */
	struct timeline_tx *timeline; /* NULL: not asked for */
};

struct tx_totals {
	uint64_t frames, calls;
	uint64_t max_burst;		       /* frames in one call */
	uint64_t lag_sum, lag_max, lag_frames; /* cycles behind schedule */
	uint64_t retries, no_mbufs;
	uint64_t turns, most_in_turn; /* in which frames left, and the most frames of one */
};

struct tx_queue {
	uint16_t port, queue;
	uint16_t burst;
	uint16_t n_streams;
	bool retry, max, done;
	bool has_udp; /* some stream's UDP checksum follows the timestamp */
	bool single;  /* frames leave one by one, unless they are overdue */
	bool has_timeline;
	bool away;     /* its port is not plugged in: everything is refused */
	uint32_t look; /* ports at which its worker looks after it, as bits */
	uint64_t max_lag, pending_since, starved_since;
	uint64_t latest;  /* cycles behind schedule of the latest frame just chosen */
	uint64_t turn;	  /* in which frames left last */
	uint64_t in_turn; /* frames of it */
	uint64_t called;  /* TSC of the last transmit call, or of the trial's start */
	struct hdr *gaps; /* of sending, ns */
	bool notes_gaps;  /* not while learning */
	uint64_t offered; /* frames of the last trial, without learning */
	struct rte_mempool *pool;
	struct tx_stream *streams;
	struct tx_totals totals;
	uint64_t answers; /* to neighbours, and announcements; since the start */
	uint16_t n_stash, n_pending;
	struct rte_mbuf *stash[LG_MAX_BURST]; /* allocated, to be filled next */
	struct rte_mbuf *out[LG_MAX_BURST];
	uint8_t *trailer[LG_MAX_BURST];
	uint16_t who[LG_MAX_BURST]; /* stream of each frame in out[] */
	struct pacer pacer;
	/* Loads one after the other: [step][stream], each from its time on. */
	struct pace_load *loads;
	uint16_t n_steps, step;
	uint32_t group;
	uint32_t catch_up; /* overdue frames sent after a stall, at most; 0: by max_lag alone */
};

/* What a worker did in a trial: rounds of its loop, and those in which it found or sent frames.
 * Neither sleeps nor time that it has lent to others is in the cycles. */
struct work {
	uint64_t rounds, busy_rounds;
	uint64_t busy, idle; /* cycles in rounds with frames, and in the others */
	uint64_t frames;     /* found and sent */
	/* Rounds without frames right after others of the kind: what an empty round takes when all
	 * is in the caches, which tells how fast the processor is. */
	uint64_t still_rounds, still;
};

/* How a worker took turns in a trial. */
struct turns_result {
	uint64_t sleeps, forced, slept; /* as of struct turns */
	uint64_t time;			/* cycles from the order to run to its end */
	int refused;			/* the kernel's reason against the priority; 0: none */
	bool prompt;			/* under SCHED_FIFO */
};

struct worker {
	_Alignas(128) unsigned int index;
	unsigned int lcore;
	pid_t tid;
	struct tscoffset clock; /* its TSC against that of the main lcore's processor */
	_Atomic uint32_t ack;	/* the last order carried out */
	_Atomic bool tx_done;
	uint32_t order;
	uint32_t rounds;
	uint32_t signature; /* of the running trial; 0 outside */
	bool binding;	    /* learning frames are looked at */
	bool ran;	    /* a trial has begun since the last order to rest */
	uint32_t plugs;	    /* which ports are away, as of when it looked */
	_Atomic uint32_t plugs_ack;
	bool nic_time;	    /* some queue has it */
	uint64_t polled;    /* TSC of the last look at its queues in the trial, or of its start */
	unsigned int found; /* frames, in that look */
	uint32_t others;    /* ports to which none of its queues sends, as bits */
	uint16_t first;	    /* of txq[], in this round */
	bool woke;	    /* from the sleep between two turns */
	struct turns turns;
	struct turns before;	   /* as they were when the trial began */
	uint64_t began;		   /* TSC then */
	struct turns_result taken; /* of the last trial */
	struct work work;	   /* likewise */
	unsigned int empty;	   /* rounds without frames since the last with some, or sleep */
	struct scheduling scheduling;
	struct hdr *gaps; /* of polling, ns: all its queues are looked at in turn */
	uint16_t n_rxq, n_txq;
	uint16_t n_polled; /* of rxq[], the first: the others' ports are away */
	struct rx_queue *rxq[LG_MAX_PORTS * LG_MAX_QUEUES];
	struct tx_queue *txq[LG_MAX_PORTS * LG_MAX_QUEUES];
	struct rx_stream rx[LG_MAX_STREAMS];
};

struct port {
	struct rx_queue rxq[LG_MAX_QUEUES];
	struct tx_queue *txq[LG_MAX_QUEUES];
	uint16_t n_rxq, n_txq;
	uint16_t rx_desc;
	char name[RTE_ETH_NAME_MAX_LEN];
	char driver[64];
	struct afpacket afpacket; /* its sockets, of a kernel interface */
	struct rte_mempool *rx_pool;
	bool away; /* not plugged in; workers look at it when `plugs` has changed */
};

enum state { STATE_IDLE, STATE_ARMED, STATE_RUNNING, STATE_DRAINING, STATE_DONE, STATE_LEARNING };

struct trial {
	bool active;   /* armed and not yet collected */
	bool learning; /* frames of epoch 0, counted for nothing */
	bool binding;  /* translated ones are looked at */
	bool aborted;
	bool flushed; /* nothing waits in transmit rings of the kernel any more */
	uint8_t epoch;
	uint64_t drain; /* cycles */
	uint64_t away;	/* cycles after the start for which other engines send; 0: none does */
	uint64_t start; /* TSC */
	_Atomic uint64_t drain_from, end; /* TSC, 0: not yet */
	_Atomic bool abort;
	bool by_wall;	       /* frames are stamped by the wall clock, for another machine */
	struct echo echo;      /* round trips; with stamps by the wall clock alone */
	struct wallclock wall; /* as of before the start */
	struct load_steps steps;
};

struct engine {
	struct options options;
	uint16_t n_ports;
	uint16_t n_workers;
	uint16_t largest_frame; /* with FCS */
	uint16_t most_txq;	/* transmit queues of any port */
	uint32_t next_tag;
	int tag_offset;	 /* of the buffers' tag, in the mbuf */
	int time_offset; /* of the NIC's time, likewise; -1: no NIC gives one */
	uint64_t time_flag;
	uint64_t hz;
	uint32_t turn_us;	 /* of the trial, 0: workers never sleep */
	uint64_t turn;		 /* the same in cycles */
	uint64_t ns_mult;	 /* ns = cycles * ns_mult >> 32 */
	struct wallclock steady; /* at the start: rates are taken from here */
	struct port port[LG_MAX_PORTS];
	struct worker *worker[LG_MAX_WORKERS];
	struct stream_spec *stream[LG_MAX_STREAMS]; /* by id */
	struct trial trial;
	_Atomic uint32_t order;
	_Atomic uint32_t plugs; /* changes with what is plugged in */
	_Atomic bool quit;
};

extern struct engine engine;

/* A port in a set of ports. */
#define PORT_BIT(port) (UINT32_C(1) << (port))
#define ALL_PORTS      UINT32_MAX
_Static_assert(LG_MAX_PORTS <= 32, "a set of ports has 32 bits");

static inline uint64_t cycles_to_ns(uint64_t cycles)
{
	return (uint64_t)((unsigned __int128)cycles * engine.ns_mult >> 32);
}

static inline uint32_t *mbuf_tag(struct rte_mbuf *m)
{
	return RTE_MBUF_DYNFIELD(m, engine.tag_offset, uint32_t *);
}

/* ports.c: configure and start all ports; a failure is told by `error`. */
bool ports_start(struct error *error);

/* setup.c */
bool workers_create(struct error *error);
/* Measure how far their TSCs are apart; before they run. */
void workers_compare_clocks(void);
/* Free streams, schedules, workers; only after the workers have ended. */
void workers_release(void);

/* worker.c */
/* Runs a worker, by its own lcore, until the engine ends. */
int worker_main(void *worker);

/* worker_phase.c */
/* Give the order to all workers and wait until they follow; false after 20 s, or at the end. */
bool workers_order(enum phase phase);

/* hotplug.c: what the worker polls, and what it refuses, from now on. */
void hotplug_update(struct worker *w, uint32_t plugs);

/* rx.c */
unsigned int rx_poll(struct worker *w, struct rx_queue *q);
/* Read the NIC's clock again, when it is time to. */
void rx_read_clock(struct rx_queue *q);

/* tx.c */
/* `turn`: what counts as now; what is due later waits. */
unsigned int tx_poll(struct tx_queue *q, uint64_t turn);
/* Count all that is left as unsent. */
void tx_abandon(struct tx_queue *q);

#endif
