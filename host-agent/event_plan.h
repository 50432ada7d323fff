/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which Event to write for which change of readiness, and when. CORE: the times are arguments, the
 * write is a value that the shell (host-agent/events.h) performs.
 *
 * One Event for each change of state, reason or admission; a changed message alone is no change.
 *  - The same again within EVENT_SERIES_NS of the last time is counted in the series of the Event
 *    that is there (as client-go does), so that a DPU that comes and goes makes two Events.
 *  - A token bucket bounds all writes: a burst of EVENT_BURST, then one per EVENT_REFILL_NS. A
 *    change that has to wait is kept and counted, never lost: what is written late has the time at
 *    which it happened, and the last change is always written in the end.
 *  - In the first EVENT_SETTLE_NS only the outcome counts: a restart that ends where it began
 *    writes nothing, and waiting for the first renewal is no news if it comes at once.
 * Memory is bounded by what can be told apart: one slot per reason and admission.
 */
#ifndef HOST_AGENT_EVENT_PLAN_H
#define HOST_AGENT_EVENT_PLAN_H

#include "base/mono.h"
#include "contract/readiness.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENT_SERIES_NS (360 * NS_PER_SEC)
#define EVENT_SETTLE_NS (3 * NS_PER_SEC)
#define EVENT_REFILL_NS (60 * NS_PER_SEC)

enum { EVENT_BURST = 10, EVENT_SLOTS = 2 * REASON_COUNT };

/* What became of a write. */
enum event_outcome {
    EVENT_WRITTEN,
    EVENT_EXISTS,  /* a create found its name taken: an earlier try did arrive */
    EVENT_GONE,    /* an update found no Event: it has expired */
    EVENT_FAILED,  /* try again */
    EVENT_REFUSED, /* this one will never be accepted */
};

/* One kind of change, and the Event that was last begun for it. */
struct event_slot {
    uint32_t count;    /* how often it happened in this series; 0: never yet */
    uint32_t fresh;    /* how many of these the server does not know */
    bool is_created;   /* the server has the Event, as far as we know */
    struct mono seen;  /* the last time it happened */
    struct mono since; /* how long the fresh ones have been waiting */
    struct wall first; /* eventTime, and what the Event's name is made of */
    struct wall fresh_first;
    struct wall last;
    enum readiness_state state;
    char message[NAMES_MESSAGE_BYTES]; /* of the first time: an Event's note cannot be changed */
};

/* What to write. The message is borrowed from the plan until event_plan_done. */
struct event_write {
    bool is_update; /* only count and last of the Event that is there; else a new one */
    enum readiness_state state;
    enum readiness_reason reason;
    bool admit;
    const char *message;
    struct wall first;
    struct wall last;
    uint32_t count; /* 1: no series */
};

struct event_plan_stats {
    uint64_t created;
    uint64_t updated;
    uint64_t failed;     /* tries that came to nothing */
    uint64_t suppressed; /* changes without a write of their own: counted in a series */
};

/* Transparent so that it can be embedded; use the functions. */
struct event_plan {
    struct event_slot slots[EVENT_SLOTS];
    bool has_current;
    enum readiness_state state; /* of the last change that was taken in */
    enum readiness_reason reason;
    bool admit;
    struct mono settle_until;
    bool has_waiting; /* seen while settling */
    struct readiness waiting;
    int64_t credit_ns; /* the bucket; EVENT_REFILL_NS is one token */
    struct mono credited;
    struct mono not_before; /* backing off until then */
    bool is_busy;           /* a write is with the shell */
    size_t busy;            /* its slot */
    uint32_t busy_fresh;    /* how many changes it tells of */
    struct event_plan_stats stats;
};

/* `carried` is the verdict that a predecessor left behind, NULL if none; borrowed. */
void event_plan_init(struct event_plan *p, const struct readiness *carried, struct mono now);

/* The verdict is now this one; `verdict->transition` says since when. Borrowed. */
void event_plan_change(struct event_plan *p, const struct readiness *verdict, struct mono now);

/* True if something is to be written now; the shell then reports by event_plan_done, and asks for
 * nothing until then. What has waited longest comes first. */
bool event_plan_next(struct event_plan *p, struct mono now, struct event_write *out);

/* The write that event_plan_next gave out is over. After EVENT_FAILED nothing is given out before
 * `not_before`. */
void event_plan_done(struct event_plan *p, enum event_outcome outcome, struct mono not_before,
                     struct mono now);

/* When event_plan_next may have something; MONO_NEVER if it waits for a change or an outcome. */
struct mono event_plan_wake_at(const struct event_plan *p, struct mono now);

#endif
