#include "echo.h"

#include <stdlib.h>

enum { FREE, BUSY, FULL };

bool echo_begin(struct echo *e, enum echo_role role, uint64_t every, uint32_t size)
{
	struct echo_row *rows = NULL;

	if (role != ECHO_NONE) {
		rows = malloc(size * sizeof(*rows));
		if (rows == NULL)
			return false;
		/* No worker waits for a page in a trial.  Zeros would make it calloc, which touches
		 * none. */
		memset(rows, 0xff, size * sizeof(*rows));
	}
	free(e->rows);
	memset(e, 0, sizeof(*e));
	e->role = role;
	e->every = every;
	e->size = rows ? size : 0;
	e->rows = rows;
	return true;
}

void echo_release(struct echo *e)
{
	free(e->rows);
	memset(e, 0, sizeof(*e));
}

static void add(struct echo *e, uint64_t asked, uint64_t left, uint64_t ns)
{
	const uint32_t n = atomic_fetch_add(&e->n, 1);

	if (n < e->size)
		e->rows[n] = (struct echo_row){asked, left, ns};
	else
		atomic_store(&e->n, e->size); /* it never wraps around */
}

static bool asks(struct echo *e, uint64_t now)
{
	if ((int64_t)(now - e->next) < 0)
		return false;
	/* After a stall one frame asks, not one for each that was due. */
	e->next += e->every;
	if ((int64_t)(now - e->next) >= 0)
		e->next = now + e->every;
	return true;
}

static bool answers(struct echo *e, uint64_t told)
{
	uint32_t full = FULL;

	if (!atomic_compare_exchange_strong(&e->state, &full, BUSY))
		return false;
	/* Less than nothing where a worker's clock is ahead of another's. */
	add(e, e->asked, told | ECHO_MARK, told > e->came ? told - e->came : 0);
	atomic_store_explicit(&e->state, FREE, memory_order_release);
	return true;
}

bool echo_marks(struct echo *e, uint64_t told, uint64_t now)
{
	const bool marked = e->role == ECHO_ASK ? asks(e, now) : answers(e, told);

	e->marks += marked;
	return marked;
}

void echo_came(struct echo *e, uint64_t sent, uint64_t at)
{
	uint32_t none = FREE, full = FULL;

	if ((sent & ECHO_MARK) == 0)
		return;
	if (e->role == ECHO_ASK) {
		add(e, 0, sent, at);
	} else if (atomic_compare_exchange_strong(&e->state, &none, BUSY) ||
		   atomic_compare_exchange_strong(&e->state, &full, BUSY)) {
		e->asked = sent;
		e->came = at;
		atomic_store_explicit(&e->state, FULL, memory_order_release);
	}
}

uint32_t echo_rows(const struct echo *e)
{
	const uint32_t n = atomic_load(&e->n);

	return n < e->size ? n : e->size;
}
