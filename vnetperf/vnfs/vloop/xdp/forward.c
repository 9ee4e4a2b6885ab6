/* Mode xdp of vloop: every frame leaves by the other port.
 *
 * The index of that port's interface is written over TARGET when the program is loaded. Build:
 *   clang -O2 -target bpf -fno-addrsig -c forward.c -o forward.o
 */
#define TARGET 0x7e57da7a

static long (*const redirect)(unsigned int index, unsigned long long flags) = (void *)23;

__attribute__((section("xdp"), used)) int forward(void *frame)
{
	(void)frame;
	return redirect(TARGET, 0);
}

__attribute__((section("license"), used)) char _license[] = "GPL";
