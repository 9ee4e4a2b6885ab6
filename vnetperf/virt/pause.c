/* The first process of a pod that a containerd makes: it keeps the pod's namespaces, no more.
 * It is the only program in the pod's image, so that it is linked statically. */
#include <signal.h>
#include <unistd.h>

static void end(int number)
{
	(void)number;
	_exit(0);
}

int main(void)
{
	/* The first process of a namespace takes no signal that it does not handle. */
	signal(SIGINT, end);
	signal(SIGTERM, end);
	for (;;)
		pause();
}
