/* A packet on its way through the stages: where its headers are, and what was found out. */
#ifndef CGNAT_PACKET_H
#define CGNAT_PACKET_H

#include "common.h"
#include "tcp.h"

struct ether {
	uint8_t to[6], from[6];
	be16 type;
} __attribute__((packed));

struct ipv4 {
	uint8_t version_ihl, tos;
	be16 length, id, fragment;
	uint8_t ttl, protocol;
	be16 checksum;
	be32 src, dst;
} __attribute__((packed));

/* TCP and UDP begin alike. */
struct ports {
	be16 src, dst;
} __attribute__((packed));

struct icmp {
	uint8_t type, code;
	be16 checksum, id, sequence;
} __attribute__((packed));

#define ETHER_LEN 14u
#define IPV4_LEN  20u

/* Both sides of a mapping, copied: later stages never look into the table of mappings. */
struct binding {
	uint32_t mapping; /* its number */
	uint32_t subscriber;
	be32 in_ip, pub_ip;
	be16 in_port, pub_port;
};

struct packet {
	uint8_t *frame;
	void *buffer;	 /* of who does the I/O */
	uint16_t length; /* octets of the frame without FCS */
	uint16_t head;	 /* octets that lie together at its beginning */
	uint8_t from, to;
	uint8_t verdict;
	uint8_t kind;
	uint8_t flags;	   /* of TCP */
	bool error;	   /* an ICMP error: what follows is of the packet that it quotes */
	bool hairpin;	   /* from one subscriber to another's public address */
	bool first;	   /* the first one of several fragments */
	bool later;	   /* a fragment but the first: nothing in it is to be translated */
	uint16_t l3, l4;   /* offsets of IPv4 and what is in it */
	uint16_t q3, q4;   /* the same of a quoted packet */
	uint16_t q4_there; /* octets of it that are quoted, from q4 on */
	be32 src, dst;	   /* of the packet, or of the one it quotes */
	be16 src_port, dst_port;
	struct packet *next; /* among fragments that wait */
	uint64_t hash;
	uint32_t guess;
	struct binding up;   /* whose source is translated */
	struct binding down; /* whose destination is translated */
};

/* Addresses of the engine's ports. */
struct addresses {
	uint8_t own[SIDES][6], next_hop[SIDES][6];
};

/* Stage "validation": finds headers, or sets a verdict. `frame`, `length`, `head` and `from` are
 * set. */
void packet_check(struct packet *p, const struct addresses *macs);
/* Writes the translated addresses, the time to live, and the MAC addresses. */
void packet_rewrite(struct packet *p, const struct addresses *macs);

static inline struct ipv4 *packet_ipv4(const struct packet *p)
{
	return (struct ipv4 *)(p->frame + p->l3);
}

#endif
