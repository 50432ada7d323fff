/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the verdict: every event passes through monitor_event, which reads the clock once,
 * steps it and performs the update: first the record, then the other outputs, then requests
 * for the lease. It decides nothing. Loop thread only.
 */
#ifndef HOST_AGENT_MONITOR_H
#define HOST_AGENT_MONITOR_H

#include "base/err.h"
#include "host-agent/verdict.h"

struct condition;
struct daemon;
struct events;
struct kube_client;
struct lease_keeper;
struct lease_watch;
struct podnet;
struct monitor;
struct record_turn;
struct record_writer;

#define MONITOR_LATE_NS       (5 * NS_PER_SEC)  /* a wake-up this late is a stall */
#define MONITOR_UNANSWERED_NS (60 * NS_PER_SEC) /* so is a read with no outcome for so long */

/* All is borrowed, and outlives the monitor. */
struct monitor_config {
    struct daemon *daemon;
    struct kube_client *client; /* NULL: nobody looks at the lease, or tells the API server */
    struct podnet *pods;        /* NULL: off */
    struct events *events;      /* NULL: off */
    struct verdict_config verdict;
    const char *node;
    const char *dpu; /* a further DPU of the node, which names its condition; "": the first */
    const char *readiness_file;
    struct record_turn *turn; /* NULL: the record is always ours to write */
    int64_t stale_hold_ns;
    bool has_condition;
    bool is_condition_firm;
};

/* The monitor's parts, for their counters. NULL: off. */
struct monitor_parts {
    struct record_writer *record; /* always there */
    struct lease_watch *watch;
    struct lease_keeper *keeper; /* with the watch */
    struct events *events;
    struct condition *condition;
};

/* For metrics. Counters since the start. */
struct monitor_stats {
    uint64_t changes[REASON_COUNT]; /* of state, admission or reason, by the new reason */
    uint64_t renewals;              /* that were observed */
    uint64_t reboots;               /* of the DPU */
    bool api_reachable;             /* the last read was answered */
    int64_t outage_ns;              /* in all, while it was not; the present outage included */
    bool has_skew;
    int64_t skew_ns; /* the newest renewal's stamp minus our clock when it was observed */
};

/* Everything that it calls, ready for monitor_start. `carry` is what a predecessor left, or NULL;
 * borrowed. */
struct monitor *monitor_new(const struct monitor_config *config, const struct record *carry);
void monitor_free(struct monitor *m); /* accepts NULL; leaves the record and the lease */

/* Publishes the first verdict everywhere and arms the timer. */
void monitor_start(struct monitor *m);

/* The event's two times are filled in here. */
void monitor_event(struct monitor *m, struct verdict_event event);

/* False if the verdict was not woken when it asked to be, or if a confirming read got neither an
 * answer nor a failure for long: whatever the last verdict says, nobody stands behind it any more.
 */
bool monitor_makes_progress(const struct monitor *m, struct mono now);

const struct readiness *monitor_verdict(const struct monitor *m);   /* borrowed */
const struct monitor_parts *monitor_parts(const struct monitor *m); /* borrowed */
struct monitor_stats monitor_stats(const struct monitor *m, struct mono now);

#endif
