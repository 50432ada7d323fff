/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/verdict.h"

#include "base/attr.h"
#include "base/err.h"
#include "base/text.h"
#include "base/time.h"
#include "contract/lease.h"
#include "host-agent/verdict_message.h"

#include <assert.h>
#include <string.h>

#define MIN_RETRY_NS        (200 * NS_PER_MS)
#define MAX_DEADLINE_MS     5000
#define MIN_DEADLINE_MS     250
#define SLACK_NS            (1 * NS_PER_SEC)
#define LATE_NS             (1 * NS_PER_SEC) /* a wake-up this late is a stall of our own */
#define MARK_REQUESTS       4                /* of one mark, at most */
#define DISABLED_REWRITE_NS (10 * NS_PER_SEC)

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

static int64_t ns_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ns_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

uint32_t verdict_deadline_ms(const struct verdict_config *config)
{
    int64_t ms = config->duration_ns / 8 / NS_PER_MS;
    return (uint32_t)ns_max(MIN_DEADLINE_MS, ns_min(MAX_DEADLINE_MS, ms));
}

/* q: one request for evidence runs no longer. */
static int64_t deadline_ns(const struct verdict *x)
{
    return (int64_t)verdict_deadline_ms(x->config) * NS_PER_MS;
}

/* s: from then on a renewal is overdue, and a read looks for it. Half-way to what the duration
 * leaves at most, so that it is early even where the duration is short. */
static int64_t overdue_ns(const struct verdict *x)
{
    int64_t r = x->config->renew_interval_ns;
    return ns_min(r + r / 2, r + (x->duration_ns - r) / 2);
}

/* G: evidence further apart leaves a blind span. */
static int64_t longest_gap_ns(const struct verdict *x)
{
    return mono_ns_add(mono_ns_mul(x->config->renew_interval_ns, 2), deadline_ns(x) + SLACK_NS);
}

/* R */
static int64_t retry_ns(const struct verdict *x)
{
    return lease_pace_grace_ns(x->config->renew_interval_ns);
}

/* Between two reads, or two marks that fail. */
static int64_t pace_ns(const struct verdict *x)
{
    return ns_max(x->config->renew_interval_ns, MIN_RETRY_NS);
}

/* Between two marks that are taken, or after a renewal: as long as evidence may be apart. Each is a
 * new version, which a renewal that is under way does not know. */
static int64_t mark_pause_ns(const struct verdict *x)
{
    return ns_max(mono_ns_mul(x->config->renew_interval_ns, 2), MIN_RETRY_NS);
}

/* Where the next one has a reason to be sooner. */
static int64_t hurry_ns(const struct verdict *x)
{
    return ns_max(ns_min(NS_PER_SEC, x->duration_ns / 4), MIN_RETRY_NS);
}

/* Somebody else writes, who will not have stopped by then: four requests at most. */
static int64_t conflict_ns(const struct verdict *x)
{
    return ns_max(hurry_ns(x), x->config->renew_interval_ns / 4);
}

static struct mono run_out(const struct verdict *x)
{
    return mono_add(x->observed, x->duration_ns);
}

static struct mono condemned_at(const struct verdict *x)
{
    return mono_max(run_out(x), x->not_before);
}

int64_t verdict_writer_ahead_ns(const struct verdict_config *config)
{
    int64_t r = config->renew_interval_ns;
    return r == 0 ? DISABLED_REWRITE_NS * 3 / 2 : ns_min(r + r / 2, config->duration_ns - r);
}

/* ---- evidence -------------------------------------------------------------------------------- */

/* Without a renewal `observed` is when waiting began. */
static bool has_renewed(const struct verdict *x)
{
    return x->stamp[0] != '\0';
}

static bool is_silent(const struct verdict *x)
{
    return x->phase == VERDICT_AWAITING || x->phase == VERDICT_FRESH;
}

/* Evidence was due by then. */
static struct mono evidence_due(const struct verdict *x)
{
    return mono_add(x->evidence, x->config->renew_interval_ns);
}

/* No condemnation before the DPU had the time of one retry since `t`, within what B allows. */
static void give_retry(struct verdict *x, struct mono t)
{
    int64_t most_ns = mono_ns_add(x->blind_ns, retry_ns(x));
    struct mono until = mono_min(mono_add(t, retry_ns(x)), mono_add(run_out(x), most_ns));
    x->not_before = mono_max(x->not_before, until);
}

/* In all that was asked of the API server up to `t`, nobody had renewed. */
static void take_evidence(struct verdict *x, struct mono t)
{
    bool is_failing = x->failing.ns != 0;
    if (is_failing || mono_since(t, x->evidence) > longest_gap_ns(x)) {
        struct mono began = is_failing ? x->failing : evidence_due(x);
        x->cause = is_failing ? x->cause : VERDICT_CAUSE_PAUSE;
        x->blind_ns = mono_ns_add(x->blind_ns, ns_max(0, mono_since(t, began)));
        give_retry(x, t);
    }
    x->evidence = mono_max(x->evidence, t);
    x->failing = (struct mono){0};
    x->denied_since = (struct mono){0};
    if (is_silent(x) && mono_reached(t, condemned_at(x))) {
        move(x, VERDICT_EXPIRED);
    }
}

/* An attempt that was started at `t` gave no evidence. */
static void miss_evidence(struct verdict *x, enum verdict_cause cause, struct mono t,
                          const char *failure)
{
    bool was_failing = x->failing.ns != 0;
    if (cause == VERDICT_CAUSE_UNREACHABLE) {
        x->denied_since = (struct mono){0}; /* who starts again may forbid all, for a while */
    }
    if (!was_failing) {
        bool was_away = mono_since(t, x->evidence) > longest_gap_ns(x);
        x->failing = was_away ? evidence_due(x) : mono_max(t, evidence_due(x));
    }
    if (!was_failing || x->cause != cause || x->phase == VERDICT_FRESH) {
        x->cause = cause;
        text_format(x->failure, sizeof(x->failure), "%s", failure ? failure : "");
    }
}

static bool is_refusing_writes(const struct verdict *x)
{
    return x->cause == VERDICT_CAUSE_NO_WRITES || x->cause == VERDICT_CAUSE_DENIED;
}

static bool is_readable(const struct verdict *x)
{
    return x->sight == VERDICT_SEES_LEASE;
}

/* A refusal that lasts for one more duration may be a decision about us alone: then a read is the
 * proof. */
static bool has_lasted(const struct verdict *x, struct mono t)
{
    struct mono since = mono_max(condemned_at(x), x->denied_since);
    return mono_reached(t, mono_add(since, x->duration_ns));
}

/* Somebody renews an older state of the lease: a DPU on an etcd that was restored, perhaps, which
 * only a write of ours can tell. A read is no proof against it. */
static bool is_old_state_renewed(const struct verdict *x, struct mono t)
{
    return x->old_since.ns != 0 && mono_before(t, mono_add(x->old_since, x->duration_ns));
}

/* What a mark that failed tells. */
static const enum verdict_cause failed_marks[CHAIN_OUTCOMES] = {
    [CHAIN_DENIED] = VERDICT_CAUSE_DENIED,
    [CHAIN_REFUSED] = VERDICT_CAUSE_NO_WRITES,
    [CHAIN_LOST] = VERDICT_CAUSE_UNREACHABLE,
    [CHAIN_NONSENSE] = VERDICT_CAUSE_UNREADABLE,
};

static void on_mark(struct verdict *x, const struct verdict_event *event)
{
    struct mono t = event->started_at;
    enum chain_outcome outcome = event->outcome;
    bool is_proof = !is_old_state_renewed(x, t); /* a read, that is */
    x->mark_pending = false;
    x->contact = outcome == CHAIN_LOST ? VERDICT_CONTACT_LOST : VERDICT_CONTACT_STANDS;
    if (outcome == CHAIN_TAKEN || (outcome == CHAIN_READ_ONLY && is_proof)) {
        x->looked_at = mono_max(x->looked_at, t);
        take_evidence(x, t);
        if (x->is_marked) { /* else it was the keeper's write, and the first is due yet */
            x->next_mark = x->phase == VERDICT_FRESH ? mono_add(t, mark_pause_ns(x)) : MONO_NEVER;
        }
    } else if (outcome == CHAIN_CONFLICT) {
        x->next_mark = mono_min(x->next_mark, mono_add(x->last_mark, conflict_ns(x)));
    } else if (failed_marks[outcome] != VERDICT_CAUSE_PAUSE) {
        miss_evidence(x, failed_marks[outcome], t, event->failure);
    } /* else it was absent: LEASE_ABSENT said so before */
    if (outcome == CHAIN_DENIED) {
        x->denied_since = x->denied_since.ns != 0 ? x->denied_since : t;
        if (x->phase == VERDICT_FRESH && is_proof && has_lasted(x, t)) {
            move(x, VERDICT_EXPIRED);
        }
    }
}

/* ---- sight ----------------------------------------------------------------------------------- */

static void make_contact(struct verdict *x, struct mono now)
{
    if (x->looked_at.ns == 0 && x->phase == VERDICT_AWAITING) {
        x->observed = now; /* waiting counts from when a renewal could have been seen */
        x->evidence = now;
    }
    x->contact = VERDICT_CONTACT_STANDS;
}

static bool is_blind(const struct verdict *x)
{
    return !mono_is_never(x->blind_since);
}

static void go_blind(struct verdict *x, struct mono now, struct mono read_at)
{
    if (!is_blind(x)) {
        x->blind_since = now;
        x->blind_read_at = read_at;
    }
}

static void on_read_ok(struct verdict *x, const struct verdict_event *event)
{
    struct mono t = event->started_at;
    make_contact(x, event->now);
    x->looked_at = mono_max(x->looked_at, t);
    x->blind_since = x->watch_broken ? x->blind_since : MONO_NEVER;
    if (x->phase == VERDICT_AWAITING) {
        take_evidence(x, t); /* nobody is admitted who could be refused */
    }
    if (!is_readable(x)) {
        return;
    }
    if (mono_before(t, x->failing)) {
        x->failing = (struct mono){0}; /* what failed was not due yet */
    }
    if (x->failing.ns != 0 && !is_refusing_writes(x)) { /* the way to the API server is back */
        x->next_mark = mono_min(x->next_mark, mono_add(x->last_mark, hurry_ns(x)));
    }
}

/* ---- what the lease says: renewals ----------------------------------------------------------- */

static bool read_stamp(const char *stamp, struct wall *out)
{
    return rfc3339_parse(stamp, strlen(stamp), out, NULL) == 0;
}

static uint64_t version_of(const struct lease_view *lease)
{
    return chain_version(lease->resource_version);
}

/* By its version an older state than the one that we know: of a server that lags, a late answer, or
 * an etcd that was restored. resourceVersions are opaque, so that this is a hint only. */
static bool is_older(const struct verdict *x, const struct lease_view *lease)
{
    uint64_t version = version_of(lease);
    return version != 0 && version < version_of(&x->lease);
}

static bool is_lease_known(const struct verdict *x)
{
    return x->lease.uid[0] != '\0';
}

static bool is_same_lease(const struct verdict *x, const struct lease_view *lease)
{
    return is_lease_known(x) && text_equal(x->lease.uid, lease->uid);
}

static bool is_ours(const struct verdict *x, const struct lease_view *lease)
{
    return text_equal(lease->holder, x->config->holder);
}

/* A text that differs from the last state's and from the last renewal's, by our holder, on the same
 * lease. An older state may hold one, too, and so may what was written on it since: there the stamp
 * has to be the latest ever. */
static bool is_renewal(const struct verdict *x, const struct lease_view *lease,
                       enum verdict_source source)
{
    bool is_old = source == VERDICT_BY_WRITE || is_older(x, lease);
    const char *stamp = lease->renew_stamp;
    bool is_latest = lease->renew_time_valid && lease->renew_time.ns > x->newest.ns;
    return is_same_lease(x, lease) && is_ours(x, lease) && stamp[0] != '\0' &&
           !text_equal(stamp, x->lease.renew_stamp) && !text_equal(stamp, x->stamp) &&
           (is_latest || (!is_old && !text_equal(stamp, x->old_stamp)));
}

/* When it was made, by the distance of the DPU's own stamps from the last renewal, or from the
 * first state. False if they do not tell: where the DPU's clock was set back, its stamps are closer
 * than its renewals. */
static bool date_by_stamps(const struct verdict *x, const struct lease_view *lease,
                           struct mono *out)
{
    struct wall from;
    const char *stamp = has_renewed(x) ? x->stamp : x->lease.renew_stamp;
    struct mono seen = has_renewed(x) ? x->observed : x->stamp_seen_at;
    if (!read_stamp(stamp, &from) || !lease->renew_time_valid || lease->renew_time.ns <= from.ns) {
        return false;
    }
    int64_t distance_ns = wall_since(lease->renew_time, from);
    *out = mono_add(seen, distance_ns);
    return distance_ns > x->config->renew_interval_ns / 2;
}

/* Seen by a prompt watch, which does not tell of what is past: now. Else between the last look and
 * now, by the DPU's stamps if they tell; what they do not tell of the time while we did not run is
 * dated as early as it can be. */
static struct mono date(const struct verdict *x, const struct lease_view *lease, bool is_prompt,
                        struct mono now)
{
    struct mono dated;
    struct mono earliest = mono_max(x->observed, x->looked_at);
    if (is_prompt) {
        return now;
    }
    if (date_by_stamps(x, lease, &dated)) {
        return mono_min(now, mono_max(dated, earliest));
    }
    return x->is_first_look ? earliest : now;
}

static void note_renewal(struct verdict *x, struct mono observed, const char *stamp)
{
    x->last_gap_ns = has_renewed(x) ? mono_since(observed, x->observed) : 0;
    text_format(x->stamp, sizeof(x->stamp), "%s", stamp);
    x->observed = observed;
    x->evidence = observed;
    x->failing = (struct mono){0};
    x->blind_ns = 0;
    x->not_before = (struct mono){0};
    x->next_confirm = mono_add(observed, overdue_ns(x));
    if (x->is_marked) {
        x->next_mark = mono_add(observed, mark_pause_ns(x) + deadline_ns(x));
    }
}

/* A duration that becomes shorter accuses nobody at once: the DPU may not have renewed yet. */
static void adopt_duration(struct verdict *x, uint32_t duration_s, struct mono now)
{
    int64_t ns = (int64_t)duration_s * NS_PER_SEC;
    struct mono before = condemned_at(x);
    if (duration_s == 0 || ns == x->config->duration_ns) {
        x->duration_ns = x->config->duration_ns;
    } else {
        int64_t least = ns_max(mono_ns_mul(x->config->renew_interval_ns, 2), NS_PER_SEC);
        x->duration_ns = ns_min(VERDICT_MAX_DURATION_NS, ns_max(least, ns));
    }
    if (mono_before(now, before) && mono_before(condemned_at(x), before)) {
        struct mono until = mono_min(mono_add(now, retry_ns(x)), before);
        x->not_before = mono_max(x->not_before, until);
        x->cause = VERDICT_CAUSE_SHORTER;
    }
}

/* ---- what the lease says: the DPU's report --------------------------------------------------- */

/*
 * A report is a lease of its own: dpu-agent renews its stamp once an interval while it stands, and
 * renewTime may be renewed by somebody else meanwhile (ovn-kubernetes' own health check). One whose
 * stamp stands still for a lease duration while the lease is renewed is a leftover; so is one that
 * is older, by the DPU's own stamps, than its last renewal, on an older state of the lease.
 */
static bool is_past_report(const struct verdict *x, const struct lease_view *lease)
{
    struct wall at;
    struct wall renewed;
    return read_stamp(lease->health_stamp, &at) && read_stamp(x->stamp, &renewed) &&
           at.ns <= renewed.ns;
}

static bool is_report(const struct verdict *x, const struct lease_view *lease)
{
    return is_ours(x, lease) && lease->health != LEASE_HEALTH_NONE;
}

static bool stood_still(const struct verdict *x, struct mono at)
{
    return mono_reached(at, mono_add(x->report.renewed, x->duration_ns));
}

static bool report_stands(const struct verdict *x)
{
    return x->report.uid[0] != '\0' && !x->report.over;
}

static void take_report(struct verdict *x, const struct lease_view *lease, bool is_old,
                        bool renewed, struct mono now)
{
    struct verdict_report *report = &x->report;
    bool is_new = !text_equal(report->uid, lease->uid) || report->health != lease->health ||
                  !text_equal(report->stamp, lease->health_stamp);
    if (is_report(x, lease) && is_new) {
        *report = (struct verdict_report){.health = lease->health,
                                          .since = report_stands(x) ? report->since : now,
                                          .renewed = now,
                                          .over = is_old && is_past_report(x, lease)};
        text_format(report->uid, sizeof(report->uid), "%s", lease->uid);
        text_format(report->stamp, sizeof(report->stamp), "%s", lease->health_stamp);
    } else if (is_report(x, lease)) {
        report->over = report->over || (renewed && stood_still(x, now));
    } else if (renewed || text_equal(report->uid, lease->uid)) {
        *report = (struct verdict_report){.since = report->since};
    }
}

/* The DPU stopped renewing its report: it is as silent as one that never reported. An announced
 * shutdown is the last that is heard, and an older dpu-agent reports only once. */
static void end_report(struct verdict *x, struct mono t)
{
    bool is_renewable = x->report.health == LEASE_HEALTH_UNHEALTHY && x->report.stamp[0] != '\0';
    bool is_over = !report_stands(x) || (is_renewable && stood_still(x, t));
    if (x->phase == VERDICT_REPORTED && is_over && mono_reached(t, condemned_at(x))) {
        x->report.over = true;
        move(x, VERDICT_EXPIRED);
    }
}

/* ---- what the lease says: the DPU's boot ----------------------------------------------------- */

static bool was_seen(const struct verdict *x, const char *id)
{
    for (size_t i = 0; i < VERDICT_SEEN_BOOTS; i++) {
        if (text_equal(x->boots[i], id)) {
            return true;
        }
    }
    return false;
}

static void know_boot(struct verdict *x, const char *id)
{
    if (id[0] == '\0') {
        return; /* an older dpu-agent, or upstream's: nothing is claimed */
    }
    memmove(x->boots[1], x->boots[0], sizeof(x->boots) - sizeof(x->boots[0]));
    text_format(x->boots[0], sizeof(x->boots[0]), "%s", id);
}

/*
 * Only another boot that was never seen before, on a lease that has just been renewed (or a report
 * that has), is a reboot: a boot's id is random and does not come back, so that of an older state,
 * or of a second DPU that writes the same lease, is no news. True if it is one.
 */
static bool take_boot(struct verdict *x, const struct lease_view *lease, bool renewed)
{
    bool is_first = x->boots[0][0] == '\0';
    if (!is_ours(x, lease) || lease->boot_id[0] == '\0' || (!renewed && !is_first) ||
        was_seen(x, lease->boot_id)) {
        return false;
    }
    know_boot(x, lease->boot_id);
    return !is_first;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Out of the state that the lease shows into the phase that follows from it. */
static void settle_phase(struct verdict *x, bool renewed, struct mono now)
{
    if (report_stands(x)) {
        move(x, VERDICT_REPORTED);
        return;
    }
    bool is_alive = has_renewed(x) && mono_before(now, run_out(x));
    /* A report that its writer took back: the renewals beside it count. */
    bool is_well_again = x->phase == VERDICT_REPORTED && x->report.uid[0] == '\0' &&
                         mono_before(x->report.since, x->observed);
    if (is_alive && (renewed || is_well_again)) {
        move(x, VERDICT_FRESH);
        x->hold_is_over = false;
    }
}

/* Another state than the one that is known, which a later one has replaced already. */
static bool is_outdated(struct verdict *x, const struct verdict_event *event, bool renewed)
{
    const struct lease_view *lease = event->lease;
    if (event->source == VERDICT_BY_WATCH && x->sight == VERDICT_SEES_GONE) {
        x->next_confirm = event->now; /* made since that read, or gone before it? */
        return true;
    }
    if (!is_lease_known(x) || event->source == VERDICT_BY_WRITE || !is_older(x, lease) || renewed) {
        return false;
    }
    if (!is_same_lease(x, lease)) {
        return event->source == VERDICT_BY_WATCH;
    }
    bool is_news = is_report(x, lease) && !is_past_report(x, lease) &&
                   !text_equal(lease->health_stamp, x->lease.health_stamp);
    if (!is_news && event->source != VERDICT_BY_WATCH) { /* restored? a mark tells */
        x->next_mark = mono_min(x->next_mark, mono_add(x->last_mark, pace_ns(x)));
        x->old_since = text_equal(x->old_stamp, lease->renew_stamp) ? x->old_since : event->now;
        text_format(x->old_stamp, sizeof(x->old_stamp), "%s", lease->renew_stamp);
    }
    return !is_news;
}

static void on_observed(struct verdict *x, const struct verdict_event *event,
                        struct verdict_update *out)
{
    const struct lease_view *lease = event->lease;
    bool is_overdue =
        has_renewed(x) && mono_reached(event->now, mono_add(x->observed, overdue_ns(x)));
    bool is_old = is_older(x, lease);
    bool is_prompt = event->source == VERDICT_BY_WATCH && !is_blind(x) &&
                     x->contact != VERDICT_CONTACT_LOST && !is_old;
    bool is_other = !is_same_lease(x, lease);
    bool changed = is_other || !text_equal(x->lease.renew_stamp, lease->renew_stamp);
    make_contact(x, event->now);
    out->renewed = is_renewal(x, lease, event->source);
    if (is_outdated(x, event, out->renewed)) {
        if (event->source != VERDICT_BY_WATCH) {
            x->sight = VERDICT_SEES_LEASE; /* old or not, it is there */
        }
        out->renewed = false;
        return;
    }
    x->sight = VERDICT_SEES_LEASE;
    out->restart_watch = event->source == VERDICT_BY_CONFIRM && is_overdue && changed;
    out->rewrite = out->rewrite || is_other; /* for a restart */
    if (out->renewed) {
        note_renewal(x, date(x, lease, is_prompt, event->now), lease->renew_stamp);
    }
    x->is_first_look = false;
    out->rebooted = take_boot(x, lease, out->renewed);
    adopt_duration(x, lease->duration_s, event->now);
    if (lease->renew_time_valid && lease->renew_time.ns > x->newest.ns) {
        x->newest = lease->renew_time;
    }
    x->stamp_seen_at = changed ? event->now : x->stamp_seen_at;
    x->lease = *lease;
    take_report(x, lease, is_old, out->renewed, event->now);
    settle_phase(x, out->renewed, event->now);
}

static void on_absent(struct verdict *x, const struct verdict_event *event,
                      struct verdict_update *out)
{
    make_contact(x, event->now);
    x->is_first_look = false;
    out->repair = true;
    if (event->source == VERDICT_BY_WATCH) { /* it may be of the past: a read comes before a mark */
        x->sight = x->sight == VERDICT_SEES_GONE ? VERDICT_SEES_GONE : VERDICT_SEES_NONE;
        return;
    }
    x->sight = VERDICT_SEES_GONE;
    if (event->is_lasting) {
        take_evidence(x, event->started_at);
    } else {
        miss_evidence(x, VERDICT_CAUSE_ABSENT, event->started_at, NULL);
    }
}

static void on_unreadable(struct verdict *x, const struct verdict_event *event)
{
    make_contact(x, event->now);
    x->sight = VERDICT_SEES_GARBLED;
    miss_evidence(x, VERDICT_CAUSE_UNREADABLE, event->now, event->failure);
}

static void on_read_failed(struct verdict *x, const struct verdict_event *event,
                           struct verdict_update *out)
{
    out->rewrite = out->rewrite || x->contact != VERDICT_CONTACT_LOST;
    x->contact = VERDICT_CONTACT_LOST;
    miss_evidence(x, VERDICT_CAUSE_UNREACHABLE, mono_min(event->started_at, event->now),
                  event->failure);
}

static void handle(struct verdict *x, const struct verdict_event *event, struct verdict_update *out)
{
    bool by_confirm = event->source == VERDICT_BY_CONFIRM;
    switch (event->kind) {
    case VERDICT_LEASE_OBSERVED:
        on_observed(x, event, out);
        break;
    case VERDICT_LEASE_ABSENT:
        on_absent(x, event, out);
        break;
    case VERDICT_LEASE_UNREADABLE:
        on_unreadable(x, event);
        break;
    case VERDICT_READ_OK:
        x->confirm_pending = x->confirm_pending && !by_confirm;
        on_read_ok(x, event);
        end_report(x, event->started_at);
        break;
    case VERDICT_READ_FAILED:
        x->confirm_pending = x->confirm_pending && !by_confirm;
        on_read_failed(x, event, out);
        break;
    case VERDICT_WATCH_BROKEN:
        x->watch_broken = true;
        go_blind(x, event->now, mono_add(event->now, pace_ns(x) / 10)); /* most are back by then */
        break;
    case VERDICT_WATCH_WORKS:
        x->watch_broken = false; /* what it shows first may be old, unless a read came before */
        x->blind_since = mono_before(x->looked_at, x->blind_since) ? x->blind_since : MONO_NEVER;
        break;
    case VERDICT_MARK:
        on_mark(x, event);
        break;
    case VERDICT_PODS: /* these two: taken by verdict_step */
    case VERDICT_HOST_PROBES:
    case VERDICT_TICK:
        break;
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Past its deadline, and nobody can know: the last state stands. Otherwise the mark under way is
 * worth waiting for: its answer is one round trip away. */
static bool is_held(const struct verdict *x, struct mono now)
{
    return mono_reached(now, run_out(x)) &&
           (mono_before(now, x->not_before) || x->failing.ns != 0 ||
            mono_since(now, x->evidence) > longest_gap_ns(x));
}

/* We ourselves were away: what comes now may be old. */
static void notice_stall(struct verdict *x, struct mono now)
{
    if (!mono_is_never(x->wake_due) && mono_reached(now, mono_add(x->wake_due, LATE_NS))) {
        go_blind(x, now, now);
    }
}

static void end_hold(struct verdict *x, struct mono now)
{
    struct mono end = mono_add(run_out(x), x->config->api_outage_hold_ns);
    if (x->phase == VERDICT_FRESH && x->failing.ns != 0 && mono_reached(now, end)) {
        x->hold_is_over = true;
    }
}

/* ---- what to ask for ------------------------------------------------------------------------- */

static struct mono confirm_bound(const struct verdict *x)
{
    return mono_add(x->last_confirm, deadline_ns(x) + SLACK_NS);
}

static struct mono mark_bound(const struct verdict *x)
{
    return mono_add(x->last_mark, MARK_REQUESTS * deadline_ns(x) + SLACK_NS);
}

/* The shell tells each outcome; one that it did not tell in time is not waited for. */
static void stop_waiting(struct verdict *x, struct mono now)
{
    x->confirm_pending = x->confirm_pending && mono_before(now, confirm_bound(x));
    x->mark_pending = x->mark_pending && mono_before(now, mark_bound(x));
}

/* Exactly at the time of condemnation, and none so shortly before that it would be in the way. */
static struct mono mark_due(const struct verdict *x)
{
    struct mono last = condemned_at(x);
    struct mono due = x->next_mark;
    if (x->phase != VERDICT_FRESH || mono_reached(x->last_mark, last)) {
        return due;
    }
    bool is_in_the_way = mono_before(mono_add(last, -deadline_ns(x)), due);
    return is_in_the_way ? last : due;
}

/* A read comes first where it may show a renewal that the watch did not, or that nobody answers. */
static bool needs_look(const struct verdict *x, struct mono due, struct mono now)
{
    bool is_decisive = mono_reached(now, condemned_at(x)) && x->failing.ns == 0;
    return !is_readable(x) || (is_blind(x) && !is_decisive && mono_before(x->looked_at, due));
}

static void plan_mark(struct verdict *x, struct mono now, struct verdict_update *out)
{
    struct mono due = mark_due(x);
    if (x->mark_pending || !mono_reached(now, due)) {
        return;
    }
    if (x->phase == VERDICT_FRESH && !is_readable(x)) { /* a read takes its place */
        x->next_confirm = now;
        x->last_mark = now;
        x->next_mark = mono_add(now, pace_ns(x));
        return;
    }
    if (needs_look(x, due, now)) {
        bool has_looked = mono_reached(x->last_confirm, due);
        struct mono next = mono_add(x->last_confirm, has_looked ? pace_ns(x) : hurry_ns(x));
        x->next_confirm = mono_min(x->next_confirm, next);
        return;
    }
    struct mono overdue = mono_add(x->observed, overdue_ns(x));
    /* What was to be looked at first has been; a renewal may still be looked for. */
    bool is_early = x->phase == VERDICT_FRESH && mono_before(now, overdue);
    x->next_confirm = is_early ? overdue : MONO_NEVER;
    out->mark = true;
    x->is_marked = true;
    x->mark_pending = true;
    x->last_mark = now;
    x->next_mark = x->phase == VERDICT_FRESH ? mono_add(now, pace_ns(x)) : MONO_NEVER;
}

/* While the DPU is not ready there is a read in each interval: a watch that is half open must not
 * hide its return. So there is where a read takes the watch's place. */
static struct mono confirm_due(const struct verdict *x)
{
    int64_t pause_ns = ns_max(x->config->renew_interval_ns, hurry_ns(x));
    struct mono next = mono_add(mono_max(x->last_confirm, x->looked_at), pause_ns);
    if (is_blind(x)) {
        return mono_min(x->next_confirm, mono_max(x->blind_read_at, next));
    }
    return x->phase == VERDICT_FRESH ? x->next_confirm : mono_min(x->next_confirm, next);
}

static void plan_confirm(struct verdict *x, struct mono now, struct verdict_update *out)
{
    if (!x->confirm_pending && !x->mark_pending && mono_reached(now, confirm_due(x))) {
        out->confirm = true;
        x->confirm_pending = true;
        x->last_confirm = now;
        x->next_confirm = MONO_NEVER;
    }
}

static struct mono wake_at(const struct verdict *x, struct mono now)
{
    struct mono confirm = confirm_due(x);
    struct mono mark = mark_due(x);
    if (x->confirm_pending) {
        confirm = mono_max(confirm, confirm_bound(x));
    }
    if (x->mark_pending) {
        mark = mono_max(mark, mark_bound(x));
        confirm = mono_max(confirm, mark_bound(x));
    } else if (mono_reached(now, mark)) {
        mark = MONO_NEVER; /* it waits for a read */
    }
    struct mono wake = mono_min(mono_min(confirm, mark), x->next_rewrite);
    const struct mono turning_points[] = {
        run_out(x),
        x->not_before,
        mono_add(x->evidence, longest_gap_ns(x) + 1),
        mono_add(run_out(x), x->config->api_outage_hold_ns),
    };
    for (size_t i = 0; x->phase == VERDICT_FRESH && i < ARRAY_LEN(turning_points); i++) {
        if (mono_before(now, turning_points[i])) {
            wake = mono_min(wake, turning_points[i]);
        }
    }
    return wake;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

/* Ready admits, NotReady does not; Unknown does so where the last state is held. */
static void judge(struct readiness *out, enum readiness_reason reason, bool is_held)
{
    out->reason = reason;
    out->state = readiness_reason_traits(reason)->state;
    out->admit = out->state == READINESS_READY || is_held;
}

/* Why the silence: the lease itself is damaged, or the DPU does not renew it. */
static enum readiness_reason expired_reason(const struct verdict *x)
{
    const struct lease_view *lease = &x->lease;
    if (x->sight == VERDICT_SEES_NONE || x->sight == VERDICT_SEES_GONE) {
        return REASON_LEASE_NOT_FOUND;
    }
    return x->sight == VERDICT_SEES_GARBLED || !is_ours(x, lease) ||
                   lease->renew_stamp[0] == '\0' || lease->duration_s == 0
               ? REASON_LEASE_INVALID
               : REASON_LEASE_EXPIRED;
}

static enum readiness_reason held_reason(const struct verdict *x)
{
    return is_refusing_writes(x) || x->cause == VERDICT_CAUSE_ABSENT
               ? REASON_API_SERVER_NOT_WRITING
               : REASON_API_SERVER_UNREACHABLE;
}

static void judge_phase(const struct verdict *x, struct readiness *out, struct mono now)
{
    switch (x->phase) {
    case VERDICT_AWAITING:
    case VERDICT_PHASE_COUNT:
        judge(out, REASON_AWAITING_FIRST_RENEWAL, false);
        break;
    case VERDICT_FRESH:
        judge(out, x->hold_is_over || is_held(x, now) ? held_reason(x) : REASON_LEASE_RENEWED,
              !x->hold_is_over);
        break;
    case VERDICT_EXPIRED:
        judge(out, expired_reason(x), false);
        break;
    case VERDICT_REPORTED:
        judge(out,
              x->lease.health == LEASE_HEALTH_SHUTDOWN ? REASON_DPU_SHUTDOWN
                                                       : REASON_DPU_REPORTED_UNHEALTHY,
              false);
        break;
    case VERDICT_DISABLED:
        judge(out, REASON_HEALTH_CHECK_DISABLED, false);
        break;
    }
}

/* A former process said why, or heard it; nothing new is known. */
static bool is_carried_on(const struct verdict *x)
{
    return (x->phase == VERDICT_EXPIRED || x->phase == VERDICT_REPORTED) && x->is_first_look;
}

static void describe_lease(const struct verdict *x, struct readiness *out)
{
    text_format(out->lease.ns, sizeof(out->lease.ns), "%s", x->config->lease_ns);
    text_format(out->lease.name, sizeof(out->lease.name), "%s", x->config->lease_name);
    text_format(out->lease.uid, sizeof(out->lease.uid), "%s", x->lease.uid);
    text_format(out->lease.renew_stamp, sizeof(out->lease.renew_stamp), "%s",
                has_renewed(x) ? x->stamp : x->lease.renew_stamp);
    text_format(out->lease.resource_version, sizeof(out->lease.resource_version), "%s",
                x->lease.resource_version);
    out->lease.duration_s = x->lease.duration_s;
    text_format(out->dpu_boot_id, sizeof(out->dpu_boot_id), "%s", x->boots[0]);
}

static void update_verdict(struct verdict *x, struct mono now)
{
    struct readiness *out = &x->verdict;
    out->observed = has_renewed(x) ? x->observed : (struct mono){0};
    out->lease_until = has_renewed(x) ? run_out(x) : (struct mono){0};
    out->checked = x->evidence;
    out->blind_ns = x->blind_ns;
    describe_lease(x, out);
    if (is_carried_on(x)) {
        out->state = READINESS_NOT_READY;
        out->admit = false;
        return;
    }
    judge_phase(x, out, now);
    if (out->admit && readiness_is_accused(out) && x->phase != VERDICT_DISABLED) {
        judge(out, REASON_HOST_PROBE_FAILED, false);
    } else if (out->admit && x->pods[0] != '\0') {
        judge(out, REASON_POD_NETWORK_LOST, false);
    }
    verdict_message_write(x, out);
}

const struct readiness *verdict_readiness(const struct verdict *x)
{
    return &x->verdict;
}

const struct lease_view *verdict_lease(const struct verdict *x)
{
    return &x->lease;
}

enum verdict_contact verdict_contact(const struct verdict *x)
{
    return x->contact;
}

/* ---- start ----------------------------------------------------------------------------------- */

static bool lease_was_well(const struct readiness *was)
{
    return was->reason == REASON_POD_NETWORK_LOST || was->reason == REASON_HOST_PROBE_FAILED;
}

/* What readers have stopped to believe is not believed here: all starts anew. */
static bool is_usable(const struct verdict_carry *carry, struct mono now)
{
    const struct readiness *was = &carry->verdict;
    bool is_refusal = was->state == READINESS_NOT_READY && !lease_was_well(was);
    return was->observed.ns > 0 && !mono_before(now, was->observed) && was->lease.uid[0] != '\0' &&
           was->reason != REASON_HEALTH_CHECK_DISABLED &&
           was->reason != REASON_AWAITING_FIRST_RENEWAL && was->reason < REASON_RECORD_MISSING &&
           (is_refusal || mono_before(now, carry->hold_until));
}

static void restore_lease(struct verdict *x, const struct readiness *was, struct mono now)
{
    struct lease_view *lease = &x->lease;
    text_format(lease->uid, sizeof(lease->uid), "%s", was->lease.uid);
    text_format(lease->renew_stamp, sizeof(lease->renew_stamp), "%s", was->lease.renew_stamp);
    text_format(lease->resource_version, sizeof(lease->resource_version), "%s",
                was->lease.resource_version);
    text_format(x->stamp, sizeof(x->stamp), "%s", was->lease.renew_stamp);
    if (!read_stamp(x->stamp, &x->newest)) {
        x->newest = (struct wall){0};
    }
    x->sight = VERDICT_SEES_LEASE;
    lease->duration_s = was->lease.duration_s;
    adopt_duration(x, was->lease.duration_s, now);
    x->not_before = (struct mono){0}; /* that it is shorter than the configured one is no news */
}

static void restore_phase(struct verdict *x, const struct readiness *was, struct mono now)
{
    bool is_shutdown = was->reason == REASON_DPU_SHUTDOWN;
    if (is_shutdown || was->reason == REASON_DPU_REPORTED_UNHEALTHY) {
        x->phase = VERDICT_REPORTED;
        x->report = (struct verdict_report){.health = is_shutdown ? LEASE_HEALTH_SHUTDOWN
                                                                  : LEASE_HEALTH_UNHEALTHY,
                                            .since = now,
                                            .renewed = now};
        text_format(x->report.uid, sizeof(x->report.uid), "%s", was->lease.uid);
    } else if (was->state == READINESS_NOT_READY && !lease_was_well(was)) {
        x->phase = VERDICT_EXPIRED;
    } else {
        x->phase = VERDICT_FRESH;
        x->hold_is_over = !was->admit && !lease_was_well(was);
    }
}

/* A record carried over a restart. What it says was known at `checked`; whatever has happened since
 * was seen by nobody, and the first mark ends that blind span like any other. */
static void restore(struct verdict *x, const struct verdict_carry *carry, struct mono now)
{
    const struct readiness *was = &carry->verdict;
    if (was->reason == REASON_POD_NETWORK_LOST && x->config->pods_count) {
        text_format(x->pods, sizeof(x->pods), "%s", was->message); /* until they are looked at */
    }
    know_boot(x, was->dpu_boot_id); /* also of a lease that was never seen renewed */
    if (!is_usable(carry, now)) {
        return;
    }
    x->observed = was->observed;
    x->is_first_look = true;
    x->verdict = *was;
    x->verdict.host_probes.count = 0; /* who asks them tells which there are now */
    restore_lease(x, was, now);
    x->evidence = mono_max(was->observed, mono_min(was->checked, now));
    x->blind_ns = was->blind_ns;
    if (x->blind_ns > 0) {
        give_retry(x, now);
    }
    restore_phase(x, was, now);
}

void verdict_init(struct verdict *x, const struct verdict_config *config,
                  const struct verdict_carry *carry, struct mono now)
{
    assert(config->renew_interval_ns >= 0);
    assert(config->duration_ns > config->renew_interval_ns);
    *x = (struct verdict){.config = config,
                          .observed = now,
                          .evidence = now,
                          .duration_ns = config->duration_ns,
                          .blind_since = now, /* the first list tells */
                          .blind_read_at = mono_add(now, config->renew_interval_ns),
                          .last_confirm = now,
                          .next_confirm = MONO_NEVER,
                          .next_mark = now, /* the first one tells whether we may write */
                          .wake_due = MONO_NEVER};
    x->last_mark = mono_add(now, -pace_ns(x));
    if (config->renew_interval_ns == 0) {
        x->phase = VERDICT_DISABLED;
    } else if (carry) {
        restore(x, carry, now);
    }
    update_verdict(x, now);
}

/* ---- the step -------------------------------------------------------------------------------- */

/* What takes away from whatever the lease says, and where nobody asks the lease. */
static void take_hosts_view(struct verdict *x, const struct verdict_event *event,
                            struct verdict_update *out)
{
    if (event->kind == VERDICT_PODS) {
        text_format(x->pods, sizeof(x->pods), "%s", event->pods ? event->pods : "");
    } else if (event->kind == VERDICT_HOST_PROBES) {
        x->verdict.host_probes = *event->host_probes;
        text_format(x->accusation, sizeof(x->accusation), "%s", event->accusation);
        out->rewrite = true; /* a restart needs to know what they said */
    }
}

void verdict_step(struct verdict *x, const struct verdict_event *event, struct verdict_update *out)
{
    struct mono now = event->now;
    bool is_on = x->phase != VERDICT_DISABLED;
    *out = (struct verdict_update){.wake_at = MONO_NEVER};
    if (is_on) {
        notice_stall(x, now);
        end_hold(x, now); /* what time alone did before this event came */
        handle(x, event, out);
        end_hold(x, now);
    }
    struct readiness before = x->verdict;
    take_hosts_view(x, event, out);
    update_verdict(x, now);
    out->verdict_changed = !readiness_same_verdict(&before, &x->verdict);
    out->rewrite = out->rewrite || out->verdict_changed || out->renewed;
    if (is_on) {
        stop_waiting(x, now);
        plan_mark(x, now, out);
        plan_confirm(x, now, out);
    }
    if (out->rewrite || mono_reached(now, x->next_rewrite)) {
        out->rewrite = true;
        x->next_rewrite = mono_add(now, verdict_writer_ahead_ns(x->config) / 4 * 3);
    }
    out->wake_at = is_on ? wake_at(x, now) : x->next_rewrite;
    x->wake_due = out->wake_at;
}
