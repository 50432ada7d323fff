/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exponential backoff with full jitter: each wait is drawn from [0, min(cap, base * 2^n)], so that
 * a fleet that failed together does not come back together. Pure: the generator's state is part of
 * the struct and is seeded by the owner.
 */
#ifndef KUBE_KUBE_BACKOFF_H
#define KUBE_KUBE_BACKOFF_H

#include <stdint.h>

struct kube_backoff {
    int64_t base_ns;
    int64_t cap_ns;
    uint32_t failures;
    uint64_t random; /* generator state */
};

void kube_backoff_init(struct kube_backoff *b, int64_t base_ns, int64_t cap_ns, uint64_t seed);
/* The wait before the next try, at least a tenth of the current bound; `least_ns` (Retry-After, or
 * 0) raises it, but never above the cap. */
int64_t kube_backoff_next_ns(struct kube_backoff *b, int64_t least_ns);
void kube_backoff_reset(struct kube_backoff *b);

#endif
