/* Kernel interfaces behind DPDK's af_packet driver: what their packet sockets know and the driver
 * does not tell. */
#ifndef ENGINE_AFPACKET_H
#define ENGINE_AFPACKET_H

#include <stdbool.h>
#include <stdint.h>

#define LG_MOST_SOCKETS 16u

struct afpacket {
	int socket[LG_MOST_SOCKETS];
	unsigned int n;
	uint64_t drops; /* so far; the kernel forgets them once they are read */
};

/* Find the sockets of a port that has been started; none has one of another driver. */
void afpacket_find(struct afpacket *a, const char *driver, unsigned int interface);

/* Frames that found the receive rings full: neither the driver nor the interface counts them
 * (packet(7)). */
uint64_t afpacket_drops(struct afpacket *a);

/*
 * Send what waits in the transmit rings; false when some of it still does.
 *
 * The kernel stops at a frame that the interface drops, and where too many are on their way, and
 * keeps what is left for the driver's next call: after the last one of a trial that is the first
 * one of the next trial.
 */
bool afpacket_flush(const struct afpacket *a);

#endif
