/* Commands that say whom the ports answer for. */
#include "control.h"
#include "neighbour_reply.h"
#include "telemetry.h"

#define ADD_KEYS "port address mac count mac_steps"
#define ANY_KEYS "port mac"

static bool port_and_mac(struct params *ps, uint16_t *port, uint8_t *mac, struct problem *why)
{
	uint64_t value = 0;
	size_t len = 0;

	if (!params_need(ps, "port", why) || !params_need(ps, "mac", why) ||
	    !params_u64(ps, "port", 0, engine.n_ports - 1u, &value, why) ||
	    !params_hex(ps, "mac", mac, 6, &len, why))
		return false;
	*port = (uint16_t)value;
	return len == 6 ||
	       problem_set(why, "12 hexadecimal digits", "a MAC address of %zu octets", len);
}

static bool reply(const struct neighbours *table, struct rte_tel_data *d)
{
	tel_dict_uint(d, "entries", atomic_load(&table->n));
	return true;
}

static bool parse_entry(struct params *ps, struct neighbour_entry *e, struct problem *why)
{
	uint64_t steps = 0;
	size_t len = 0;

	memset(e, 0, sizeof(*e));
	e->count = 1;
	if (!params_need(ps, "address", why) || !port_and_mac(ps, &e->port, e->mac, why) ||
	    !params_hex(ps, "address", e->address, sizeof(e->address), &len, why) ||
	    !params_u64(ps, "count", 1, UINT64_MAX, &e->count, why) ||
	    !params_u64(ps, "mac_steps", 0, 1, &steps, why) || !params_done(ps, ADD_KEYS, why))
		return false;
	e->ipv6 = len == 16;
	e->mac_steps = steps == 1;
	return len == 4 || len == 16 ||
	       problem_set(why, "8 or 32 hexadecimal digits", "an address of %zu octets", len);
}

bool command_neighbour_add(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	struct neighbour_entry entry;
	struct neighbours *table;

	if (!control_at_rest(why) || !parse_entry(ps, &entry, why))
		return false;
	table = replies_table(why);
	return table && neighbour_add(table, &entry, why) && reply(table, d);
}

bool command_neighbour_any(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	struct neighbours *table;
	uint8_t mac[6];
	uint16_t port;

	if (!control_at_rest(why) || !port_and_mac(ps, &port, mac, why) ||
	    !params_done(ps, ANY_KEYS, why))
		return false;
	table = replies_table(why);
	return table && neighbour_add_any(table, port, mac, why) && reply(table, d);
}

bool command_neighbour_clear(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	if (!params_done(ps, "no parameters", why) || !control_at_rest(why))
		return false;
	replies_clear();
	rte_tel_data_add_dict_int(d, "ok", 1);
	return true;
}

bool command_neighbour_announce(struct params *ps, struct rte_tel_data *d, struct problem *why)
{
	uint64_t announced;

	if (!params_done(ps, "no parameters", why) || !control_at_rest(why) ||
	    !replies_announce(&announced, why))
		return false;
	tel_dict_uint(d, "announced", announced);
	return true;
}
