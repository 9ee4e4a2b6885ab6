/* The state of a TCP connection, by the flags of segments that were seen of both sides. */
#ifndef CGNAT_TCP_H
#define CGNAT_TCP_H

#include "types.h"

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* What was seen of a connection, by who sent it: SYN, ACK without SYN, FIN; whether the inside
 * answered a SYN, whether it was established, and reset. */
enum {
	OUT_SYN = 1,
	IN_SYN = 2,
	OUT_ACK = 4,
	IN_ACK = 8,
	OUT_FIN = 16,
	IN_FIN = 32,
	OUT_ANSWERED = 64,
	WAS_OPEN = 128,
	WAS_RESET = 256,
};

#define BOTH_SYN (OUT_SYN | IN_SYN)
#define BOTH_ACK (OUT_ACK | IN_ACK)
#define BOTH_FIN (OUT_FIN | IN_FIN)

/* Whether the handshake is done: both SYN, and an ACK of the inside, or of who opened from outside.
 * One that was open before anything of it came here shows by segments both ways. */
static inline bool is_open(uint16_t state)
{
	if (!(state & BOTH_SYN))
		return (state & BOTH_ACK) == BOTH_ACK;
	return (state & BOTH_SYN) == BOTH_SYN &&
	       (state & OUT_ACK || (state & OUT_ANSWERED && state & IN_ACK));
}

/* A SYN with ACK is the answer to one. An ACK between the two says nothing of a handshake. */
static inline uint16_t also_seen(uint16_t state, uint8_t flags, bool out)
{
	const uint16_t one = state & BOTH_SYN;

	if (flags & TCP_SYN) {
		if (!(state & WAS_OPEN))
			state &= (uint16_t)~BOTH_ACK;
		state |= out ? OUT_SYN : IN_SYN;
		if (flags & TCP_ACK)
			state |= BOTH_SYN | (out ? OUT_ANSWERED : 0);
	} else if (flags & TCP_ACK && (one == 0 || one == BOTH_SYN)) {
		state |= out ? OUT_ACK : IN_ACK;
	}
	if (flags & TCP_FIN)
		state |= out ? OUT_FIN : IN_FIN;
	return is_open(state) ? state | WAS_OPEN : state;
}

/* What a segment makes of the state. */
static inline uint16_t tcp_followed(uint16_t state, uint8_t flags, bool out)
{
	if (flags & TCP_RST)
		return state | WAS_RESET;
	/* The same ports again, after the connection has ended. */
	if (flags & TCP_SYN && (state & WAS_RESET || (state & BOTH_FIN) == BOTH_FIN))
		state = 0;
	/* A segment that comes after RST shows that this was not meant. */
	state &= (uint16_t)~WAS_RESET;
	return also_seen(state, flags, out);
}

/* RFC 5382 REQ-5: a connection is established between its SYNs and its FINs; RFC 7857 section 2:
 * one that was reset is not. */
static inline bool tcp_established(uint16_t state)
{
	return state & WAS_OPEN && (state & BOTH_FIN) != BOTH_FIN && !(state & WAS_RESET);
}

#endif
