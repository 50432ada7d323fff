/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Observes the lease for the verdict: list and watch, and the reads that it asks for. Turns each
 * answer into events with the time at which it was observed, or at which its request was
 * sent. Loop thread only.
 *
 * Where RBAC forbids the watch, the verdict asks for a read of the lease once per interval instead.
 * A denial counts, and is logged, only after some seconds: an API server that has just started
 * denies everything.
 */
#ifndef HOST_AGENT_LEASE_WATCH_H
#define HOST_AGENT_LEASE_WATCH_H

#include "host-agent/verdict.h"
#include "kube/kube_client.h"

#include <jansson.h>

struct lease_watch;

struct lease_watch_config {
    const char *ns;   /* borrowed while it runs */
    const char *name; /* "" */
    int64_t renew_interval_ns;
    uint32_t deadline_ms; /* of one request for evidence */
    /* `object` is the event's lease as it came, or NULL; borrowed. */
    void (*on_event)(void *user, struct verdict_event event, const json_t *object);
    void *user;
};

/* For metrics. Counters since the start. */
struct lease_watch_stats {
    uint64_t confirmed;      /* confirming reads that the API server answered, whatever it said */
    uint64_t confirm_failed; /* that were not */
    uint64_t marks[MARK_OUTCOMES]; /* by how they ended */
    uint64_t watches;              /* opened */
    bool may_not_write; /* the API server forbids the host's marks: reads are the proof */
    bool is_polling;    /* the watch is denied, and that lasts */
};

struct lease_watch *lease_watch_start(struct kube_client *client,
                                      const struct lease_watch_config *config);
void lease_watch_stop(struct lease_watch *w); /* accepts NULL; not within a callback */

/* Reads the lease on a fresh connection. Its outcome is told, also if it runs out, and an answer
 * that comes later as another read; one under way goes on. */
void lease_watch_confirm(struct lease_watch *w);
/* Makes a mark of the state that `lease` (copied) shows, or, as a trial, asks by dryRun whether one
 * would be taken. Its outcome is told. A mark under way goes on, a trial ends untold. */
void lease_watch_mark(struct lease_watch *w, const struct lease_view *lease, bool is_trial);
/* Lists and watches anew. Does nothing while the watch is broken. */
void lease_watch_restart(struct lease_watch *w);

const struct lease_watch_stats *lease_watch_stats(const struct lease_watch *w); /* borrowed */

/* Passes the answer to the keeper's own write: a mark, too. A PATCH makes a trial needless. */
void lease_watch_saw(struct lease_watch *w, const json_t *lease, struct mono sent_at,
                     bool is_patch);

#endif
