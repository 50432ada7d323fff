/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the pods that claim the DPU how it is, by an Event on each: who looks at a pod finds there
 * since when and why, also where the kubelet shows no health, or the pod is none the wiser any
 * more.
 *
 * Which claims are prepared the store knows; which pods have them at this moment is asked of the
 * API server, claim by claim. What turns out to be prepared no longer is dropped from the store. A
 * newer verdict starts the round anew. Everything waits its turn with the client; an Event that
 * fails is dropped. Loop thread only.
 */
#ifndef DRA_CLAIM_TELLER_H
#define DRA_CLAIM_TELLER_H

#include "base/attr.h"
#include "base/err.h"
#include "contract/readiness.h"
#include "host-agent/dra/claim_store.h"
#include "kube/kube_client.h"

struct claim_teller;

struct claim_teller_config {
    struct kube_client *client;      /* borrowed */
    const struct claim_store *store; /* borrowed */
    struct claim_target target;      /* borrowed texts; its pool is not always the node */
    const char *node;                /* borrowed */
};

/* Errors: ERR_NOMEM. */
NODISCARD int claim_teller_new(const struct claim_teller_config *config, struct claim_teller **out,
                               struct err *e);
void claim_teller_free(struct claim_teller *t); /* before the client; accepts NULL */

/* This is the verdict since then. What lets pods in because nobody can know is no news of the DPU;
 * nor is what they were told last. */
void claim_teller_tell(struct claim_teller *t, const struct readiness *verdict, struct wall at);

/* Looks whether that claim is still what the store says, one at a time. */
void claim_teller_check(struct claim_teller *t, const struct stored_claim *claim);

#endif
