/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/verdict.h"

#include "base/err.h"
#include "base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MIN_RETRY_NS        (200 * NS_PER_MS)
#define MAX_DEADLINE_MS     5000
#define MIN_DEADLINE_MS     250
#define SLACK_NS            (1 * NS_PER_SEC)
#define LATE_NS             (1 * NS_PER_SEC) /* a wake-up this late is a stall of our own */
#define MARK_REQUESTS       4                /* of one mark, at most */
#define DISABLED_REWRITE_NS (10 * NS_PER_SEC)
#define BOOT_REPEATS        4 /* renewals in a row under the boot before: it lasts, and is news */

static const struct fsm_state phases[VERDICT_PHASE_COUNT] = {
    [VERDICT_AWAITING] = {"awaiting", FSM_TO(VERDICT_FRESH) | FSM_TO(VERDICT_EXPIRED) |
                                          FSM_TO(VERDICT_REPORTED)},
    [VERDICT_FRESH] = {"fresh", FSM_TO(VERDICT_EXPIRED) | FSM_TO(VERDICT_REPORTED)},
    [VERDICT_EXPIRED] = {"expired", FSM_TO(VERDICT_FRESH) | FSM_TO(VERDICT_REPORTED)},
    [VERDICT_REPORTED] = {"reported", FSM_TO(VERDICT_FRESH) | FSM_TO(VERDICT_EXPIRED)},
    [VERDICT_DISABLED] = {"disabled", 0},
};

static void move(struct verdict *x, enum verdict_phase to)
{
    if (x->phase != to) {
        x->phase =
            (enum verdict_phase)fsm_move(phases, VERDICT_PHASE_COUNT, (int)x->phase, (int)to);
    }
}

/* ---- spans ----------------------------------------------------------------------------------- */

uint32_t verdict_deadline_ms(const struct verdict_config *config)
{
    int64_t ms = config->duration_ns / 8 / NS_PER_MS;
    return (uint32_t)mono_ns_max(MIN_DEADLINE_MS, mono_ns_min(MAX_DEADLINE_MS, ms));
}

static int64_t deadline_ns(const struct verdict *x)
{
    return x->spans.deadline_ns;
}

/* A renewal is overdue, and a read looks for it: half a deadline before the first mark, and
 * half-way to what the duration leaves at most. */
static struct mono overdue_at(const struct verdict *x)
{
    int64_t r = x->config->renew_interval_ns;
    return mono_add(x->observed, mono_ns_min(mono_ns_mul(r, 2) + deadline_ns(x) / 2,
                                             r + (x->spans.duration_ns - r) / 2));
}

/* Between two reads, or two marks that fail. */
static int64_t pace_ns(const struct verdict *x)
{
    return mono_ns_max(x->config->renew_interval_ns, MIN_RETRY_NS);
}

/* Where the next one has a reason to be sooner. */
static int64_t hurry_ns(const struct verdict *x)
{
    return mono_ns_max(mono_ns_min(NS_PER_SEC, x->spans.duration_ns / 4), MIN_RETRY_NS);
}

static struct mono run_out(const struct verdict *x)
{
    return mono_add(x->observed, x->spans.duration_ns);
}

static struct mono condemned_at(const struct verdict *x)
{
    return evidence_condemns_at(&x->evidence, run_out(x));
}

int64_t verdict_writer_ahead_ns(const struct verdict_config *config)
{
    int64_t r = config->renew_interval_ns;
    return r == 0 ? DISABLED_REWRITE_NS * 3 / 2 : mono_ns_min(r + r / 2, config->duration_ns - r);
}

/* ---- evidence -------------------------------------------------------------------------------- */

static bool is_failing(const struct verdict *x)
{
    return evidence_is_failing(&x->evidence);
}

/* In all that was asked of the API server up to `t`, nobody had renewed; it is known `now`. */
static void take_evidence(struct verdict *x, struct mono t, struct mono now)
{
    if (evidence_take(&x->evidence, &x->spans, run_out(x), t, now) == EVIDENCE_AFTER_GAP) {
        x->failure.cause = MARK_CONFLICT;
    }
    x->looked_at = mono_max(x->looked_at, t);
    if (x->phase <= VERDICT_FRESH && mono_reached(t, condemned_at(x))) {
        move(x, VERDICT_EXPIRED);
    }
}

/* An attempt that was started at `t` gave no evidence. */
static void miss_evidence(struct verdict *x, enum mark_outcome cause, struct mono t,
                          const char *failure)
{
    if (!is_failing(x) || x->failure.cause != cause) {
        x->failure.cause = cause;
        x->failure.since = t;
    }
    evidence_miss(&x->evidence, &x->spans, t);
    text_format(x->failure.text, sizeof(x->failure.text), "%s", failure ? failure : "");
}

static void hear_answer(struct verdict *x)
{
    x->has_contact = true;
}

/* While nobody answers, what the watch brings may be held up, too, until a read is answered. */
static void hear_nothing(struct verdict *x, struct mono now)
{
    x->has_contact = false;
    x->blind_since = mono_min(x->blind_since, now);
}

/* Nobody answers, and what is sent looks for the way back. */
static bool is_lost(const struct verdict *x)
{
    return x->failure.cause == MARK_LOST && !x->has_contact;
}

/* Attempts have failed, and a read that began since was answered. */
static bool is_back(const struct verdict *x)
{
    return is_failing(x) && mono_reached(x->looked_at, mono_max(x->evidence.failing, x->last_mark));
}

static bool is_refusing_writes(const struct verdict *x)
{
    return x->failure.cause == MARK_REFUSED || x->failure.cause == MARK_DENIED;
}

/* ---- what the lease says: renewals ----------------------------------------------------------- */

/* Without a renewal `observed` is when waiting began. */
static bool has_renewed(const struct verdict *x)
{
    return x->stamp[0] != '\0';
}

static bool read_stamp(const char *stamp, struct wall *out)
{
    return rfc3339_parse(stamp, strlen(stamp), out, NULL) == 0;
}

/* By its version an older state than the one that we know: of a server that lags, a late answer, or
 * an etcd that was restored. resourceVersions are opaque, so that this is a hint only. */
static bool is_older(const struct verdict *x, const struct lease_view *lease)
{
    uint64_t version = mark_version(lease->resource_version);
    return version != 0 && version < mark_version(x->lease.resource_version);
}

static bool is_same_lease(const struct verdict *x, const struct lease_view *lease)
{
    return x->lease.uid[0] != '\0' && text_equal(x->lease.uid, lease->uid);
}

static bool is_ours(const struct verdict *x, const struct lease_view *lease)
{
    return text_equal(lease->holder, x->config->holder);
}

/* A text that differs from the last state's, the last renewal's and the last older state's, by our
 * holder, on the same lease. An older state may hold one, too, and so may what we wrote on it:
 * there the stamp has to be the latest ever. */
static bool is_renewal(const struct verdict *x, const struct lease_view *lease, bool is_old)
{
    const char *stamp = lease->renew_stamp;
    bool is_latest = lease->renew_time_valid && lease->renew_time.ns > x->newest.ns;
    return is_same_lease(x, lease) && is_ours(x, lease) && stamp[0] != '\0' &&
           !text_equal(stamp, x->lease.renew_stamp) && !text_equal(stamp, x->stamp) &&
           !text_equal(stamp, x->past_stamp) && (is_latest || !is_old);
}

/* When a renewal was made that no trusted watch showed as it came (rule 1: no clocks of two
 * machines are compared; two stamps of one DPU are). It lies as far after the last one as its stamp
 * does, but not before the last look, which would have shown it, and not after now.
 *
 * Where the DPU's clock was set back, the stamps tell nothing. Then the renewal counts from now,
 * which is in the DPU's favour; but from the last look if it was made while we did not run, so that
 * a dead DPU gains nothing by our restart. */
static struct mono date(const struct verdict *x, const struct lease_view *lease, struct mono now)
{
    struct wall last;
    struct mono earliest = mono_max(x->observed, x->looked_at);
    bool is_known = read_stamp(x->stamp, &last) && lease->renew_time_valid;
    int64_t distance_ns = is_known ? wall_since(lease->renew_time, last) : 0;
    if (distance_ns > x->config->renew_interval_ns / 2) {
        return mono_min(now, mono_max(mono_add(x->observed, distance_ns), earliest));
    }
    return x->is_first_look ? earliest : now;
}

static void note_renewal(struct verdict *x, struct mono observed, const char *stamp,
                         struct mono now)
{
    x->last_gap_ns = has_renewed(x) ? mono_since(observed, x->observed) : 0;
    text_format(x->stamp, sizeof(x->stamp), "%s", stamp);
    x->observed = observed;
    evidence_renew(&x->evidence, &x->spans, observed, now);
}

/* The lease's own duration wins over the configured one, within bounds. */
static void adopt_duration(struct verdict *x, uint32_t duration_s, struct mono now)
{
    int64_t ns = (int64_t)duration_s * NS_PER_SEC;
    struct mono before = condemned_at(x);
    x->spans.duration_ns = x->config->duration_ns;
    if (duration_s != 0 && ns != x->config->duration_ns) {
        int64_t least = mono_ns_max(mono_ns_mul(x->config->renew_interval_ns, 2), NS_PER_SEC);
        x->spans.duration_ns = mono_ns_min(VERDICT_MAX_DURATION_NS, mono_ns_max(least, ns));
    }
    if (evidence_shorten(&x->evidence, &x->spans, run_out(x), before, now)) {
        x->failure.cause = MARK_CONFLICT;
    }
}

/* ---- what the lease says: the DPU's report --------------------------------------------------- */

/* A report is a lease of its own: dpu-agent renews its stamp once an interval while it stands. */
static bool has_report(const struct verdict *x, const struct lease_view *lease)
{
    return is_ours(x, lease) && lease->health != LEASE_HEALTH_NONE;
}

static bool stood_still(const struct verdict *x, struct mono at)
{
    return mono_reached(at, mono_add(x->reported, x->spans.duration_ns));
}

/* By the DPU's own stamps it is older than the last renewal: of an etcd that was restored. */
static bool is_past_report(const struct verdict *x, const struct lease_view *lease)
{
    struct wall at;
    struct wall renewed;
    return read_stamp(lease->health_stamp, &at) && read_stamp(x->stamp, &renewed) &&
           at.ns <= renewed.ns;
}

/* Another state than the last: does the DPU say that it is not well? renewTime may be renewed by
 * somebody else meanwhile (ovn-kubernetes' own health check): a report that stands still for a
 * duration beside such renewals is a leftover. */
static bool is_reported(struct verdict *x, const struct lease_view *lease, bool is_old,
                        bool renewed, struct mono now)
{
    bool is_new = !is_same_lease(x, lease) || !has_report(x, &x->lease) ||
                  x->lease.health != lease->health ||
                  !text_equal(x->lease.health_stamp, lease->health_stamp);
    if (!has_report(x, lease)) {
        return false;
    }
    if (is_new) {
        x->reported = is_old && is_past_report(x, lease) ? (struct mono){0} : now;
    }
    return (is_new || renewed) && !stood_still(x, now);
}

/* One that stands still for a duration is over: as silent as a DPU that never reported. An
 * announced shutdown is the last that is heard, and an older dpu-agent reports only once. */
static void end_report(struct verdict *x, struct mono t)
{
    bool is_renewable =
        x->lease.health == LEASE_HEALTH_UNHEALTHY && x->lease.health_stamp[0] != '\0';
    bool is_over = !has_report(x, &x->lease) || (is_renewable && stood_still(x, t));
    if (x->phase == VERDICT_REPORTED && is_over && mono_reached(t, condemned_at(x))) {
        move(x, VERDICT_EXPIRED);
    }
}

/* ---- what the lease says: the DPU's boot ----------------------------------------------------- */

/* Only another boot than the last two, on a lease that has just been renewed, is a reboot: a second
 * DPU that writes the same lease is no news. An older state tells of one before, which lasts until
 * it is mended where ovnkube renews it. True if it is a reboot. */
static bool take_boot(struct verdict *x, const struct lease_view *lease, bool is_old, bool renewed)
{
    struct readiness *out = &x->readiness;
    const char *id = lease->boot_id;
    bool is_first = out->dpu_boot_id[0] == '\0';
    if (!is_ours(x, lease) || id[0] == '\0' || text_equal(id, out->dpu_boot_id)) {
        x->boot_repeats = 0;
        return false; /* an older dpu-agent, or upstream's, claims nothing */
    }
    if (is_old && !renewed && !is_first) {
        text_format(out->dpu_boot_before, sizeof(out->dpu_boot_before), "%s", id);
    }
    x->boot_repeats += renewed && text_equal(id, out->dpu_boot_before);
    bool is_past = text_equal(id, out->dpu_boot_before) && x->boot_repeats < BOOT_REPEATS;
    if (is_past || !(renewed || is_first)) {
        return false;
    }
    x->boot_repeats = 0;
    memcpy(out->dpu_boot_before, out->dpu_boot_id, sizeof(out->dpu_boot_before));
    text_format(out->dpu_boot_id, sizeof(out->dpu_boot_id), "%s", id);
    return !is_first;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* A state that a later one has replaced already: of the same lease, or told by a watch that resumes
 * with the past. `renewed`: it is a renewal all the same. */
static bool is_outdated(const struct verdict *x, const struct verdict_event *event, bool renewed)
{
    bool by_watch = event->source == VERDICT_BY_WATCH;
    bool is_past =
        is_older(x, event->lease) && !renewed && (by_watch || is_same_lease(x, event->lease));
    return event->kind != VERDICT_MARK && (is_past || (by_watch && x->sight == VERDICT_SEES_GONE));
}

static void on_observed(struct verdict *x, const struct verdict_event *event,
                        struct verdict_update *out)
{
    const struct lease_view *lease = event->lease;
    struct mono now = event->now;
    bool by_write = event->kind == VERDICT_MARK;
    bool by_watch = event->source == VERDICT_BY_WATCH && !by_write;
    bool is_old = is_older(x, lease);
    bool is_prompt = by_watch && mono_is_never(x->blind_since) && !is_old;
    bool changed =
        !is_same_lease(x, lease) || !text_equal(x->lease.renew_stamp, lease->renew_stamp);
    out->renewed = is_renewal(x, lease, is_old || by_write);
    if (is_outdated(x, event, out->renewed)) {
        x->is_read_wanted = x->sight == VERDICT_SEES_GONE; /* made since, or gone before? */
        if (!by_watch) { /* it is there, and a mark tells whether it stands */
            x->sight = VERDICT_SEES_LEASE;
            x->is_mark_wanted = true;
            text_format(x->past_stamp, sizeof(x->past_stamp), "%s", event->lease->renew_stamp);
        }
        out->renewed = false;
        out->is_past = true;
        return;
    }
    x->sight = VERDICT_SEES_LEASE;
    out->rewrite = out->rewrite || !is_same_lease(x, lease); /* for a restart */
    struct mono made = is_prompt ? now : date(x, lease, now);
    /* A read that shows what was just made may have overtaken the watch. */
    out->restart_watch = !by_watch && !by_write && changed && has_renewed(x) &&
                         mono_reached(mono_add(now, -deadline_ns(x) / 4), made) &&
                         mono_reached(now, overdue_at(x));
    if (out->renewed) {
        note_renewal(x, made, lease->renew_stamp, now);
    }
    x->is_first_look = false;
    out->rebooted = take_boot(x, lease, is_old, out->renewed);
    adopt_duration(x, lease->duration_s, now);
    if (lease->renew_time_valid && lease->renew_time.ns > x->newest.ns) {
        x->newest = lease->renew_time;
    }
    bool reported = is_reported(x, lease, is_old, out->renewed, now);
    x->lease = *lease;
    if (reported) {
        move(x, VERDICT_REPORTED);
    } else if (out->renewed && mono_before(now, run_out(x))) {
        move(x, VERDICT_FRESH);
        x->hold_is_over = false;
    }
}

static void on_absent(struct verdict *x, const struct verdict_event *event,
                      struct verdict_update *out)
{
    x->is_first_look = false;
    out->repair = true;
    if (event->source == VERDICT_BY_WATCH) { /* it may be of the past: a read comes before a mark */
        x->sight = x->sight == VERDICT_SEES_GONE ? x->sight : VERDICT_SEES_NONE;
        return;
    }
    x->sight = VERDICT_SEES_GONE;
    if (event->is_lasting) {
        take_evidence(x, event->started_at, event->now);
    } else {
        miss_evidence(x, MARK_ABSENT, event->started_at, NULL);
    }
}

/* A denial that lasts for one more duration may be a decision about us alone: then a read is the
 * proof. A server that starts again may forbid all, for a while. */
static bool has_denial_lasted(const struct verdict *x, struct mono t)
{
    struct mono since = mono_max(condemned_at(x), x->failure.since);
    return x->failure.cause == MARK_DENIED &&
           mono_reached(t, mono_add(since, x->spans.duration_ns));
}

static void on_mark(struct verdict *x, const struct verdict_event *event,
                    struct verdict_update *out)
{
    struct mono t = event->started_at;
    enum mark_outcome outcome = event->outcome;
    if (event->lease) {
        on_observed(x, event, out);
    }
    bool is_ours_alone = outcome == MARK_DENIED && !x->evidence.has_marked;
    if (event->source == VERDICT_BY_MARK) {
        x->is_marking = false;
        x->is_trying = false;
        x->evidence.has_marked |= outcome == MARK_TAKEN;
        bool is_open = outcome != MARK_TAKEN && outcome != MARK_DENIED;
        x->is_mark_wanted = x->is_mark_wanted && (is_open || event->is_trial);
        x->is_trial_wanted = x->is_trial_wanted && is_open;
    }
    if (outcome == MARK_LOST) {
        hear_nothing(x, event->now);
    } else {
        hear_answer(x);
    }
    out->rewrite = true; /* for a restart */
    if (event->is_trial) {
        return;
    }
    if (outcome == MARK_TAKEN || is_ours_alone) { /* we never could write: the read is the proof */
        take_evidence(x, t, event->now);
    } else if (x->phase != VERDICT_AWAITING &&                       /* where a read is the proof */
               outcome != MARK_CONFLICT && outcome != MARK_ABSENT) { /* LEASE_ABSENT said so */
        miss_evidence(x, outcome, t, event->failure);
    }
    if (x->phase == VERDICT_FRESH && is_failing(x) && has_denial_lasted(x, t)) {
        move(x, VERDICT_EXPIRED);
    }
}

/* The API server answered, whatever that is worth. */
static void on_answer(struct verdict *x, const struct verdict_event *event,
                      struct verdict_update *out)
{
    if (x->looked_at.ns == 0 && x->phase == VERDICT_AWAITING) {
        x->observed = event->now; /* waiting counts from when a renewal could have been seen, */
        x->evidence.checked = event->now;
        x->evidence.failing = (struct mono){0}; /* so that no blind span lies before */
    }
    hear_answer(x);
    if (event->kind == VERDICT_LEASE_OBSERVED) {
        on_observed(x, event, out);
    } else if (event->kind == VERDICT_LEASE_ABSENT) {
        on_absent(x, event, out);
    } else {
        x->sight = VERDICT_SEES_GARBLED;
        miss_evidence(x, MARK_NONSENSE, event->now, event->failure);
    }
    if (event->source != VERDICT_BY_READ && event->source != VERDICT_BY_CONFIRM) {
        return;
    }
    x->back_at = is_back(x) ? x->back_at : event->now;
    x->looked_at = mono_max(x->looked_at, event->started_at);
    x->blind_since = x->is_watch_broken ? x->blind_since : MONO_NEVER;
    if (x->phase == VERDICT_AWAITING) { /* nobody is admitted who could be refused */
        take_evidence(x, event->started_at, event->now);
    }
    end_report(x, event->started_at);
}

static void handle(struct verdict *x, const struct verdict_event *event, struct verdict_update *out)
{
    bool is_lookup = event->kind <= VERDICT_READ_FAILED;
    x->is_reading = x->is_reading && !(is_lookup && event->source == VERDICT_BY_CONFIRM);
    switch (event->kind) {
    case VERDICT_LEASE_OBSERVED:
    case VERDICT_LEASE_ABSENT:
    case VERDICT_LEASE_UNREADABLE:
        on_answer(x, event, out);
        break;
    case VERDICT_READ_FAILED:
        hear_nothing(x, event->now);
        miss_evidence(x, MARK_LOST, event->started_at, event->failure);
        break;
    case VERDICT_WATCH_BROKEN:
        x->is_watch_broken = true;
        x->blind_since = mono_min(x->blind_since, event->now);
        break;
    case VERDICT_WATCH_WORKS:
        x->is_watch_broken = false; /* what it shows first may be as old as the last look */
        if (mono_since(event->now, x->looked_at) < LATE_NS) {
            x->blind_since = MONO_NEVER;
        }
        break;
    case VERDICT_MARK:
        on_mark(x, event, out);
        break;
    case VERDICT_PODS:
        text_format(x->pods, sizeof(x->pods), "%s", event->pods ? event->pods : "");
        break;
    case VERDICT_HOST_PROBES:
        x->readiness.host_probes = *event->host_probes;
        text_format(x->accusation, sizeof(x->accusation), "%s", event->accusation);
        out->rewrite = true; /* a restart needs to know what they said */
        break;
    case VERDICT_TICK:
        break;
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Past its deadline the last state stands while nobody can know, and a retry until a renewal or its
 * end. Otherwise the mark under way is worth waiting for: its answer is one round trip away. */
static bool is_held(const struct verdict *x, struct mono now)
{
    return mono_reached(now, run_out(x)) &&
           (mono_before(run_out(x), x->evidence.granted) || is_failing(x) ||
            evidence_is_gap(&x->evidence, &x->spans, now));
}

/* --api-outage-hold, which bounds what fails. */
static struct mono hold_end(const struct verdict *x)
{
    return mono_add(run_out(x), x->config->api_outage_hold_ns);
}

/* ---- what to ask for ------------------------------------------------------------------------- */

/* The shell tells each outcome; one that it did not tell by then is not waited for. */
static struct mono awaited_until(const struct verdict *x, struct mono asked)
{
    return mono_add(asked, MARK_REQUESTS * deadline_ns(x) + SLACK_NS);
}

/* When the next mark is due by the pace of marks. The first of these that holds decides:
 *
 *   attempts failed, and a read was answered since: r / 2 after that answer. Most DPUs renew
 * before, and the mark makes no renewal of theirs meet a conflict. Where writes were refused, a
 * read shows nothing new, and the next line decides; the last mark failed: an interval after it;
 *   else 2 r after the last evidence, and q more after a renewal, since the next one may be on its
 *     way; but r / 2 after the last mark, which has met a conflict if it gave no evidence. */
static struct mono next_mark(const struct verdict *x)
{
    bool is_renewal = x->evidence.checked.ns == x->observed.ns;
    bool has_failed = is_failing(x) && mono_before(x->evidence.checked, x->last_mark);
    int64_t pause_ns = mono_ns_mul(pace_ns(x), 2) + (is_renewal ? deadline_ns(x) : 0);
    if (is_back(x) && !is_refusing_writes(x) && x->sight == VERDICT_SEES_LEASE) {
        struct mono back = mono_max(x->back_at, x->evidence.failing); /* the DPU goes first */
        return mono_max(mono_add(x->last_mark, hurry_ns(x)), mono_add(back, pace_ns(x) / 2));
    }
    if (has_failed) {
        return mono_add(x->last_mark, pace_ns(x));
    }
    return mono_max(mono_add(x->last_mark, pace_ns(x) / 2),
                    mono_add(x->evidence.checked, pause_ns));
}

/* Where the DPU is admitted, marks have two bounds: none is made within the time that was granted
 * (N), and one is made exactly when the DPU may be condemned. One that would be due up to q before
 * that is put off until then: it would still be under way. */
static struct mono within_bounds(const struct verdict *x, struct mono due)
{
    struct mono end = condemned_at(x);
    due = mono_max(due, x->evidence.granted); /* the DPU's retry would meet a conflict */
    bool is_in_the_way =
        mono_before(x->last_mark, end) && mono_before(mono_add(end, -deadline_ns(x)), due);
    return is_in_the_way ? end : due;
}

/* When the next mark is due by their pace, within its bounds. */
static struct mono paced_mark_due(const struct verdict *x)
{
    bool has_asked = x->last_mark.ns != 0 || x->looked_at.ns != 0;
    return within_bounds(x, has_asked ? next_mark(x) : condemned_at(x));
}

/* When the next mark or trial is due; NEVER: there is no reason for one.
 *
 * A trial is wanted after each look until one has told whether we may write, and a mark after each
 * look while two states of the lease are shown, to tell which of them stands in etcd. Both follow a
 * look, since no renewal is likely to have overtaken what it has just shown. */
static struct mono mark_due(const struct verdict *x)
{
    bool has_looked = x->looked_at.ns != 0;
    bool is_wanted = (x->is_mark_wanted || (x->is_trial_wanted && !x->is_trying)) && has_looked &&
                     x->sight == VERDICT_SEES_LEASE;
    struct mono wanted = !is_wanted ? MONO_NEVER
                         : mono_before(x->last_mark, x->looked_at)
                             ? x->looked_at
                             : mono_add(x->last_mark, pace_ns(x));
    if (x->phase != VERDICT_FRESH) {
        return wanted;
    }
    return mono_min(within_bounds(x, wanted), paced_mark_due(x));
}

/* Whether what is due is a mark only to tell whether we may write. Then it is sent as a trial,
 * which changes nothing: after a real one the DPU's next PUT would meet a conflict. Once a mark was
 * asked for at the DPU's deadline, the next one proves as much, and is no trial. */
static bool is_trial(const struct verdict *x, struct mono now)
{
    bool is_due = x->phase == VERDICT_FRESH && (mono_reached(now, paced_mark_due(x)) ||
                                                mono_reached(x->last_mark, condemned_at(x)));
    return x->is_trial_wanted && !x->is_mark_wanted && !is_due;
}

/* When the next read is due; NEVER: the watch shows all that a read would. There are three reasons:
 *
 *   the DPU is not admitted: a read in each interval, since a half-open watch must not hide its
 *     return;
 *   the watch is not trusted: likewise, from half an interval after that began, for most watches
 *     are back sooner;
 *   a renewal is overdue: one read looks for it, before the first mark is made. */
static struct mono read_due(const struct verdict *x)
{
    struct mono last = mono_max(x->last_read, x->looked_at);
    if (x->phase == VERDICT_FRESH) { /* a mark looks, too */
        last = mono_max(last, x->last_mark);
    }
    struct mono next = mono_add(last, mono_ns_max(pace_ns(x), hurry_ns(x)));
    if (!mono_is_never(x->blind_since)) {
        next = mono_max(next, mono_add(x->blind_since, pace_ns(x) / 2));
    } else if (x->phase == VERDICT_FRESH) {
        next = MONO_NEVER;
    }
    bool is_sought = x->phase == VERDICT_FRESH && mono_before(last, overdue_at(x));
    return is_sought ? mono_min(next, overdue_at(x)) : next;
}

/* A trial names the version that the last look showed. While another look is due or under way, a
 * renewal may have overtaken that one: the trial follows the answer. */
static bool is_trial_early(const struct verdict *x, struct mono now)
{
    bool is_look_due = x->is_reading || x->is_read_wanted || mono_reached(now, read_due(x));
    return is_look_due && is_trial(x, now);
}

static void plan(struct verdict *x, struct mono now, struct verdict_update *out)
{
    x->is_reading = x->is_reading && mono_before(now, awaited_until(x, x->last_read));
    bool is_mark_awaited = mono_before(now, awaited_until(x, x->last_mark));
    x->is_marking = x->is_marking && is_mark_awaited;
    x->is_trying = x->is_trying && is_mark_awaited;
    bool is_mark_due = !x->is_marking && mono_reached(now, mark_due(x)) && !is_trial_early(x, now);
    bool may_mark = x->sight == VERDICT_SEES_LEASE && !is_lost(x); /* else a read takes its place */
    out->mark = is_mark_due && may_mark;
    out->is_trial = out->mark && is_trial(x, now);
    x->is_marking = x->is_marking || (out->mark && !out->is_trial);
    x->is_trying = out->mark ? out->is_trial : x->is_trying;
    out->confirm =
        !x->is_reading && !x->is_marking &&
        ((is_mark_due && !may_mark) || x->is_read_wanted || mono_reached(now, read_due(x)));
    x->is_read_wanted = x->is_read_wanted && !out->confirm;
    x->is_reading = x->is_reading || out->confirm;
    x->last_mark = is_mark_due ? now : x->last_mark;
    x->last_read = out->confirm ? now : x->last_read;
}

static struct mono wake_at(const struct verdict *x, struct mono now)
{
    const struct mono turning_points[] = {
        read_due(x),
        mark_due(x),
        awaited_until(x, x->last_read),
        awaited_until(x, x->last_mark),
        run_out(x),
        x->evidence.granted,
        evidence_gap_at(&x->evidence, &x->spans),
        hold_end(x),
    };
    struct mono wake = x->next_rewrite;
    for (size_t i = 0; i < ARRAY_LEN(turning_points); i++) {
        if (mono_before(now, turning_points[i])) {
            wake = mono_min(wake, turning_points[i]);
        }
    }
    return wake;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

/* The message contains words of others: it is cut between characters and made printable, for it
 * goes into JSON and onto terminals. */
PRINTF_LIKE(3, 4)
static void say(struct readiness *out, enum readiness_reason reason, const char *fmt, ...)
{
    char whole[2 * NAMES_MESSAGE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(whole, sizeof(whole), fmt, ap); /* cut at its bound */
    va_end(ap);
    text_sanitize(out->message, sizeof(out->message), whole, strlen(whole));
    out->reason = reason;
    out->other_reason[0] = '\0';
    out->state = readiness_reason_traits(reason)->state;
}

static void say_awaiting(const struct verdict *x, struct readiness *out)
{
    bool is_lost = !x->has_contact && x->failure.text[0] != '\0';
    say(out, REASON_AWAITING_FIRST_RENEWAL,
        "the host has not seen a renewal of lease %s/%s yet: %s%s", x->config->lease_ns,
        x->config->lease_name,
        is_lost ? "the API server cannot be read: " : "dpu-agent may not run on the DPU",
        is_lost ? x->failure.text : "");
}

static void say_held(const struct verdict *x, struct readiness *out)
{
    static const char *const causes[MARK_OUTCOMES] = {
        [MARK_CONFLICT] = ("dpu-host-agent was stopped or restarted, met only conflicts, or the "
                           "lease's duration was shortened"),
        [MARK_LOST] = "the API server does not answer",
        [MARK_NONSENSE] = "the API server's answers cannot be read",
        [MARK_REFUSED] = "the API server takes no writes",
        [MARK_DENIED] = "the API server denies the host's write to the lease",
        [MARK_ABSENT] = "the lease is gone and is being made anew",
    };
    bool has_cause =
        is_failing(x) || x->evidence.granted.ns != 0; /* else it is that of an older hold */
    enum mark_outcome why = has_cause ? x->failure.cause : MARK_CONFLICT;
    bool is_unwritten = why == MARK_REFUSED || why == MARK_DENIED || why == MARK_ABSENT;
    enum readiness_reason reason =
        is_unwritten ? REASON_API_SERVER_NOT_WRITING : REASON_API_SERVER_UNREACHABLE;
    const char *cause = causes[why];
    if (x->hold_is_over) {
        say(out, reason,
            "for longer than --api-outage-hold (%s), the host could not tell whether the DPU is "
            "alive: %s",
            text_span(x->config->api_outage_hold_ns).text, cause);
    } else if (is_failing(x)) {
        bool has_detail = x->failure.text[0] != '\0';
        say(out, reason,
            "the lease expired while the host could not tell whether the DPU is alive: %s%s%s%s; "
            "the host keeps the last state, Ready",
            cause, has_detail ? " (" : "", x->failure.text, has_detail ? ")" : "");
    } else {
        say(out, reason, "the DPU has time for one retry, after a time without evidence: %s",
            cause);
    }
}

/* Why the silence: the lease itself is damaged, or the DPU does not renew it. */
static void say_silent(const struct verdict *x, struct readiness *out)
{
    const struct lease_view *lease = &x->lease;
    char name[NAMES_K8S_NAME_BYTES * 2];
    const struct text_span duration = text_span(x->spans.duration_ns);
    text_format(name, sizeof(name), "%s/%s", x->config->lease_ns, x->config->lease_name);
    if (x->sight <= VERDICT_SEES_GONE) {
        say(out, REASON_LEASE_NOT_FOUND,
            "no renewal for %s, and lease %s does not exist: dpu-host-agent's log says why it "
            "cannot create it",
            duration.text, name);
    } else if (x->sight == VERDICT_SEES_GARBLED) {
        say(out, REASON_LEASE_INVALID, "no renewal for %s, and lease %s cannot be read: %s",
            duration.text, name, x->failure.text);
    } else if (lease->holder[0] == '\0') {
        say(out, REASON_LEASE_INVALID, "lease %s has no holder", name);
    } else if (!is_ours(x, lease)) {
        say(out, REASON_LEASE_INVALID, "lease %s is held by '%s' instead of '%s'", name,
            lease->holder, x->config->holder);
    } else if (lease->renew_stamp[0] == '\0') {
        say(out, REASON_LEASE_INVALID,
            "lease %s has never been renewed: dpu-agent may not run on the DPU. If the health "
            "check is off there but on here, this is a configuration mismatch",
            name);
    } else if (lease->duration_s == 0) {
        say(out, REASON_LEASE_INVALID,
            "lease %s has no leaseDurationSeconds, and the DPU has not renewed it", name);
    } else if (x->last_gap_ns > x->spans.duration_ns) {
        say(out, REASON_LEASE_EXPIRED,
            "the DPU has not renewed lease %s for %s; its last two renewals were %s apart, which "
            "looks like a configuration mismatch of the renew interval",
            name, duration.text, text_span(x->last_gap_ns / NS_PER_SEC * NS_PER_SEC).text);
    } else {
        say(out, REASON_LEASE_EXPIRED,
            "the DPU has not renewed lease %s for %s; its last renewal is stamped %s", name,
            duration.text, out->lease.renew_stamp);
    }
}

static void say_reported(const struct verdict *x, struct readiness *out)
{
    const char *why = x->lease.health_message;
    if (x->lease.health == LEASE_HEALTH_SHUTDOWN) {
        say(out, REASON_DPU_SHUTDOWN, "the DPU announced its shutdown%s%s", why[0] ? ": " : "",
            why);
    } else if (x->lease.health == LEASE_HEALTH_UNHEALTHY) {
        say(out, REASON_DPU_REPORTED_UNHEALTHY, "the DPU reports that it is unhealthy: %s",
            why[0] ? why : "no reason was given");
    } else {
        say(out, REASON_DPU_REPORTED_UNHEALTHY,
            "the DPU reported that it was unhealthy and has not renewed its lease since");
    }
}

static void say_phase(const struct verdict *x, struct readiness *out, struct mono now)
{
    switch (x->phase) {
    case VERDICT_AWAITING:
    case VERDICT_PHASE_COUNT:
        say_awaiting(x, out);
        break;
    case VERDICT_FRESH:
        if (x->hold_is_over || is_held(x, now)) {
            say_held(x, out);
        } else {
            say(out, REASON_LEASE_RENEWED, "the DPU renews its lease");
        }
        break;
    case VERDICT_EXPIRED:
        say_silent(x, out);
        break;
    case VERDICT_REPORTED:
        say_reported(x, out);
        break;
    case VERDICT_DISABLED:
        say(out, REASON_HEALTH_CHECK_DISABLED,
            "the DPU health check is disabled (--dpu-node-lease-renew-interval=0 or "
            "--dpu-node-lease-duration=0)");
        break;
    }
}

/* A failed host probe takes away an admission that the lease gives. */
static void judge(const struct verdict *x, struct readiness *out, struct mono now)
{
    bool is_fresh = x->phase == VERDICT_FRESH && !x->hold_is_over;
    bool admits = is_fresh || x->phase == VERDICT_DISABLED;
    if (is_fresh && readiness_is_accused(out)) {
        say(out, REASON_HOST_PROBE_FAILED, "a host probe fails: %s", x->accusation);
    } else if (admits && x->pods[0] != '\0') {
        say(out, REASON_POD_NETWORK_LOST, "%s", x->pods);
    } else {
        say_phase(x, out, now);
    }
    out->admit = admits && out->state != READINESS_NOT_READY;
}

static void describe_lease(const struct verdict *x, struct readiness_lease *out)
{
    const struct lease_view *lease = &x->lease;
    text_format(out->ns, sizeof(out->ns), "%s", x->config->lease_ns);
    text_format(out->name, sizeof(out->name), "%s", x->config->lease_name);
    text_format(out->uid, sizeof(out->uid), "%s", lease->uid);
    text_format(out->renew_stamp, sizeof(out->renew_stamp), "%s",
                has_renewed(x) ? x->stamp : lease->renew_stamp);
    memcpy(out->resource_version, lease->resource_version, sizeof(out->resource_version));
    out->duration_s = lease->duration_s;
}

static void update_verdict(struct verdict *x, struct mono now)
{
    struct readiness *out = &x->readiness;
    out->observed = has_renewed(x) ? x->observed : (struct mono){0};
    out->lease_until = has_renewed(x) ? run_out(x) : (struct mono){0};
    describe_lease(x, &out->lease);
    bool is_refused = x->phase == VERDICT_EXPIRED || x->phase == VERDICT_REPORTED;
    if (is_refused && x->is_first_look) { /* a former process said why; nothing new is known */
        out->state = READINESS_NOT_READY;
        out->admit = false;
    } else {
        judge(x, out, now);
    }
}

/* ---- start ----------------------------------------------------------------------------------- */

/* The lease refused, and not what the host itself saw. */
static bool was_refused(const struct readiness *was)
{
    return was->state == READINESS_NOT_READY && was->reason != REASON_POD_NETWORK_LOST &&
           was->reason != REASON_HOST_PROBE_FAILED;
}

/* A record that readers no longer believe is not believed here either: all starts anew. */
static bool is_usable(const struct record *carry, struct mono now)
{
    const struct readiness *was = &carry->readiness;
    return was->observed.ns > 0 && !mono_before(now, was->observed) && was->lease.uid[0] != '\0' &&
           was->reason < REASON_RECORD_MISSING &&
           (was_refused(was) || mono_before(now, carry->hold_until));
}

static void restore_lease(struct verdict *x, const struct readiness *was, struct mono now)
{
    struct lease_view *lease = &x->lease;
    text_format(lease->uid, sizeof(lease->uid), "%s", was->lease.uid);
    text_format(lease->renew_stamp, sizeof(lease->renew_stamp), "%s", was->lease.renew_stamp);
    memcpy(lease->resource_version, was->lease.resource_version, sizeof(lease->resource_version));
    text_format(lease->holder, sizeof(lease->holder), "%s", x->config->holder);
    text_format(x->stamp, sizeof(x->stamp), "%s", was->lease.renew_stamp);
    (void)read_stamp(x->stamp, &x->newest); /* none stays 0 */
    x->sight = VERDICT_SEES_LEASE;
    lease->duration_s = was->lease.duration_s;
    adopt_duration(x, was->lease.duration_s, now);
}

/* A record carried over a restart. What it says was known at `checked`; whatever has happened since
 * was seen by nobody, and the first mark ends that blind span like any other. */
static void restore(struct verdict *x, const struct record *carry, struct mono now)
{
    const struct readiness *was = &carry->readiness;
    if (was->reason == REASON_POD_NETWORK_LOST && x->config->pods_count) {
        text_format(x->pods, sizeof(x->pods), "%s", was->message); /* until they are looked at */
    }
    if (!is_usable(carry, now)) { /* but for what is true of a lease never seen renewed, too */
        x->evidence.has_marked = carry->evidence.has_marked;
        memcpy(x->readiness.dpu_boot_id, was->dpu_boot_id, sizeof(was->dpu_boot_id));
        memcpy(x->readiness.dpu_boot_before, was->dpu_boot_before, sizeof(was->dpu_boot_before));
        return;
    }
    x->observed = was->observed;
    x->is_first_look = true;
    x->readiness = *was;
    x->readiness.host_probes.count = 0; /* who asks them tells which there are now */
    restore_lease(x, was, now);
    x->evidence = carry->evidence;
    evidence_restore(&x->evidence, &x->spans, x->observed, now);
    x->hold_is_over = was->state == READINESS_UNKNOWN && !was->admit;
    x->phase = was_refused(was) ? VERDICT_EXPIRED : VERDICT_FRESH;
    if (was->reason == REASON_DPU_SHUTDOWN || was->reason == REASON_DPU_REPORTED_UNHEALTHY) {
        bool is_shutdown = was->reason == REASON_DPU_SHUTDOWN;
        x->lease.health = is_shutdown ? LEASE_HEALTH_SHUTDOWN : LEASE_HEALTH_UNHEALTHY;
        x->reported = now;
        x->phase = VERDICT_REPORTED;
    }
}

void verdict_init(struct verdict *x, const struct verdict_config *config,
                  const struct record *carry, struct mono now)
{
    assert(config->renew_interval_ns >= 0);
    assert(config->duration_ns > config->renew_interval_ns);
    *x = (struct verdict){.config = config,
                          .observed = now,
                          .evidence = {.checked = now},
                          .spans = {.interval_ns = config->renew_interval_ns,
                                    .deadline_ns = verdict_deadline_ms(config) * NS_PER_MS,
                                    .duration_ns = config->duration_ns},
                          .failure = {.cause = MARK_CONFLICT},
                          .is_trial_wanted = true,
                          .blind_since = now, /* the first list tells */
                          .last_read = now,
                          .wake_due = MONO_NEVER};
    if (config->renew_interval_ns == 0) {
        x->phase = VERDICT_DISABLED;
    } else if (carry) {
        restore(x, carry, now);
    }
    update_verdict(x, now);
}

/* ---- the step -------------------------------------------------------------------------------- */

void verdict_step(struct verdict *x, const struct verdict_event *event, struct verdict_update *out)
{
    struct mono now = event->now;
    bool is_on = x->phase != VERDICT_DISABLED;
    struct readiness before = x->readiness;
    struct mono failing = x->evidence.failing;
    *out = (struct verdict_update){.wake_at = MONO_NEVER};
    if (is_on && mono_reached(now, mono_add(x->wake_due, LATE_NS))) {
        x->blind_since = mono_min(x->blind_since, now); /* a stall: what comes now may be old */
    }
    if (is_on || event->kind == VERDICT_PODS || event->kind == VERDICT_HOST_PROBES) {
        handle(x, event, out);
    }
    if (x->phase == VERDICT_FRESH && is_failing(x) && mono_reached(now, hold_end(x))) {
        x->hold_is_over = true;
    }
    update_verdict(x, now);
    out->verdict_changed = !readiness_same_verdict(&before, &x->readiness);
    bool is_failing_now = failing.ns != x->evidence.failing.ns;
    out->rewrite = out->rewrite || out->verdict_changed || out->renewed || is_failing_now;
    if (is_on) {
        plan(x, now, out);
    }
    if (out->rewrite || mono_reached(now, x->next_rewrite)) {
        out->rewrite = true;
        x->next_rewrite = mono_add(now, verdict_writer_ahead_ns(x->config) / 4 * 3);
    }
    out->wake_at = is_on ? wake_at(x, now) : x->next_rewrite;
    x->wake_due = out->wake_at;
}
