/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/event_plan.h"

#include "base/text.h"

#include <string.h>

#define FULL_NS (EVENT_BURST * EVENT_REFILL_NS)

/* ---- the bucket ------------------------------------------------------------------------------ */

static int64_t credit_at(const struct event_plan *p, struct mono now)
{
    int64_t elapsed_ns = mono_since(now, p->credited);
    int64_t credit_ns = mono_ns_add(p->credit_ns, elapsed_ns > 0 ? elapsed_ns : 0);
    return credit_ns < FULL_NS ? credit_ns : FULL_NS;
}

static bool take_token(struct event_plan *p, struct mono now)
{
    p->credit_ns = credit_at(p, now);
    p->credited = mono_max(p->credited, now);
    if (p->credit_ns < EVENT_REFILL_NS) {
        return false;
    }
    p->credit_ns -= EVENT_REFILL_NS;
    return true;
}

/* ---- changes --------------------------------------------------------------------------------- */

static void leave_out(struct event_plan *p, uint64_t count)
{
    p->left_out += count;
    p->stats.suppressed++;
}

/* Takes the oldest off the queue. */
static void shift(struct event_plan *p)
{
    p->queued--;
    memmove(p->queue, p->queue + 1, p->queued * sizeof(p->queue[0]));
}

/* The place for a new one, at the end of the queue. */
static struct event_change *push(struct event_plan *p)
{
    if (p->queued == EVENT_QUEUE) {
        leave_out(p, 1);
        shift(p);
    }
    return &p->queue[p->queued++];
}

static void take_in(struct event_plan *p, const struct readiness *verdict)
{
    if (p->has_current && p->state == verdict->state && p->reason == verdict->reason &&
        p->admit == verdict->admit) {
        return;
    }
    p->has_current = true;
    p->state = verdict->state;
    p->reason = verdict->reason;
    p->admit = verdict->admit;
    struct event_change *c = push(p);
    *c = (struct event_change){.state = verdict->state,
                               .reason = verdict->reason,
                               .admit = verdict->admit,
                               .at = verdict->transition};
    text_sanitize(c->message, sizeof(c->message), verdict->message, strlen(verdict->message));
}

static void settle(struct event_plan *p, struct mono now)
{
    if (p->has_waiting && mono_reached(now, p->settle_until)) {
        p->has_waiting = false;
        take_in(p, &p->waiting);
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
    take_in(p, verdict);
}

void event_plan_reboot(struct event_plan *p, struct wall at)
{
    struct event_change *c = push(p);
    *c = (struct event_change){.is_reboot = true, .at = at};
    (void)text_copy(c->message, sizeof(c->message),
                    "the DPU has rebooted: another boot of it renews the lease; pods that had its "
                    "functions may have lost them");
}

/* ---- writes ---------------------------------------------------------------------------------- */

/* The oldest becomes the one to be written. */
static void begin(struct event_plan *p)
{
    p->change = p->queue[0];
    p->change.left_out = p->left_out;
    p->left_out = 0;
    p->is_begun = true;
    shift(p);
}

const struct event_change *event_plan_next(struct event_plan *p, struct mono now)
{
    settle(p, now);
    if (p->is_busy || mono_before(now, p->not_before)) {
        return NULL;
    }
    if (!p->is_begun) { /* a retry costs no token: it has a pace of its own */
        if (p->queued == 0 || !take_token(p, now)) {
            return NULL;
        }
        begin(p);
    }
    p->is_busy = true;
    return &p->change;
}

void event_plan_done(struct event_plan *p, enum event_outcome outcome, struct mono not_before)
{
    if (!p->is_busy) {
        return;
    }
    p->is_busy = false;
    switch (outcome) {
    case EVENT_WRITTEN:
        p->is_begun = false;
        p->stats.created++;
        return;
    case EVENT_FAILED:
        p->stats.failed++;
        p->not_before = not_before;
        return;
    case EVENT_REFUSED:
        p->is_begun = false;
        p->stats.failed++;
        leave_out(p, p->change.left_out + 1);
        return;
    }
}

struct mono event_plan_wake_at(const struct event_plan *p, struct mono now)
{
    struct mono settled = p->has_waiting ? p->settle_until : MONO_NEVER;
    if (p->is_busy || (!p->is_begun && p->queued == 0)) {
        return settled;
    }
    int64_t missing_ns = p->is_begun ? 0 : EVENT_REFILL_NS - credit_at(p, now);
    struct mono due = mono_max(p->not_before, mono_add(now, missing_ns > 0 ? missing_ns : 0));
    return mono_min(settled, due);
}
