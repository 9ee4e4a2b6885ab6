/* The engine's own command line: what follows "--" after the EAL arguments. */
#ifndef CGNAT_ARGS_H
#define CGNAT_ARGS_H

#include "config.h"
#include "packet.h"

/* In the order that packets pass them. */
enum stage { STAGE_RX, STAGE_VAL, STAGE_NAT, STAGE_CT, STAGE_TX, STAGES };

extern const char *const stage_names[STAGES];

/* Stages that one lcore runs: those from `first` to `last`. */
struct group {
	enum stage first, last;
};

struct options {
	struct config nat;
	struct addresses macs;
	struct group groups[STAGES];
	uint32_t n_groups;
	uint32_t lcores[STAGES]; /* of the groups */
	uint32_t n_lcores;	 /* 0: in order of their numbers */
	uint32_t phases[STAGES]; /* of the groups' turns, us */
	uint32_t n_phases;
	uint16_t rx_desc, tx_desc;
	uint16_t room;	   /* octets of frame in a buffer */
	uint32_t turn_us;  /* of threads that share a processor, see turns.h; 0: never sleep */
	uint16_t priority; /* of SCHED_FIFO, with turns; 0: none */
	uint16_t share;	   /* percent of its processor that a thread takes then, at most */
	char log[256];	   /* file of block events; "" for none */
	bool log_ipfix;	   /* in messages of IPFIX; else lines of text */
};

/* argv[0] is skipped; what is not there has its default. *help: they were asked for, and printed.
 */
bool args_parse(struct options *o, int argc, char *const argv[], bool *help, struct error *error);

#endif
