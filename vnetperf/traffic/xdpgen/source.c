/* Program `send` makes the frames of up to two streams when they are due, `take` counts them where
 * they come back. The kernel runs `send` again and again (BPF_F_TEST_XDP_LIVE_FRAMES): a frame
 * that is not due yet is dropped at once.
 *
 * The loader gives LENGTH (octets of a frame without FCS), HEADERS (those of them that are
 * headers), FLOWS (frames of a stream that differ), and TAKES_0 and TAKES_1: the interfaces that
 * the streams come back by.
 */
#include "bpf_counts.h"

#define STREAMS	 2
#define STAMP	 18 /* octets at a frame's end that are the generator's own */
#define MAGIC	 0x76706578
#define FRACTION 16  /* bits of an interval below a nanosecond */
#define CATCH_UP 256 /* overdue frames that are still sent: as many as the ring of a pair holds */
#define LATE_NS	 10000000ull /* and no later than this, as of the other generators */

/* As PACE in driver.py; the loader writes the first six. */
struct pace {
	__u64 start;	/* CLOCK_MONOTONIC, ns */
	__u64 stop;	/* nothing is sent from here on */
	__u64 interval; /* ns << FRACTION */
	__u64 total;	/* frames of the trial */
	__u64 target;	/* interface that they leave by */
	__u64 trial;
	__u64 made;
	__u64 skipped; /* too late */
	__u64 first;   /* when the first was made, and the last */
	__u64 last;
};
struct headers {
	unsigned char octets[HEADERS];
};
struct stamp {
	__u32 magic;
	__u16 trial, stream;
	__u64 made; /* CLOCK_MONOTONIC, ns */
	__u16 unused;
} __attribute__((packed));
/* Time from a frame's making until it is taken, ns; as DELAYS in driver.py. */
struct delays {
	__u64 trial, count, sum, least, most;
};

struct {
	FIELD(type, BPF_MAP_TYPE_ARRAY);
	FIELD(max_entries, STREAMS);
	TYPE(key, __u32);
	TYPE(value, struct pace);
} paces SEC(".maps");

struct {
	FIELD(type, BPF_MAP_TYPE_ARRAY);
	FIELD(max_entries, STREAMS *FLOWS);
	TYPE(key, __u32);
	TYPE(value, struct headers);
} headers SEC(".maps");

struct {
	FIELD(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	FIELD(max_entries, STREAMS);
	TYPE(key, __u32);
	TYPE(value, struct delays);
} delays SEC(".maps");

struct {
	FIELD(type, BPF_MAP_TYPE_ARRAY);
	FIELD(max_entries, 1);
	TYPE(key, __u32);
	TYPE(value, __u32);
} turn SEC(".maps");

/* Places in `counts`, as COUNTS in driver.py. */
enum count {
	RECEIVED_0,
	RECEIVED_1,
	MISROUTED_0,
	MISROUTED_1,
	ALTERED_0,
	ALTERED_1,
	STALE,
	FOREIGN
};

COUNTERS(counts, FOREIGN + 1);

ALWAYS void note_delay(__u32 stream, __u64 trial, __u64 delay)
{
	struct delays *sums = bpf_map_lookup_elem(&delays, &stream);

	if (!sums)
		return;
	if (sums->trial != trial) {
		sums->trial = trial;
		sums->count = sums->sum = sums->most = 0;
		sums->least = delay;
	}
	++sums->count;
	sums->sum += delay;
	if (delay < sums->least)
		sums->least = delay;
	if (delay > sums->most)
		sums->most = delay;
}

ALWAYS int is_due(struct pace *pace, __u64 now)
{
	__u64 due, most;

	if (!pace->interval || now < pace->start || now >= pace->stop)
		return 0;
	due = ((now - pace->start) << FRACTION) / pace->interval + 1;
	if (due > pace->total)
		due = pace->total;
	most = (LATE_NS << FRACTION) / pace->interval;
	if (most > CATCH_UP)
		most = CATCH_UP;
	if (!most)
		most = 1;
	if (due > pace->made + pace->skipped + most)
		pace->skipped = due - pace->made - most;
	return pace->made + pace->skipped < due;
}

ALWAYS int emit(void *start, struct pace *pace, __u32 stream, __u64 now)
{
	__u32 place = stream * FLOWS + (__u32)(pace->made % FLOWS);
	struct headers *made = bpf_map_lookup_elem(&headers, &place);
	struct stamp own = {MAGIC, pace->trial, stream, now, 0};

	if (!made)
		return XDP_ABORTED;
	/* All of them: buffers are used again, as a DUT left them. */
	__builtin_memcpy(start, made->octets, HEADERS);
	__builtin_memcpy(start + LENGTH - STAMP, &own, STAMP);
	if (!pace->made)
		pace->first = now;
	pace->last = now;
	++pace->made;
	return bpf_redirect(pace->target, 0);
}

SEC("xdp") int send(struct xdp_md *frame)
{
	void *start = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0, one, other, *next = bpf_map_lookup_elem(&turn, &zero);
	struct pace *pace;

	if (!next || start + LENGTH > end)
		return XDP_ABORTED;
	one = *next & 1;
	other = one ^ 1;
	*next = other;
	pace = bpf_map_lookup_elem(&paces, &one);
	if (pace && is_due(pace, now))
		return emit(start, pace, one, now);
	pace = bpf_map_lookup_elem(&paces, &other);
	if (pace && is_due(pace, now))
		return emit(start, pace, other, now);
	return XDP_DROP;
}

SEC("xdp") int take(struct xdp_md *frame)
{
	void *start = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
	struct stamp seen;
	struct pace *pace;
	__u32 stream;

	if (start + LENGTH > end)
		return count_frame(FOREIGN, XDP_PASS);
	__builtin_memcpy(&seen, start + LENGTH - STAMP, STAMP);
	stream = seen.stream & 1;
	pace = bpf_map_lookup_elem(&paces, &stream);
	if (seen.magic != MAGIC || !pace)
		return count_frame(FOREIGN, XDP_PASS);
	if (seen.trial != (__u16)pace->trial)
		return count_frame(STALE, XDP_DROP);
	if (frame->ingress_ifindex != (stream ? TAKES_1 : TAKES_0))
		return count_frame(MISROUTED_0 + stream, XDP_DROP);
	if (start + LENGTH != end)
		return count_frame(ALTERED_0 + stream, XDP_DROP);
	note_delay(stream, pace->trial, bpf_ktime_get_ns() - seen.made);
	return count_frame(RECEIVED_0 + stream, XDP_DROP);
}
