/* Limits and constants that every part of the engine agrees on. */
#ifndef LOADGEN_COMMON_H
#define LOADGEN_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "error.h"
#include "likely.h"

#define LG_VERSION  "1.0"
#define LG_PROTOCOL 1

#define LG_MAX_PORTS   16
#define LG_MAX_QUEUES  16 /* of one kind, per port */
#define LG_MAX_WORKERS 64
#define LG_MAX_STREAMS 256 /* the stream id is one octet of the trailer */
#define LG_MAX_FIELDS  8
#define LG_MAX_HEADER  440 /* octets; as hex it must fit a 1 KiB telemetry request */
#define LG_MAX_BURST   256

#define LG_FCS_LEN   4
#define LG_MIN_FRAME 64
#define LG_MAX_FRAME 9280 /* 9216 and the headers of a tunnel */

#endif
