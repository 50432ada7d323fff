/* SPDX-License-Identifier: Apache-2.0 */
#include "base/backoff.h"

#include "base/chance.h"
#include "base/mono.h"

void backoff_init(struct backoff *b, int64_t base_ns, int64_t cap_ns, uint64_t seed)
{
    *b = (struct backoff){.base_ns = base_ns, .cap_ns = cap_ns, .random = seed};
}

int64_t backoff_next_ns(struct backoff *b, int64_t least_ns)
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
    int64_t wait_ns = floor_ns + chance_next(&b->random, bound_ns - floor_ns);
    if (wait_ns < least_ns) {
        wait_ns = least_ns;
    }
    return wait_ns > b->cap_ns ? b->cap_ns : wait_ns;
}

void backoff_reset(struct backoff *b)
{
    b->failures = 0;
}
