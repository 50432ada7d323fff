/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which changes of readiness get an Event, and when. CORE: the times are arguments, the Event is a
 * value that the shell (host-agent/events.h) writes.
 *
 * One Event for each change of state, reason or admission; a changed message alone is no change.
 *  - A token bucket bounds them: a burst of EVENT_BURST, then one per EVENT_REFILL_NS.
 *  - EVENT_QUEUE changes wait for their turn, or for a server that does not answer, and are written
 *    with the time at which they happened. If one more comes, the oldest is left out: the last
 *    change is always written in the end, and each Event says how many before it were not.
 *  - A reboot of the DPU is an Event of its own, beside the changes and within the same bounds.
 *  - In the first EVENT_SETTLE_NS only the outcome counts: a restart that ends where it began
 *    writes nothing, and waiting for the first renewal is no news if it comes at once.
 */
#ifndef HOST_AGENT_EVENT_PLAN_H
#define HOST_AGENT_EVENT_PLAN_H

#include "base/time.h"
#include "contract/readiness.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENT_SETTLE_NS (3 * NS_PER_SEC)
#define EVENT_REFILL_NS (60 * NS_PER_SEC)

enum { EVENT_BURST = 10, EVENT_QUEUE = 4 };

/* What became of a write. */
enum event_outcome {
    EVENT_WRITTEN,
    EVENT_FAILED,  /* try again */
    EVENT_REFUSED, /* this one will never be accepted */
};

/* What an Event tells. */
struct event_change {
    enum readiness_state state;
    enum readiness_reason reason;
    bool admit;
    bool is_reboot; /* of the DPU; then the three before do not count */
    struct wall at; /* eventTime, and what the Event's name is made of */
    char message[NAMES_MESSAGE_BYTES];
    uint64_t left_out; /* changes right before it that have no Event */
};

struct event_plan_stats {
    uint64_t created;
    uint64_t failed;     /* tries that came to nothing */
    uint64_t suppressed; /* changes without an Event */
};

/* Transparent so that it can be embedded; use the functions. */
struct event_plan {
    bool has_current;
    enum readiness_state state; /* of the last change that was taken in */
    enum readiness_reason reason;
    bool admit;
    struct mono settle_until;
    bool has_waiting; /* seen while settling */
    struct readiness waiting;
    struct event_change queue[EVENT_QUEUE]; /* the oldest first */
    size_t queued;
    uint64_t left_out;          /* since the change that was last given out */
    struct event_change change; /* that one */
    bool is_begun;              /* it is being written, or to be tried again */
    bool is_busy;               /* it is with the shell */
    struct mono not_before;     /* backing off until then */
    int64_t credit_ns;          /* the bucket; EVENT_REFILL_NS is one token */
    struct mono credited;
    struct event_plan_stats stats;
};

/* `carried` is the verdict that a predecessor left behind, NULL if none; borrowed. */
void event_plan_init(struct event_plan *p, const struct readiness *carried, struct mono now);

/* The verdict is now this one; `verdict->transition` says since when. Borrowed. */
void event_plan_change(struct event_plan *p, const struct readiness *verdict, struct mono now);

/* The DPU was found to have rebooted, then. */
void event_plan_reboot(struct event_plan *p, struct wall at);

/* What is to be written now, NULL if nothing. The shell reports by event_plan_done, and asks for
 * nothing until then. Borrowed from the plan until the next call of this function. */
const struct event_change *event_plan_next(struct event_plan *p, struct mono now);

/* The write that event_plan_next gave out is over. After EVENT_FAILED nothing is given out before
 * `not_before`. */
void event_plan_done(struct event_plan *p, enum event_outcome outcome, struct mono not_before);

/* When event_plan_next may have something; MONO_NEVER if it waits for a change or an outcome. */
struct mono event_plan_wake_at(const struct event_plan *p, struct mono now);

#endif
