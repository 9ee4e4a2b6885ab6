/* What every part of the NAT agrees on. Nothing here, and in the parts that include only this,
 * knows DPDK: they are tested by themselves. */
#ifndef CGNAT_COMMON_H
#define CGNAT_COMMON_H

#include <string.h>

#include "error.h"
#include "likely.h"
#include "types.h"

#define CGNAT_PROTOCOL 2

/* Packets that a stage takes at once: enough for memory to be fetched ahead of its use. */
#define BURST 32u

/* Where tables get their memory: zeroed, aligned to cache lines; NULL when there is none. */
struct memory {
	void *(*get)(size_t octets);
	void (*release)(void *octets);
};

#endif
