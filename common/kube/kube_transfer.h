/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP exchange on the client's curl multi handle: the common ground of calls and watches.
 * Bytes are collected while curl runs and handed on after it has returned, so that a callback may
 * start and free transfers, its own included. Loop thread only.
 *
 * Each takes a token of the client's bucket when it is sent. One that is not urgent and finds none
 * waits for its turn, in the order of arrival: at most KUBE_WAITING_MAX at a time.
 */
#ifndef KUBE_KUBE_TRANSFER_H
#define KUBE_KUBE_TRANSFER_H

#include "base/buf.h"
#include "kube/kube_client.h"

struct kube_transfer;

enum { KUBE_WAITING_MAX = 32 }; /* three times what both watches and all outputs ask for at once */

struct kube_transfer_config {
    enum kube_method method;
    bool fresh;           /* a connection of its own, closed afterwards */
    bool urgent;          /* never waits */
    const char *path;     /* copied */
    char *body;           /* NULL or owned text: freed with the transfer, also on failure */
    uint32_t deadline_ms; /* from when it is sent; 0: none */
    size_t max_bytes;     /* held at a time */
    /* Bytes are in kube_transfer_inbox; NULL: they are kept until on_done. */
    void (*on_bytes)(void *user);
    /* The end, once: `curl_code` is CURLE_OK if an HTTP answer came through whole. */
    void (*on_done)(void *user, int curl_code);
    void *user;
};

/* Errors: ERR_NOMEM, ERR_LIMIT (too many wait, or too long a URL). */
NODISCARD int kube_transfer_start(struct kube_client *client,
                                  const struct kube_transfer_config *config,
                                  struct kube_transfer **out, struct err *e);
void kube_transfer_free(struct kube_transfer *t); /* at any time outside curl; accepts NULL */

struct buf *kube_transfer_inbox(struct kube_transfer *t); /* borrowed; consume what was read */
int kube_transfer_status(const struct kube_transfer *t);  /* 0 before the headers */
struct mono kube_transfer_sent_at(const struct kube_transfer *t); /* MONO_NEVER while it waits */

/* What the answer's head and the end tell; fills all of `out` but body, reason and message. */
void kube_transfer_describe(const struct kube_transfer *t, struct kube_response *out);
/* Why it ended, in words: "Connection refused ..." */
const char *kube_transfer_error(const struct kube_transfer *t, int curl_code);
bool kube_transfer_overflowed(const struct kube_transfer *t); /* it was larger than max_bytes */
bool kube_transfer_is_json(const struct kube_transfer *t);

#endif
