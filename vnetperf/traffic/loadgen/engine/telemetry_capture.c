/* Commands that say which frames of a trial are kept, and hand them over. */
#include <errno.h>
#include <stdio.h>

#include "capture_buffer.h"
#include "control.h"
#include "telemetry.h"

bool command_capture(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	static const char *const whats[] = {"first", "streams", "gaps", "foreign", NULL};
	uint64_t frames = 0;
	unsigned int what = CAPTURE_FIRST;

	if (!control_at_rest(error) || !params_need(ps, "frames", error) ||
	    !params_u64(ps, "frames", 0, CAPTURE_MAX_FRAMES, &frames, error) ||
	    !params_word(ps, "what", whats, &what, error) || !params_done(ps, "frames what", error))
		return false;
	capture_request.frames = (uint32_t)frames;
	capture_request.what = (enum capture_what)what;
	tel_dict_uint(d, "frames", frames);
	return true;
}

bool command_captured(struct params *ps, struct rte_tel_data *d, struct error *error)
{
	static const char name[] = "capture";
	char path[512];
	int64_t frames;

	if (!params_done(ps, "no parameters", error) || !control_at_rest(error))
		return false;
	snprintf(path, sizeof(path), "%s/%s", rte_eal_get_runtime_dir(), name);
	frames = capture_buffer_write(path);
	if (frames < 0)
		return error_set(error, "a runtime directory that can be written", "%s: %s", path,
				 strerror(errno));
	rte_tel_data_add_dict_string(d, "file", name);
	tel_dict_uint(d, "frames", (uint64_t)frames);
	return true;
}
