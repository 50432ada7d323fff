/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ResourceClaims: whether a claim has our device, and which claims are prepared. Loop thread only.
 *
 * The kubelet names claims in its requests; the claim's status, at the API server, has the
 * allocation. Only results of our driver count. Each must be our one device, and the claim must
 * have the requested UID: another claim may have taken its name (KEP-4381).
 *
 * The driver remembers only which claims are prepared: for each a symbolic link in `claims/` of the
 * plugin's directory, named by the claim's UID. Its target is no path but "USE NAMESPACE/NAME". A
 * link is whole or absent, outlives the driver, and is the same for two instances in a rolling
 * update. To add one, hold the lock of plugin.h; to drop one needs no lock. A link may be out of
 * date after a kubelet lost its own state, so the driver asks the API server about it.
 */
#ifndef DRA_CLAIM_H
#define DRA_CLAIM_H

#include "base/err.h"
#include "contract/names.h"
#include "contract/readiness.h"
#include "dra-driver/dra/dra_service.h"
#include "kube/kube_client.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    CLAIM_RESULTS_MAX = 32,          /* of one claim, all drivers; the API server's own limit */
    CLAIM_REQUEST_BYTES = 64,        /* a DNS label */
    CLAIM_STORE_ENTRIES_MAX = 4096,  /* looked at; a node has far fewer pods */
    CLAIM_CHECKS_MAX = 64,           /* that wait; with one more all of the store are checked */
    CLAIM_LOOKUP_DEADLINE_MS = 10000 /* the kubelet waits 45 s for all of Prepare */
};

/* A condition whose write failed is tried again; what it is to show has settled by then. */
#define CLAIM_RETRY_NS     (1 * NS_PER_SEC)
#define CLAIM_RETRY_MAX_NS (60 * NS_PER_SEC)
#define CLAIM_SETTLE_NS    (5 * NS_PER_SEC)

struct claim_ref {
    const char *ns;
    const char *uid;
    const char *name;
};

enum claim_use {
    CLAIM_USE_ALONE,  /* nobody else may have the device */
    CLAIM_USE_SHARED, /* each of its results is a share */
    CLAIM_USE_ADMIN,  /* each looks on, whoever has the device (adminAccess) */
};

struct claim_allocation {
    enum claim_use use; /* of all results together */
    size_t count;
    struct claim_share {
        char request[CLAIM_REQUEST_BYTES]; /* base name: without "/subrequest" */
        char share_id[NAMES_UID_BYTES];    /* "" if the device is not shared */
    } shares[CLAIM_RESULTS_MAX];
};

struct stored_claim {
    enum claim_use use;
    char ns[NAMES_K8S_NAME_BYTES];
    char name[NAMES_K8S_NAME_BYTES];
    char uid[NAMES_UID_BYTES];
};

/* Asks the API server for a claim. `ref` is borrowed for the call. Errors: ERR_PARSE (the reference
 * cannot name a claim). */
NODISCARD int claim_ask(struct kube_client *client, enum kube_priority priority,
                        const struct claim_ref *ref, kube_done_fn *done, void *user,
                        struct kube_call **out, struct err *e);

/* Reads its answer. ERR_NOTFOUND, ERR_GONE and ERR_CONFLICT mean that the claim does not have our
 * device any more: it is not there or not allocated, is another of that name, has a device that we
 * do not have. Otherwise nobody can tell: ERR_RETRY ... */
NODISCARD int claim_read(const struct kube_response *answer, const struct claim_ref *ref,
                         const struct dra_device *device, struct claim_allocation *out,
                         struct err *e);

/* Who is in the way of whom, as one look at the store shows: the claims of a request share it, so
 * that a store full of stale links costs them one look, not one each. Zero-initialise it, and drop
 * it with the lock. */
struct claim_holders {
    bool is_read;
    bool is_cut;               /* there are more than CLAIM_STORE_ENTRIES_MAX */
    struct claim_holder_pair { /* with the smallest UIDs; two, for one may be who asks */
        struct stored_claim claims[2];
        size_t count;
    } of[CLAIM_USE_ADMIN]; /* by their use; who only looks on is in nobody's way */
};

/* Keeps it, in place of what was kept for that UID, unless another claim is in the way: each may
 * have the device alone, but for those that only look on. Reads `holders` first, unless that was
 * done. `out` is the claim that is kept. Errors: ERR_CONFLICT, then `out` is the claim in the way;
 * ERR_IO, ERR_PARSE (a UID that names no file): nobody is in the way, but it is not kept. */
NODISCARD int claim_store_take(const char *plugin_dir, struct claim_holders *holders,
                               const struct claim_ref *ref, enum claim_use use,
                               struct stored_claim *out, struct err *e);
/* Nothing if it is not there. */
void claim_store_drop(const char *plugin_dir, const char *uid);

/* The claim with the smallest UID above `uid` ("": the first); false: there is none. What is no
 * claim of ours is passed over. `out` may hold `uid`. */
NODISCARD bool claim_store_next(const char *plugin_dir, const char *uid, struct stored_claim *out);

/* ---- Events ----------------------------------------------------------------------------------
 *
 * Writes an Event about the DPU's state on each Pod that claims it, even where the kubelet shows no
 * health. The API server tells, for each claim of the store, which Pods have it; one that is no
 * longer prepared leaves the store. A newer verdict starts the round again.
 *
 * With --dra-claim-conditions the claim says it, too, from when it is prepared: Ready, in the
 * status of our devices, by the newest verdict. All claims are looked at with the Events, and
 * CLAIM_SETTLE_NS after a start or a change of which no Event could be written. A claim whose look
 * or write failed is tried again with backoff: where a right is missing, one claim per pause shows
 * whether it has been given.
 */

struct claim_events;
/* Borrows both. Pods hear what the config's `events` tell, at their pace; without any, nothing. */
struct claim_events *claim_events_new(const struct dra_config *config,
                                      const struct dra_device *device);
void claim_events_free(struct claim_events *t); /* before the client; accepts NULL */

/* Conditions show this verdict from now on, but never an Unknown that admits Pods. */
void claim_events_show(struct claim_events *t, const struct readiness *verdict);

/* Looks whether that claim is still what the store says, soon. */
void claim_events_check(struct claim_events *t, const struct stored_claim *claim);

/* That claim has just been prepared: it gets its condition, if claims have one. */
void claim_events_prepared(struct claim_events *t, const struct stored_claim *claim);

#endif
