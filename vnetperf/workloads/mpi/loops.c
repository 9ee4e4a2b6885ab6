/* Loops of MPI: what OSU's micro-benchmarks of the same names time, in their columns.
 *
 *     loops KIND OCTETS SECONDS
 *
 * Operations are timed in batches until the seconds are over; after each batch what arrived is
 * compared with what was sent, outside of the time. Rank 0 prints; an error ends all ranks.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Messages under way at once, as in osu_bw, osu_put_bw and osu_get_bw; the answer after them. */
enum { WINDOW = 64, ANSWER = 4 };
/* Untimed operations first; longest batch, seconds; most single times that are kept. */
enum { WARM_UP = 10, MOST_TIMES = 1 << 20 };
static const double BATCH_S = 0.1;
static const double US = 1e6;
static const double PERCENTILES[] = {50, 90, 99, 99.9};
enum { N_PERCENTILES = sizeof(PERCENTILES) / sizeof(PERCENTILES[0]) };

static int rank, ranks;
static size_t octets;
static unsigned char *out, *in;
static MPI_Win window;
static double *times;
static size_t n_times;

static void fail(const char *what, int from, size_t at)
{
	fprintf(stderr, "loops: rank %d: %s from rank %d differs at octet %zu of %zu\n", rank, what,
		from, at, octets);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static void *allocate(size_t size)
{
	void *found = calloc(size ? size : 1, 1);
	if (found == NULL) {
		fprintf(stderr, "loops: rank %d: no memory for %zu octets\n", rank, size);
		MPI_Abort(MPI_COMM_WORLD, 4);
	}
	return found;
}

/* What rank `from` sends to rank `to`. */
static unsigned char content(int from, int to, size_t at)
{
	return (unsigned char)(1 + (from * 131 + to * 31 + (int)(at % 251)) % 255);
}

static void fill(unsigned char *where, int from, int to)
{
	for (size_t i = 0; i < octets; i++)
		where[i] = content(from, to, i);
}

static void compare(const unsigned char *where, int from, int to, const char *what)
{
	for (size_t i = 0; i < octets; i++)
		if (where[i] != content(from, to, i))
			fail(what, from, i);
}

/* Between two ranks: rank 0 acts, rank 1 answers. */
static void latency(void)
{
	int size = (int)octets;
	if (rank == 0) {
		MPI_Send(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
		MPI_Recv(in, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		MPI_Recv(in, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(out, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
	}
}

static void bandwidth(void)
{
	MPI_Request under_way[WINDOW];
	unsigned char answer[ANSWER] = {0};
	int size = (int)octets;
	for (int i = 0; i < WINDOW; i++) {
		unsigned char *there = in + (size_t)i * octets;
		if (rank == 0)
			MPI_Isend(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &under_way[i]);
		else
			MPI_Irecv(there, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &under_way[i]);
	}
	MPI_Waitall(WINDOW, under_way, MPI_STATUSES_IGNORE);
	if (rank == 0)
		MPI_Recv(answer, ANSWER, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(answer, ANSWER, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
}

static void put(void)
{
	if (rank != 0)
		return; /* it waits for the end of the batch, in which the library makes progress */
	for (int i = 0; i < WINDOW; i++)
		MPI_Put(out, (int)octets, MPI_BYTE, 1, (MPI_Aint)((size_t)i * octets), (int)octets,
			MPI_BYTE, window);
	MPI_Win_flush(1, window);
}

static void get(void)
{
	if (rank != 0)
		return;
	for (int i = 0; i < WINDOW; i++)
		MPI_Get(in + (size_t)i * octets, (int)octets, MPI_BYTE, 1,
			(MPI_Aint)((size_t)i * octets), (int)octets, MPI_BYTE, window);
	MPI_Win_flush(1, window);
}

static void alltoall(void)
{
	MPI_Alltoall(out, (int)octets, MPI_BYTE, in, (int)octets, MPI_BYTE, MPI_COMM_WORLD);
}

static void allreduce(void)
{
	MPI_Allreduce(out, in, (int)(octets / sizeof(float)), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void barrier(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Before a batch: what is to be sent is there, what is to arrive is not. */
static void set_latency(void)
{
	fill(out, rank, 1 - rank);
	memset(in, 0, octets);
}

static void set_windows(void)
{
	fill(out, 0, 1);
	memset(in, 0, WINDOW * octets);
}

static void set_put(void)
{
	set_windows(); /* the target's window is `in` */
	MPI_Win_sync(window);
}

static void set_get(void)
{
	set_windows(); /* what is got is in the target's window, which is `out` */
	for (int i = 0; i < WINDOW; i++)
		fill(out + (size_t)i * octets, 0, 1);
	MPI_Win_sync(window);
}

static void set_alltoall(void)
{
	for (int to = 0; to < ranks; to++)
		fill(out + (size_t)to * octets, rank, to);
	memset(in, 0, (size_t)ranks * octets);
}

static void set_allreduce(void)
{
	float *numbers = (float *)(void *)out;
	for (size_t i = 0; i < octets / sizeof(float); i++)
		numbers[i] = (float)(rank + (int)(i % 7));
	memset(in, 0, octets);
}

static void check_latency(void)
{
	compare(in, 1 - rank, rank, "a message");
}

static void check_windows(const char *what, int at)
{
	for (int i = 0; rank == at && i < WINDOW; i++)
		compare(in + (size_t)i * octets, 0, 1, what);
}

static void check_bandwidth(void)
{
	check_windows("a message", 1);
}

static void check_put(void)
{
	MPI_Win_sync(window);
	check_windows("a put", 1);
}

static void check_get(void)
{
	check_windows("a get", 0);
}

static void check_alltoall(void)
{
	for (int from = 0; from < ranks; from++)
		compare(in + (size_t)from * octets, from, rank, "a block of alltoall");
}

static void check_allreduce(void)
{
	const float *numbers = (const float *)(const void *)in;
	float all = (float)(ranks * (ranks - 1)) / 2; /* small whole numbers: exact in any order */
	for (size_t i = 0; i < octets / sizeof(float); i++)
		if (numbers[i] != all + (float)(ranks * (int)(i % 7)))
			fail("a sum", 0, i * sizeof(float));
}

static void nothing(void)
{
}

struct kind {
	const char *name;
	void (*once)(void);
	void (*set)(void);
	void (*check)(void);
	int pair;     /* of two ranks */
	int together; /* messages of an operation */
	int stepped;  /* each operation is timed by itself, and ranks start it together */
	int checked;  /* there are contents */
};

static const struct kind KINDS[] = {
	{"latency", latency, set_latency, check_latency, 1, 1, 1, 1},
	{"bandwidth", bandwidth, set_windows, check_bandwidth, 1, WINDOW, 0, 1},
	{"put", put, set_put, check_put, 1, WINDOW, 0, 1},
	{"get", get, set_get, check_get, 1, WINDOW, 0, 1},
	{"alltoall", alltoall, set_alltoall, check_alltoall, 0, 1, 1, 1},
	{"allreduce", allreduce, set_allreduce, check_allreduce, 0, 1, 1, 1},
	{"barrier", barrier, nothing, nothing, 0, 1, 1, 0},
};
enum { N_KINDS = sizeof(KINDS) / sizeof(KINDS[0]) };

/* Run operations; seconds that this rank spent in them. */
static double batch(const struct kind *kind, long count, int keep)
{
	double spent = 0, from = MPI_Wtime();
	for (long i = 0; i < count; i++) {
		double began = MPI_Wtime();
		kind->once();
		double took = MPI_Wtime() - began;
		spent += took;
		if (keep && kind->pair && kind->stepped && n_times < MOST_TIMES)
			times[n_times++] = took / 2;
		if (kind->stepped && !kind->pair && kind->once != barrier)
			MPI_Barrier(MPI_COMM_WORLD); /* as OSU's do: no rank is ahead by more than
							one */
	}
	return kind->stepped ? spent : MPI_Wtime() - from;
}

static int by_size(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
}

static void print_pair(const struct kind *kind, long count, double spent)
{
	const char *valid = kind->checked ? "Pass" : "-";
	if (!kind->stepped) {
		double sent = (double)octets * (double)count * kind->together;
		printf("# %-10s%20s%20s%20s\n%-12zu%20.6f%20ld%20s\n", "Size", "Bandwidth (MB/s)",
		       "Iterations", "Validation", octets, sent / 1e6 / spent, count, valid);
		return;
	}
	qsort(times, n_times, sizeof(*times), by_size);
	printf("# %-10s%20s%20s%20s", "Size", "Latency (us)", "Min Latency(us)", "Max Latency(us)");
	for (int i = 0; i < N_PERCENTILES; i++)
		printf("      P%g Tail Lat(us)", PERCENTILES[i]);
	printf("%20s%20s\n%-12zu%20.2f%20.2f%20.2f", "Iterations", "Validation", octets,
	       spent / 2 / (double)count * US, times[0] * US, times[n_times - 1] * US);
	for (int i = 0; i < N_PERCENTILES; i++) {
		size_t at = (size_t)(PERCENTILES[i] / 100 * (double)(n_times - 1) + 0.5);
		printf("%22.2f", times[at] * US);
	}
	printf("%20ld%20s\n", count, valid);
}

static void print_collective(const struct kind *kind, long count, double spent)
{
	double mean = spent / (double)count, sum = 0, least = 0, most = 0;
	MPI_Reduce(&mean, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mean, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mean, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (rank != 0)
		return;
	printf("# %-10s%20s%20s%20s%20s%20s\n", "Size", "Avg Latency(us)", "Min Latency(us)",
	       "Max Latency(us)", "Iterations", "Validation");
	printf("%-12zu%20.2f%20.2f%20.2f%20ld%20s\n", octets, sum / ranks * US, least * US,
	       most * US, count, kind->checked ? "Pass" : "-");
}

static void run(const struct kind *kind, double seconds)
{
	double spent = 0, began = MPI_Wtime();
	long count = 0, next = 1;
	kind->set();
	batch(kind, WARM_UP, 0);
	for (int more = 1; more;) {
		kind->set();
		MPI_Barrier(MPI_COMM_WORLD);
		double took = batch(kind, next, 1);
		MPI_Barrier(MPI_COMM_WORLD);
		kind->check();
		spent += took;
		count += next;
		if (took < BATCH_S / 2)
			next *= 2;
		more = MPI_Wtime() - began < seconds;
		/* Rank 0 decides: clocks of the others are not its own. */
		MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
		MPI_Bcast(&next, 1, MPI_LONG, 0, MPI_COMM_WORLD);
	}
	if (kind->pair && rank == 0)
		print_pair(kind, count, spent);
	if (!kind->pair)
		print_collective(kind, count, spent);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	const struct kind *kind = NULL;
	for (int i = 0; argc == 4 && i < N_KINDS; i++)
		if (strcmp(argv[1], KINDS[i].name) == 0)
			kind = &KINDS[i];
	if (kind == NULL || (kind->pair && ranks != 2)) {
		if (rank == 0)
			fprintf(stderr, "loops: KIND OCTETS SECONDS; between two ranks: latency, "
					"bandwidth, "
					"put, get; of all: alltoall, allreduce, barrier\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
		return 2;
	}
	octets = strtoul(argv[2], NULL, 10);
	size_t room = octets * (size_t)(kind->pair ? WINDOW : ranks);
	out = allocate(room);
	in = allocate(room);
	times = allocate(MOST_TIMES * sizeof(*times));
	int one_sided = kind->once == put || kind->once == get;
	if (one_sided) {
		void *base = kind->once == get ? out : in;
		MPI_Win_create(base, (MPI_Aint)room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
		MPI_Win_lock_all(0, window);
	}
	if (rank == 0)
		printf("# vnetperf MPI %s, %d ranks\n", kind->name, ranks);
	run(kind, strtod(argv[3], NULL));
	if (one_sided) {
		MPI_Win_unlock_all(window);
		MPI_Win_free(&window);
	}
	free(out);
	free(in);
	free(times);
	MPI_Finalize();
	return 0;
}
