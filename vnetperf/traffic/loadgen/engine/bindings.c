#include "bindings.h"

#include <stdio.h>
#include <stdlib.h>

#define ADDRESS_OCTETS 4
#define PORT_OCTETS    2

struct bindings *bindings_create(uint16_t address, uint16_t port, uint64_t count)
{
	struct bindings *b = calloc(1, sizeof(*b) + count * sizeof(b->bound[0]));

	if (b == NULL)
		return NULL;
	b->address = address;
	b->port = port;
	b->count = count;
	return b;
}

void bindings_clear(struct bindings *b)
{
	for (uint64_t i = 0; i < b->count; i++)
		atomic_store_explicit(&b->bound[i], 0, memory_order_relaxed);
}

void bindings_note(struct bindings *b, const struct field_spec *expected, unsigned int n,
		   const uint8_t *frame, size_t len, uint64_t seq)
{
	const size_t address_end = (size_t)b->address + ADDRESS_OCTETS;
	const size_t port_end = (size_t)b->port + PORT_OCTETS;

	if (len < address_end || len < port_end)
		return;
	for (unsigned int i = 0; i < n; i++) {
		const struct field_spec *f = &expected[i];

		if (f->count == 1 && ((size_t)f->offset + f->width > len ||
				      field_value(frame + f->offset, f->width) != f->base))
			return;
	}
	atomic_store_explicit(&b->bound[seq % b->count],
			      field_value(frame + b->address, ADDRESS_OCTETS) << 16 |
				      field_value(frame + b->port, PORT_OCTETS),
			      memory_order_relaxed);
}

int64_t bindings_write(const struct bindings *b, const char *path)
{
	FILE *file = fopen(path, "we");
	bool whole = file != NULL;
	int64_t known = 0;

	for (uint64_t i = 0; whole && i < b->count; i++) {
		const uint64_t one = atomic_load_explicit(&b->bound[i], memory_order_relaxed);

		known += one != 0;
		whole = fwrite(&one, sizeof(one), 1, file) == 1;
	}
	if (file != NULL)
		whole = fclose(file) == 0 && whole;
	return whole ? known : -1;
}
