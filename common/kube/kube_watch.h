/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One object under watch: LIST with its name as field selector, then WATCH from the list's
 * resourceVersion, for ever. Loop thread only.
 *
 * Resumes by resourceVersion after an ordinary close; starts over with a LIST after 410, an ERROR
 * event, garbage or "too large resource version". Bookmarks are asked for. A line is bounded by
 * KUBE_WATCH_LINE_MAX_BYTES. Where list or watch is forbidden (403) it says so through `denied`,
 * and asks again within a second, then ever more rarely, up to ten minutes apart; the owner reads
 * meanwhile.
 * Retries have full jitter and a cap, and honour Retry-After up to the cap. Only the first 410 in a
 * minute is followed at once; a stream that ends within seconds counts as a failure.
 */
#ifndef KUBE_KUBE_WATCH_H
#define KUBE_KUBE_WATCH_H

#include "kube/kube_client.h"

enum { KUBE_WATCH_LINE_MAX_BYTES = 64 << 10 };

enum kube_watch_event { KUBE_WATCH_PRESENT, KUBE_WATCH_ABSENT };

struct kube_watch;

struct kube_watch_config {
    const char *collection_path; /* ".../namespaces/ns/leases"; copied */
    const char *name;            /* metadata.name; copied */
    int64_t silence_ns; /* no byte for so long (no event, no bookmark): reconnect; 0: 90 s */

    /* The object exists, in this state (borrowed), or does not exist. `listed` tells whether this
     * comes from a LIST, which is quorum-fresh as of `sent_at`; for a watch event `sent_at` is 0.
     */
    void (*on_object)(void *user, enum kube_watch_event event, const json_t *object, bool listed,
                      struct mono sent_at);
    /* A byte of life from the server: bookmark, event or accepted watch. */
    void (*on_contact)(void *user);
    /* List or watch failed (not for an ordinary close); it will be retried. */
    void (*on_failure)(void *user, const struct kube_response *response);
    /* 403 on list or watch, each time. */
    void (*on_denied)(void *user, const struct kube_response *response);
    void *user;
};

struct kube_watch *kube_watch_start(struct kube_client *client,
                                    const struct kube_watch_config *config);
/* Drops a stream that was accepted and starts over with a LIST at once: the owner has reason to
 * mistrust it. Where there is none, one is already tried for, at the watch's own pace. */
void kube_watch_restart(struct kube_watch *watch);
/* There is a sign of another API server, or of other rights: where the watch is denied, it is tried
 * for again soon. */
void kube_watch_hope(struct kube_watch *watch);
/* How many watches the server has accepted, for metrics. */
uint64_t kube_watch_opened(const struct kube_watch *watch);
void kube_watch_stop(struct kube_watch *watch); /* frees it; accepts NULL; not within a callback */

#endif
