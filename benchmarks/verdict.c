/* Programs of benchmarks/xdp.py that forward nothing to another port: VERDICT is what becomes of
 * each frame, by its number (XDP_DROP, XDP_TX). */
#include "port.h"

SEC("xdp.frags") int forward(struct xdp_md *frame)
{
	(void)frame;
	return counted(TAKEN, VERDICT);
}
