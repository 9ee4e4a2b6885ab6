/* Keeping a trial's first frames as they are sent and received. */
#ifndef LOADGEN_CAPTURE_BUFFER_H
#define LOADGEN_CAPTURE_BUFFER_H

#include "capture.h"
#include "engine.h"

extern struct capture capture;
/* For the trials to come. */
extern struct capture_request capture_request;

/* Before workers are armed for a trial (or, without one, for learning frames: nothing is kept). */
bool capture_buffer_arm(bool trial, struct error *error);
/* Write what was kept; returns the number of frames, -1 when the file cannot be written. */
int64_t capture_buffer_write(const char *path);

/* Worker's side, while a trial runs and `capture.on`. */
void capture_received(const struct worker *w, struct rx_queue *q, struct rte_mbuf *const *mbufs,
		      uint16_t n, uint64_t now);
/* Hand frames over and keep those that the driver takes. */
uint16_t capture_and_send(struct tx_queue *q, uint16_t n, uint64_t now);

#endif
