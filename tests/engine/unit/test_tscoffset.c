#include "check.h"
#include "tscoffset.h"
#include "wallclock.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

/* What is fabricated: a way there of 100 and back of 300 cycles, then shorter
 * ones. */
static void bounds(void) {
  struct tscoffset o = {0};

  tscoffset_note(&o, 1000, 1100 + 50, 1400);
  CHECK(o.least == -250 && o.most == 150);
  tscoffset_note(&o, 2000, 2300 + 50, 2310); /* back at once */
  CHECK(o.least == 40 && o.most == 150);
  tscoffset_note(&o, 3000, 3005 + 50, 9000); /* there at once */
  CHECK(o.least == 40 && o.most == 55);
  tscoffset_note(&o, 4000, 5000 + 50, 6000); /* tells nothing new */
  CHECK(o.least == 40 && o.most == 55);
  CHECK_EQ(o.exchanges, 4);
}

static uint64_t ns_now(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * WALL_NS_PER_S + (uint64_t)t.tv_nsec;
}

#define BEHIND (5 * WALL_NS_PER_S)

static uint64_t behind(void) { return ns_now() - BEHIND; }

struct other {
  struct tscoffset_line line;
  tsc_read now;
  int cpu;
};

static void pin(int cpu) {
  cpu_set_t set;

  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  CHECK_EQ(pthread_setaffinity_np(pthread_self(), sizeof(set), &set), 0);
}

static void *answer(void *argument) {
  struct other *other = argument;

  pin(other->cpu);
  tscoffset_answer(&other->line, other->now);
  return NULL;
}

/* Between two processors of this machine, as if they were of two sockets. */
static struct tscoffset exchange(tsc_read now, int cpu, uint64_t limit_ns) {
  struct other other = {.now = now, .cpu = cpu};
  struct tscoffset found = {0};
  pthread_t thread;

  pin(0);
  CHECK_EQ(pthread_create(&thread, NULL, answer, &other), 0);
  tscoffset_ask(&found, &other.line, ns_now, limit_ns);
  pthread_join(thread, NULL);
  return found;
}

static void between_processors(void) {
  const int cpu = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0;
  struct tscoffset found = exchange(ns_now, cpu, 2 * WALL_NS_PER_S);

  CHECK(found.exchanges > 0);
  CHECK(found.least <= 0 && found.most >= 0);
  fprintf(stderr, "one clock: %lld to %lld ns in %u exchanges\n",
          (long long)found.least, (long long)found.most, found.exchanges);
  found = exchange(behind, cpu, 2 * WALL_NS_PER_S);
  fprintf(stderr, "behind: %lld to %lld ns in %u exchanges\n",
          (long long)found.least, (long long)found.most, found.exchanges);
  CHECK(found.least <= -(int64_t)BEHIND && found.most >= -(int64_t)BEHIND);
  CHECK(found.most < 0); /* that they are apart is proven */
}

/* Nobody answers: nothing is known, and it ends. */
static void silence(void) {
  struct tscoffset_line line = {0};
  struct tscoffset found = {0};

  tscoffset_ask(&found, &line, ns_now, 1000000);
  CHECK_EQ(found.exchanges, 0);
  tscoffset_answer(&line, ns_now); /* who comes later has nothing to answer */
  CHECK_EQ(line.answer, 0);
}

void test_tscoffset(void) {
  bounds();
  between_processors();
  silence();
}
