/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_bucket.h"

#define FULL_NS    (KUBE_BUCKET_BURST * KUBE_BUCKET_REFILL_NS)
#define RESERVE_NS (KUBE_BUCKET_RESERVE * KUBE_BUCKET_REFILL_NS)

static void earn(struct kube_bucket *b, struct mono now)
{
    int64_t elapsed_ns = mono_since(now, b->credited);
    if (elapsed_ns > 0) {
        int64_t credit_ns = mono_ns_add(b->credit_ns, elapsed_ns);
        b->credit_ns = credit_ns < FULL_NS ? credit_ns : FULL_NS;
        b->credited = now;
    }
}

void kube_bucket_init(struct kube_bucket *b, struct mono now)
{
    *b = (struct kube_bucket){.credit_ns = FULL_NS, .credited = now};
}

bool kube_bucket_take(struct kube_bucket *b, struct mono now)
{
    earn(b, now);
    if (b->credit_ns < KUBE_BUCKET_REFILL_NS) {
        return false;
    }
    b->credit_ns -= KUBE_BUCKET_REFILL_NS;
    return true;
}

void kube_bucket_take_urgent(struct kube_bucket *b, struct mono now)
{
    earn(b, now);
    if (b->credit_ns >= RESERVE_NS + KUBE_BUCKET_REFILL_NS) {
        b->credit_ns -= KUBE_BUCKET_REFILL_NS;
    }
}

int64_t kube_bucket_wait_ns(struct kube_bucket *b, struct mono now)
{
    earn(b, now);
    int64_t missing_ns = KUBE_BUCKET_REFILL_NS - b->credit_ns;
    return missing_ns > 0 ? missing_ns : 0;
}
