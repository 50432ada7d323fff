/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kubelet calls: pluginregistration.Registration, and DRAPlugin v1 and v1beta1.
 *
 * Registration: the kubelet dials the registration socket whenever it sees it (also after each of
 * its own restarts), asks GetInfo with a deadline of one second, and tells the outcome with
 * NotifyRegistrationStatus. A rejection is logged in the kubelet's own words; it will try again by
 * itself.
 *
 * There is nothing to set up for a DPU that already carries the node's traffic, so Prepare and
 * Unprepare are idempotent; what Prepare does is to check, to remember and to tell. Where the
 * device is not shared a second claim is refused for as long as the first is prepared. Each answer
 * has exactly one entry per claim asked for: a kubelet treats a missing one as failure, as it does
 * an extra one. Prepare looks each claim up at the API server, in parallel and without blocking; a
 * claim that cannot be looked up gets its own error and the kubelet asks again. Unprepare never
 * asks anybody, because the claim may be gone, and always succeeds.
 *
 * In a rolling update two of us answer one after the other, by a lock on the same file that
 * Kubernetes' own plugin helper takes; the lookups come before. It never blocks: without the lock
 * the answer is "try again".
 */
#ifndef DRA_PLUGIN_H
#define DRA_PLUGIN_H

#include "base/file.h"
#include "base/log.h"
#include "host-agent/dra/claim.h"
#include "host-agent/grpc/conn.h"

#include <stdbool.h>
#include <stdint.h>

enum { PLUGIN_CLAIMS_MAX = 256 /* in one request */, PLUGIN_REFUSAL_BYTES = 512 };

/* Caller-owned. Zero-initialise and fill the first part. Texts are borrowed. */
struct plugin {
    struct claim_target target;
    const char *endpoint;       /* path of the DRA socket */
    const char *plugin_dir;     /* of what is remembered */
    struct kube_client *client; /* borrowed */
    struct file_lock *lock;     /* held while an answer is made; NULL: we are the only instance */
    /* That claim was in another's way. */
    void (*on_conflict)(void *user, const struct stored_claim *claim);
    void *user;

    bool is_registered;                 /* as the kubelet last said */
    char refusal[PLUGIN_REFUSAL_BYTES]; /* its words, made printable; "": it did not */
    uint64_t accepted;                  /* NotifyRegistrationStatus(true) */
    uint64_t rejected;                  /* NotifyRegistrationStatus(false) */
    uint64_t prepared;                  /* claims */
    uint64_t prepare_failures;          /* claims */
    uint64_t unprepared;                /* claims */
    struct prepare *under_way;          /* owned list */
    struct log_repeat rejections;       /* a kubelet tries again for ever */
    struct log_repeat failures;
};

/* Adds the two and the four methods; `p` is borrowed for the routers' life. */
void plugin_serve(struct plugin *p, struct grpc_router *registration, struct grpc_router *dra);

/* Gives up what is under way. */
void plugin_fini(struct plugin *p);

#endif
