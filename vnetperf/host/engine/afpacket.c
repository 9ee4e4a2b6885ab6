#include "afpacket.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>

/* The engine opens a few dozen. */
#define MOST_FILES 1024

/* Whether a file is a packet socket of an interface. */
static bool listens_on(int fd, int interface)
{
	struct sockaddr_ll at = {0};
	socklen_t size = sizeof(int);
	int domain = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_PACKET)
		return false;
	size = sizeof(at);
	return getsockname(fd, (struct sockaddr *)&at, &size) == 0 && at.sll_ifindex == interface;
}

void afpacket_find(struct afpacket *a, const char *driver, unsigned int interface)
{
	memset(a, 0, sizeof(*a));
	if (strcmp(driver, "net_af_packet") != 0)
		return;
	for (int fd = 0; fd < MOST_FILES && a->n < LG_MOST_SOCKETS; fd++) {
		if (listens_on(fd, (int)interface))
			a->socket[a->n++] = fd;
	}
}

uint64_t afpacket_drops(struct afpacket *a)
{
	for (unsigned int i = 0; i < a->n; i++) {
		struct tpacket_stats stats;
		socklen_t size = sizeof(stats);

		if (getsockopt(a->socket[i], SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0)
			a->drops += stats.tp_drops;
	}
	return a->drops;
}

bool afpacket_flush(const struct afpacket *a)
{
	bool empty = true;

	for (unsigned int i = 0; i < a->n; i++) {
		const ssize_t octets = send(a->socket[i], NULL, 0, MSG_DONTWAIT);

		/* What was sent may not be all: the kernel also stops where its buffers are full.
		 */
		if (octets > 0 || (octets < 0 && (errno == ENOBUFS || errno == EAGAIN)))
			empty = false;
	}
	return empty;
}
