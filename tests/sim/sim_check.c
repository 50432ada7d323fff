/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/sim.h"

#include <stdarg.h>
#include <stdio.h>

/* Delivery of an event or answer, both ways, with the host awake. */
#define LATENCY_NS (100 * NS_PER_MS)

static int64_t ms_ago(const struct sim *s, struct mono t)
{
    return mono_since(s->now, t) / NS_PER_MS;
}

static struct mono last_accepted(const struct sim *s)
{
    if (s->api.accepted_count == 0) {
        return (struct mono){0};
    }
    return s->api.accepted[(s->api.accepted_count - 1) % SIM_RENEWALS_KEPT];
}

void sim_note_renewal(struct sim *s)
{
    struct mono last = last_accepted(s);
    s->watchdog.first_after_step = mono_min(s->watchdog.first_after_step, s->now);
    if (mono_since(s->now, last) > s->timers.interval_ns + s->timers.interval_ns / 10) {
        s->watchdog.regular_since = s->now;
        s->watchdog.was_ready = false;
    }
    s->api.accepted[s->api.accepted_count++ % SIM_RENEWALS_KEPT] = s->now;
}

/* As dpu-gate judges at this moment. */
static bool reader_admits(const struct sim *s)
{
    struct gate_decision decision;
    if (!s->has_record) {
        return false;
    }
    gate_judge(&s->record, SIM_BOOT_ID, s->now, "record", &decision);
    return decision.admit;
}

static void fail(struct sim *s, const char *what)
{
    const struct readiness *v = &s->record.verdict;
    (void)snprintf(s->failure, sizeof(s->failure),
                   "%s at %.3f s: last renewal %lld ms ago, record %s/%s, blind %lld ms ago, "
                   "regular for %lld ms",
                   what, (double)s->now.ns / 1e9, (long long)ms_ago(s, last_accepted(s)),
                   readiness_state_name(v->state), readiness_reason_name(v->reason),
                   (long long)ms_ago(s, s->watchdog.blind_until),
                   (long long)ms_ago(s, s->watchdog.regular_since));
}

static void check_never_late(struct sim *s)
{
    const struct sim_timers *t = &s->timers;
    /* Behind a stuck watch a renewal is observed by a read, at most a duration after it was. */
    int64_t stuck_ns =
        mono_since(s->now, s->watchdog.stuck_until) < 2 * t->duration_ns ? t->duration_ns : 0;
    struct mono limit = mono_add(last_accepted(s), t->duration_ns + stuck_ns);
    /* Once it can see again the host needs a retry, the grace and one read; what it then sees for
     * the first time counts from that moment. */
    int64_t settle_ns = t->interval_ns + 5 * NS_PER_SEC + 2 * t->interval_ns;
    if (s->api.control.ns !=
        0) { /* and the kubelet its own retry, after which the DPU has another */
        settle_ns += SIM_CONTROL_NS + 2 * t->interval_ns + 6 * NS_PER_SEC;
    }
    struct mono seeing =
        mono_add(s->watchdog.blind_until,
                 settle_ns > t->duration_ns ? settle_ns : t->duration_ns + t->interval_ns);
    if (s->api.control.ns != 0) { /* a short lease waits for the kubelet's next write, and a look */
        int64_t heard_ns = t->interval_ns * 3 / 2 + SIM_CONTROL_NS + t->interval_ns;
        limit = mono_max(limit, mono_add(last_accepted(s), heard_ns));
    }
    if (s->watchdog.stepped_at.ns != 0) { /* stamps that went back: a retry's time for the next */
        limit = mono_max(limit, mono_add(last_accepted(s), 2 * t->interval_ns + 6 * NS_PER_SEC));
    }
    limit = mono_add(mono_max(limit, seeing), 2 * LATENCY_NS);
    if (mono_before(limit, s->now)) {
        fail(s, "never late: a dead DPU is admitted");
    }
}

/* The newest renewal that the host could see: it could look right after it was accepted. */
static bool could_see_a_renewal(const struct sim *s)
{
    struct mono last = last_accepted(s);
    struct mono blind = mono_max(s->watchdog.blind_until, s->watchdog.stuck_until);
    /* One that was seen late is dated by its stamp, made when it was sent. */
    struct mono end = mono_add(last, s->timers.duration_ns - LATENCY_NS);
    return last.ns != 0 && mono_before(s->now, end) && mono_before(blind, last) &&
           mono_since(s->now, last) > LATENCY_NS;
}

/* It renewed all along, and no writer was dead for longer than the stale hold. */
static bool renewed_all_along(const struct sim *s)
{
    int64_t regular_ns = mono_since(s->now, s->watchdog.regular_since);
    bool gap = mono_since(s->now, last_accepted(s)) > s->timers.interval_ns * 11 / 10;
    return !gap && regular_ns > 2 * s->timers.duration_ns && s->watchdog.was_ready &&
           mono_before(s->now, s->record.hold_until);
}

/* Nobody could have written since the DPU's next renewal was due, and the host can see that. */
static void check_never_alone(struct sim *s)
{
    enum readiness_reason reason = s->record.verdict.reason;
    struct mono due = mono_add(last_accepted(s), s->timers.interval_ns);
    bool accused = reason == REASON_LEASE_EXPIRED || reason == REASON_LEASE_NOT_FOUND;
    if (s->last_admitted && accused && s->api.control.ns != 0 && !s->api.slow &&
        mono_reached(s->now, due) && mono_reached(due, s->watchdog.mute_since)) {
        fail(s, "never alone: a DPU is called dead by an API server that takes no writes");
    }
}

static void check_never_early(struct sim *s)
{
    enum readiness_reason reason = s->record.verdict.reason;
    if (s->watchdog.stepped_at.ns != 0 || reason == REASON_DPU_REPORTED_UNHEALTHY) {
        return; /* a restart awaits a renewal; the DPU itself says so */
    }
    if (could_see_a_renewal(s)) {
        fail(s, "never early: a DPU whose renewal was visible is called dead");
    } else if (renewed_all_along(s)) {
        fail(s, "never early: a DPU that renewed all along is called dead");
    }
}

void sim_check(struct sim *s)
{
    const struct sim_host *h = &s->host;
    if (!h->running || h->stopped || !h->link_up || !s->api.up || s->api.slow ||
        (s->api.control.ns != 0 && !s->api.takes_writes)) {
        s->watchdog.blind_until = s->now;
    }
    if (h->watch_stuck || !h->watching || !s->api.watches) {
        s->watchdog.stuck_until = s->now;
    }
    if (mono_reached(s->now, s->record.hold_until)) {
        s->watchdog.was_ready = false; /* the writer was away for so long: all starts anew */
    }
    if (s->record.verdict.state == READINESS_READY &&
        mono_before(s->watchdog.first_after_step, s->record.verdict.observed)) {
        s->watchdog.stepped_at = (struct mono){0}; /* a renewal was seen since */
    }
    bool mute = s->api.up && !s->api.takes_writes;
    s->watchdog.mute_since = mute ? mono_min(s->watchdog.mute_since, s->now) : MONO_NEVER;
    bool admitted = reader_admits(s);
    if (!admitted) {
        check_never_alone(s);
    }
    s->flips += admitted != s->last_admitted;
    s->last_admitted = admitted;
    if (admitted) {
        /* It has seen a renewal of the regular series that "all along" is about. */
        bool sees = mono_before(mono_max(s->watchdog.blind_until, s->watchdog.stuck_until),
                                s->watchdog.regular_since);
        s->watchdog.was_ready |=
            sees && ms_ago(s, s->watchdog.regular_since) > LATENCY_NS / NS_PER_MS;
        check_never_late(s);
    } else {
        check_never_early(s);
        s->watchdog.was_ready = false; /* rightly so: it has to be earned again */
    }
}
