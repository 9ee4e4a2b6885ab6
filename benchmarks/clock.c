/*
 * Adds to CLOCK_REALTIME, time() and gettimeofday() of a process what the file FAULTS_CLOCK has:
 * a number of seconds for all processes, then one for each by its pid.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long none;
static volatile long *all = &none, *own = &none;
static int (*get)(clockid_t, struct timespec *);
__attribute__((constructor)) static void begin(void)
{
	int fd = open(getenv("FAULTS_CLOCK"), O_RDONLY | O_CLOEXEC);
	struct stat file;
	if (fd < 0 || fstat(fd, &file))
		return;
	long *at = mmap(NULL, file.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return;
	all = at;
	own = at + getpid();
}
int clock_gettime(clockid_t id, struct timespec *t)
{
	if (!get)
		get = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int r = get(id, t);
	if (!r && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		t->tv_sec += *all + *own;
	return r;
}
/* The kernel's clock is not off, and waits until a time of day are by that. */
int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
	static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	struct timespec t = *until;
	if (!wait) {
		void *found = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
		found = found ? found : dlsym(RTLD_NEXT, "pthread_cond_timedwait");
		wait = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))found;
	}
	if (t.tv_sec > 500000000) /* no time since the start of the machine */
		t.tv_sec -= *all + *own;
	return wait(c, m, &t);
}
int gettimeofday(struct timeval *t, void *zone)
{
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}
time_t time(time_t *t)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}
