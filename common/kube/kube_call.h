/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request under way: what kube_client_start() and the watch stand on, and the seam at which a
 * test plays the API server.
 *
 * Bytes are collected while curl runs and handed on after it has returned, so that a callback may
 * start and cancel calls, its own included. Loop thread only.
 *
 * Each takes a token of the client's bucket when it is sent. One that is not urgent and finds none
 * waits for its turn, in the order of arrival: at most KUBE_WAITING_MAX at a time.
 */
#ifndef KUBE_KUBE_CALL_H
#define KUBE_KUBE_CALL_H

#include "base/mem.h"
#include "kube/kube_client.h"

enum { KUBE_WAITING_MAX = 32 }; /* three times what both watches and all outputs ask for at once */

struct kube_call_config {
    struct kube_request request; /* path copied, body serialised at once; deadline_ms 0: none */
    size_t max_bytes;            /* held at a time; of a stream the rest waits */
    /* NULL, or it makes the call a stream: its head is whole, or more has come. Takes what it can
     * use out of the inbox. */
    void (*on_bytes)(void *user, struct buf *inbox);
    /* The end, once; the call is gone by then. A stream's response has a `body` only if it was
     * refused, and a `message` only if it broke off: why. It is neither observed nor tried again
     * after a 401: its owner does. */
    kube_done_fn *on_done;
    void *user;
};

/* Ended by kube_call_cancel(). Errors: ERR_NOMEM, ERR_LIMIT (too many wait, or too long a path). */
NODISCARD int kube_call_start(struct kube_client *client, const struct kube_call_config *config,
                              struct kube_call **out, struct err *e);

/* What is known by now: all but outcome, loss, body, reason and message. */
void kube_call_head(const struct kube_call *call, struct kube_response *out);

/* Tells the client's observer, if there is one. */
void kube_client_observe(struct kube_client *client, const char *verb,
                         const struct kube_response *response);

struct ev_loop *kube_client_loop(const struct kube_client *client);

#endif
