/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/expiry.h"

#include "base/fsm.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "host-agent/expiry_words.h"

#include <assert.h>
#include <string.h>

#define DISABLED_REWRITE_NS (10 * NS_PER_SEC)
#define MIN_RETRY_NS        (200 * NS_PER_MS)
#define MAX_CONFIRM_MS      5000
#define MIN_CONFIRM_MS      250
#define PROOF_SLACK_NS      (1 * NS_PER_SEC)

static const struct fsm_state phases[EXPIRY_PHASE_COUNT] = {
    [EXPIRY_AWAITING] = {"awaiting",
                         FSM_TO(EXPIRY_FRESH) | FSM_TO(EXPIRY_EXPIRED) | FSM_TO(EXPIRY_REPORTED)},
    [EXPIRY_FRESH] = {"fresh",
                      FSM_TO(EXPIRY_HOLDING) | FSM_TO(EXPIRY_EXPIRED) | FSM_TO(EXPIRY_REPORTED)},
    [EXPIRY_HOLDING] = {"holding", FSM_TO(EXPIRY_FRESH) | FSM_TO(EXPIRY_EXPIRED) |
                                       FSM_TO(EXPIRY_REPORTED) | FSM_TO(EXPIRY_AWAITING)},
    [EXPIRY_EXPIRED] = {"expired",
                        FSM_TO(EXPIRY_FRESH) | FSM_TO(EXPIRY_REPORTED) | FSM_TO(EXPIRY_AWAITING)},
    [EXPIRY_REPORTED] = {"reported",
                         FSM_TO(EXPIRY_FRESH) | FSM_TO(EXPIRY_EXPIRED) | FSM_TO(EXPIRY_AWAITING)},
    [EXPIRY_DISABLED] = {"disabled", 0},
};

static int64_t ns_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ns_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void move(struct expiry *x, enum expiry_phase to)
{
    if (x->phase != to) {
        x->phase = (enum expiry_phase)fsm_move(phases, EXPIRY_PHASE_COUNT, (int)x->phase, (int)to);
    }
}

/* ---- spans and deadlines --------------------------------------------------------------------- */

int64_t expiry_writer_ahead_ns(const struct expiry_config *config)
{
    int64_t r = config->renew_interval_ns;
    if (r == 0) {
        return DISABLED_REWRITE_NS * 3 / 2;
    }
    return ns_min(r + r / 2, config->duration_ns - r);
}

uint32_t expiry_confirm_deadline_ms(const struct expiry_config *config)
{
    int64_t ms = config->duration_ns / 8 / NS_PER_MS;
    return (uint32_t)ns_max(MIN_CONFIRM_MS, ns_min(MAX_CONFIRM_MS, ms));
}

/* How long after a renewal the watch becomes suspect: half-way to what the duration leaves at
 * most, so that confirming starts early even where the duration is short. */
static int64_t suspicion_ns(const struct expiry *x)
{
    int64_t r = x->config.renew_interval_ns;
    return ns_min(r + r / 2, r + (x->duration_ns - r) / 2);
}

/* How long before the deadline the last early read starts: its outcome must be known by then. */
static int64_t confirm_lead_ns(const struct expiry *x)
{
    int64_t lead = ((int64_t)expiry_confirm_deadline_ms(&x->config) + 500) * NS_PER_MS;
    return ns_min(lead, ns_max(0, (x->duration_ns - suspicion_ns(x)) / 2));
}

static int64_t grace_ns(const struct expiry *x)
{
    return ns_min(mono_ns_mul(x->config.renew_interval_ns, 2), x->duration_ns);
}

/* When the lease itself runs out. */
static struct mono run_out_at(const struct expiry *x)
{
    return mono_add(x->observed, x->duration_ns);
}

/* When silence becomes proof: the run-out, or later if API contact was lost meanwhile. */
static struct mono proof_deadline(const struct expiry *x)
{
    struct mono due = run_out_at(x);
    if (x->grace_until.ns == 0) {
        return due;
    }
    struct mono latest = mono_add(due, mono_ns_add(x->lost_total_ns, grace_ns(x)));
    return mono_max(due, mono_min(x->grace_until, latest));
}

/* ---- contact with the API server ------------------------------------------------------------- */

static void lose_contact(struct expiry *x, struct mono now, const char *failure,
                         struct expiry_update *out)
{
    if (!x->contact_lost) {
        x->contact_lost = true;
        x->lost_at = now;
        (void)text_copy(x->failure, sizeof(x->failure), failure); /* a cut reason still tells */
        out->rewrite = true;
    } else if (x->phase == EXPIRY_FRESH) {
        /* Nobody was told yet: the newest failure tells more than "connection closed". */
        (void)text_copy(x->failure, sizeof(x->failure), failure);
    }
}

static void regain_contact(struct expiry *x, struct mono now, struct expiry_update *out)
{
    if (!x->contact_made && !x->has_observation && x->phase == EXPIRY_AWAITING) {
        x->observed = now; /* waiting counts from when a renewal could have been seen */
    }
    x->contact_made = true;
    if (x->contact_lost) {
        x->contact_lost = false;
        x->lost_total_ns = mono_ns_add(x->lost_total_ns, mono_since(now, x->lost_at));
        x->grace_until = mono_add(now, grace_ns(x));
        out->rewrite = true;
    }
}

/* ---- what is a renewal ----------------------------------------------------------------------- */

static bool was_seen(const struct expiry *x, const char *stamp)
{
    for (size_t i = 0; i < EXPIRY_SEEN_STAMPS; i++) {
        if (text_equal(x->seen[i], stamp)) {
            return true;
        }
    }
    return false;
}

static void remember_stamp(struct expiry *x, const char *stamp)
{
    if (stamp[0] != '\0' && !was_seen(x, stamp)) {
        (void)text_copy(x->seen[x->seen_next], NAMES_STAMP_BYTES, stamp); /* same bound */
        x->seen_next = (x->seen_next + 1) % EXPIRY_SEEN_STAMPS;
    }
}

/* resourceVersions are opaque; as a hint only, and never where it would shorten a deadline. */
static bool went_back(const struct lease_view *before, const struct lease_view *lease)
{
    uint64_t rv_before;
    uint64_t rv;
    return text_to_u64(before->resource_version, strlen(before->resource_version), &rv_before,
                       NULL) == 0 &&
           text_to_u64(lease->resource_version, strlen(lease->resource_version), &rv, NULL) == 0 &&
           rv < rv_before && before->renew_time_valid && lease->renew_time_valid &&
           lease->renew_time.ns < before->renew_time.ns;
}

/*
 * A renewal is a renewTime, as text, that was not seen before, written by the expected holder on
 * the lease we were already looking at. The first look at a lease is a baseline; a lagging API
 * server or a restored etcd shows old states, which are none.
 */
static bool is_renewal(const struct expiry *x, const struct lease_view *lease)
{
    bool same_lease = text_equal(x->lease.uid, lease->uid);
    return same_lease && text_equal(lease->holder, x->config.holder) &&
           lease->renew_stamp[0] != '\0' && !was_seen(x, lease->renew_stamp) &&
           !went_back(&x->lease, lease);
}

static void adopt_duration(struct expiry *x, uint32_t duration_s)
{
    int64_t ns = (int64_t)duration_s * NS_PER_SEC;
    if (duration_s == 0 || ns == x->config.duration_ns) {
        x->duration_ns = x->config.duration_ns;
        return;
    }
    int64_t least = ns_max(mono_ns_mul(x->config.renew_interval_ns, 2), NS_PER_SEC);
    x->duration_ns = ns_min(EXPIRY_MAX_DURATION_NS, ns_max(least, ns));
}

static void note_renewal(struct expiry *x, struct mono observed, const char *stamp)
{
    (void)text_copy(x->observed_stamp, sizeof(x->observed_stamp), stamp); /* same bound */
    x->last_gap_ns = x->has_observation ? mono_since(observed, x->observed) : 0;
    x->has_observation = true;
    x->observed = observed;
    x->lost_total_ns = 0;
    x->grace_until = (struct mono){0};
    x->next_confirm = mono_add(observed, suspicion_ns(x));
}

/* ---- a record carried over a restart --------------------------------------------------------- */

/*
 * The first look at the lease after a restart. The carried stamp r was observed at o; if the same
 * lease now shows r', the DPU's own clock measures the distance, free of skew. Where it cannot (a
 * stepped clock, another lease) the observation is at least as young as o: it was r then.
 */
static void settle_carry(struct expiry *x, const struct lease_view *lease, struct mono now)
{
    assert(x->has_observation);
    const struct lease_view *carried = &x->lease;
    bool same_lease = text_equal(carried->uid, lease->uid);
    bool changed = !text_equal(carried->renew_stamp, lease->renew_stamp);
    bool measured = same_lease && (!changed || lease->renew_stamp[0] == '\0');
    x->carry_pending = false;
    if (same_lease && changed && text_equal(lease->holder, x->config.holder) &&
        carried->renew_time_valid && lease->renew_time_valid) {
        int64_t distance_ns = wall_since(lease->renew_time, carried->renew_time);
        struct mono observed = mono_add(x->observed, distance_ns);
        /* The carried observation may have been late itself, after an outage or a stall. */
        struct mono latest = mono_add(now, x->duration_ns);
        if (distance_ns > 0 && !mono_before(latest, observed)) {
            note_renewal(x, mono_min(observed, now), lease->renew_stamp);
            measured = true;
        }
    }
    if (mono_before(now, proof_deadline(x))) {
        move(x, x->phase == EXPIRY_REPORTED ? EXPIRY_REPORTED : EXPIRY_FRESH);
    } else if (!measured && x->phase != EXPIRY_REPORTED) {
        move(x, EXPIRY_AWAITING);
        x->has_observation = false;
        x->observed = now;
    }
}

static void restore(struct expiry *x, const struct expiry_carry *carry, struct mono now)
{
    const struct readiness *was = &carry->verdict;
    bool usable = was->observed.ns > 0 && !mono_before(now, was->observed) &&
                  was->lease.uid[0] != '\0' && was->reason != REASON_HEALTH_CHECK_DISABLED;
    if (!usable) {
        return;
    }
    (void)text_copy(x->lease.uid, sizeof(x->lease.uid), was->lease.uid);
    (void)text_copy(x->lease.renew_stamp, sizeof(x->lease.renew_stamp), was->lease.renew_stamp);
    x->lease.renew_time_valid =
        rfc3339_parse(was->lease.renew_stamp, strlen(was->lease.renew_stamp), &x->lease.renew_time,
                      NULL) == 0;
    x->lease.duration_s = was->lease.duration_s;
    adopt_duration(x, was->lease.duration_s);
    remember_stamp(x, was->lease.renew_stamp);
    x->has_observation = true;
    x->observed = was->observed;
    (void)text_copy(x->observed_stamp, sizeof(x->observed_stamp), was->lease.renew_stamp);
    x->carry_pending = true;
    x->verdict = *was;

    if (was->reason == REASON_DPU_REPORTED_UNHEALTHY || was->reason == REASON_DPU_SHUTDOWN) {
        x->phase = EXPIRY_REPORTED;
        (void)text_copy(x->report_uid, sizeof(x->report_uid), was->lease.uid);
    } else if (was->state == READINESS_NOT_READY) {
        x->phase = EXPIRY_EXPIRED;
    } else if (was->admit && mono_before(now, run_out_at(x))) {
        x->phase = EXPIRY_FRESH;
    } else if (was->admit && mono_before(now, carry->hold_until)) {
        x->phase = EXPIRY_HOLDING;
        x->hold_cause = EXPIRY_HOLD_RESTART;
        x->hold_admit = true;
    }
    if (was->reason == REASON_API_SERVER_UNREACHABLE) {
        x->contact_lost = true; /* as it was: contact is regained by the first answer */
        x->lost_at = was->observed;
        (void)text_copy(x->failure, sizeof(x->failure), "not reached since the restart");
    }
}

void expiry_init(struct expiry *x, const struct expiry_config *config,
                 const struct expiry_carry *carry, struct mono now)
{
    assert(config->renew_interval_ns >= 0);
    assert(config->duration_ns > config->renew_interval_ns);
    *x = (struct expiry){.config = *config, .observed = now, .duration_ns = config->duration_ns};
    if (config->renew_interval_ns == 0) {
        x->phase = EXPIRY_DISABLED;
    } else if (carry) {
        restore(x, carry, now);
    }
    x->next_confirm = mono_add(now, ns_max(config->renew_interval_ns, MIN_RETRY_NS));
    x->next_rewrite = now;
    expiry_words_fill(x, now, proof_deadline(x), &x->verdict);
}

/* The last early read, shortly before the deadline, was answered. */
static bool early_reads_went_well(const struct expiry *x)
{
    return mono_reached(x->last_read_at, mono_add(proof_deadline(x), -2 * confirm_lead_ns(x)));
}

struct mono expiry_writer_until(const struct expiry *x, struct mono now)
{
    struct mono until = mono_add(now, expiry_writer_ahead_ns(&x->config));
    bool counting = (x->phase == EXPIRY_FRESH || x->phase == EXPIRY_HOLDING) && !x->contact_lost;
    if (counting && !early_reads_went_well(x)) {
        until = mono_min(until, mono_max(now, x->verdict.valid_until));
    }
    return until;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Keeps account of what the DPU says of itself; true if it says that it is not well. A report
 * under which the DPU goes on renewing is a leftover: our agent does not renew while it stands. */
static bool report_stands(struct expiry *x, const struct lease_view *lease, bool renewed)
{
    bool ours = text_equal(lease->holder, x->config.holder);
    bool says_so = ours && lease->health != LEASE_HEALTH_NONE;
    if (says_so && !text_equal(x->report_uid, lease->uid)) {
        (void)text_copy(x->report_uid, sizeof(x->report_uid), lease->uid);
        x->report_renewals = 0;
    } else if (says_so && renewed && x->report_renewals < 2) {
        x->report_renewals++;
    } else if (!says_so && (renewed || text_equal(x->report_uid, lease->uid))) {
        x->report_uid[0] = '\0';
        x->report_renewals = 0;
    }
    return x->report_uid[0] != '\0' && x->report_renewals < 2;
}

/* A state of this lease that we have already gone past: a lagging API server, a late answer. One
 * that follows a state without a stamp is not past: that state was the late one, or a damage that
 * has been undone. */
static bool is_stale_state(const struct expiry *x, const struct lease_view *lease)
{
    return x->lease_known && text_equal(x->lease.uid, lease->uid) &&
           x->lease.renew_stamp[0] != '\0' && lease->renew_stamp[0] != '\0' &&
           !text_equal(x->lease.renew_stamp, lease->renew_stamp) && was_seen(x, lease->renew_stamp);
}

static void on_observed(struct expiry *x, const struct expiry_event *event,
                        struct expiry_update *out)
{
    const struct lease_view *lease = event->lease;
    bool suspicious =
        x->has_observation && mono_reached(event->now, mono_add(x->observed, suspicion_ns(x)));
    bool changed = !text_equal(x->lease.uid, lease->uid) ||
                   !text_equal(x->lease.renew_stamp, lease->renew_stamp);
    regain_contact(x, event->now, out);
    if (is_stale_state(x, lease)) {
        x->lease_present = true;
        return;
    }
    out->restart_watch = event->by_confirm && suspicious && changed;
    out->rewrite = out->rewrite || !text_equal(x->lease.uid, lease->uid); /* for a restart */
    adopt_duration(x, lease->duration_s);
    if (x->carry_pending) {
        settle_carry(x, lease, event->now);
        out->rewrite = true;
    } else if (x->lease_known && is_renewal(x, lease)) {
        note_renewal(x, event->now, lease->renew_stamp);
        out->renewed = true;
    }
    remember_stamp(x, lease->renew_stamp);
    x->lease = *lease;
    x->lease_known = true;
    x->lease_present = true;

    if (report_stands(x, lease, out->renewed)) {
        move(x, EXPIRY_REPORTED);
    } else if (out->renewed) {
        move(x, EXPIRY_FRESH);
    } else if (x->phase == EXPIRY_REPORTED) {
        /* Taken back without a renewal: what was observed before decides. */
        bool fresh = x->has_observation && mono_before(event->now, proof_deadline(x));
        move(x, fresh ? EXPIRY_FRESH : x->has_observation ? EXPIRY_EXPIRED : EXPIRY_AWAITING);
    }
}

static void on_absent(struct expiry *x, const struct expiry_event *event, struct expiry_update *out)
{
    regain_contact(x, event->now, out);
    x->lease_known = true;
    x->lease_present = false;
    x->carry_pending = false;
    out->repair = true;
}

static void on_read_ok(struct expiry *x, const struct expiry_event *event,
                       struct expiry_update *out)
{
    regain_contact(x, event->now, out);
    x->last_read_at = mono_max(x->last_read_at, event->started_at);
    bool silent =
        x->phase == EXPIRY_AWAITING || x->phase == EXPIRY_FRESH || x->phase == EXPIRY_HOLDING;
    if (silent && mono_reached(event->started_at, proof_deadline(x))) {
        move(x, EXPIRY_EXPIRED);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

/* At the deadline the confirming read is under way and the early reads went well: its answer, one
 * round trip away, is worth waiting for. Anything else means that we, not the DPU, were away. */
static bool proof_is_under_way(const struct expiry *x, struct mono now)
{
    struct mono deadline = proof_deadline(x);
    int64_t window_ns =
        (int64_t)expiry_confirm_deadline_ms(&x->config) * NS_PER_MS + PROOF_SLACK_NS;
    return early_reads_went_well(x) && mono_before(now, mono_add(deadline, window_ns));
}

static void hold(struct expiry *x, enum expiry_hold_cause cause)
{
    if (x->phase == EXPIRY_FRESH) {
        x->hold_admit = true;
        move(x, EXPIRY_HOLDING);
    }
    x->hold_cause = cause;
}

/* What the mere passing of time does. */
static void advance(struct expiry *x, struct mono now)
{
    bool ran_out = mono_reached(now, run_out_at(x));
    if ((x->phase != EXPIRY_FRESH && x->phase != EXPIRY_HOLDING) ||
        (x->phase == EXPIRY_FRESH && !ran_out)) {
        return;
    }
    if (x->contact_lost) {
        hold(x, EXPIRY_HOLD_OUTAGE);
    } else if (mono_before(now, proof_deadline(x))) {
        hold(x, EXPIRY_HOLD_GRACE);
    } else if (x->phase == EXPIRY_FRESH && !proof_is_under_way(x, now)) {
        hold(x, EXPIRY_HOLD_STALL);
    }
    if (x->phase == EXPIRY_HOLDING && x->hold_cause == EXPIRY_HOLD_OUTAGE &&
        mono_reached(now, mono_add(run_out_at(x), x->config.api_outage_hold_ns))) {
        x->hold_admit = false;
    }
}

/* The time of the read that follows one at `now`. */
static struct mono confirm_after(const struct expiry *x, struct mono now)
{
    struct mono deadline = proof_deadline(x);
    struct mono last_early = mono_add(deadline, -confirm_lead_ns(x));
    struct mono next = mono_add(now, ns_max(x->config.renew_interval_ns, MIN_RETRY_NS));
    bool silent = x->phase == EXPIRY_FRESH || x->phase == EXPIRY_HOLDING;
    if (!silent && !x->contact_lost) {
        next = mono_add(now, x->duration_ns);
    }
    if (silent && mono_before(now, last_early)) {
        next = mono_min(next, last_early);
    }
    return mono_before(now, deadline) ? mono_min(next, deadline) : next;
}

static void schedule(struct expiry *x, struct mono now, struct expiry_update *out)
{
    struct mono deadline = proof_deadline(x);
    bool counting =
        x->phase == EXPIRY_AWAITING || x->phase == EXPIRY_FRESH || x->phase == EXPIRY_HOLDING;
    if (x->phase == EXPIRY_DISABLED) {
        x->next_confirm = MONO_NEVER;
    } else if (counting && mono_before(now, deadline)) {
        x->next_confirm = mono_min(x->next_confirm, deadline);
    } else if (counting && mono_before(x->last_confirm, deadline)) {
        x->next_confirm = now; /* proof has to be started at or after the deadline */
    }
    if (mono_reached(now, x->next_confirm)) {
        out->confirm = true;
        x->last_confirm = now;
        x->next_confirm = confirm_after(x, now);
    }
    if (out->rewrite || mono_reached(now, x->next_rewrite)) {
        out->rewrite = true;
        x->next_rewrite = mono_add(now, expiry_writer_ahead_ns(&x->config) * 2 / 3);
    }
    struct mono wake = mono_min(x->next_confirm, x->next_rewrite);
    const struct mono turning_points[] = {
        run_out_at(x),
        deadline,
        mono_add(deadline,
                 (int64_t)expiry_confirm_deadline_ms(&x->config) * NS_PER_MS + PROOF_SLACK_NS),
        mono_add(run_out_at(x), x->config.api_outage_hold_ns),
    };
    for (size_t i = 0; counting && i < ARRAY_LEN(turning_points); i++) {
        if (mono_before(now, turning_points[i])) {
            wake = mono_min(wake, turning_points[i]);
        }
    }
    out->wake_at = wake;
}

void expiry_step(struct expiry *x, const struct expiry_event *event, struct expiry_update *out)
{
    struct mono now = event->now;
    *out = (struct expiry_update){.wake_at = MONO_NEVER};
    if (x->phase != EXPIRY_DISABLED) {
        advance(x, now); /* what time alone did before this event came */
        switch (event->kind) {
        case EXPIRY_LEASE_OBSERVED:
            on_observed(x, event, out);
            break;
        case EXPIRY_LEASE_ABSENT:
            on_absent(x, event, out);
            break;
        case EXPIRY_READ_OK:
            on_read_ok(x, event, out);
            break;
        case EXPIRY_READ_FAILED:
            lose_contact(x, now, event->failure, out);
            break;
        case EXPIRY_CONTACT:
            regain_contact(x, now, out);
            break;
        case EXPIRY_TICK:
            break;
        }
        advance(x, now);
    }
    struct readiness before = x->verdict;
    expiry_words_fill(x, now, proof_deadline(x), &x->verdict);
    out->verdict_changed = !readiness_same_verdict(&before, &x->verdict);
    out->rewrite = out->rewrite || out->verdict_changed || out->renewed;
    schedule(x, now, out);
}

const struct readiness *expiry_verdict(const struct expiry *x)
{
    return &x->verdict;
}
