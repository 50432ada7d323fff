/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_backoff.h"

#include "base/mono.h"

void kube_backoff_init(struct kube_backoff *b, int64_t base_ns, int64_t cap_ns, uint64_t seed)
{
    *b = (struct kube_backoff){.base_ns = base_ns, .cap_ns = cap_ns, .random = seed};
}

/* SplitMix64: good enough to spread a fleet, and a plain value. */
static uint64_t next_random(struct kube_backoff *b)
{
    uint64_t z = (b->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t kube_backoff_next_ns(struct kube_backoff *b, int64_t least_ns)
{
    int64_t bound_ns = b->base_ns;
    for (uint32_t i = 0; i < b->failures && bound_ns < b->cap_ns; i++) {
        bound_ns = mono_ns_mul(bound_ns, 2);
    }
    if (bound_ns > b->cap_ns) {
        bound_ns = b->cap_ns;
    }
    if (b->failures < UINT32_MAX) {
        b->failures++;
    }
    int64_t floor_ns = bound_ns / 10;
    int64_t span_ns = bound_ns - floor_ns;
    int64_t wait_ns = floor_ns + (int64_t)(next_random(b) % ((uint64_t)span_ns + 1));
    if (wait_ns < least_ns) {
        wait_ns = least_ns;
    }
    return wait_ns > b->cap_ns ? b->cap_ns : wait_ns;
}

void kube_backoff_reset(struct kube_backoff *b)
{
    b->failures = 0;
}
