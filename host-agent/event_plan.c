/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/event_plan.h"

#include "base/text.h"

#include <string.h>

#define FULL_NS (EVENT_BURST * EVENT_REFILL_NS)

static size_t slot_of(enum readiness_reason reason, bool admit)
{
    return 2 * (size_t)reason + (admit ? 1 : 0);
}

/* ---- the bucket ------------------------------------------------------------------------------ */

static int64_t credit_at(const struct event_plan *p, struct mono now)
{
    int64_t elapsed_ns = mono_since(now, p->credited);
    int64_t credit_ns = mono_ns_add(p->credit_ns, elapsed_ns > 0 ? elapsed_ns : 0);
    return credit_ns < FULL_NS ? credit_ns : FULL_NS;
}

static void earn_credit(struct event_plan *p, struct mono now)
{
    p->credit_ns = credit_at(p, now);
    p->credited = mono_max(p->credited, now);
}

static void give_back(struct event_plan *p)
{
    int64_t credit_ns = p->credit_ns + EVENT_REFILL_NS;
    p->credit_ns = credit_ns < FULL_NS ? credit_ns : FULL_NS;
}

/* ---- changes --------------------------------------------------------------------------------- */

static bool is_same_series(const struct event_slot *s, const struct readiness *verdict,
                           struct mono now)
{
    /* Whatever is not yet written is told by one Event, however old. */
    return s->fresh > 0 || (s->count > 0 && s->state == verdict->state &&
                            mono_since(now, s->seen) < EVENT_SERIES_NS);
}

static void count_change(struct event_plan *p, const struct readiness *verdict, struct mono now)
{
    struct event_slot *s = &p->slots[slot_of(verdict->reason, verdict->admit)];
    if (!is_same_series(s, verdict, now)) {
        *s = (struct event_slot){.first = verdict->transition, .state = verdict->state};
        text_sanitize(s->message, sizeof(s->message), verdict->message, strlen(verdict->message));
    }
    if (s->fresh == 0) {
        s->since = now;
        s->fresh_first = verdict->transition;
    }
    s->count += s->count < INT32_MAX ? 1 : 0; /* int32 on the wire */
    s->fresh += s->fresh < INT32_MAX ? 1 : 0;
    s->seen = now;
    s->last = verdict->transition;
}

static void take_in(struct event_plan *p, const struct readiness *verdict, struct mono now)
{
    if (p->has_current && p->state == verdict->state && p->reason == verdict->reason &&
        p->admit == verdict->admit) {
        return;
    }
    p->has_current = true;
    p->state = verdict->state;
    p->reason = verdict->reason;
    p->admit = verdict->admit;
    count_change(p, verdict, now);
}

static void settle(struct event_plan *p, struct mono now)
{
    if (p->has_waiting && mono_reached(now, p->settle_until)) {
        p->has_waiting = false;
        take_in(p, &p->waiting, now);
    }
}

void event_plan_init(struct event_plan *p, const struct readiness *carried, struct mono now)
{
    *p = (struct event_plan){.settle_until = mono_add(now, EVENT_SETTLE_NS),
                             .credit_ns = FULL_NS,
                             .credited = now,
                             .not_before = now};
    if (carried) {
        p->has_current = true;
        p->state = carried->state;
        p->reason = carried->reason;
        p->admit = carried->admit;
    }
}

void event_plan_change(struct event_plan *p, const struct readiness *verdict, struct mono now)
{
    if (mono_before(now, p->settle_until)) {
        p->waiting = *verdict;
        p->has_waiting = true;
        return;
    }
    settle(p, now);
    take_in(p, verdict, now);
}

/* ---- writes ---------------------------------------------------------------------------------- */

/* EVENT_SLOTS if none waits. */
static size_t longest_waiting(const struct event_plan *p)
{
    size_t found = EVENT_SLOTS;
    for (size_t i = 0; i < EVENT_SLOTS; i++) {
        if (p->slots[i].fresh > 0 &&
            (found == EVENT_SLOTS || mono_before(p->slots[i].since, p->slots[found].since))) {
            found = i;
        }
    }
    return found;
}

bool event_plan_next(struct event_plan *p, struct mono now, struct event_write *out)
{
    settle(p, now);
    earn_credit(p, now);
    size_t i = longest_waiting(p);
    if (p->is_busy || i == EVENT_SLOTS || mono_before(now, p->not_before) ||
        p->credit_ns < EVENT_REFILL_NS) {
        return false;
    }
    const struct event_slot *s = &p->slots[i];
    p->credit_ns -= EVENT_REFILL_NS;
    p->is_busy = true;
    p->busy = i;
    p->busy_fresh = s->fresh;
    *out = (struct event_write){.is_update = s->is_created,
                                .state = s->state,
                                .reason = (enum readiness_reason)(i / 2),
                                .admit = i % 2 == 1,
                                .message = s->message,
                                .first = s->first,
                                .last = s->last,
                                .count = s->count};
    return true;
}

/* The server knows of the changes that the write told of. */
static void note_written(struct event_plan *p, struct event_slot *s, struct mono now)
{
    if (s->is_created) {
        p->stats.updated++;
    } else {
        p->stats.created++;
    }
    p->stats.suppressed += p->busy_fresh - 1;
    s->is_created = true;
    s->fresh -= p->busy_fresh;
    s->since = now;
    s->fresh_first = s->last; /* exact if one came meanwhile, near enough if more did */
}

void event_plan_done(struct event_plan *p, enum event_outcome outcome, struct mono not_before,
                     struct mono now)
{
    struct event_slot *s = &p->slots[p->busy];
    if (!p->is_busy) {
        return;
    }
    p->is_busy = false;
    switch (outcome) {
    case EVENT_WRITTEN:
        note_written(p, s, now);
        return;
    case EVENT_EXISTS:
        if (s->count == 1) {
            note_written(p, s, now);
        } else { /* how many that try told of is not known: the count is written again */
            s->is_created = true;
            p->stats.created++;
        }
        return;
    case EVENT_GONE: /* a new Event tells of what the old one did not */
        s->is_created = false;
        s->count = s->fresh;
        s->first = s->fresh_first;
        return;
    case EVENT_FAILED:
        p->stats.failed++;
        p->not_before = not_before;
        give_back(p); /* retries have a pace of their own */
        return;
    case EVENT_REFUSED:
        p->stats.failed++;
        *s = (struct event_slot){.count = 0};
        return;
    }
}

struct mono event_plan_wake_at(const struct event_plan *p, struct mono now)
{
    struct mono at = p->has_waiting ? p->settle_until : MONO_NEVER;
    if (p->is_busy || longest_waiting(p) == EVENT_SLOTS) {
        return at;
    }
    int64_t missing_ns = EVENT_REFILL_NS - credit_at(p, now);
    struct mono due = mono_max(p->not_before, mono_add(now, missing_ns > 0 ? missing_ns : 0));
    return mono_min(at, due);
}
