/* Commands that say whom the ports answer for. */
#include "control.h"
#include "neighbour_reply.h"
#include "telemetry.h"

#define ADD_KEYS "port address mac count mac_steps"
#define ANY_KEYS "port mac"

static bool port_and_mac(struct params *ps, uint16_t *port, uint8_t *mac, struct error *error)
{
	uint64_t value = 0;
	size_t len = 0;

	if (!params_need(ps, "port", error) || !params_need(ps, "mac", error) ||
	    !params_u64(ps, "port", 0, engine.n_ports - 1u, &value, error) ||
	    !params_hex(ps, "mac", mac, 6, &len, error))
		return false;
	*port = (uint16_t)value;
	return len == 6 ||
	       error_set(error, "12 hexadecimal digits", "a MAC address of %zu octets", len);
}

static bool reply(const struct neighbours *table, struct rte_tel_data *d)
{
	tel_dict_uint(d, "entries", atomic_load(&table->n));
	return true;
}

static bool parse_entry(struct params *ps, struct neighbour_entry *e, struct error *error)
{
	uint64_t steps = 0;
	size_t len = 0;

	memset(e, 0, sizeof(*e));
	e->count = 1;
	if (!params_need(ps, "address", error) || !port_and_mac(ps, &e->port, e->mac, error) ||
	    !params_hex(ps, "address", e->address, sizeof(e->address), &len, error) ||
	    !params_u64(ps, "count", 1, UINT64_MAX, &e->count, error) ||
	    !params_u64(ps, "mac_steps", 0, 1, &steps, error) || !params_done(ps, ADD_KEYS, error))
		return false;
	e->ipv6 = len == 16;
	e->mac_steps = steps == 1;
	return len == 4 || len == 16 ||
	       error_set(error, "8 or 32 hexadecimal digits", "an address of %zu octets", len);
}

bool command_neighbour_add(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	struct neighbour_entry entry;
	struct neighbours *table;

	if (!control_at_rest(error) || !parse_entry(ps, &entry, error))
		return false;
	table = replies_table(error);
	return table && neighbour_add(table, &entry, error) && reply(table, d);
}

bool command_neighbour_any(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	struct neighbours *table;
	uint8_t mac[6];
	uint16_t port;

	if (!control_at_rest(error) || !port_and_mac(ps, &port, mac, error) ||
	    !params_done(ps, ANY_KEYS, error))
		return false;
	table = replies_table(error);
	return table && neighbour_add_any(table, port, mac, error) && reply(table, d);
}

bool command_neighbour_clear(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	if (!params_done(ps, "no parameters", error) || !control_at_rest(error))
		return false;
	replies_clear();
	rte_tel_data_add_dict_int(d, "ok", 1);
	return true;
}

bool command_neighbour_announce(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	uint64_t announced;

	if (!params_done(ps, "no parameters", error) || !control_at_rest(error) ||
	    !replies_announce(&announced, error))
		return false;
	tel_dict_uint(d, "announced", announced);
	return true;
}
