/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_core.h"

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
    *b = (struct kube_bucket){.credit_ns = FULL_NS, .credited = now, .random = (uint64_t)now.ns};
}

int64_t kube_bucket_take(struct kube_bucket *b, struct mono now)
{
    earn(b, now);
    b->credit_ns -= KUBE_BUCKET_REFILL_NS;
    return b->credit_ns < 0 ? -b->credit_ns : 0;
}

bool kube_bucket_try(struct kube_bucket *b, struct mono now)
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

void kube_bucket_return(struct kube_bucket *b)
{
    b->credit_ns += KUBE_BUCKET_REFILL_NS;
}

void kube_bucket_unreached(struct kube_bucket *b, struct mono now)
{
    b->unreached += b->unreached < KUBE_UNREACHED;
    b->unreached_at = now;
}

int64_t kube_bucket_reached(struct kube_bucket *b)
{
    bool was_paused = b->unreached >= KUBE_UNREACHED;
    b->unreached = 0;
    return was_paused ? 1 + prng_next(&b->random, KUBE_RETURN_NS) : 0;
}

int64_t kube_bucket_pause_ns(const struct kube_bucket *b, struct mono now)
{
    struct mono until = mono_add(b->unreached_at, KUBE_UNREACHED_PAUSE_NS);
    return b->unreached >= KUBE_UNREACHED ? mono_ns_max(0, mono_since(until, now)) : 0;
}

uint32_t kube_patience_learn(uint32_t now_ms, bool is_answered, int64_t took_ms, uint32_t least_ms,
                             uint32_t most_ms)
{
    if (is_answered && took_ms < least_ms) {
        return least_ms;
    }
    if (is_answered || took_ms < now_ms) { /* of many that hung together, one counts */
        return now_ms;
    }
    return now_ms < most_ms / 2 ? 2 * now_ms : most_ms;
}

bool kube_leave_try(struct kube_leave *l, struct mono now)
{
    if (mono_before(now, l->not_before)) {
        return false;
    }
    l->count += l->count < UINT32_MAX;
    if (l->count >= KUBE_LEAVE_FREE) {
        l->not_before =
            mono_add(now, mono_ns_doubled(KUBE_LEAVE_BASE_NS, l->count - KUBE_LEAVE_FREE + 1,
                                          KUBE_LEAVE_MAX_NS));
    }
    return true;
}

void kube_leave_settle(struct kube_leave *l)
{
    *l = (struct kube_leave){.count = 0};
}
