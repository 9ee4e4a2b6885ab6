#include "config.h"

bool config_check(const struct config *c, struct error *error)
{
	const uint64_t room = (uint64_t)config_blocks_of_address(c) * c->addresses;
	const uint64_t inside_end = (uint64_t)c->inside + c->subscribers;
	const uint64_t pool_end = (uint64_t)c->pool + c->addresses;

	if (inside_end > 1ULL << 32 || pool_end > 1ULL << 32)
		return error_set(error, "addresses up to 255.255.255.255",
				 "subscribers or public addresses go beyond the last address");
	if (c->inside < pool_end && c->pool < inside_end)
		return error_set(error, "networks apart from each other",
				 "subscribers have public addresses of the pool");
	if (!c->dynamic && c->subscribers > room)
		return error_set(error, "fewer or smaller blocks, or more public addresses",
				 "%u subscribers with blocks of %u ports; %u public addresses "
				 "have %llu",
				 c->subscribers, c->block, c->addresses, (unsigned long long)room);
	return true;
}
