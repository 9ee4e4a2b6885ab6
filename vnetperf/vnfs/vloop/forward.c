/* Mode xdp of vloop: every frame leaves by the other port, whose interface has the index TARGET.
 *
 * It has no map: what loads it in a guest is `ip` alone, which fills none.
 */
#include "bpf.h"

SEC("xdp") int forward(struct xdp_md *frame)
{
	(void)frame;
	return bpf_redirect(TARGET, 0);
}
