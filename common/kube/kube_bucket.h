/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many requests one agent may send. CORE: `now` is an argument.
 *
 * KUBE_BUCKET_BURST at once, then one per KUBE_BUCKET_REFILL_NS: enough to start without a pause,
 * and ten thousand agents that all go wrong together still leave an API server its breath. An
 * urgent request never waits. It takes a token while more than KUBE_BUCKET_RESERVE are left: a
 * heartbeat of several per second must not keep everything else waiting for ever.
 */
#ifndef KUBE_KUBE_BUCKET_H
#define KUBE_KUBE_BUCKET_H

#include "base/time.h"

#include <stdbool.h>
#include <stdint.h>

#define KUBE_BUCKET_REFILL_NS (1 * NS_PER_SEC) /* one token */

enum {
    KUBE_BUCKET_BURST = 10,  /* both watches, lease, Node, Event and slice of a start */
    KUBE_BUCKET_RESERVE = 5, /* of these, out of reach of urgent ones */
};

struct kube_bucket {
    int64_t credit_ns;
    struct mono credited;
};

void kube_bucket_init(struct kube_bucket *b, struct mono now); /* full */

/* Takes a token for an ordinary request; false if there is none. */
bool kube_bucket_take(struct kube_bucket *b, struct mono now);
/* Counts an urgent request. */
void kube_bucket_take_urgent(struct kube_bucket *b, struct mono now);
/* How long until there is a token; 0 if there is one. */
int64_t kube_bucket_wait_ns(struct kube_bucket *b, struct mono now);

#endif
