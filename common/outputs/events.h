/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Events that a program of the host writes (events.k8s.io/v1), in one bounded queue, one
 * request at a time: the lease's requests are never kept waiting. Loop thread only.
 *
 * About the Node, one for each change of state, reason or admission, and one for a reboot of the
 * DPU; a changed message alone is no change.
 *  - An Unknown is told once it has lasted EVENT_UNKNOWN_NS: a start tells its outcome, and a
 *    restart, or an API server's, that ends where it began writes nothing.
 *  - A token bucket bounds them: a burst of EVENT_BURST, then one per EVENT_REFILL_NS.
 *    EVENT_NODE_QUEUE wait for their turn, or for a server that does not answer. If one more comes,
 *    the oldest is left out: the last change is always written in the end, with the time at which
 *    it happened, and each Event says how many before it were not.
 *  - A failure backs off and honours Retry-After; a missing right is said once an hour and tried
 *    again every five minutes.
 * About pods, what others tell: after those about the Node, as fast as the client lets them; one
 * that fails is dropped.
 */
#ifndef OUTPUTS_EVENTS_H
#define OUTPUTS_EVENTS_H

#include "contract/readiness.h"

#include <stdbool.h>
#include <stdint.h>

struct ev_loop;
struct events;
struct kube_client;

#define EVENT_UNKNOWN_NS (30 * NS_PER_SEC)
#define EVENT_REFILL_NS  (60 * NS_PER_SEC)

enum { EVENT_BURST = 10, EVENT_NODE_QUEUE = 4, EVENT_POD_QUEUE = 512, EVENT_NOTE_BYTES = 640 };

/* About the Node. */
struct event_stats {
    uint64_t created;
    uint64_t failed;     /* tries that came to nothing */
    uint64_t suppressed; /* changes without an Event */
};

/* About a pod, or about the Node (`pod` is ""). Its name is made of the subject and the key, so
 * that the key says what makes two Events one. */
struct event {
    struct wall at;
    uint64_t key;
    const char *action; /* static, like the next two */
    const char *reason;
    const char *rights; /* about a pod: the file that gives the right to write it */
    bool is_warning;
    char note[EVENT_NOTE_BYTES]; /* may be cut */
    char ns[NAMES_K8S_NAME_BYTES];
    char pod[NAMES_K8S_NAME_BYTES];
    char uid[NAMES_UID_BYTES];
    /* Of events.c, about the Node. */
    struct readiness *change; /* owned; NULL: a reboot */
    uint64_t left_out;        /* changes right before it that have no Event */
};

/* Borrows the client, and the node's name. */
struct events *events_new(struct ev_loop *loop, struct kube_client *client, const char *node);
void events_free(struct events *x); /* before the client; accepts NULL */

/* Writes under that name (static), and nothing about the Node, which another program does: a change
 * only waits for its token, and is told on. Before the first verdict. */
void events_about_pods_only(struct events *x, const char *reporter);

/* Verdicts come from now on. `carried` is the one that a predecessor left behind, or NULL. */
void events_begin(struct events *x, const struct readiness *carried);

/* Called with each change that an Event about the Node now tells, or would tell. Set before the
 * first. */
typedef void events_written_fn(void *user, const struct readiness *told);
void events_on_written(struct events *x, events_written_fn *written, void *user);

void events_publish(struct events *x, const struct readiness *verdict);

/* The DPU was found to have rebooted, then. */
void events_tell_reboot(struct events *x, struct wall at);

/* About the Node, and no change of its readiness. Copies it. */
void events_tell_node(struct events *x, const struct event *event);

/* Copies it; nothing where the queue is full. */
void events_tell_pod(struct events *x, const struct event *event);

/* Takes back what waits about pods with that action. */
void events_withdraw(struct events *x, const char *action);

const struct event_stats *events_stats(const struct events *x);

#endif
