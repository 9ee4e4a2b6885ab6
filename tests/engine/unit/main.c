#include "check.h"

unsigned int checks, failures;

static const struct {
	const char *name;
	void (*run)(void);
} suites[] = {
	{"seqtrack", test_seqtrack},
	{"hdr", test_hdr},
	{"gaps", test_gaps},
	{"echo", test_echo},
	{"pacing", test_pacing},
	{"fields", test_fields},
	{"params", test_params},
	{"args", test_args},
	{"worker_phase", test_worker_phase},
	{"stream", test_stream},
	{"steps", test_steps},
	{"timeline", test_timeline},
	{"neighbour", test_neighbour},
	{"bindings", test_bindings},
	{"capture", test_capture},
	{"fuzz", test_fuzz},
	{"nicclock", test_nicclock},
	{"tscoffset", test_tscoffset},
	{"thread", test_thread},
	{"turns", test_turns},
	{"wallclock", test_wallclock},
	{"hdr-layout", print_hdr_layout},
};

int main(int argc, char **argv)
{
	for (unsigned int i = 0; argc == 2 && i < sizeof(suites) / sizeof(suites[0]); i++) {
		if (strcmp(argv[1], suites[i].name) == 0) {
			suites[i].run();
			fprintf(stderr, "%u checks, %u failures\n", checks, failures);
			return failures || (checks == 0 && suites[i].run != print_hdr_layout);
		}
	}
	fprintf(stderr, "usage: unit SUITE\n");
	return 2;
}
