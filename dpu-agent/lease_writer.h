/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The renewer's shell: sends the requests that the renewer decides on, keeps the lease's JSON tree,
 * arms the timer, logs the notes. Decides nothing. Loop thread only.
 *
 * The tree is that of the last answer; each PUT sends an edited copy, so that unknown fields
 * survive. While answers differ in nothing but version and time, which is the usual, the text of
 * the last PUT is edited in place and no answer is parsed (contract/lease.h). The writer waits for
 * at most one request; an earlier one that timed out may still be under way.
 */
#ifndef DPU_AGENT_LEASE_WRITER_H
#define DPU_AGENT_LEASE_WRITER_H

#include "dpu-agent/renewer.h"
#include "loop/metrics.h"

struct ev_loop;
struct kube_client;
struct lease_writer;

enum { LEASE_FAILURES = 12 }; /* causes of a request that failed */

/* "timeout", "conflict" ... */
const char *lease_failure_cause(size_t failure);

/* For metrics. Counters since the start. */
struct lease_writer_stats {
    uint64_t renewals;                 /* as companion: seen */
    uint64_t failures[LEASE_FAILURES]; /* by cause */
    uint64_t late;                     /* of these, answered with success after all */
    uint64_t retries;                  /* requests that followed a failed one */
    struct mono renewed_at;            /* 0 before the first */
    int64_t interval_ns;
    struct metrics_histogram durations; /* of renewals */
};

struct lease_writer_handlers {
    void (*renewed)(void *user); /* after each successful renewal; as companion: that was seen */
    void (*stopped)(void *user); /* once, after lease_writer_stop: nothing is left to do */
    void *user;                  /* neither may free the writer */
};

/* Begins: looks for the lease. Borrows `loop` and `client` for its life; copies the rest. */
struct lease_writer *lease_writer_start(struct ev_loop *loop, struct kube_client *client,
                                        const struct renewer_config *config,
                                        const struct lease_writer_handlers *handlers);
/* Cancels what is under way. Accepts NULL. */
void lease_writer_free(struct lease_writer *writer);

/* What the probes say; `message` is borrowed. */
void lease_writer_judge(struct lease_writer *writer, enum probe_health health, const char *message);
const struct lease_writer_stats *lease_writer_stats(const struct lease_writer *writer);
/* The renewer's phase, for people; static text. */
const char *lease_writer_phase(const struct lease_writer *writer);
/* False if it was not woken when it asked to be: nobody renews the lease any more. */
bool lease_writer_makes_progress(const struct lease_writer *writer, struct mono now);
/* Asks it to end; `stopped` may come before this returns. */
void lease_writer_stop(struct lease_writer *writer);

#endif
