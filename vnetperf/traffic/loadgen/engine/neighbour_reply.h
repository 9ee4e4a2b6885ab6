/* Answers of the tester's ports to ARP requests and neighbour solicitations. */
#ifndef LOADGEN_NEIGHBOUR_REPLY_H
#define LOADGEN_NEIGHBOUR_REPLY_H

#include "engine.h"
#include "neighbour.h"

bool replies_create(struct error *error);
/* Only after the workers have ended. */
void replies_release(void);
/* The table in force, to be added to; NULL: no memory for one. */
struct neighbours *replies_table(struct error *error);
/* Answer nobody. */
void replies_clear(void);
/* Send an announcement of every address (of NEIGHBOUR_ANNOUNCED of each entry at most). */
bool replies_announce(uint64_t *announced, struct error *error);

/* Worker's side.  True when the frame asked for an address of ours. */
bool reply_to_request(struct rx_queue *q, const struct rte_mbuf *m);
bool replies_waiting(const struct tx_queue *q);
void replies_send(struct tx_queue *q);

#endif
