/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the lease as upstream's DPU side does: a GET of the Node for its UID, which the owner
 * reference needs, then a POST with a first renewal. Without the UID none is made: it would outlive
 * its Node. Loop thread only.
 */
#ifndef DPU_AGENT_LEASE_MAKER_H
#define DPU_AGENT_LEASE_MAKER_H

#include "dpu-agent/renewer.h"
#include "kube/kube_client.h"

/* `stamp`: the renewTime that was sent, "" if it did not come to that. */
typedef void lease_maker_fn(void *user, const struct kube_response *response, const char *stamp);

struct lease_maker {
    struct kube_client *client;          /* borrowed */
    const struct renewer_config *config; /* borrowed */
    lease_maker_fn *done;
    void *user;
    struct kube_call *call; /* NULL: none under way */
    uint32_t deadline_ms;   /* of each of the two requests */
    char stamp[NAMES_STAMP_BYTES];
};

/* Starts, with `deadline_ms` for all of it; `done` gets the answer to the POST, or what failed
 * before. Errors: as kube_client_start; then `done` is not called. */
NODISCARD int lease_maker_start(struct lease_maker *m, uint32_t deadline_ms, struct err *e);
/* Then `done` is not called. */
void lease_maker_cancel(struct lease_maker *m);

#endif
