/*
 * The forwarder without its I/O.
 *
 *   unit frames MODE   standard input: frames, each its length (2 octets, little-endian) and its
 *                      octets; the same come out as port 0 would send them
 *   unit args OPTION...  what they come to, or why they are refused
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "args.h"

static const uint8_t own[MAC_OCTETS] = {0x02, 0x76, 0x61, 0, 0, 0};

static void change(const struct options *o, uint8_t *frame, size_t octets)
{
	switch (o->mode) {
	case MODE_MAC:
		frame_set_macs(frame, o->peer[0], own);
		break;
	case MODE_MACSWAP:
		frame_swap_macs(frame);
		break;
	case MODE_5TSWAP:
		frame_swap_5tuple(frame, octets);
		break;
	default:
		break;
	}
}

static int frames(const struct options *o)
{
	uint8_t length[2];

	while (fread(length, 1, 2, stdin) == 2) {
		const size_t octets = length[0] | (size_t)length[1] << 8;
		uint8_t *frame = malloc(octets); /* to the octet: what reads on is found */

		if (frame == NULL || fread(frame, 1, octets, stdin) != octets)
			return EXIT_FAILURE;
		change(o, frame, octets);
		fwrite(length, 1, 2, stdout);
		fwrite(frame, 1, octets, stdout);
		free(frame);
	}
	return EXIT_SUCCESS;
}

static void tell(const struct options *o)
{
	printf("mode=%s queues=%u rx_desc=%u tx_desc=%u buffers=%u room=%u max_frame=%u node=%u "
	       "turn_us=%u phase_us=%u priority=%u share=%u",
	       mode_names[o->mode], o->queues, o->rx_desc, o->tx_desc, o->buffers, o->room,
	       o->max_frame, o->node, o->turn_us, o->phase_us, o->priority, o->share);
	for (unsigned int port = 0; port < PORTS; port++) {
		printf(" peer%u=", port);
		for (unsigned int i = 0; i < MAC_OCTETS; i++)
			printf("%02x", o->peer[port][i]);
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	struct error error = {"", ""};
	struct options o;
	bool help = false;

	if (argc < 2 || !args_parse(&o, argc - 1, argv + 1, &help, &error)) {
		printf("%s; accepted: %s\n", error.text, error.accepted);
		return EXIT_FAILURE;
	}
	if (strcmp(argv[1], "frames") == 0)
		return frames(&o);
	if (!help)
		tell(&o);
	return EXIT_SUCCESS;
}
