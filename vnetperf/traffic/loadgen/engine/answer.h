/* Answers of the tester's ports to ARP requests and neighbour solicitations. */
#ifndef LOADGEN_ANSWER_H
#define LOADGEN_ANSWER_H

#include "engine.h"
#include "neighbour.h"

bool answers_create(struct problem *why);
/* Only after the workers have ended. */
void answers_release(void);
/* The table in force, to be added to; NULL: no memory for one. */
struct neighbours *answers_table(struct problem *why);
/* Answer nobody. */
void answers_clear(void);
/* Send an announcement of every address (of NEIGHBOUR_ANNOUNCED of each entry at most). */
bool answers_announce(uint64_t *announced, struct problem *why);

/* Worker's side.  True when the frame asked for an address of ours. */
bool answer_request(struct rx_queue *q, const struct rte_mbuf *m);
bool answers_waiting(const struct tx_queue *q);
void answers_send(struct tx_queue *q);

#endif
