/* Gives workers their orders, for trials and for who takes away what they look at. */
#include <stdatomic.h>
#include <unistd.h>

#include "engine.h"
#include "worker_phase.h"

bool workers_order(enum phase phase)
{
	const uint32_t order = order_next(atomic_load(&engine.order), phase);

	atomic_store_explicit(&engine.order, order, memory_order_release);
	for (unsigned int ms = 0; ms < 20000 * 10; ms++) {
		bool all = true;

		for (unsigned int i = 0; i < engine.n_workers; i++) {
			all = all && order_reached(atomic_load_explicit(&engine.worker[i]->ack,
									memory_order_acquire),
						   order);
		}
		if (all)
			return true;
		/* Workers that have ended follow nothing, and who ends the engine waits for us. */
		if (atomic_load(&engine.quit))
			return false;
		usleep(100);
	}
	return false;
}
