/* Loads one after the other in one trial, each a share of what the streams are set to. */
#ifndef LOADGEN_STEPS_H
#define LOADGEN_STEPS_H

#include "common.h"

#define LG_MAX_STEPS 32

struct load_step {
	double share;
	double seconds;
	double sent_until; /* share * seconds, summed up to the end of this one */
	uint64_t from;	   /* cycles after the start */
};

struct load_steps {
	uint16_t n; /* 0: one load all the time */
	struct load_step step[LG_MAX_STEPS];
};

/* "1@60/0.5@10": shares 0..1 and seconds.  hz: cycles per second. */
bool steps_parse(struct load_steps *s, const char *text, double hz, struct error *error);
/* Frames of a step for a stream of `rate` at share 1; steps add up without a rounding's drift. */
uint64_t steps_count(const struct load_steps *s, double rate, unsigned int step);
double steps_seconds(const struct load_steps *s);

#endif
