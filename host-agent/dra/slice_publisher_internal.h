/* SPDX-License-Identifier: Apache-2.0 */
/* What slice_publisher.c (deciding, writing) and slice_reader.c share. For these only. */
#ifndef DRA_SLICE_PUBLISHER_INTERNAL_H
#define DRA_SLICE_PUBLISHER_INTERNAL_H

#include "host-agent/dra/slice_pace.h"
#include "host-agent/dra/slice_publisher.h"

enum { PUBLISHER_PATH_BYTES = 1024 };

#define PUBLISHER_DENIED_WARN_NS (3600 * NS_PER_SEC)

struct slice_publisher {
    struct slice_publisher_config config;
    char name[NAMES_K8S_NAME_BYTES];
    char node_uid[NAMES_UID_BYTES];
    bool has_node;

    enum slice_version version; /* of the API; valid with has_version, else the next to try */
    bool has_version;
    struct slice_dropped dropped;
    struct mono dropped_again; /* when that is tried anew */
    struct log_repeat dropped_taints;
    struct log_repeat dropped_sharing;

    bool is_listed;
    bool is_list_due;   /* not listed any more when `due` comes */
    json_t *existing;   /* owned; as the server last showed it; NULL: absent */
    bool is_name_taken; /* by a slice that is not ours */
    bool is_unsure;     /* it changed while we wrote: to be read again */

    char obsolete[NAMES_K8S_NAME_BYTES]; /* a slice of ours under another name, or "" */
    struct mono removal_at;              /* the earliest time of the next removal */
    uint32_t removals;

    bool has_taint;
    struct slice_taint taint;

    /* What the server made of our last write where that is not what we sent: its last word. */
    json_t *answer; /* owned, or NULL */
    struct slice_taint answer_taint;

    struct kube_call *call; /* the one request under way, or NULL */
    json_t *sent;           /* owned; the body of the write under way */
    struct kube_watch *watch;
    bool is_watch_denied;
    struct mono watch_again; /* once denied: ask for it again */

    struct mono due; /* the next step; MONO_NEVER: nothing to do */
    struct slice_pace pace;
    struct log_repeat warnings;
    struct log_repeat undone;
    struct log_repeat altered;
    struct log_repeat ending;
    struct log_repeat removed;
    struct log_repeat denied;
    struct slice_stats stats;
};

/* ---- slice_publisher.c ---- */

void publisher_set_due(struct slice_publisher *p, struct mono due);
/* The next thing to do, if nothing is under way. */
void publisher_step(struct slice_publisher *p, struct mono now);
/* Something failed: later. `told_ns` is the server's Retry-After, or 0. */
void publisher_back_off(struct slice_publisher *p, struct mono now, int64_t told_ns);
/* The same, with a line in the log now and then. */
void publisher_fail(struct slice_publisher *p, const char *what,
                    const struct kube_response *response);
/* The one request at a time; `body` may be NULL. */
void publisher_send(struct slice_publisher *p, enum kube_method method, const char *path,
                    const json_t *body, kube_done_fn *done, struct mono now);
const char *publisher_collection(const struct slice_publisher *p,
                                 char out[static PUBLISHER_PATH_BYTES]);
/* The server shows this slice under our name (NULL: none). `take` takes it, `keep` copies. */
void publisher_take(struct slice_publisher *p, json_t *slice);
void publisher_keep(struct slice_publisher *p, const json_t *object);
/* The version that worked is served no more, as after an upgrade: look for one from the newest on,
 * a little later. Not within a callback of the watch. */
void publisher_find_version(struct slice_publisher *p, struct mono now);

/* ---- slice_reader.c: each starts a request whose answer steps on ---- */

void publisher_ask_node(struct slice_publisher *p, struct mono now);
void publisher_ask_list(struct slice_publisher *p, struct mono now);
void publisher_ask_slice(struct slice_publisher *p, struct mono now);

#endif
