/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/verdict.h"

#include "base/err.h"
#include "base/text.h"

#include <assert.h>
#include <string.h>

#define MAX_DEADLINE_MS     5000
#define MIN_DEADLINE_MS     250
#define LATE_NS             (1 * NS_PER_SEC) /* a wake-up this late is a stall of our own */
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

uint32_t verdict_deadline_ms(const struct verdict_config *config)
{
    int64_t ms = config->duration_ns / 8 / NS_PER_MS;
    return (uint32_t)mono_ns_max(MIN_DEADLINE_MS, mono_ns_min(MAX_DEADLINE_MS, ms));
}

static int64_t deadline_ns(const struct verdict *x)
{
    return x->spans.deadline_ns;
}

/* Half a deadline before the first mark, and half-way to what the duration leaves at most. */
struct mono verdict_overdue_at(const struct verdict *x)
{
    int64_t r = x->spans.interval_ns;
    return mono_add(x->history.observed, mono_ns_min(mono_ns_mul(r, 2) + deadline_ns(x) / 2,
                                                     r + (x->spans.duration_ns - r) / 2));
}

static struct mono run_out(const struct verdict *x)
{
    return mono_add(x->history.observed, x->spans.duration_ns);
}

struct mono verdict_condemns_at(const struct verdict *x)
{
    return evidence_condemns_at(&x->evidence, run_out(x));
}

int64_t verdict_writer_ahead_ns(const struct verdict_config *config)
{
    int64_t r = config->renew_interval_ns;
    return r == 0 ? DISABLED_REWRITE_NS * 3 / 2 : mono_ns_min(r + r / 2, config->duration_ns - r);
}

/* ---- which rule was followed ----------------------------------------------------------------- */

/* {a} and {b} are moments, in seconds since the host's boot as in the record. */
/* clang-format off */
static const char *const rules[VERDICT_RULES] = {
    [RULE_STALLED] = "woken at {b} instead of {a}: what the watch brings now may be old (rule 3)",
    [RULE_STATE_IS_PAST] = "the answer of {b} shows a state of the lease that is over: it counts for nothing (rules for both sides, 1)",
    [RULE_RENEWED] = "a renewal of {a} is seen at {b}: B and N are 0",
    [RULE_DURATION_SHORTENED] = "the lease's duration became {a}: no NotReady before N = {b}",
    [RULE_REPORTED] = "the DPU reports at {b} that it is not well, for the first time at {a} (rules for both sides, 5)",
    [RULE_REPORT_IS_OVER] = "the report of {a} has stood still until {b}: it is over (rules for both sides, 5)",
    [RULE_EVIDENCE] = "nobody had renewed at {a}, which is E; N = {b}",
    [RULE_BLIND_SPAN_OF_FAILURES] = "nobody had renewed at {a}, which ends a blind span of failed attempts; N = {b} (rule 3)",
    [RULE_BLIND_SPAN_OF_A_GAP] = "nobody had renewed at {a}, which ends a blind span, since nobody asked for long; N = {b} (rule 3)",
    [RULE_BLIND_SPAN_KNOWN_LATE] = "the attempt of {a}, begun before E, has failed: a blind span that ended at E; N = {b} (rule 3)",
    [RULE_CONDEMNED] = "evidence of {a} is not before max(o + D, N) = {b}: NotReady (the formula)",
    [RULE_READ_IS_THE_PROOF] = "the mark of {a} is forbidden, and none was ever taken: the read is the proof (table of failed attempts)",
    [RULE_ABSENCE_IS_THE_PROOF] = "the lease is gone at {a}, and the host may not make it anew: its absence is the proof (table of failed attempts)",
    [RULE_DENIAL_LASTED] = "marks are forbidden since {a}, at {b} for one more duration, or R: the read is the proof (table of failed attempts)",
    [RULE_CONFLICT_IS_NEITHER] = "the mark of {a} met somebody else's write: neither evidence nor a failure (table of failed attempts)",
    [RULE_FAILS + MARK_LOST] = "nobody answered the attempt of {a}; attempts fail since {b}",
    [RULE_FAILS + MARK_NONSENSE] = "the answer to the attempt of {a} makes no sense; attempts fail since {b}",
    [RULE_FAILS + MARK_UNANSWERED] = "the write of {a} was not answered, and a read shows nothing of it; attempts fail since {b}",
    [RULE_FAILS + MARK_REFUSED] = "the API server took no writes at {a}; attempts fail since {b}",
    [RULE_FAILS + MARK_DENIED] = "the API server forbade the mark of {a}; attempts fail since {b}",
    [RULE_FAILS + MARK_ABSENT] = "there was no lease at {a}; attempts fail since {b}",
    [RULE_HOLD_IS_OVER] = "attempts fail beyond --api-outage-hold, which ended at {a}",
    [RULE_READ_REPLACES_A_MARK] = "asking for a read instead of a mark: nobody answers, or no lease is known",
    [RULE_ASKS + ASKS_AT_THE_DEADLINE] = "asking for a mark: the DPU may be condemned from {a} on",
    [RULE_ASKS + ASKS_TWO_STATES] = "asking for a mark: two states of the lease were shown, and one stands",
    [RULE_ASKS + ASKS_MAY_WRITE_PAST_DEADLINE] = "asking for a mark: nobody knows yet whether the host may write",
    [RULE_ASKS + ASKS_AFTER_AN_OUTAGE] = "asking for a mark: a read was answered again, and the DPU had half an interval until {a}",
    [RULE_ASKS + ASKS_AFTER_A_FAILURE] = "asking for a mark: an interval is over since the last one, which failed",
    [RULE_ASKS + ASKS_EVIDENCE_IS_OLD] = "asking for a mark: the next evidence was due at {a}",
    [RULE_ASKS + ASKS_READ_IS_WANTED] = "asking for a read: a lease that was gone, or a renewal of an older version, is shown",
    [RULE_ASKS + ASKS_RENEWAL_IS_OVERDUE] = "asking for a read: a renewal is overdue since {a}",
    [RULE_ASKS + ASKS_WATCH_IS_MISTRUSTED] = "asking for a read: the watch is not trusted",
    [RULE_ASKS + ASKS_DPU_IS_REFUSED] = "asking for a read: the DPU is not admitted, and may be back",
    [RULE_ASKS + ASKS_MAY_WRITE] = "asking for a trial: may the host write?",
    [RULE_ASKS + ASKS_RETRY_UNANSWERED] = "asking for a mark: the DPU's retry has time until N, and a write was not answered: a read would show a mark's text",
    [RULE_ASKS + ASKS_RETRY_IS_GRANTED] = "asking for a trial: does the DPU's retry, which has time until N, meet a server that takes writes?",
};
/* clang-format on */

void verdict_follow(struct verdict_update *out, enum verdict_rule rule, int64_t a_ns, int64_t b_ns)
{
    struct verdict_trace *t = &out->trace;
    assert(t->count < VERDICT_TRACE_STEPS && rules[rule]);
    t->steps[t->count].rule = rule;
    t->steps[t->count].a_ns = a_ns;
    t->steps[t->count].b_ns = b_ns;
    t->count++;
}

void verdict_trace_text(const struct verdict_trace *trace, size_t i,
                        char out[static VERDICT_RULE_BYTES])
{
    char a[24];
    char b[24];
    text_format(a, sizeof(a), "%.3f s", (double)trace->steps[i].a_ns / (double)NS_PER_SEC);
    text_format(b, sizeof(b), "%.3f s", (double)trace->steps[i].b_ns / (double)NS_PER_SEC);
    const struct text_word words[] = {{"{a}", a}, {"{b}", b}};
    text_fill(out, VERDICT_RULE_BYTES, rules[trace->steps[i].rule], words, ARRAY_LEN(words));
}

/* ---- evidence -------------------------------------------------------------------------------- */

static bool is_failing(const struct verdict *x)
{
    return evidence_is_failing(&x->evidence);
}

/* The DPU has the time of a retry at `t`, and the host asks by trials alone. */
static bool is_granted(const struct verdict *x, struct mono t)
{
    return x->phase == VERDICT_FRESH && mono_before(t, x->evidence.granted);
}

/* Up to `t` the API server would have taken a renewal, and it is known `now`. */
static void end_blind_span(struct verdict *x, struct mono t, struct mono now,
                           struct verdict_update *out)
{
    static const enum verdict_rule by_link[] = {
        [EVIDENCE_FOLLOWS] = RULE_EVIDENCE,
        [EVIDENCE_AFTER_FAILURE] = RULE_BLIND_SPAN_OF_FAILURES,
        [EVIDENCE_AFTER_GAP] = RULE_BLIND_SPAN_OF_A_GAP,
    };
    enum evidence_link link = evidence_take(&x->evidence, &x->spans, run_out(x), t, now);
    x->failure.cause = link == EVIDENCE_AFTER_GAP ? MARK_CONFLICT : x->failure.cause;
    verdict_follow(out, by_link[link], t.ns, x->evidence.granted.ns);
    x->sight.looked_at = mono_max(x->sight.looked_at, t);
}

/* In all that was asked of the API server up to `t`, nobody had renewed; it is known `now`. Rule 2:
 * only this condemns, by the formula. */
static void take_evidence(struct verdict *x, struct mono t, struct mono now,
                          struct verdict_update *out)
{
    end_blind_span(x, t, now, out);
    if (x->phase <= VERDICT_FRESH && mono_reached(t, verdict_condemns_at(x))) {
        verdict_follow(out, RULE_CONDEMNED, t.ns, verdict_condemns_at(x).ns);
        move(x, VERDICT_EXPIRED);
    }
}

/* An attempt that was started at `t` gave no evidence, and it is known `now`. */
static void miss_evidence(struct verdict *x, enum mark_outcome cause, struct mono t,
                          struct mono now, const char *failure, struct verdict_update *out)
{
    bool was_failing = is_failing(x);
    if (!evidence_miss(&x->evidence, &x->spans, x->history.observed, t, now)) {
        return;
    }
    if (!was_failing || x->failure.cause != cause) {
        x->failure.cause = cause;
        x->failure.since = t;
    }
    if (is_failing(x)) {
        verdict_follow(out, RULE_FAILS + (enum verdict_rule)cause, t.ns, x->evidence.failing.ns);
    } else {
        verdict_follow(out, RULE_BLIND_SPAN_KNOWN_LATE, t.ns, x->evidence.granted.ns);
    }
    (void)text_copy(x->failure.text, sizeof(x->failure.text), failure ? failure : "");
}

static void hear_answer(struct verdict *x)
{
    x->sight.has_contact = true;
}

/* While nobody answers, what the watch brings may be held up, too, until a read is answered. */
static void hear_nothing(struct verdict *x, struct mono now)
{
    x->sight.has_contact = false;
    x->sight.blind_since = mono_min(x->sight.blind_since, now);
}

bool verdict_is_back(const struct verdict *x)
{
    return is_failing(x) &&
           mono_reached(x->sight.looked_at, mono_max(x->evidence.failing, x->mark.asked_at));
}

/* ---- what the lease says --------------------------------------------------------------------- */

/* The lease's own duration wins over the configured one, within bounds. True if it became shorter,
 * and gives the DPU the time of a retry. */
static bool adopt_duration(struct verdict *x, uint32_t duration_s, struct mono now)
{
    int64_t ns = (int64_t)duration_s * NS_PER_SEC;
    struct mono before = verdict_condemns_at(x);
    x->spans.duration_ns = x->config->duration_ns;
    if (duration_s != 0 && ns != x->config->duration_ns) {
        int64_t least = mono_ns_max(mono_ns_mul(x->config->renew_interval_ns, 2), NS_PER_SEC);
        x->spans.duration_ns = mono_ns_min(VERDICT_MAX_DURATION_NS, mono_ns_max(least, ns));
    }
    bool gives_retry = evidence_shorten(&x->evidence, &x->spans, run_out(x), before, now);
    x->failure.cause = gives_retry ? MARK_CONFLICT : x->failure.cause;
    return gives_retry;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The DPU has said something that was not known. */
static bool has_spoken(const struct news *news)
{
    return news->is_renewal || news->is_late_report;
}

/* Another renewTime, no later than all before, on a lease whose versions are below the highest that
 * was seen: of an etcd that was restored, after the DPU's clock was set back, or of a server that
 * lags. A mark tells whether the lease stands, so that the next renewal counts. */
static bool is_in_doubt(const struct news *news)
{
    return news->is_same_lease && news->is_new_stamp && news->is_behind && !news->is_renewal;
}

/* A state that a later one has replaced already: of the same lease, or told by a watch that resumes
 * with the past. The DPU may have spoken in it all the same, after an etcd was restored: a read
 * tells. Another lease is looked at, however old: a mark on it tells whether it stands. */
static bool is_outdated(const struct verdict *x, const struct verdict_event *event,
                        const struct news *news)
{
    bool by_watch = event->source == VERDICT_BY_WATCH;
    bool is_past = news->is_old && (by_watch || (news->is_same_lease && !has_spoken(news)));
    return event->kind != VERDICT_MARK &&
           (is_past || (by_watch && x->sight.shows == VERDICT_SEES_GONE));
}

static void on_outdated(struct verdict *x, const struct verdict_event *event,
                        const struct news *news, struct verdict_update *out)
{
    /* Was it made since, or gone before? And has the DPU spoken since, perhaps? */
    bool by_watch = event->source == VERDICT_BY_WATCH;
    bool was_gone = x->sight.shows == VERDICT_SEES_GONE;
    bool may_be_back = by_watch && x->phase != VERDICT_FRESH && is_in_doubt(news);
    x->read.wanted = was_gone || has_spoken(news) || may_be_back ? ASK_READ : ASK_NOTHING;
    out->is_past = true;
    verdict_follow(out, RULE_STATE_IS_PAST, event->started_at.ns, event->now.ns);
    if (!by_watch) { /* it is there, and a mark tells whether it stands */
        x->sight.shows = VERDICT_SEES_LEASE;
        x->mark.wanted = ASK_MARK;
        history_keep_past(&x->history, event->lease);
    }
}

/* What a working watch shows was made just now. What a read shows may be as old as the stamps say;
 * if it is that old, the watch should have shown it. */
static struct mono date(const struct verdict *x, const struct verdict_event *event,
                        const struct news *news, struct verdict_update *out)
{
    struct mono now = event->now;
    bool by_write = event->kind == VERDICT_MARK;
    bool by_watch = event->source == VERDICT_BY_WATCH && !by_write;
    if (by_watch && mono_is_never(x->sight.blind_since) && !news->is_behind) {
        return now;
    }
    struct mono made =
        history_date(&x->history, event->lease, x->spans.interval_ns, x->sight.looked_at, now);
    /* A read that shows what was just made may have overtaken the watch. */
    out->restart_watch = !by_watch && !by_write && news->is_new_stamp &&
                         history_has_renewed(&x->history) &&
                         mono_reached(mono_add(now, -deadline_ns(x) / 4), made) &&
                         mono_reached(now, verdict_overdue_at(x));
    return made;
}

static void on_observed(struct verdict *x, const struct verdict_event *event,
                        struct verdict_update *out)
{
    const struct lease_view *lease = event->lease;
    struct history *h = &x->history;
    struct mono now = event->now;
    const struct news news = history_compare(h, lease, event->kind == VERDICT_MARK);
    if (is_outdated(x, event, &news)) {
        on_outdated(x, event, &news, out);
        return;
    }
    x->sight.shows = VERDICT_SEES_LEASE;
    out->renewed = news.is_renewal;
    out->rewrite = out->rewrite || !news.is_same_lease; /* for a restart */
    struct mono made = date(x, event, &news, out);
    if (news.is_renewal) {
        verdict_follow(out, RULE_RENEWED, made.ns, now.ns);
        history_renew(h, made, lease);
        evidence_renew(&x->evidence, &x->spans, made, now);
        out->has_skew = lease->renew_time_valid;
        out->skew_ns = out->has_skew ? wall_since(lease->renew_time, event->wall) : 0;
    }
    out->rebooted = history_take_boot(h, lease, &news, &x->readiness);
    if (adopt_duration(x, lease->duration_s, now)) {
        verdict_follow(out, RULE_DURATION_SHORTENED, x->spans.duration_ns, x->evidence.granted.ns);
    }
    if (event->kind != VERDICT_MARK && is_in_doubt(&news)) {
        x->mark.wanted = ASK_MARK;
    }
    bool reported = history_take_report(h, lease, &news, x->spans.duration_ns, now);
    history_keep(h, lease, event->kind == VERDICT_MARK || has_spoken(&news));
    if (reported) {
        verdict_follow(out, RULE_REPORTED, h->reported.ns, now.ns);
        move(x, VERDICT_REPORTED);
    } else if (news.is_renewal && mono_before(now, run_out(x))) {
        move(x, VERDICT_FRESH);
        x->hold_is_over = false;
    }
}

/* "Rules for both sides", 5: such a report becomes expiry. */
static void end_report(struct verdict *x, struct mono t, struct verdict_update *out)
{
    if (x->phase == VERDICT_REPORTED && mono_reached(t, verdict_condemns_at(x)) &&
        history_is_report_over(&x->history, x->spans.duration_ns, t)) {
        verdict_follow(out, RULE_REPORT_IS_OVER, x->history.reported.ns, t.ns);
        move(x, VERDICT_EXPIRED);
    }
}

/* "The lease is gone": that is no evidence, unless the host may not make it anew. */
static void on_absent(struct verdict *x, const struct verdict_event *event,
                      struct verdict_update *out)
{
    x->history.is_first_look = false;
    out->repair = true;
    if (event->source == VERDICT_BY_WATCH) { /* it may be of the past: a read comes before a mark */
        x->sight.shows = x->sight.shows == VERDICT_SEES_GONE ? x->sight.shows : VERDICT_SEES_NONE;
        return;
    }
    x->sight.shows = VERDICT_SEES_GONE;
    if (event->is_lasting) {
        verdict_follow(out, RULE_ABSENCE_IS_THE_PROOF, event->started_at.ns, event->now.ns);
        take_evidence(x, event->started_at, event->now, out);
    } else {
        miss_evidence(x, MARK_ABSENT, event->started_at, event->now, NULL, out);
    }
}

/* "It forbids this write": a denial that lasts for one more duration, and for the time of a retry,
 * may be a decision about us alone. Then a read is the proof. A server that starts again may forbid
 * all, for a while; and an outage may have ended just before it. */
static bool has_denial_lasted(const struct verdict *x, struct mono t)
{
    struct mono since = mono_max(verdict_condemns_at(x), x->failure.since);
    int64_t lasting_ns = mono_ns_max(x->spans.duration_ns, spans_retry_ns(&x->spans));
    return x->failure.cause == MARK_DENIED && mono_reached(t, mono_add(since, lasting_ns));
}

/* Somebody else writes, so that the API server takes writes. */
static void meet_conflict(struct verdict *x, const struct verdict_event *event,
                          struct verdict_update *out)
{
    struct mono t = event->started_at;
    verdict_follow(out, RULE_CONFLICT_IS_NEITHER, t.ns, event->now.ns);
    if (x->failure.cause == MARK_DENIED) {
        x->failure.since = t; /* it would have taken the host's, too */
    }
}

/* What a mark is worth, or a trial in the time of a retry: the table of failed attempts ("The
 * verdict"), row by row. */
static void weigh_mark(struct verdict *x, const struct verdict_event *event,
                       struct verdict_update *out)
{
    struct mono t = event->started_at;
    enum mark_outcome outcome = event->outcome;
    bool is_ours_alone = outcome == MARK_DENIED && !x->evidence.has_marked;
    bool is_evidence = outcome == MARK_TAKEN || is_ours_alone;
    if (is_ours_alone) { /* we never could write: the read is the proof */
        verdict_follow(out, RULE_READ_IS_THE_PROOF, t.ns, event->now.ns);
    }
    if (is_evidence && event->is_trial) { /* which condemns nobody */
        end_blind_span(x, t, event->now, out);
    } else if (is_evidence) {
        take_evidence(x, t, event->now, out);
    } else if (outcome == MARK_CONFLICT) {
        meet_conflict(x, event, out);
    } else if (outcome != MARK_ABSENT &&       /* LEASE_ABSENT said so */
               x->phase != VERDICT_AWAITING) { /* where a read is the proof */
        miss_evidence(x, outcome, t, event->now, event->failure, out);
    }
    if (x->phase == VERDICT_FRESH && is_failing(x) && has_denial_lasted(x, t)) {
        verdict_follow(out, RULE_DENIAL_LASTED, x->failure.since.ns, t.ns);
        move(x, VERDICT_EXPIRED);
    }
}

/* Other evidence may have come after the mark was asked for, and the mark's last request may have
 * begun after that. The pace then counts from that request: otherwise a failure would have no mark
 * to count from (has_failed()). */
static void end_mark(struct verdict *x, const struct verdict_event *event)
{
    bool is_open = event->outcome != MARK_TAKEN && event->outcome != MARK_DENIED;
    struct mono checked = x->evidence.checked;
    x->evidence.has_marked |= event->outcome == MARK_TAKEN;
    asking_end_mark(&x->mark, event->is_trial, is_open);
    if (mono_reached(checked, x->mark.asked_at) && mono_before(checked, event->started_at)) {
        x->mark.asked_at = event->started_at;
    }
}

static void on_mark(struct verdict *x, const struct verdict_event *event,
                    struct verdict_update *out)
{
    enum mark_outcome outcome = event->outcome;
    if (event->lease) {
        on_observed(x, event, out);
    }
    if (event->source == VERDICT_BY_MARK) {
        end_mark(x, event);
    }
    if (outcome == MARK_LOST) {
        hear_nothing(x, event->now);
    } else {
        hear_answer(x);
    }
    out->rewrite = true; /* for a restart */
    if (!event->is_trial || is_granted(x, event->started_at)) {
        weigh_mark(x, event, out);
    }
}

/* The API server answered, whatever that is worth. */
static void on_answer(struct verdict *x, const struct verdict_event *event,
                      struct verdict_update *out)
{
    if (x->sight.looked_at.ns == 0 && x->phase == VERDICT_AWAITING) {
        x->history.observed =
            event->now; /* waiting counts from when a renewal could have been seen, */
        x->evidence.checked = event->now;
        x->evidence.failing = (struct mono){0}; /* so that no blind span lies before */
    }
    hear_answer(x);
    if (event->kind == VERDICT_LEASE_OBSERVED) {
        on_observed(x, event, out);
    } else if (event->kind == VERDICT_LEASE_ABSENT) {
        on_absent(x, event, out);
    } else {
        x->sight.shows = VERDICT_SEES_GARBLED;
        miss_evidence(x, MARK_NONSENSE, event->now, event->now, event->failure, out);
    }
    if (event->source != VERDICT_BY_READ && event->source != VERDICT_BY_CONFIRM) {
        return;
    }
    x->sight.back_at = verdict_is_back(x) ? x->sight.back_at : event->now;
    x->sight.looked_at = mono_max(x->sight.looked_at, event->started_at);
    x->sight.blind_since = x->sight.is_watch_broken ? x->sight.blind_since : MONO_NEVER;
    if (x->phase == VERDICT_AWAITING) { /* nobody is admitted who could be refused */
        take_evidence(x, event->started_at, event->now, out);
    }
    end_report(x, event->started_at, out);
}

static void handle(struct verdict *x, const struct verdict_event *event, struct verdict_update *out)
{
    if (event->kind <= VERDICT_READ_FAILED && event->source == VERDICT_BY_CONFIRM) {
        x->read.under_way = ASK_NOTHING;
    }
    switch (event->kind) {
    case VERDICT_LEASE_OBSERVED:
    case VERDICT_LEASE_ABSENT:
    case VERDICT_LEASE_UNREADABLE:
        on_answer(x, event, out);
        break;
    case VERDICT_READ_FAILED:
        hear_nothing(x, event->now);
        miss_evidence(x, MARK_LOST, event->started_at, event->now, event->failure, out);
        break;
    case VERDICT_WATCH_BROKEN:
        x->sight.is_watch_broken = true;
        x->sight.blind_since = mono_min(x->sight.blind_since, event->now);
        break;
    case VERDICT_WATCH_WORKS:
        x->sight.is_watch_broken = false; /* what it shows first may be as old as the last look */
        if (mono_since(event->now, x->sight.looked_at) < LATE_NS) {
            x->sight.blind_since = MONO_NEVER;
        }
        break;
    case VERDICT_MARK:
        on_mark(x, event, out);
        break;
    case VERDICT_PODS:
        (void)text_copy(x->pods, sizeof(x->pods), event->pods ? event->pods : "");
        break;
    case VERDICT_HOST_PROBES:
        x->readiness.host_probes = *event->host_probes;
        (void)text_copy(x->accusation, sizeof(x->accusation), event->accusation);
        out->rewrite = true; /* a restart needs to know what they said */
        break;
    case VERDICT_TICK:
        break;
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

/* "A hold", and rule 4: past its deadline the last state stands while nobody can know, and a retry
 * until a renewal or its end. Otherwise the mark under way is worth waiting for: its answer is one
 * round trip away. */
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

static struct mono wake_at(const struct verdict *x, struct mono now)
{
    const struct mono turning_points[] = {
        x->next_rewrite,
        asking_next(x, now),
        run_out(x),
        x->evidence.granted,
        evidence_gap_at(&x->evidence, &x->spans),
        hold_end(x),
    };
    return mono_first_after(now, turning_points, ARRAY_LEN(turning_points));
}

/* ---- the words ------------------------------------------------------------------------------- */

enum sentence {
    SAYS_AWAITED,
    SAYS_AWAITED_UNREAD,
    SAYS_RENEWED,
    SAYS_HELD,
    SAYS_HELD_FOR_A_REASON,
    SAYS_RETRYING,
    SAYS_HELD_TOO_LONG,
    SAYS_NO_LEASE,
    SAYS_GARBLED,
    SAYS_NO_HOLDER,
    SAYS_OTHER_HOLDER,
    SAYS_NEVER_RENEWED,
    SAYS_NO_DURATION,
    SAYS_RENEWED_TOO_SELDOM,
    SAYS_EXPIRED,
    SAYS_SHUTDOWN,
    SAYS_SHUTDOWN_FOR_A_REASON,
    SAYS_UNHEALTHY,
    SAYS_UNHEALTHY_WITHOUT_A_REASON,
    SAYS_UNHEALTHY_BEFORE,
    SAYS_PROBE_FAILED,
    SAYS_PODS_LOST,
    SAYS_DISABLED,
    SENTENCES
};

/* say() has what stands for the words in braces. */
/* clang-format off */
static const struct {
    enum readiness_reason reason;
    const char *text;
} sentences[SENTENCES] = {
    [SAYS_AWAITED] = {REASON_AWAITING_FIRST_RENEWAL,
     "the host has not seen a renewal of lease {lease} yet: dpu-agent may not run on the DPU"},
    [SAYS_AWAITED_UNREAD] = {REASON_AWAITING_FIRST_RENEWAL,
     "the host has not seen a renewal of lease {lease} yet: the API server cannot be read: {failure}"},
    [SAYS_RENEWED] = {REASON_LEASE_RENEWED, "the DPU renews its lease"},
    [SAYS_HELD] = {REASON_OTHER, /* that of the cause, here and below */
     "the lease expired while the host could not tell whether the DPU is alive: {cause}; the host keeps the last state, Ready"},
    [SAYS_HELD_FOR_A_REASON] = {REASON_OTHER,
     "the lease expired while the host could not tell whether the DPU is alive: {cause} ({failure}); the host keeps the last state, Ready"},
    [SAYS_RETRYING] = {REASON_OTHER,
     "the DPU has time for one retry, after a time without evidence: {cause}"},
    [SAYS_HELD_TOO_LONG] = {REASON_OTHER,
     "for longer than --api-outage-hold ({hold}), the host could not tell whether the DPU is alive: {cause}"},
    [SAYS_NO_LEASE] = {REASON_LEASE_NOT_FOUND,
     "no renewal for {duration}, and lease {lease} does not exist: dpu-host-agent's log says why it cannot create it"},
    [SAYS_GARBLED] = {REASON_LEASE_INVALID,
     "no renewal for {duration}, and lease {lease} cannot be read: {failure}"},
    [SAYS_NO_HOLDER] = {REASON_LEASE_INVALID, "lease {lease} has no holder"},
    [SAYS_OTHER_HOLDER] = {REASON_LEASE_INVALID, "lease {lease} is held by '{other}' instead of '{holder}'"},
    [SAYS_NEVER_RENEWED] = {REASON_LEASE_INVALID,
     "lease {lease} has never been renewed: dpu-agent may not run on the DPU. If the health check is off there but on here, this is a configuration mismatch"},
    [SAYS_NO_DURATION] = {REASON_LEASE_INVALID,
     "lease {lease} has no leaseDurationSeconds, and the DPU has not renewed it"},
    [SAYS_RENEWED_TOO_SELDOM] = {REASON_LEASE_EXPIRED,
     "the DPU has not renewed lease {lease} for {duration}; its last two renewals were {gap} apart, which looks like a configuration mismatch of the renew interval"},
    [SAYS_EXPIRED] = {REASON_LEASE_EXPIRED,
     "the DPU has not renewed lease {lease} for {duration}; its last renewal is stamped {stamp}"},
    [SAYS_SHUTDOWN] = {REASON_DPU_SHUTDOWN, "the DPU announced its shutdown"},
    [SAYS_SHUTDOWN_FOR_A_REASON] = {REASON_DPU_SHUTDOWN, "the DPU announced its shutdown: {report}"},
    [SAYS_UNHEALTHY] = {REASON_DPU_REPORTED_UNHEALTHY, "the DPU reports that it is unhealthy: {report}"},
    [SAYS_UNHEALTHY_WITHOUT_A_REASON] = {REASON_DPU_REPORTED_UNHEALTHY,
     "the DPU reports that it is unhealthy: no reason was given"},
    [SAYS_UNHEALTHY_BEFORE] = {REASON_DPU_REPORTED_UNHEALTHY,
     "the DPU reported that it was unhealthy and has not renewed its lease since"},
    [SAYS_PROBE_FAILED] = {REASON_HOST_PROBE_FAILED, "a host probe fails: {accusation}"},
    [SAYS_PODS_LOST] = {REASON_POD_NETWORK_LOST, "{pods}"},
    [SAYS_DISABLED] = {REASON_HEALTH_CHECK_DISABLED,
     "the DPU health check is disabled (--dpu-node-lease-renew-interval=0 or --dpu-node-lease-duration=0)"},
};

/* Why a state is held. */
static const struct {
    enum readiness_reason reason;
    const char *text;
} causes[MARK_OUTCOMES] = {
    [MARK_CONFLICT] = {REASON_API_SERVER_UNREACHABLE,
     "dpu-host-agent was stopped or restarted, met only conflicts, or the lease's duration was shortened"},
    [MARK_LOST] = {REASON_API_SERVER_UNREACHABLE, "the API server does not answer"},
    [MARK_NONSENSE] = {REASON_API_SERVER_UNREACHABLE, "the API server's answers cannot be read"},
    [MARK_UNANSWERED] = {REASON_API_SERVER_NOT_WRITING, "the API server does not answer the host's writes"},
    [MARK_REFUSED] = {REASON_API_SERVER_NOT_WRITING, "the API server takes no writes"},
    [MARK_DENIED] = {REASON_API_SERVER_NOT_WRITING, "the API server denies the host's write to the lease"},
    [MARK_ABSENT] = {REASON_API_SERVER_NOT_WRITING, "the lease is gone and is being made anew"},
};
/* clang-format on */

/* Why the state is held at present; where nothing fails, that of an older hold does not count. */
static enum mark_outcome present_cause(const struct verdict *x)
{
    return is_failing(x) || x->evidence.granted.ns != 0 ? x->failure.cause : MARK_CONFLICT;
}

/* A span that `text` names: to write one takes longer than to judge. */
static struct text_span span_in(const char *text, const char *name, int64_t ns)
{
    return strstr(text, name) ? text_span(ns) : (struct text_span){.text = ""};
}

static void fill(const struct verdict *x, const char *text, char *out, size_t out_bytes)
{
    const struct lease_view *seen = &x->history.lease;
    int64_t gap_ns = x->history.last_gap_ns / NS_PER_SEC * NS_PER_SEC;
    const struct text_span duration = span_in(text, "{duration}", x->spans.duration_ns);
    const struct text_span gap = span_in(text, "{gap}", gap_ns);
    const struct text_span hold = span_in(text, "{hold}", x->config->api_outage_hold_ns);
    char lease[2 * NAMES_K8S_NAME_BYTES] = "";
    if (strstr(text, "{lease}")) {
        text_format(lease, sizeof(lease), "%s/%s", x->config->lease_ns, x->config->lease_name);
    }
    const struct text_word words[] = {
        {"{lease}", lease},
        {"{duration}", duration.text},
        {"{gap}", gap.text},
        {"{hold}", hold.text},
        {"{cause}", causes[present_cause(x)].text},
        {"{failure}", x->failure.text},
        {"{holder}", x->config->holder},
        {"{other}", seen->holder},
        {"{stamp}", x->readiness.lease.renew_stamp},
        {"{report}", seen->health_message},
        {"{accusation}", x->accusation},
        {"{pods}", x->pods},
    };
    text_fill(out, out_bytes, text, words, ARRAY_LEN(words));
}

/* A message that contains words of others is cut between characters and made printable, for it goes
 * into JSON and onto terminals. */
static void say(const struct verdict *x, enum sentence sentence, struct readiness *out)
{
    char whole[2 * NAMES_MESSAGE_BYTES];
    enum readiness_reason reason = sentences[sentence].reason;
    out->reason = reason == REASON_OTHER ? causes[present_cause(x)].reason : reason;
    out->other_reason[0] = '\0';
    out->state = readiness_reason_traits(out->reason)->state;
    if (!strchr(sentences[sentence].text, '{')) {
        (void)text_copy(out->message, sizeof(out->message), sentences[sentence].text);
        return;
    }
    fill(x, sentences[sentence].text, whole, sizeof(whole));
    text_sanitize(out->message, sizeof(out->message), whole, strlen(whole));
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static enum sentence judge_held(const struct verdict *x)
{
    if (x->hold_is_over) {
        return SAYS_HELD_TOO_LONG;
    }
    if (!is_failing(x)) {
        return SAYS_RETRYING;
    }
    return x->failure.text[0] != '\0' ? SAYS_HELD_FOR_A_REASON : SAYS_HELD;
}

/* Why the silence: the lease itself is damaged, or the DPU does not renew it. */
static enum sentence judge_silent(const struct verdict *x)
{
    const struct lease_view *lease = &x->history.lease;
    if (x->sight.shows <= VERDICT_SEES_GONE) {
        return SAYS_NO_LEASE;
    }
    if (x->sight.shows == VERDICT_SEES_GARBLED) {
        return SAYS_GARBLED;
    }
    if (lease->holder[0] == '\0') {
        return SAYS_NO_HOLDER;
    }
    if (!history_is_ours(&x->history, lease)) {
        return SAYS_OTHER_HOLDER;
    }
    if (lease->renew_stamp[0] == '\0') {
        return SAYS_NEVER_RENEWED;
    }
    if (lease->duration_s == 0) {
        return SAYS_NO_DURATION;
    }
    return x->history.last_gap_ns > x->spans.duration_ns ? SAYS_RENEWED_TOO_SELDOM : SAYS_EXPIRED;
}

static enum sentence judge_reported(const struct verdict *x)
{
    bool has_reason = x->history.lease.health_message[0] != '\0';
    switch (x->history.lease.health) {
    case LEASE_HEALTH_SHUTDOWN:
        return has_reason ? SAYS_SHUTDOWN_FOR_A_REASON : SAYS_SHUTDOWN;
    case LEASE_HEALTH_UNHEALTHY:
        return has_reason ? SAYS_UNHEALTHY : SAYS_UNHEALTHY_WITHOUT_A_REASON;
    case LEASE_HEALTH_NONE:
        break;
    }
    return SAYS_UNHEALTHY_BEFORE;
}

static enum sentence judge_phase(const struct verdict *x, struct mono now)
{
    switch (x->phase) {
    case VERDICT_FRESH:
        return x->hold_is_over || is_held(x, now) ? judge_held(x) : SAYS_RENEWED;
    case VERDICT_EXPIRED:
        return judge_silent(x);
    case VERDICT_REPORTED:
        return judge_reported(x);
    case VERDICT_DISABLED:
        return SAYS_DISABLED;
    case VERDICT_AWAITING:
    case VERDICT_PHASE_COUNT:
        break;
    }
    bool is_unread = !x->sight.has_contact && x->failure.text[0] != '\0';
    return is_unread ? SAYS_AWAITED_UNREAD : SAYS_AWAITED;
}

/* Rule 8: a failed host probe takes away an admission that the lease gives, and so do Pods that
 * lost their network. */
static void judge(const struct verdict *x, struct readiness *out, struct mono now)
{
    bool is_fresh = x->phase == VERDICT_FRESH && !x->hold_is_over;
    bool admits = is_fresh || x->phase == VERDICT_DISABLED;
    if (is_fresh && readiness_is_accused(out)) {
        say(x, SAYS_PROBE_FAILED, out);
    } else if (admits && x->pods[0] != '\0') {
        say(x, SAYS_PODS_LOST, out);
    } else {
        say(x, judge_phase(x, now), out);
    }
    out->admit = admits && out->state != READINESS_NOT_READY;
}

static void describe_lease(const struct verdict *x, struct readiness_lease *out)
{
    const struct lease_view *lease = &x->history.lease;
    bool has_renewed = history_has_renewed(&x->history);
    (void)text_copy(out->ns, sizeof(out->ns), x->config->lease_ns);
    (void)text_copy(out->name, sizeof(out->name), x->config->lease_name);
    memcpy(out->uid, lease->uid, sizeof(out->uid));
    memcpy(out->renew_stamp, has_renewed ? x->history.stamp : lease->renew_stamp,
           sizeof(out->renew_stamp));
    memcpy(out->resource_version, lease->resource_version, sizeof(out->resource_version));
    out->duration_s = lease->duration_s;
}

static void update_verdict(struct verdict *x, struct mono now)
{
    struct readiness *out = &x->readiness;
    out->observed = history_has_renewed(&x->history) ? x->history.observed : (struct mono){0};
    out->lease_until = history_has_renewed(&x->history) ? run_out(x) : (struct mono){0};
    describe_lease(x, &out->lease);
    bool is_refused = x->phase == VERDICT_EXPIRED || x->phase == VERDICT_REPORTED;
    if (is_refused &&
        x->history.is_first_look) { /* a former process said why; nothing new is known */
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

/* "A restart": a record that was carried over it. What it says was known at `checked`; whatever has
 * happened since was seen by nobody, and the first mark ends that blind span like any other. */
static void restore(struct verdict *x, const struct record *carry, struct mono now)
{
    const struct readiness *was = &carry->readiness;
    if (was->reason == REASON_POD_NETWORK_LOST && x->config->pods_count) {
        (void)text_copy(x->pods, sizeof(x->pods), was->message); /* until they are looked at */
    }
    if (!is_usable(carry, now)) { /* but for what is true of a lease never seen renewed, too */
        x->evidence.has_marked = carry->evidence.has_marked;
        memcpy(x->readiness.dpu_boot_id, was->dpu_boot_id, sizeof(was->dpu_boot_id));
        memcpy(x->readiness.dpu_boot_before, was->dpu_boot_before, sizeof(was->dpu_boot_before));
        return;
    }
    history_restore(&x->history, was, now);
    x->sight.shows = VERDICT_SEES_LEASE;
    x->readiness = *was;
    x->readiness.host_probes.count = 0; /* who asks them tells which there are now */
    (void)adopt_duration(x, was->lease.duration_s, now);
    x->evidence = carry->evidence; /* a duration that was adopted before grants nothing */
    evidence_restore(&x->evidence, &x->spans, was->observed, now);
    x->hold_is_over = was->state == READINESS_UNKNOWN && !was->admit;
    x->phase = was_refused(was) ? VERDICT_EXPIRED : VERDICT_FRESH;
    if (x->history.lease.health != LEASE_HEALTH_NONE) {
        x->phase = VERDICT_REPORTED;
    }
}

void verdict_init(struct verdict *x, const struct verdict_config *config,
                  const struct record *carry, struct mono now)
{
    assert(config->renew_interval_ns >= 0);
    assert(config->duration_ns > config->renew_interval_ns);
    *x = (struct verdict){.config = config,
                          .history = {.holder = config->holder, .observed = now},
                          .evidence = {.checked = now},
                          .spans = {.interval_ns = config->renew_interval_ns,
                                    .deadline_ns = verdict_deadline_ms(config) * NS_PER_MS,
                                    .duration_ns = config->duration_ns},
                          .failure = {.cause = MARK_CONFLICT},
                          .sight = {.blind_since = now}, /* the first list tells */
                          .read = {.asked_at = now},
                          .mark = {.wanted = ASK_TRIAL},
                          .wake_due = MONO_NEVER};
    if (config->renew_interval_ns == 0) {
        x->phase = VERDICT_DISABLED;
    } else if (carry) {
        restore(x, carry, now);
    }
    update_verdict(x, now);
}

/* ---- the step -------------------------------------------------------------------------------- */

/* The time that was granted is over: a trial that is still under way has failed, for none begins
 * within q of the end. */
static void end_grant(struct verdict *x, struct mono now, struct verdict_update *out)
{
    struct mono end = x->evidence.granted;
    if (x->mark.under_way == ASK_TRIAL && mono_reached(now, end) &&
        is_granted(x, x->mark.asked_at)) {
        x->mark.under_way = ASK_NOTHING;
        miss_evidence(x, MARK_LOST, x->mark.asked_at, now, "a trial is not answered", out);
    }
}

void verdict_step(struct verdict *x, const struct verdict_event *event, struct verdict_update *out)
{
    struct mono now = event->now;
    bool is_on = x->phase != VERDICT_DISABLED;
    struct readiness before = x->readiness;
    struct mono failing = x->evidence.failing;
    *out = (struct verdict_update){.wake_at = MONO_NEVER};
    if (is_on && mono_reached(now, mono_add(x->wake_due, LATE_NS))) {
        verdict_follow(out, RULE_STALLED, x->wake_due.ns, now.ns); /* what comes now may be old */
        x->sight.blind_since = mono_min(x->sight.blind_since, now);
    }
    if (is_on || event->kind == VERDICT_PODS || event->kind == VERDICT_HOST_PROBES) {
        handle(x, event, out);
    }
    end_grant(x, now, out);
    if (x->phase == VERDICT_FRESH && is_failing(x) && mono_reached(now, hold_end(x)) &&
        !x->hold_is_over) {
        verdict_follow(out, RULE_HOLD_IS_OVER, hold_end(x).ns, now.ns);
        x->hold_is_over = true;
    }
    update_verdict(x, now);
    out->verdict_changed = !readiness_same_verdict(&before, &x->readiness);
    bool is_failing_now = failing.ns != x->evidence.failing.ns;
    out->rewrite = out->rewrite || out->verdict_changed || out->renewed || is_failing_now;
    if (is_on) {
        asking_plan(x, now, out);
    }
    if (out->rewrite || mono_reached(now, x->next_rewrite)) {
        out->rewrite = true;
        x->next_rewrite = mono_add(now, verdict_writer_ahead_ns(x->config) / 4 * 3);
    }
    out->wake_at = is_on ? wake_at(x, now) : x->next_rewrite;
    x->wake_due = out->wake_at;
}
