/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DRAPlugin v1 and v1beta1: NodePrepareResources and NodeUnprepareResources.
 *
 * There is nothing to set up for a DPU that already carries the node's traffic, so both are
 * idempotent; what Prepare does is to check, to remember and to tell. Where the device is not
 * shared a second claim is refused for as long as the first is prepared. Each answer has exactly
 * one entry per claim asked for: a kubelet treats a missing one as failure, as it does an extra
 * one. Prepare looks each claim up at the API server, in parallel and without blocking; a claim
 * that cannot be looked up gets its own error and the kubelet asks again. Unprepare never asks
 * anybody, because the claim may be gone, and always succeeds. In a rolling update the two
 * instances answer one after the other (dra/serialize.h); the lookups come before.
 */
#ifndef DRA_PLUGIN_H
#define DRA_PLUGIN_H

#include "base/attr.h"
#include "base/err.h"
#include "base/log.h"
#include "host-agent/dra/claim.h"
#include "host-agent/grpc/conn.h"

#include <jansson.h>
#include <stdint.h>

enum { PLUGIN_CLAIMS_MAX = 256 }; /* in one request */

/* `claim` is borrowed for the call, NULL on failure; then `why` says what happened. */
typedef void plugin_claim_fn(void *user, const json_t *claim, const struct err *why);

/* Where claims come from. */
struct plugin_claim_source {
    /* Calls `found` once, later (never before it returns), unless cancelled. `ref` is borrowed. */
    int (*start)(void *user, const struct claim_ref *ref, plugin_claim_fn *found, void *found_user,
                 void **out_lookup, struct err *e);
    void (*cancel)(void *user, void *lookup);
    void *user;
};

struct claim_store;
struct plugin_prepare;
struct serialize;
struct stored_claim;

/* Caller-owned. Zero-initialise and fill the first six. */
struct plugin {
    struct claim_target target;
    struct plugin_claim_source source;
    struct serialize *lock; /* held while an answer is made; NULL: we are the only instance */
    const struct claim_store *store; /* NULL: nothing is remembered, and none is in another's way */
    /* That claim was in another's way. */
    void (*on_odds)(void *user, const struct stored_claim *claim);
    void *user;
    struct plugin_prepare *under_way; /* owned list */
    struct log_repeat failures;
    uint64_t prepared;         /* claims */
    uint64_t prepare_failures; /* claims */
    uint64_t unprepared;       /* claims */
};

/* Gives up what is under way. */
void plugin_fini(struct plugin *p);

/* Adds the four methods; `p` is borrowed for the router's life. */
void plugin_serve(struct plugin *p, struct grpc_router *router);

#endif
