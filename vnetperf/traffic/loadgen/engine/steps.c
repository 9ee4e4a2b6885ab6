#include "steps.h"

#include <math.h>
#include <stdlib.h>

#define ACCEPTED "up to 32 of SHARE@SECONDS, joined by /: 1@60/0.5@10"
#define LONGEST	 1e6

/* A number of decimal digits; *text moves behind it. */
static bool number(const char **text, double most, double *out)
{
	char *end = NULL;

	if (**text < '0' || **text > '9')
		return false;
	*out = strtod(*text, &end);
	*text = end;
	return *out >= 0 && *out <= most;
}

bool steps_parse(struct load_steps *s, const char *text, double hz, struct error *error)
{
	const char *at = text;
	double seconds = 0, sent = 0;

	memset(s, 0, sizeof(*s));
	do {
		struct load_step *step = &s->step[s->n];

		if (s->n == LG_MAX_STEPS || !number(&at, 1, &step->share) || *at++ != '@' ||
		    !number(&at, LONGEST, &step->seconds) || step->seconds <= 0)
			return error_set(error, ACCEPTED, "steps=%.80s", text);
		step->from = (uint64_t)llround(seconds * hz);
		seconds += step->seconds;
		sent += step->share * step->seconds;
		step->sent_until = sent;
		s->n++;
	} while (*at++ == '/');
	return at[-1] == '\0' || error_set(error, ACCEPTED, "steps=%.80s", text);
}

uint64_t steps_count(const struct load_steps *s, double rate, unsigned int step)
{
	const double before = step ? s->step[step - 1].sent_until : 0;

	return (uint64_t)(llround(rate * s->step[step].sent_until) - llround(rate * before));
}

double steps_seconds(const struct load_steps *s)
{
	double sum = 0;

	for (unsigned int i = 0; i < s->n; i++)
		sum += s->step[i].seconds;
	return sum;
}
