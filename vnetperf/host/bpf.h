/* What BPF programs need beside the kernel's own headers: sections, maps by BTF, helpers by number.
 */
#ifndef VNETPERF_BPF_H
#define VNETPERF_BPF_H

#include <linux/bpf.h>

#define SEC(name)	   __attribute__((section(name), used))
#define FIELD(name, value) int(*name)[value]
#define TYPE(name, type)   type *name
#define ALWAYS		   static inline __attribute__((always_inline))

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 __u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static __u32 (*const bpf_get_prandom_u32)(void) = (void *)7;
static long (*const bpf_skb_store_bytes)(struct __sk_buff *frame, __u32 offset, const void *from,
					 __u32 octets, __u64 flags) = (void *)9;
static long (*const bpf_l3_csum_replace)(struct __sk_buff *frame, __u32 offset, __u64 from,
					 __u64 to, __u64 octets) = (void *)10;
static long (*const bpf_l4_csum_replace)(struct __sk_buff *frame, __u32 offset, __u64 from,
					 __u64 to, __u64 flags) = (void *)11;
static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;
static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;
static long (*const bpf_fib_lookup)(void *frame, struct bpf_fib_lookup *to, int size,
				    __u32 flags) = (void *)69;
static long (*const bpf_timer_init)(struct bpf_timer *timer, void *map, __u64 clock) = (void *)169;
static long (*const bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*const bpf_timer_start)(struct bpf_timer *timer, __u64 ns, __u64 flags) = (void *)171;
static long (*const bpf_loop)(__u32 count, void *callback, void *context,
			      __u64 flags) = (void *)181;
static __u64 (*const bpf_xdp_get_buff_len)(struct xdp_md *frame) = (void *)188;

SEC("license") char _license[] = "GPL"; /* without it the kernel refuses some of the helpers */

#endif
