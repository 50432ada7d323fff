/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims from the API server, for plugin.h. Loop thread only.
 *
 * Asks for resource.k8s.io v1 and goes back to older versions where the server does not serve it;
 * what worked is remembered. An API server may be upgraded meanwhile, or several of different age
 * may answer in turn: so a version that is gone costs one round through all of them, and after an
 * older one the newest is tried again now and then. A 404 that is a Status object means that the
 * claim is missing, any other that the version is.
 */
#ifndef DRA_CLAIM_LOOKUP_H
#define DRA_CLAIM_LOOKUP_H

#include "base/time.h"
#include "host-agent/dra/plugin.h"
#include "kube/kube_client.h"

enum { CLAIM_LOOKUP_DEADLINE_MS = 10000 /* the kubelet waits 45 s for all of Prepare */ };
#define CLAIM_NEWEST_AGAIN_NS (600 * NS_PER_SEC) /* an upgrade takes longer */

/* Newest first: the order in which they are tried. */
enum slice_version { SLICE_V1, SLICE_V1BETA2, SLICE_V1BETA1, SLICE_VERSION_COUNT };

/* Caller-owned; zero-initialise and fill the first two. Must outlive the lookups. */
struct claim_lookup {
    struct kube_client *client;  /* borrowed */
    enum kube_priority priority; /* urgent where a kubelet waits */
    enum slice_version version;  /* that worked last */
    struct mono newest_again;    /* when the newest is tried first, if that is an older one */
};

/* The source to give to a plugin; borrows `l`. */
struct plugin_claim_source claim_lookup_source(struct claim_lookup *l);

#endif
