/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One verdict to all sinks, the record first. Owns the readiness FSM: every event passes through
 * fanout_event, which reads the clock once, steps the FSM and performs what the update asks for.
 * It decides nothing. Loop thread only.
 */
#ifndef HOST_AGENT_FANOUT_H
#define HOST_AGENT_FANOUT_H

#include "base/attr.h"
#include "base/err.h"
#include "host-agent/expiry.h"

struct ev_loop;
struct sink_record;
struct fanout;

enum { FANOUT_MAX_SINKS = 8 };

#define FANOUT_LATE_NS       (5 * NS_PER_SEC)  /* a wake-up this late is a stall */
#define FANOUT_UNANSWERED_NS (60 * NS_PER_SEC) /* so is a read with no outcome for so long */

/* What the FSM may ask for; each is performed asynchronously and must not call fanout_event. */
struct fanout_actions {
    void (*confirm)(void *user);       /* one quorum read on a fresh connection */
    void (*look)(void *user);          /* one read of the control */
    void (*restart_watch)(void *user); /* the watch is mistrusted */
    void (*repair)(void *user);        /* the lease is gone: the keeper should look */
    void *user;
};

struct fanout_sink {
    /* The verdict differs from the last one published here. `verdict` is borrowed. */
    void (*publish)(void *user, const struct readiness *verdict);
    void *user;
};

/* For metrics. Counters since the start. */
struct fanout_stats {
    uint64_t changes[REASON_COUNT]; /* of state, admission or reason, by the new reason */
    uint64_t renewals;              /* that were observed */
    bool api_reachable;             /* the last read was answered */
    int64_t outage_ns;              /* in all, while it was not; the present outage included */
    bool has_skew;
    int64_t skew_ns; /* the newest renewal's stamp minus our clock when it was observed */
};

/* `carry` may be NULL. The record is borrowed and must outlive the fanout. */
NODISCARD int fanout_new(struct ev_loop *loop, const struct expiry_config *config,
                         const struct expiry_carry *carry, struct sink_record *record,
                         struct fanout **out, struct err *e);
void fanout_free(struct fanout *f); /* accepts NULL */

/* Before fanout_start. Without actions (health check disabled) nothing is asked for. */
void fanout_set_actions(struct fanout *f, const struct fanout_actions *actions);
NODISCARD int fanout_add_sink(struct fanout *f, const struct fanout_sink *sink, struct err *e);

/* Publishes the first verdict everywhere and arms the timer. */
void fanout_start(struct fanout *f);

/* `event->now` is filled in here. */
void fanout_event(struct fanout *f, struct expiry_event event);

/* False if the FSM was not woken when it asked to be, or if a confirming read got neither an answer
 * nor a failure for long: whatever the last verdict says, nobody stands behind it any more. */
bool fanout_makes_progress(const struct fanout *f, struct mono now);

const struct readiness *fanout_verdict(const struct fanout *f); /* borrowed */
struct fanout_stats fanout_stats(const struct fanout *f, struct mono now);

#endif
