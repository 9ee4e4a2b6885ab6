/* What the engine and the NAT in XDP agree on: no header of a C library is needed. */
#ifndef CGNAT_TYPES_H
#define CGNAT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "byteorder.h"

/* Ports below are never given out (RFC 6056 section 3.2). */
#define FIRST_PORT 1024u
#define PORTS	   65536u

/* Which of the two ports: subscribers are at the first, public addresses at the second. */
enum { INSIDE, OUTSIDE, SIDES };

/* What has ports, or identifiers, of its own: RFC 4787 and RFC 5382 have mappings by protocol. */
enum kind { KIND_UDP, KIND_TCP, KIND_ICMP, KINDS };

/* Why a packet is not passed on; PASS is the only verdict that is no cause. The second word is its
 * name among the counters. */
#define VERDICTS(X)                                                                                \
	X(PASS, "passed")                                                                          \
	X(TOO_SHORT, "too short")                                                                  \
	X(OTHER_MAC, "other MAC address")                                                          \
	X(NOT_IPV4, "no IPv4")                                                                     \
	X(BAD_HEADER, "malformed header")                                                          \
	X(BAD_CHECKSUM, "wrong checksum")                                                          \
	X(TTL_ENDED, "time to live ended")                                                         \
	X(FRAGMENT, "fragment")                                                                    \
	X(FRAGMENTS_FULL, "no room for a fragment")                                                \
	X(FRAGMENT_LATE, "first fragment missing")                                                 \
	X(OTHER_PROTOCOL, "other protocol")                                                        \
	X(NOT_SUBSCRIBER, "source is no subscriber")                                               \
	X(SPOOFED, "source is behind the NAT")                                                     \
	X(PRIVATE_TARGET, "destination is an address of subscribers")                              \
	X(NOT_POOL, "destination is no public address")                                            \
	X(NO_MAPPING, "no mapping")                                                                \
	X(HAIRPIN_QUERY, "ICMP query between subscribers")                                         \
	X(BAD_QUOTE, "ICMP error about another packet")                                            \
	X(PORT_LIMIT, "no port left for the subscriber")                                           \
	X(NO_BLOCK, "no block of ports left")                                                      \
	X(MAPPINGS_FULL, "no room for a mapping")                                                  \
	X(FILTERED, "filtered")                                                                    \
	X(SESSION_LIMIT, "session limit of the subscriber")                                        \
	X(SESSIONS_FULL, "no room for a session")                                                  \
	X(TCP_STATE, "no SYN and no connection")                                                   \
	X(RING_FULL, "ring between stages full")                                                   \
	X(TX_FULL, "transmit ring full")

enum verdict {
#define NAME(name, text) name,
	VERDICTS(NAME)
#undef NAME
		N_VERDICTS,
	/* Of a fragment, between validation and the table of fragments, and while it waits there.
	 */
	FRAGMENT_PART,
	HELD,
};

#endif
