/* From streams and their loads to what each transmit queue sends and each worker counts. */
#include "control.h"

#include <stdlib.h>

static bool no_memory(struct error *error)
{
	return error_set(error, "fewer streams, or more memory", "no memory for the trial");
}

bool schedule_check(const struct schedule *schedule, struct error *error)
{
	for (uint16_t port = 0; port < engine.n_ports; port++) {
		bool paced = false, max = false;

		for (unsigned int i = 0; i < LG_MAX_STREAMS; i++) {
			if (!schedule->count[i] || engine.stream[i]->tx_port != port)
				continue;
			paced = paced || !schedule->max[i];
			max = max || schedule->max[i];
		}
		if (paced && max)
			return error_set(error, "rate=max for all streams of a port or for none",
					 "port %u has paced streams and streams of rate max", port);
	}
	return true;
}

void schedule_release_tx(void)
{
	for (unsigned int p = 0; p < engine.n_ports; p++) {
		for (unsigned int i = 0; i < engine.port[p].n_txq; i++) {
			struct tx_queue *q = engine.port[p].txq[i];

			free(q->loads);
			q->loads = NULL;
			q->n_steps = 0;
			for (unsigned int s = 0; s < q->n_streams; s++)
				free(q->streams[s].frame);
			free(q->streams);
			q->streams = NULL;
			q->n_streams = 0;
		}
	}
}

/* What is expected points at streams that are about to go. */
void schedule_forget_expected(void)
{
	for (unsigned int id = 0; id < LG_MAX_STREAMS; id++) {
		for (unsigned int w = 0; w < engine.n_workers; w++) {
			free(engine.worker[w]->rx[id].expected);
			engine.worker[w]->rx[id].expected = NULL;
		}
	}
}

void schedule_release_rx(void)
{
	schedule_forget_expected();
	trial_timeline_release();
	for (unsigned int id = 0; id < LG_MAX_STREAMS; id++) {
		free(engine.worker[0]->rx[id].track); /* one for all workers */
		for (unsigned int w = 0; w < engine.n_workers; w++) {
			free(engine.worker[w]->rx[id].hdr);
			timeline_rx_release(engine.worker[w]->rx[id].timeline);
			memset(&engine.worker[w]->rx[id], 0, sizeof(struct rx_stream));
		}
	}
}

static bool tx_stream_init(struct tx_stream *t, const struct stream_spec *s,
			   const struct tx_queue *q, uint8_t epoch)
{
	t->spec = s;
	t->frame_len = (uint16_t)(s->frame_size - LG_FCS_LEN);
	t->frame = malloc(t->frame_len);
	if (t->frame == NULL)
		return false;
	t->tag = ++engine.next_tag;
	t->varied = s->n_fields > 0 || s->checksum.udp >= 0;
	stream_frame(s, t->frame);
	trailer_prefill(t->frame + t->frame_len - TRAILER_LEN, epoch, (uint8_t)s->id,
			(uint8_t)q->queue);
	fields_init(&t->fields, s->field, s->n_fields, &s->checksum, t->frame, t->frame_len,
		    q->queue);
	return true;
}

/* Frames of a stream that one of its port's queues sends. */
static uint64_t queue_share(const struct stream_spec *s, uint64_t count, uint16_t queue)
{
	if (s->queue >= 0)
		return queue == s->queue ? count : 0;
	return pacer_share(count, engine.port[s->tx_port].n_txq, queue);
}

/* Frames of a stream in one step of the trial, of all queues. */
static uint64_t step_count(const struct schedule *schedule, unsigned int id, unsigned int step)
{
	return schedule->steps ? steps_count(schedule->steps, schedule->rate[id], step)
			       : schedule->count[id];
}

static uint64_t share_of_queue(const struct schedule *schedule, unsigned int id, uint16_t queue)
{
	const unsigned int steps = schedule->steps ? schedule->steps->n : 1;
	uint64_t share = 0;

	for (unsigned int k = 0; k < steps; k++)
		share += queue_share(engine.stream[id], step_count(schedule, id, k), queue);
	return share;
}

/*
 * What a queue sends of its streams in one step.  Frames of a port's queues are due one after the
 * other, and so are those of the ports: of two frames that are due at once the first would always
 * be the same port's, and find colder caches than the second.
 */
static void step_loads(const struct tx_queue *q, const struct schedule *schedule, unsigned int step,
		       struct pace_load *loads)
{
	const unsigned int queues = engine.port[q->port].n_txq;

	for (unsigned int i = 0; i < q->n_streams; i++) {
		const struct stream_spec *s = q->streams[i].spec;

		loads[i].rate = schedule->rate[s->id] / (s->queue < 0 ? queues : 1);
		loads[i].rate *= schedule->steps ? schedule->steps->step[step].share : 1;
		loads[i].phase = (q->queue + (double)q->port / engine.n_ports) / queues;
		loads[i].count = queue_share(s, step_count(schedule, s->id, step), q->queue);
	}
}

static bool schedule_steps(struct tx_queue *q, const struct schedule *schedule)
{
	q->step = 0;
	q->n_steps = schedule->steps ? schedule->steps->n : 1;
	q->group = schedule->group;
	q->loads = calloc((size_t)q->n_steps * LG_MAX_STREAMS, sizeof(struct pace_load));
	for (unsigned int k = 0; q->loads && k < q->n_steps; k++)
		step_loads(q, schedule, k, &q->loads[(size_t)k * q->n_streams]);
	return q->loads != NULL;
}

/* All streams of a queue, and when their frames are due. */
static bool tx_queue_schedule(struct tx_queue *q, const struct schedule *schedule)
{
	bool max = false;

	q->streams = calloc(LG_MAX_STREAMS, sizeof(struct tx_stream));
	if (q->streams == NULL)
		return false;
	q->has_udp = false;
	q->has_timeline = timeline.n_bins && !schedule->learning;
	memset(q->who, 0, sizeof(q->who));
	for (unsigned int id = 0; id < LG_MAX_STREAMS; id++) {
		const struct stream_spec *s = engine.stream[id];
		struct tx_stream *t = &q->streams[q->n_streams];
		uint64_t share;

		if (schedule->count[id] == 0 || s->away || s->tx_port != q->port)
			continue;
		share = share_of_queue(schedule, id, q->queue);
		if (share == 0)
			continue;
		if (!tx_stream_init(t, s, q, schedule->epoch))
			return false;
		t->share = share;
		q->n_streams++;
		if (q->has_timeline && !trial_timeline_add_tx(t))
			return false;
		max = schedule->max[id];
		q->has_udp = q->has_udp || t->fields.udp >= 0;
	}
	q->burst = schedule->burst;
	q->catch_up = schedule->catch_up;
	q->retry = schedule->retry;
	q->single = schedule->single;
	q->max = max;
	q->max_lag = schedule->max_lag;
	q->starved_since = 0;
	if (!schedule_steps(q, schedule))
		return false;
	pacer_init(&q->pacer, q->loads, q->n_streams, max, (double)engine.hz, q->burst, q->max_lag);
	pacer_catch_up(&q->pacer, q->catch_up);
	pacer_every(&q->pacer, engine.turn);
	pacer_group(&q->pacer, schedule->group);
	return true;
}

static unsigned int workers_polling(uint16_t port)
{
	unsigned int n = 0;

	for (unsigned int w = 0; w < engine.n_workers; w++) {
		bool polls = false;

		for (unsigned int i = 0; i < engine.worker[w]->n_rxq; i++)
			polls = polls || engine.worker[w]->rxq[i]->port == port;
		n += polls;
	}
	return n;
}

static bool rx_stream_schedule(const struct schedule *schedule, const struct stream_spec *s)
{
	const uint16_t queues = engine.port[s->tx_port].n_txq;
	const bool shared = workers_polling(s->rx_port) > 1;
	struct seqtrack *track = calloc(queues, sizeof(*track));

	if (track == NULL)
		return false;
	for (uint16_t i = 0; i < queues; i++)
		seqtrack_reset(&track[i], share_of_queue(schedule, s->id, i), shared);
	for (unsigned int w = 0; w < engine.n_workers; w++) {
		struct rx_stream *r = &engine.worker[w]->rx[s->id];
		bool polls = false;

		r->port = s->rx_port;
		r->track = track;
		r->n_track = queues;
		r->len = (uint16_t)(s->rx_size ? s->rx_size - LG_FCS_LEN : 0);
		r->pad = (uint16_t)(s->frame_size - LG_FCS_LEN - TRAILER_LEN - s->header_len);
		for (unsigned int i = 0; i < engine.worker[w]->n_rxq; i++)
			polls = polls || engine.worker[w]->rxq[i]->port == s->rx_port;
		/* The worker clears it when it is armed. */
		r->hdr = polls ? malloc(sizeof(struct hdr)) : NULL;
		if (polls && s->n_expected) {
			r->expected = malloc(sizeof(*r->expected));
			if (r->expected == NULL)
				return false;
			fields_expect(r->expected, s->expected, s->n_expected);
		}
		if (polls && (r->hdr == NULL || (timeline.on && !trial_timeline_add_rx(r, s))))
			return false;
	}
	return true;
}

bool schedule_apply(const struct schedule *schedule, struct error *error)
{
	schedule_release_tx();
	if (!schedule->learning)
		schedule_release_rx();
	for (unsigned int p = 0; p < engine.n_ports; p++) {
		for (unsigned int i = 0; i < engine.port[p].n_txq; i++) {
			if (!tx_queue_schedule(engine.port[p].txq[i], schedule))
				return no_memory(error);
		}
	}
	if (schedule->learning)
		return true;
	for (unsigned int id = 0; id < LG_MAX_STREAMS; id++) {
		if (schedule->count[id] && !rx_stream_schedule(schedule, engine.stream[id]))
			return no_memory(error);
	}
	return true;
}
