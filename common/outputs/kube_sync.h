/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one object of the API server as its owner wants it: reads it, asks the owner for the
 * desired state, writes the difference. The owner calls kube_sync_changed() when it wants something
 * else, and kube_sync_saw() when a watch shows the object.
 *
 * One request at a time. After a failure it backs off with jitter; after a denial it waits longer,
 * and logs that once an hour. When another writer undoes a write, it repeats the write ever more
 * slowly, so that two writers cannot loop. When the API server stores something else than it wrote,
 * it uses the slowest pace from the start. Loop thread only.
 */
#ifndef OUTPUTS_KUBE_SYNC_H
#define OUTPUTS_KUBE_SYNC_H

#include "kube/kube_client.h"

struct ev_loop;
struct kube_sync;

/* Between two writes of the same: `base_ns`, doubled each time it is taken back. */
struct kube_sync_pace {
    int64_t base_ns;
    int64_t max_ns;
    int64_t quiet_ns; /* what stood for so long, and for two pauses, was not taken back */
    uint32_t free;    /* in a row without a pause: people edit a few things at a time */
};

struct kube_sync_want {
    json_t *body;        /* owned; to be written; NULL: nothing is to be done */
    bool is_patch;       /* `body` is a merge patch of what exists, not all of it */
    int64_t gap_ns;      /* from the last write of another want to this one */
    const char *trouble; /* constant; why that cannot be said; or NULL */
};

struct kube_sync_config {
    struct ev_loop *loop;        /* borrowed */
    struct kube_client *client;  /* borrowed */
    const char *mod;             /* of the log; constant */
    char *what;                  /* "lease ovn/ovn-dpu-w1"; this and the next are taken */
    char *collection;            /* "/apis/.../leases" */
    const char *unserved_advice; /* what to do where none can be created: "; enable ..."; constant;
                                    NULL: it is always served */
    const char *name;            /* borrowed, as the next two are */
    const char *part;          /* strategic patches of this subresource alone; NULL: a whole object,
                                  which is created where it is missing */
    const char *owner_node;    /* whose UID `desired` needs; NULL: none */
    bool is_urgent;            /* writes never wait for their turn, nor reads while it is gone */
    uint32_t deadline_ms;      /* of a request; 0: the client's own */
    int64_t settle_ns;         /* from the first want to the first look */
    int64_t check_ns;          /* at rest it is looked at anew so often; 0: never */
    int64_t retry_ns;          /* of the backoff */
    int64_t retry_max_ns;      /* "" */
    int64_t denied_retry_ns;   /* after 400, 403 and 422; 0: as after other failures */
    const char *denied_advice; /* what to do where a right is missing: "; grant ..." */
    struct kube_sync_pace repair;
    struct kube_sync_pace create;

    /* The object to write over `existing` (NULL: there is none). `uid` is the owner's. */
    void (*desired)(void *user, const json_t *existing, const char *uid,
                    struct kube_sync_want *out);
    /* The part of an answer that is ours, borrowed from it; NULL: nothing is. May be NULL: all of
     * it. */
    json_t *(*pick)(void *user, json_t *answer);
    /* A write was answered, in whatever way. True: what is wanted has changed by that. May be NULL.
     * Calls of kube_sync_saw() within it are ignored. */
    bool (*on_written)(void *user, enum kube_method method, const struct kube_response *response);
    void *user;
};

struct kube_sync_stats {
    uint64_t written;
    uint64_t failed; /* reads, too */
};

struct kube_sync *kube_sync_new(const struct kube_sync_config *config);
/* Leaves the object as it is; before the client; not within a callback; accepts NULL. */
void kube_sync_free(struct kube_sync *s);

/* Something is wanted, or something else: from the first time on the object is kept. A change does
 * not wait for the pace of what is only repeated, but for what the server asked for. */
void kube_sync_changed(struct kube_sync *s);
/* The object is in this state; NULL: it is gone. Copied. It takes the place of a read that is due,
 * the first one and that after a conflict. */
void kube_sync_saw(struct kube_sync *s, const json_t *object);
/* At rest it is looked at anew now. */
void kube_sync_look(struct kube_sync *s);

const struct kube_sync_stats *kube_sync_stats(const struct kube_sync *s);

#endif
