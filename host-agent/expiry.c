/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/expiry.h"

#include "base/fsm.h"
#include "base/text.h"
#include "contract/lease_pace.h"
#include "host-agent/expiry_internal.h"

#include <assert.h>

#define MIN_RETRY_NS   (200 * NS_PER_MS)
#define MAX_CONFIRM_MS 5000
#define MIN_CONFIRM_MS 250
#define PROOF_SLACK_NS (1 * NS_PER_SEC)
#define LATE_NS        (1 * NS_PER_SEC) /* a wake-up this late is a stall of our own */

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

void expiry_move(struct expiry *x, enum expiry_phase to)
{
    if (x->phase != to) {
        x->phase = (enum expiry_phase)fsm_move(phases, EXPIRY_PHASE_COUNT, (int)x->phase, (int)to);
    }
}

/* ---- spans and deadlines --------------------------------------------------------------------- */

uint32_t expiry_confirm_deadline_ms(const struct expiry_config *config)
{
    int64_t ms = config->duration_ns / 8 / NS_PER_MS;
    return (uint32_t)ns_max(MIN_CONFIRM_MS, ns_min(MAX_CONFIRM_MS, ms));
}

/* Half-way to what the duration leaves at most, so that confirming starts early even where the
 * duration is short. */
int64_t expiry_suspicion_ns(const struct expiry *x)
{
    int64_t r = x->config.renew_interval_ns;
    return ns_min(r + r / 2, r + (x->duration_ns - r) / 2);
}

/* How long before the deadline the last early read starts: its outcome must be known by then. */
static int64_t confirm_lead_ns(const struct expiry *x)
{
    int64_t lead = ((int64_t)expiry_confirm_deadline_ms(&x->config) + 500) * NS_PER_MS;
    return ns_min(lead, (x->duration_ns - expiry_suspicion_ns(x)) / 2);
}

/* When the outcome of a read or look is overdue. */
static int64_t confirm_bound_ns(const struct expiry *x)
{
    return (int64_t)expiry_confirm_deadline_ms(&x->config) * NS_PER_MS + PROOF_SLACK_NS;
}

/* Between two confirming reads. */
static int64_t confirm_pace_ns(const struct expiry *x)
{
    return ns_max(x->config.renew_interval_ns, MIN_RETRY_NS);
}

struct mono expiry_run_out(const struct expiry *x)
{
    return mono_add(x->observed, x->duration_ns);
}

struct mono expiry_proof_deadline(const struct expiry *x)
{
    return mono_max(expiry_run_out(x), x->proof_after);
}

void expiry_give_grace(struct expiry *x, struct mono now, enum expiry_grace_cause cause)
{
    x->proof_after =
        mono_max(x->proof_after, mono_add(now, lease_pace_grace_ns(x->config.renew_interval_ns)));
    x->grace_cause = cause;
}

/* A duration that becomes shorter accuses nobody at once: the DPU may not have renewed yet. */
void expiry_adopt_duration(struct expiry *x, uint32_t duration_s, struct mono now)
{
    int64_t ns = (int64_t)duration_s * NS_PER_SEC;
    struct mono before = expiry_proof_deadline(x);
    if (duration_s == 0 || ns == x->config.duration_ns) {
        x->duration_ns = x->config.duration_ns;
    } else {
        int64_t least = ns_max(mono_ns_mul(x->config.renew_interval_ns, 2), NS_PER_SEC);
        x->duration_ns = ns_min(EXPIRY_MAX_DURATION_NS, ns_max(least, ns));
    }
    if (mono_before(now, before) && mono_before(expiry_proof_deadline(x), before)) {
        expiry_give_grace(x, now, EXPIRY_GRACE_SHORTER);
        x->proof_after = mono_min(x->proof_after, before);
    }
}

/* ---- contact and sight ----------------------------------------------------------------------- */

/* From `read_at` on a read takes the place of what cannot be seen. Without contact nothing was seen
 * before either: a watch may hang long before it breaks. */
static void go_blind(struct expiry *x, struct mono since, struct mono read_at)
{
    if (x->contact_lost) {
        since = mono_min(since, x->lost_at);
    }
    if (!x->blind) {
        x->blind = true;
        x->blind_since = since;
        x->sighted_at = mono_max(x->sighted_at, since);
        x->blind_read_at = read_at;
    }
}

/* Of reads instead of the watch: one an interval, and where that is short no more than one a second
 * or a quarter of the lease, for the watch is on its way. */
static struct mono next_blind_read(const struct expiry *x)
{
    int64_t pace_ns = ns_max(confirm_pace_ns(x), ns_min(NS_PER_SEC, x->duration_ns / 4));
    return mono_add(x->last_confirm, pace_ns);
}

void expiry_expect_renewal(struct expiry *x)
{
    x->next_confirm = mono_max(mono_add(x->observed, expiry_suspicion_ns(x)), next_blind_read(x));
}

static void lose_contact(struct expiry *x, struct mono now, const char *failure,
                         struct expiry_update *out)
{
    if (!x->contact_lost) {
        x->contact_lost = true;
        x->lost_at = x->watch_broken ? mono_max(x->sighted_at, x->observed) : now;
        text_format(x->failure, sizeof(x->failure), "%s", failure); /* a cut reason still tells */
        out->rewrite = true;
    } else if (x->phase == EXPIRY_FRESH) {
        /* Nobody was told yet: the newest failure tells more than "connection closed". */
        text_format(x->failure, sizeof(x->failure), "%s", failure);
    }
}

static void regain_contact(struct expiry *x, struct mono now, struct expiry_update *out)
{
    if (!x->contact_made && !x->has_observation && x->phase == EXPIRY_AWAITING) {
        x->observed = now; /* waiting counts from when a renewal could have been seen */
    }
    x->contact_made = true;
    if (x->contact_lost) {
        int64_t grace_ns = lease_pace_grace_ns(x->config.renew_interval_ns);
        x->contact_lost = false;
        x->lost_total_ns =
            mono_ns_add(x->lost_total_ns, mono_since(now, mono_max(x->lost_at, x->observed)));
        struct mono latest = mono_add(expiry_run_out(x), mono_ns_add(x->lost_total_ns, grace_ns));
        x->proof_after = mono_max(x->proof_after, mono_min(mono_add(now, grace_ns), latest));
        x->grace_cause = EXPIRY_GRACE_OUTAGE;
        if (x->control.state == EXPIRY_CONTROL_NONE) { /* refused with all else, maybe */
            x->control.state = EXPIRY_CONTROL_UNKNOWN;
        }
        out->rewrite = true;
    }
}

static void on_watch_broken(struct expiry *x, struct mono now)
{
    x->watch_broken = true;
    go_blind(x, now, mono_add(now, confirm_pace_ns(x) / 10)); /* most are back by then */
}

void expiry_init(struct expiry *x, const struct expiry_config *config,
                 const struct expiry_carry *carry, struct mono now)
{
    assert(config->renew_interval_ns >= 0);
    assert(config->duration_ns > config->renew_interval_ns);
    *x = (struct expiry){.config = *config,
                         .observed = now,
                         .duration_ns = config->duration_ns,
                         .wake_due = MONO_NEVER};
    x->last_confirm = mono_add(now, -confirm_pace_ns(x));
    if (config->renew_interval_ns == 0) {
        x->phase = EXPIRY_DISABLED;
    } else if (carry) {
        expiry_restore(x, carry, now);
    }
    x->next_confirm = mono_add(now, confirm_pace_ns(x));
    expiry_judge(x, now);
}

bool expiry_early_reads_went_well(const struct expiry *x)
{
    return mono_reached(x->last_read_at,
                        mono_add(expiry_proof_deadline(x), -2 * confirm_lead_ns(x)));
}

/* ---- proof ----------------------------------------------------------------------------------- */

static bool is_silent(const struct expiry *x)
{
    return x->phase == EXPIRY_AWAITING || x->phase == EXPIRY_FRESH || x->phase == EXPIRY_HOLDING;
}

static void hold(struct expiry *x, enum expiry_hold_cause cause)
{
    if (x->phase == EXPIRY_FRESH) {
        x->hold_admit = true;
        expiry_move(x, EXPIRY_HOLDING);
    }
    x->hold_cause = cause;
}

/* Answers of which none makes sense, the control's neither, are a proxy's rather than the API
 * server's. But they are answers: they count in the end. */
static struct mono sense_deadline(const struct expiry *x)
{
    int64_t patience_ns = ns_max(x->duration_ns, lease_pace_grace_ns(x->config.renew_interval_ns));
    return mono_add(expiry_proof_deadline(x), patience_ns);
}

/* A read that was started at or after the deadline shows silence. */
static void condemn(struct expiry *x)
{
    if (!is_silent(x) || expiry_is_unsettled(x) || x->contact_lost ||
        !mono_reached(x->last_read_at, expiry_proof_deadline(x))) {
        return;
    }
    switch (expiry_hear(x)) {
    case EXPIRY_HEARD:
        expiry_move(x, EXPIRY_EXPIRED);
        break;
    case EXPIRY_NOT_HEARD:
        if (x->phase != EXPIRY_AWAITING) {
            hold(x, EXPIRY_HOLD_NOT_WRITING);
        }
        break;
    case EXPIRY_NO_SENSE:
        if (mono_reached(x->last_read_at, sense_deadline(x))) {
            expiry_move(x, EXPIRY_EXPIRED);
        } else if (x->phase != EXPIRY_AWAITING) {
            hold(x, EXPIRY_HOLD_UNREADABLE);
        }
        break;
    case EXPIRY_NOT_ASKED:
        break; /* plan_reads() asks */
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static void note_version(struct expiry *x, const struct lease_view *lease,
                         enum expiry_source source)
{
    uint64_t version = expiry_version(lease);
    if (version == 0) {
        return;
    }
    /* A quorum read is right even where it goes back. */
    bool anew = source != EXPIRY_BY_WATCH || !text_equal(x->lease.uid, lease->uid);
    x->highest_version = anew || version > x->highest_version ? version : x->highest_version;
}

/* Out of the state that the lease shows into the phase that follows from it. */
static void settle_phase(struct expiry *x, bool reported, bool renewed, struct mono now)
{
    bool fresh = x->has_observation && mono_before(now, expiry_run_out(x));
    if (reported) {
        expiry_move(x, EXPIRY_REPORTED);
    } else if (renewed && fresh) {
        expiry_move(x, EXPIRY_FRESH);
    } else if (x->phase == EXPIRY_REPORTED) {
        /* Taken back without a renewal: what was observed before decides. */
        fresh = x->has_observation && mono_before(now, expiry_proof_deadline(x));
        expiry_move(x, fresh                ? EXPIRY_FRESH
                       : x->has_observation ? EXPIRY_EXPIRED
                                            : EXPIRY_AWAITING);
    }
}

static void on_observed(struct expiry *x, const struct expiry_event *event,
                        struct expiry_update *out)
{
    const struct lease_view *lease = event->lease;
    bool suspicious = x->has_observation &&
                      mono_reached(event->now, mono_add(x->observed, expiry_suspicion_ns(x)));
    bool changed = !text_equal(x->lease.uid, lease->uid) ||
                   !text_equal(x->lease.renew_stamp, lease->renew_stamp);
    bool was_carried = x->carry_pending;
    /* A watch that was frozen, too, brings in the end what it has. */
    bool is_prompt = event->source == EXPIRY_BY_WATCH && !x->blind && !x->contact_lost;
    regain_contact(x, event->now, out);
    if (x->gone_by_read && event->source == EXPIRY_BY_WATCH) {
        x->next_confirm = event->now; /* made since that read, or gone before it? */
        return;
    }
    if (expiry_is_past(x, lease, event->source)) {
        return;
    }
    x->lease_present = true;
    x->gone_by_read = false;
    x->lease_unreadable = false;
    if (expiry_is_stale(x, lease, event->source)) {
        return;
    }
    out->restart_watch = event->source == EXPIRY_BY_CONFIRM && suspicious && changed;
    out->rewrite = out->rewrite || !text_equal(x->lease.uid, lease->uid); /* for a restart */
    if (x->carry_pending) {
        expiry_settle_carry(x, lease, event->now);
        out->rewrite = true;
    } else {
        out->renewed = expiry_take_renewal(x, lease, is_prompt, event->now);
        out->rewrite = out->rewrite || x->went_back; /* its stamp is shown */
    }
    bool is_later = was_carried && changed && !x->went_back;
    out->rebooted = expiry_take_boot(x, lease, out->renewed || is_later);
    expiry_adopt_duration(x, lease->duration_s, event->now);
    expiry_remember_stamp(x, lease->renew_stamp);
    note_version(x, lease, event->source);
    x->stamp_seen_at = changed || !x->lease_known ? event->now : x->stamp_seen_at;
    x->lease = *lease;
    x->lease_known = true;
    settle_phase(x, expiry_take_report(x, lease, out->renewed, event->now), out->renewed,
                 event->now);
}

static void on_absent(struct expiry *x, const struct expiry_event *event, struct expiry_update *out)
{
    regain_contact(x, event->now, out);
    x->lease_present = false;
    x->gone_by_read = x->gone_by_read || event->source != EXPIRY_BY_WATCH;
    x->lease_unreadable = false;
    x->carry_pending = false;
    out->repair = true;
}

static void on_unreadable(struct expiry *x, const struct expiry_event *event,
                          struct expiry_update *out)
{
    regain_contact(x, event->now, out);
    x->lease_present = true;
    x->lease_unreadable = true;
    text_format(x->unreadable, sizeof(x->unreadable), "%s", event->failure);
}

static void on_read_ok(struct expiry *x, const struct expiry_event *event,
                       struct expiry_update *out)
{
    regain_contact(x, event->now, out);
    x->last_read_at = mono_max(x->last_read_at, event->started_at);
    x->sighted_at = mono_max(x->sighted_at, event->started_at);
    x->blind = x->watch_broken;
    if (x->phase == EXPIRY_REPORTED && expiry_report_ran_out(x, event->started_at)) {
        x->report.over = true;
        settle_phase(x, false, false, event->now);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

/* At the deadline the confirming read is under way and the early reads went well: its answer, one
 * round trip away, is worth waiting for. Anything else means that we, not the DPU, were away. */
static bool proof_is_under_way(const struct expiry *x, struct mono now)
{
    struct mono deadline = expiry_proof_deadline(x);
    return expiry_early_reads_went_well(x) &&
           mono_before(now, mono_add(deadline, confirm_bound_ns(x)));
}

/* We ourselves were away: what comes now may be old. */
static void notice_stall(struct expiry *x, struct mono now)
{
    if (x->wake_due.ns != MONO_NEVER.ns && mono_reached(now, mono_add(x->wake_due, LATE_NS))) {
        go_blind(x, x->wake_due, now);
        if (x->phase == EXPIRY_FRESH && mono_reached(now, expiry_proof_deadline(x)) &&
            !x->contact_lost) {
            hold(x, EXPIRY_HOLD_STALL);
        }
    }
}

/* What the mere passing of time does. */
static void advance(struct expiry *x, struct mono now)
{
    bool ran_out = mono_reached(now, expiry_run_out(x));
    if ((x->phase != EXPIRY_FRESH && x->phase != EXPIRY_HOLDING) ||
        (x->phase == EXPIRY_FRESH && !ran_out)) {
        return;
    }
    if (x->contact_lost) {
        hold(x, EXPIRY_HOLD_OUTAGE);
    } else if (mono_before(now, expiry_proof_deadline(x))) {
        hold(x, EXPIRY_HOLD_GRACE);
    } else if (x->phase == EXPIRY_FRESH && !proof_is_under_way(x, now)) {
        hold(x, EXPIRY_HOLD_UNANSWERED);
    }
    if (mono_reached(now, expiry_hold_end(x))) {
        x->hold_admit = false;
    }
}

/* The time of the read that follows one at `now`. While the DPU is not ready, too, there is one in
 * each interval: a watch that is half open must not hide its return. */
static struct mono confirm_after(const struct expiry *x, struct mono now)
{
    struct mono deadline = expiry_proof_deadline(x);
    struct mono last_early = mono_add(deadline, -confirm_lead_ns(x));
    struct mono next = mono_add(now, confirm_pace_ns(x));
    bool counting = x->phase == EXPIRY_FRESH || x->phase == EXPIRY_HOLDING;
    if (counting && mono_before(now, last_early)) {
        next = mono_min(next, last_early);
    }
    return mono_before(now, deadline) ? mono_min(next, deadline) : next;
}

/* One read at a time, which runs to its deadline; the shell tells its outcome. */
static void plan_reads(struct expiry *x, struct mono now, struct expiry_update *out)
{
    struct mono deadline = expiry_proof_deadline(x);
    bool under_way =
        x->confirm_pending && mono_before(now, mono_add(x->last_confirm, confirm_bound_ns(x)));
    if (x->phase == EXPIRY_DISABLED) {
        x->next_confirm = MONO_NEVER;
        return;
    }
    if (is_silent(x) && mono_reached(now, deadline) && mono_before(x->last_confirm, deadline)) {
        x->next_confirm = now; /* proof has to be started at or after the deadline */
    }
    if (x->blind) {
        x->next_confirm = mono_min(x->next_confirm, mono_max(x->blind_read_at, next_blind_read(x)));
    }
    if (mono_reached(now, x->next_confirm) && !under_way) {
        out->confirm = true;
        x->confirm_pending = true;
        x->last_confirm = now;
        x->next_confirm = confirm_after(x, now);
    }
    bool proven = is_silent(x) && mono_reached(x->last_read_at, deadline);
    bool suspicious = mono_reached(now, expiry_overdue_at(x));
    bool looking = x->control.under_way &&
                   mono_before(now, mono_add(x->control.asked_at, confirm_bound_ns(x)));
    if (is_silent(x) && suspicious && !looking && !x->contact_lost &&
        ((out->confirm &&
          !(x->control.state == EXPIRY_CONTROL_NONE && mono_before(now, deadline))) ||
         (proven && expiry_hear(x) == EXPIRY_NOT_ASKED))) {
        out->look = true;
        x->control.under_way = true;
        x->control.asked_at = now;
    }
}

static struct mono wake_at(const struct expiry *x, struct mono now)
{
    struct mono deadline = expiry_proof_deadline(x);
    struct mono confirm = x->next_confirm;
    if (x->confirm_pending) {
        confirm = mono_max(confirm, mono_add(x->last_confirm, confirm_bound_ns(x)));
    }
    struct mono wake = mono_min(confirm, x->next_rewrite);
    const struct mono turning_points[] = {
        expiry_run_out(x),
        deadline,
        mono_add(deadline, confirm_bound_ns(x)),
        mono_add(expiry_run_out(x), x->config.api_outage_hold_ns),
    };
    for (size_t i = 0; is_silent(x) && i < ARRAY_LEN(turning_points); i++) {
        if (mono_before(now, turning_points[i])) {
            wake = mono_min(wake, turning_points[i]);
        }
    }
    return wake;
}

static void handle(struct expiry *x, const struct expiry_event *event, struct expiry_update *out)
{
    bool by_confirm = event->source == EXPIRY_BY_CONFIRM;
    switch (event->kind) {
    case EXPIRY_LEASE_OBSERVED:
        on_observed(x, event, out);
        break;
    case EXPIRY_LEASE_ABSENT:
        on_absent(x, event, out);
        break;
    case EXPIRY_LEASE_UNREADABLE:
        on_unreadable(x, event, out);
        break;
    case EXPIRY_READ_OK:
        x->confirm_pending = x->confirm_pending && !by_confirm;
        on_read_ok(x, event, out);
        break;
    case EXPIRY_READ_FAILED:
        x->confirm_pending = x->confirm_pending && !by_confirm;
        lose_contact(x, event->now, event->failure, out);
        break;
    case EXPIRY_WATCH_BROKEN:
        on_watch_broken(x, event->now);
        break;
    case EXPIRY_WATCH_WORKS:
        x->watch_broken = false; /* what it shows first may be old, unless a read came before */
        x->blind = x->blind && mono_before(x->last_read_at, x->blind_since);
        break;
    case EXPIRY_CONTROL:
        expiry_take_control(x, event);
        break;
    case EXPIRY_PODS: /* these two: taken by expiry_step */
    case EXPIRY_WITNESSES:
    case EXPIRY_TICK:
        break;
    }
}

/* What takes away from whatever the lease says, and where nobody asks the lease. */
static void take_hosts_view(struct expiry *x, const struct expiry_event *event,
                            struct expiry_update *out)
{
    if (event->kind == EXPIRY_PODS) {
        text_format(x->pods, sizeof(x->pods), "%s",
                    event->pods ? event->pods : ""); /* for people */
    } else if (event->kind == EXPIRY_WITNESSES) {
        x->verdict.witnesses = *event->witnesses;
        text_format(x->accusation, sizeof(x->accusation), "%s", event->accusation);
        out->rewrite = true; /* a restart needs to know what they said */
    }
}

void expiry_step(struct expiry *x, const struct expiry_event *event, struct expiry_update *out)
{
    struct mono now = event->now;
    *out = (struct expiry_update){.wake_at = MONO_NEVER};
    if (x->phase != EXPIRY_DISABLED) {
        notice_stall(x, now);
        advance(x, now); /* what time alone did before this event came */
        handle(x, event, out);
        condemn(x);
        advance(x, now);
    }
    struct readiness before = x->verdict;
    take_hosts_view(x, event, out);
    expiry_judge(x, now);
    out->verdict_changed = !readiness_same_verdict(&before, &x->verdict);
    out->rewrite = out->rewrite || out->verdict_changed || out->renewed;
    plan_reads(x, now, out);
    if (out->rewrite || mono_reached(now, x->next_rewrite)) {
        out->rewrite = true;
        x->next_rewrite = mono_add(now, expiry_writer_ahead_ns(&x->config) / 4 * 3);
    }
    out->wake_at = wake_at(x, now);
    x->wake_due = out->wake_at;
}

enum expiry_contact expiry_contact(const struct expiry *x)
{
    if (x->contact_lost) {
        return EXPIRY_CONTACT_LOST;
    }
    return x->contact_made ? EXPIRY_CONTACT_STANDS : EXPIRY_CONTACT_AWAITED;
}
