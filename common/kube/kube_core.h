/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's decisions that need no connection: how many requests are sent, how long each may
 * take, and when a server is left. CORE: `now` is an argument.
 */
#ifndef KUBE_KUBE_CORE_H
#define KUBE_KUBE_CORE_H

#include "base/time.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- how many --------------------------------------------------------------------------------
 *
 * KUBE_BUCKET_BURST at once, then one per KUBE_BUCKET_REFILL_NS: enough to start without a pause,
 * and ten thousand agents that all go wrong together still leave an API server its breath. An
 * urgent request never waits. It takes a token while more than KUBE_BUCKET_RESERVE are left: a
 * heartbeat of several per second must not keep everything else waiting for ever. */

#define KUBE_BUCKET_REFILL_NS (1 * NS_PER_SEC) /* one token */

enum {
    KUBE_BUCKET_BURST = 10,  /* both watches, lease, Node, Event and slice of a start */
    KUBE_BUCKET_RESERVE = 5, /* of these, out of reach of urgent ones */
};

struct kube_bucket {
    int64_t credit_ns; /* below 0: it is owed to those that wait */
    struct mono credited;
    uint32_t unreached;       /* connections in a row that did not come about */
    struct mono unreached_at; /* the last of them */
    uint64_t random;
};

void kube_bucket_init(struct kube_bucket *b, struct mono now); /* full */
/* Takes a token for an ordinary request, which has to wait for it so long: requests that wait get
 * theirs in the order in which they came. */
int64_t kube_bucket_take(struct kube_bucket *b, struct mono now);
/* Takes one if there is one. */
bool kube_bucket_try(struct kube_bucket *b, struct mono now);
/* Counts an urgent request. */
void kube_bucket_take_urgent(struct kube_bucket *b, struct mono now);
/* The token of a request that waits no longer. */
void kube_bucket_return(struct kube_bucket *b);

/* Where KUBE_UNREACHED connections in a row did not come about, ordinary requests wait until
 * KUBE_UNREACHED_PAUSE_NS after the last one: the urgent ones, which do not wait, find out when the
 * API server is back, and thousands of agents do not all ask in vain for all that they would. Then
 * they wait for up to KUBE_RETURN_NS, each agent its own time. */
#define KUBE_UNREACHED_PAUSE_NS (15 * NS_PER_SEC)
#define KUBE_RETURN_NS          (5 * NS_PER_SEC)
enum { KUBE_UNREACHED = 3 };

void kube_bucket_unreached(struct kube_bucket *b, struct mono now);
/* How long those that were waiting for it still wait; 0: nobody was, or would have. */
int64_t kube_bucket_reached(struct kube_bucket *b);
int64_t kube_bucket_pause_ns(const struct kube_bucket *b, struct mono now); /* 0: none */

/* ---- how long --------------------------------------------------------------------------------
 *
 * Of a request without a deadline of its own: KUBE_PATIENCE_MS, and twice as much after each that
 * was not enough, up to KUBE_PATIENCE_MAX_MS, until one is answered within the first again. With
 * one fixed time, all requests would fail for ever where a server is slow. Reads and writes learn
 * apart: a loaded etcd is slow to write and fast to read. So do watches and their lists, which
 * connect anew: where a fleet returns at once, handshakes that end early are wasted work. */

enum { KUBE_PATIENCE_MS = 5000, KUBE_PATIENCE_MAX_MS = 40000 };

/* How long the next one may take, where one that might take `now_ms` has ended after `took_ms`: it
 * was answered, or not in time. */
uint32_t kube_patience_learn(uint32_t now_ms, bool is_answered, int64_t took_ms, uint32_t least_ms,
                             uint32_t most_ms);

/* ---- which server ----------------------------------------------------------------------------
 *
 * A connection leads to one API server, where a balancer or a name with several addresses stands
 * before some of them. One that fails at once is met on it again and again, while new connections
 * would reach the others: so its connection is given up. But the error may be everybody's, or that
 * server the only one: KUBE_LEAVE_FREE connections in a row are given up as they fail, at the pace
 * of those who ask, then one per KUBE_LEAVE_BASE_NS, doubled each time up to KUBE_LEAVE_MAX_NS;
 * between these the tries go on over the connection that there is. */

#define KUBE_LEAVE_BASE_NS (1 * NS_PER_SEC)
#define KUBE_LEAVE_MAX_NS  (15 * NS_PER_SEC)
enum { KUBE_LEAVE_FREE = 5 };

struct kube_leave {
    uint32_t count; /* given up since the last answer that was none of these errors */
    struct mono not_before;
};

/* The connection has brought such an error. True: give it up. */
bool kube_leave_try(struct kube_leave *l, struct mono now);
/* An answer that is no such error. */
void kube_leave_settle(struct kube_leave *l);

#endif
