/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exponential backoff with full jitter: each wait is drawn from [0, min(cap, base * 2^n)], so that
 * a fleet that failed together does not come back together. Pure: the generator's state is part of
 * the struct and is seeded by the owner.
 */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

struct backoff {
    int64_t base_ns;
    int64_t cap_ns;
    uint32_t failures;
    uint64_t random; /* of base/chance.h */
};

void backoff_init(struct backoff *b, int64_t base_ns, int64_t cap_ns, uint64_t seed);
/* The wait before the next try, at least a tenth of the current bound; `least_ns` (Retry-After, or
 * 0) raises it, but never above the cap. */
int64_t backoff_next_ns(struct backoff *b, int64_t least_ns);
void backoff_reset(struct backoff *b);

#endif
