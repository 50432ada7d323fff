/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates the lease, owned by the Node and without a renewTime, and repairs duration, owner
 * reference and an empty holder. Never changes renewTime: a DPU is alive only after the host has
 * seen it alive. Loop thread only.
 *
 * It works only when there is something to do: at start, when the lease is gone, or when a state
 * that it is shown has drifted. The Node is read anew before every write, because a Node that
 * was deleted and recreated has a new UID, and a lease with the old one is garbage-collected. It
 * logs a foreign holder each minute and leaves it alone. Repairs are at least one lease duration
 * apart, and ever further if another writer undoes them. It recreates a deleted lease at once.
 */
#ifndef HOST_AGENT_LEASE_KEEPER_H
#define HOST_AGENT_LEASE_KEEPER_H

#include "contract/lease.h"
#include "outputs/kube_sync.h"

struct lease_keeper;

struct lease_keeper_config {
    const char *ns; /* borrowed while it runs, like the others */
    const char *name;
    const char *node;
    const char *holder;
    uint32_t duration_s;
    /* The lease as the API server answered to our own write, sent at `sent_at`; borrowed. */
    void (*on_written)(void *user, const json_t *lease, struct mono sent_at, bool is_patch);
    void *user;
};

/* Begins with the first state of the lease that it is shown. */
struct lease_keeper *lease_keeper_start(struct ev_loop *loop, struct kube_client *client,
                                        const struct lease_keeper_config *config);
void lease_keeper_stop(struct lease_keeper *k); /* accepts NULL; not within on_written */

/* A state of the lease that was seen (borrowed), or NULL if it is gone: mends what is wrong. */
void lease_keeper_saw(struct lease_keeper *k, const json_t *lease);

/* Whether the API server forbids us to make a lease that is gone, as far as we know. */
bool lease_keeper_is_denied(const struct lease_keeper *k);

const struct kube_sync_stats *lease_keeper_stats(const struct lease_keeper *k); /* borrowed */

#endif
