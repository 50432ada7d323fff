/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the pods that claim the DPU how it is, by an Event on each: who looks at a pod finds there
 * since when and why, also where the kubelet shows no health, or the pod is none the wiser any
 * more.
 *
 * Which claims are prepared the store knows; which pods have them at this moment is asked of the
 * API server, claim by claim. What turns out to be prepared no longer is dropped from the store. A
 * newer verdict starts the round anew. Loop thread only.
 */
#ifndef DRA_CLAIM_EVENTS_H
#define DRA_CLAIM_EVENTS_H

#include "contract/readiness.h"
#include "host-agent/dra/claim.h"

struct claim_events;
struct events;

struct claim_events_config {
    struct kube_client *client; /* borrowed, like all of these */
    struct events *events;      /* NULL: nothing is told */
    const char *plugin_dir;
    struct claim_target target; /* its pool is not always the node */
};

struct claim_events *claim_events_new(const struct claim_events_config *config);
void claim_events_free(struct claim_events *t); /* before the client; accepts NULL */

/* This is the verdict, since its transition. What lets pods in because nobody can know is no news
 * of the DPU; nor is what they were told last. */
void claim_events_tell(struct claim_events *t, const struct readiness *verdict);

/* Looks whether that claim is still what the store says, unless one is looked up already. */
void claim_events_check(struct claim_events *t, const struct stored_claim *claim);

#endif
