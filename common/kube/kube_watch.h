/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One object under watch: LIST with its name as field selector, then WATCH from the list's
 * resourceVersion, for ever. Loop thread only.
 *
 * Resumes by resourceVersion after an ordinary close; starts over with a LIST after anything else:
 * a look is needed then, too. Bookmarks are asked for; without a byte for a minute and a half it
 * connects anew. A line is bounded by KUBE_WATCH_LINE_MAX_BYTES. Where list or watch is forbidden
 * (403) it asks again within a second, then ever more rarely, up to ten minutes apart; the owner
 * reads meanwhile. Retries have full jitter and a cap, and honour Retry-After up to the cap. Only
 * the first 410 in a minute is followed at once; a stream that ends within seconds counts as a
 * failure.
 */
#ifndef KUBE_KUBE_WATCH_H
#define KUBE_KUBE_WATCH_H

#include "kube/kube_client.h"

enum { KUBE_WATCH_LINE_MAX_BYTES = 64 << 10 };

struct kube_watch;

struct kube_watch_config {
    const char *collection_path; /* ".../namespaces/ns/leases"; copied */
    const char *name;            /* metadata.name; copied */
    const uint64_t *newest; /* the newest resourceVersion that the owner knows of: a server whose
                               list is older lags; borrowed, NULL: it knows of none */
    uint64_t *opened;       /* counts the watches that the server accepted; NULL: nobody asks */

    /* The object is in this state (borrowed); NULL: it does not exist. `sent_at` is of the LIST
     * that says so, which is quorum-fresh as of then; 0: a watch event does. */
    void (*on_object)(void *user, const json_t *object, struct mono sent_at);
    /* A byte of life from the server: bookmark, event or accepted watch. */
    void (*on_contact)(void *user);
    /* List or watch failed (not for an ordinary close) or is denied (403), each time; it will be
     * retried. */
    void (*on_failure)(void *user, const struct kube_response *response);
    void *user;
};

struct kube_watch *kube_watch_start(struct kube_client *client,
                                    const struct kube_watch_config *config);
/* Drops a stream that was accepted and starts over with a LIST at once: the owner has reason to
 * mistrust it. Where there is none, one is already tried for, at the watch's own pace. */
void kube_watch_restart(struct kube_watch *watch);
/* The API server has answered: a watch that failed or is denied is tried for at once, over the
 * connection that the answer has just left. */
void kube_watch_hope(struct kube_watch *watch);
void kube_watch_stop(struct kube_watch *watch); /* frees it; accepts NULL; not within a callback */

#endif
