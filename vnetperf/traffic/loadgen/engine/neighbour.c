#include "neighbour.h"

#include "fields.h"
#include "stream.h"

#define ETH	   14u
#define TAG	   4u
#define MAX_TAGS   2u
#define MIN_LENGTH 60u /* of an Ethernet frame without FCS */

#define TYPE_ARP  0x0806u
#define TYPE_IPV6 0x86ddu

#define ARP_LEN	    28u
#define ARP_REQUEST 1u
#define ARP_REPLY   2u

#define IPV6_LEN       40u
#define ICMPV6	       58u
#define SOLICITATION   135u
#define ADVERTISEMENT  136u
#define SOLICIT_LEN    24u
#define ADVERT_LEN     32u /* with the option that has the MAC address */
#define FLAG_SOLICITED 0x40u
#define FLAG_OVERRIDE  0x20u

static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
static const uint8_t unknown[16] = {0};
static const uint8_t all_nodes[16] = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
static const uint8_t all_nodes_mac[6] = {0x33, 0x33, 0, 0, 0, 1};

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, unsigned int value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static uint64_t get_be(const uint8_t *p, unsigned int width)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < width; i++)
		value = value << 8 | p[i];
	return value;
}

static void add_be(uint8_t *p, unsigned int width, uint64_t more)
{
	uint64_t value = get_be(p, width) + more;

	for (unsigned int i = width; i-- > 0; value >>= 8)
		p[i] = (uint8_t)value;
}

static bool is_group(const uint8_t *mac)
{
	return mac[0] & 1;
}

static bool check_station(const uint8_t *mac, struct error *error)
{
	return !is_group(mac) ||
	       error_set(error, "the address of one station",
			 "a MAC address that begins with %02x is a group's", mac[0]);
}

bool neighbour_add(struct neighbours *table, const struct neighbour_entry *entry,
		   struct error *error)
{
	const uint64_t most = entry->ipv6 ? UINT64_MAX : UINT32_MAX;
	const uint64_t first =
		entry->ipv6 ? get_be(entry->address + 8, 8) : get_be(entry->address, 4);
	const unsigned int n = atomic_load_explicit(&table->n, memory_order_relaxed);

	if (n == NEIGHBOUR_MAX)
		return error_set(error, "at most 1024 entries", "too many neighbour entries");
	if (!check_station(entry->mac, error))
		return false;
	if (entry->count == 0 || entry->count - 1 > most - first)
		return error_set(error, "addresses up to the last of their kind",
				 "%llu addresses from there on", (unsigned long long)entry->count);
	table->entry[n] = *entry;
	atomic_store_explicit(&table->n, n + 1, memory_order_release);
	return true;
}

bool neighbour_add_any(struct neighbours *table, uint16_t port, const uint8_t *mac,
		       struct error *error)
{
	if (!check_station(mac, error))
		return false;
	/* Answers may be going out already: an address is never half one and half another. */
	if (atomic_load_explicit(&table->any[port], memory_order_relaxed))
		return memcmp(table->any_mac[port], mac, sizeof(table->any_mac[port])) == 0 ||
		       error_set(error, "one MAC address, or /loadgen/neighbour/clear before",
				 "port %u answers with another MAC address", port);
	memcpy(table->any_mac[port], mac, sizeof(table->any_mac[port]));
	atomic_store_explicit(&table->any[port], true, memory_order_release);
	return true;
}

/* How far above the entry's first an address lies; UINT64_MAX: it is none of them. */
static uint64_t place_of(const struct neighbour_entry *e, const uint8_t *address)
{
	uint64_t distance;

	if (!e->ipv6) {
		distance = get_be(address, 4) - get_be(e->address, 4);
	} else {
		if (memcmp(address, e->address, 8) != 0)
			return UINT64_MAX;
		distance = get_be(address + 8, 8) - get_be(e->address + 8, 8);
	}
	return distance < e->count ? distance : UINT64_MAX;
}

static void mac_at(const struct neighbour_entry *e, uint64_t i, uint8_t *mac)
{
	memcpy(mac, e->mac, 6);
	if (e->mac_steps)
		add_be(mac + 3, 3, i); /* as streams vary it: in its low three octets */
}

static bool find(const struct neighbours *table, uint16_t port, bool ipv6, const uint8_t *address,
		 uint8_t *mac)
{
	const unsigned int n = atomic_load_explicit(&table->n, memory_order_acquire);

	for (unsigned int i = 0; i < n; i++) {
		const struct neighbour_entry *e = &table->entry[i];
		uint64_t place;

		if (e->port != port || e->ipv6 != ipv6)
			continue;
		place = place_of(e, address);
		if (place == UINT64_MAX)
			continue;
		mac_at(e, place, mac);
		return true;
	}
	if (!atomic_load_explicit(&table->any[port], memory_order_acquire))
		return false;
	memcpy(mac, table->any_mac[port], 6);
	return true;
}

/* Ethernet addresses and what lies between them and the payload: VLAN tags, type. */
static size_t put_ethernet(uint8_t *out, const uint8_t *dst, const uint8_t *src,
			   const uint8_t *rest, size_t rest_len)
{
	memcpy(out, dst, 6);
	memcpy(out + 6, src, 6);
	memcpy(out + 12, rest, rest_len);
	return 12 + rest_len;
}

static size_t padded(uint8_t *out, size_t len)
{
	if (len >= MIN_LENGTH)
		return len;
	memset(out + len, 0, MIN_LENGTH - len);
	return MIN_LENGTH;
}

static void put_arp(uint8_t *out, unsigned int operation, const uint8_t *sha, const uint8_t *spa,
		    const uint8_t *tha, const uint8_t *tpa)
{
	static const uint8_t kind[6] = {0, 1, 8, 0, 6, 4}; /* Ethernet, IPv4 */

	memcpy(out, kind, sizeof(kind));
	put16(out + 6, operation);
	memcpy(out + 8, sha, 6);
	memcpy(out + 14, spa, 4);
	memcpy(out + 18, tha, 6);
	memcpy(out + 24, tpa, 4);
}

static void put_advertisement(uint8_t *ip, const uint8_t *dst, const uint8_t *target,
			      const uint8_t *mac, unsigned int flags)
{
	uint8_t *icmp = ip + IPV6_LEN;
	uint64_t sum;

	memset(ip, 0, IPV6_LEN + ADVERT_LEN);
	ip[0] = 0x60;
	put16(ip + 4, ADVERT_LEN);
	ip[6] = ICMPV6;
	ip[7] = 255;
	memcpy(ip + 8, target, 16);
	memcpy(ip + 24, dst, 16);
	icmp[0] = ADVERTISEMENT;
	icmp[4] = (uint8_t)flags;
	memcpy(icmp + 8, target, 16);
	icmp[24] = 2; /* option: target's link-layer address, in units of eight octets */
	icmp[25] = 1;
	memcpy(icmp + 26, mac, 6);
	/* Pseudo header: addresses, length, next header. */
	sum = sum_octets(ip + 8, 32) + ADVERT_LEN + ICMPV6 + sum_octets(icmp, ADVERT_LEN);
	put16(icmp + 2, (uint16_t)~sum_fold(sum));
}

static size_t answer_arp(const struct neighbours *table, uint16_t port, const uint8_t *frame,
			 size_t at, size_t len, uint8_t *reply)
{
	static const uint8_t request[8] = {0, 1, 8, 0, 6, 4, 0, ARP_REQUEST};
	const uint8_t *arp = frame + at;
	uint8_t mac[6];
	size_t out;

	if (len < at + ARP_LEN || memcmp(arp, request, sizeof(request)) != 0)
		return 0;
	/* Who asks for its own address looks for somebody else who has it, or announces it. */
	if (memcmp(arp + 14, arp + 24, 4) == 0 || memcmp(arp + 14, unknown, 4) == 0 ||
	    !find(table, port, false, arp + 24, mac))
		return 0;
	out = put_ethernet(reply, frame + 6, mac, frame + 12, at - 12);
	put_arp(reply + out, ARP_REPLY, mac, arp + 24, arp + 8, arp + 14);
	return padded(reply, out + ARP_LEN);
}

static size_t answer_solicitation(const struct neighbours *table, uint16_t port,
				  const uint8_t *frame, size_t at, size_t len, uint8_t *reply)
{
	const uint8_t *ip = frame + at, *icmp = ip + IPV6_LEN;
	uint8_t mac[6];
	size_t out;

	if (len < at + IPV6_LEN + SOLICIT_LEN || ip[6] != ICMPV6 || ip[7] != 255 ||
	    get16(ip + 4) < SOLICIT_LEN || icmp[0] != SOLICITATION || icmp[1] != 0)
		return 0;
	/* Without a source it is duplicate address detection: nobody is to answer but a holder. */
	if (memcmp(ip + 8, unknown, 16) == 0 || !find(table, port, true, icmp + 8, mac))
		return 0;
	out = put_ethernet(reply, frame + 6, mac, frame + 12, at - 12);
	put_advertisement(reply + out, ip + 8, icmp + 8, mac, FLAG_SOLICITED | FLAG_OVERRIDE);
	return padded(reply, out + IPV6_LEN + ADVERT_LEN);
}

size_t neighbour_answer(const struct neighbours *table, uint16_t port, const uint8_t *frame,
			size_t len, uint8_t *reply)
{
	size_t type = 12;

	/* No station has a group's address; the answer to one would go to everybody. */
	if (len < ETH || is_group(frame + 6))
		return 0;
	for (unsigned int tags = 0; tags < MAX_TAGS; tags++) {
		const uint16_t value = get16(frame + type);

		if (value != 0x8100 && value != 0x88a8)
			break;
		type += TAG;
		if (len < type + 2)
			return 0;
	}
	if (get16(frame + type) == TYPE_ARP)
		return answer_arp(table, port, frame, type + 2, len, reply);
	if (get16(frame + type) == TYPE_IPV6)
		return answer_solicitation(table, port, frame, type + 2, len, reply);
	return 0;
}

size_t neighbour_announcement(const struct neighbour_entry *entry, uint64_t i, uint8_t *frame)
{
	static const uint8_t arp[2] = {TYPE_ARP >> 8, TYPE_ARP & 0xff};
	static const uint8_t ipv6[2] = {TYPE_IPV6 >> 8, TYPE_IPV6 & 0xff};
	uint8_t address[16], mac[6];
	size_t out;

	memcpy(address, entry->address, sizeof(address));
	mac_at(entry, i, mac);
	if (entry->ipv6) {
		add_be(address + 8, 8, i);
		out = put_ethernet(frame, all_nodes_mac, mac, ipv6, sizeof(ipv6));
		put_advertisement(frame + out, all_nodes, address, mac, FLAG_OVERRIDE);
		return padded(frame, out + IPV6_LEN + ADVERT_LEN);
	}
	add_be(address, 4, i);
	out = put_ethernet(frame, broadcast, mac, arp, sizeof(arp));
	put_arp(frame + out, ARP_REQUEST, mac, address, unknown, address);
	return padded(frame, out + ARP_LEN);
}
