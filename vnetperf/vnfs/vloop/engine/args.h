/* The forwarder's own command line: what follows "--" after the EAL arguments. */
#ifndef VLOOP_ARGS_H
#define VLOOP_ARGS_H

#include <stdint.h>

#include "error.h"
#include "frame.h"

#define PORTS 2u

enum mode { MODE_IO, MODE_MAC, MODE_MACSWAP, MODE_5TSWAP };

extern const char *const mode_names[]; /* ended by NULL */

struct options {
	enum mode mode;
	uint8_t peer[PORTS][MAC_OCTETS]; /* destination of what a port sends, of mode mac */
	uint32_t queues;		 /* pairs of each port */
	uint32_t rx_desc, tx_desc;
	uint32_t buffers;   /* of the pool */
	uint32_t room;	    /* octets of frame in a buffer */
	uint32_t max_frame; /* told to the drivers, octets; 0: none is */
	uint32_t node;	    /* of buffers and rings */
	uint32_t turn_us;   /* 0: polls without sleeping */
	uint32_t phase_us;  /* of the turns in the monotonic clock */
	uint32_t priority;  /* real-time; 0: none */
	uint32_t share;	    /* percent of its processor that it takes then, at most */
};

/* argv[0] is skipped; what is not there has its default. *help: they were asked for, and printed.
 */
bool args_parse(struct options *o, int argc, char *const argv[], bool *help, struct error *error);

#endif
