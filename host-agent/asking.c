/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/asking.h"

#include "host-agent/verdict.h"

#include "base/text.h"

#define MIN_RETRY_NS  (200 * NS_PER_MS)
#define SLACK_NS      (1 * NS_PER_SEC)
#define MARK_REQUESTS 4 /* of one mark, at most */

typedef struct mono due_fn(const struct verdict *x);

static due_fn at_the_deadline, two_states_are_shown, may_write_past_deadline, after_an_outage,
    after_a_failure, evidence_is_old, read_is_wanted, renewal_is_overdue, watch_is_mistrusted,
    dpu_is_refused, may_write, retry_unanswered, retry_is_granted;

/* All reasons to ask, the most urgent first: of those that are due, the first decides. Each
 * function says when its request is due; MONO_NEVER: there is no such reason. While a mark is under
 * way, nothing else is asked for. A mark that cannot be made is replaced by a read: nobody answers,
 * or no lease is known. */
static const struct reason {
    enum ask_what what;
    due_fn *due;
} reasons[ASKING_REASONS] = {
    /* The DPU may be condemned from then on. */
    [ASKS_AT_THE_DEADLINE] = {ASK_MARK, at_the_deadline},
    /* Which of them stands in etcd? */
    [ASKS_TWO_STATES] = {ASK_MARK, two_states_are_shown},
    /* May the host write? A mark proves more than a trial. */
    [ASKS_MAY_WRITE_PAST_DEADLINE] = {ASK_MARK, may_write_past_deadline},
    /* r / 2 after the API server is back. */
    [ASKS_AFTER_AN_OUTAGE] = {ASK_MARK, after_an_outage},
    /* r after the last mark. */
    [ASKS_AFTER_A_FAILURE] = {ASK_MARK, after_a_failure},
    /* 2 r after the last evidence. */
    [ASKS_EVIDENCE_IS_OLD] = {ASK_MARK, evidence_is_old},
    /* Is a lease that was gone made anew, or an etcd restored? */
    [ASKS_READ_IS_WANTED] = {ASK_READ, read_is_wanted},
    /* Did the watch miss it? */
    [ASKS_RENEWAL_IS_OVERDUE] = {ASK_READ, renewal_is_overdue},
    /* r after the last look: the watch may show the past. */
    [ASKS_WATCH_IS_MISTRUSTED] = {ASK_READ, watch_is_mistrusted},
    /* r after the last look: the DPU's return must not be missed. */
    [ASKS_DPU_IS_REFUSED] = {ASK_READ, dpu_is_refused},
    /* Known before a DPU dies; after any look that is due. */
    [ASKS_MAY_WRITE] = {ASK_TRIAL, may_write},
    /* Were only the answers to writes lost? A read shows a mark's text, and nothing of a trial. */
    [ASKS_RETRY_UNANSWERED] = {ASK_MARK, retry_unanswered},
    /* r after the last one: does the DPU's retry meet a server that takes writes? */
    [ASKS_RETRY_IS_GRANTED] = {ASK_TRIAL, retry_is_granted},
};

/* ---- spans ----------------------------------------------------------------------------------- */

/* Between two reads, or two marks that fail. */
static int64_t pace_ns(const struct verdict *x)
{
    return mono_ns_max(x->spans.interval_ns, MIN_RETRY_NS);
}

/* Where the next one has a reason to be sooner. */
static int64_t hurry_ns(const struct verdict *x)
{
    return mono_ns_max(mono_ns_min(NS_PER_SEC, x->spans.duration_ns / 4), MIN_RETRY_NS);
}

/* The shell tells each outcome; one that it did not tell by then is not waited for. */
static struct mono awaited_until(const struct verdict *x, const struct ask *ask)
{
    return mono_add(ask->asked_at, MARK_REQUESTS * x->spans.deadline_ns + SLACK_NS);
}

/* ---- when marks are due ---------------------------------------------------------------------- */

/* Where the DPU is admitted, none is made within the time that was granted (N), and one that would
 * be due up to q before the deadline is put off until then: it would still be under way. */
static struct mono within_bounds(const struct verdict *x, struct mono due)
{
    struct mono end = verdict_condemns_at(x);
    if (x->phase != VERDICT_FRESH || mono_is_never(due)) {
        return due;
    }
    due = mono_max(due, x->evidence.granted); /* the DPU's retry would meet a conflict */
    bool is_in_the_way = mono_before(x->mark.asked_at, end) &&
                         mono_before(mono_add(end, -x->spans.deadline_ns), due);
    return is_in_the_way ? end : due;
}

/* No renewal is likely to have overtaken what a look has just shown; without a look, r apart. */
static struct mono after_a_look(const struct verdict *x)
{
    struct mono last = x->mark.asked_at;
    struct mono look = x->sight.looked_at;
    if (look.ns == 0 || x->sight.shows != VERDICT_SEES_LEASE) {
        return MONO_NEVER;
    }
    return within_bounds(x, mono_before(last, look) ? look : mono_add(last, pace_ns(x)));
}

/* No mark was asked for at the deadline or after it. */
static bool is_before_deadline(const struct verdict *x)
{
    return mono_before(x->mark.asked_at, verdict_condemns_at(x));
}

static struct mono at_the_deadline(const struct verdict *x)
{
    bool is_due = x->phase == VERDICT_FRESH && is_before_deadline(x);
    return is_due ? verdict_condemns_at(x) : MONO_NEVER;
}

static struct mono two_states_are_shown(const struct verdict *x)
{
    return x->mark.wanted == ASK_MARK ? after_a_look(x) : MONO_NEVER;
}

static bool is_trial_wanted(const struct verdict *x)
{
    return x->mark.wanted == ASK_TRIAL && x->mark.under_way != ASK_TRIAL;
}

static bool is_past_deadline(const struct verdict *x)
{
    return x->phase == VERDICT_FRESH && !is_before_deadline(x);
}

static struct mono may_write_past_deadline(const struct verdict *x)
{
    return is_trial_wanted(x) && is_past_deadline(x) ? after_a_look(x) : MONO_NEVER;
}

/* The pace of marks. One of the three below applies, if the DPU is admitted, and there was any
 * contact. */
static bool has_pace(const struct verdict *x)
{
    return x->phase == VERDICT_FRESH && (x->mark.asked_at.ns != 0 || x->sight.looked_at.ns != 0);
}

/* Attempts have failed, and a read that began since was answered. Where writes were refused, a read
 * shows nothing new. */
static bool is_back_after_outage(const struct verdict *x)
{
    enum mark_outcome cause = x->failure.cause;
    bool is_refusing = cause == MARK_REFUSED || cause == MARK_DENIED || cause == MARK_UNANSWERED;
    return verdict_is_back(x) && !is_refusing && x->sight.shows == VERDICT_SEES_LEASE;
}

static bool has_failed(const struct verdict *x)
{
    return evidence_is_failing(&x->evidence) && mono_before(x->evidence.checked, x->mark.asked_at);
}

/* Most DPUs renew in these r / 2, and the mark makes no renewal of theirs meet a conflict. */
static struct mono after_an_outage(const struct verdict *x)
{
    if (!has_pace(x) || !is_back_after_outage(x)) {
        return MONO_NEVER;
    }
    struct mono back = mono_max(x->sight.back_at, x->evidence.failing);
    return within_bounds(
        x, mono_max(mono_add(x->mark.asked_at, hurry_ns(x)), mono_add(back, pace_ns(x) / 2)));
}

static struct mono after_a_failure(const struct verdict *x)
{
    bool applies = has_pace(x) && !is_back_after_outage(x) && has_failed(x);
    return applies ? within_bounds(x, mono_add(x->mark.asked_at, pace_ns(x))) : MONO_NEVER;
}

/* q more after a renewal, since the next one may be on its way. But r / 2 after the last mark: if
 * it gave no evidence and did not fail, it has met a conflict. */
static struct mono evidence_is_old(const struct verdict *x)
{
    bool is_renewal = x->evidence.checked.ns == x->history.observed.ns;
    int64_t pause_ns = mono_ns_mul(pace_ns(x), 2) + (is_renewal ? x->spans.deadline_ns : 0);
    if (!has_pace(x) || is_back_after_outage(x) || has_failed(x)) {
        return MONO_NEVER;
    }
    return within_bounds(x, mono_max(mono_add(x->mark.asked_at, pace_ns(x) / 2),
                                     mono_add(x->evidence.checked, pause_ns)));
}

/* After a real mark the DPU's next PUT would meet a conflict: a trial changes nothing. */
static struct mono may_write(const struct verdict *x)
{
    return is_trial_wanted(x) && !is_past_deadline(x) ? after_a_look(x) : MONO_NEVER;
}

/* The API server may fail again in the time that was granted, and the DPU's retry with it. But it
 * may be one of several that fails: soon after the first failure another one is asked. None is
 * under way when the mark at the end of that time is due. */
static struct mono next_in_grant(const struct verdict *x)
{
    struct mono last = x->mark.asked_at;
    bool is_first_failure =
        evidence_is_failing(&x->evidence) && !mono_before(x->failure.since, last);
    int64_t pause_ns = is_first_failure ? hurry_ns(x) : pace_ns(x);
    struct mono due =
        x->mark.under_way == ASK_TRIAL ? awaited_until(x, &x->mark) : mono_add(last, pause_ns);
    bool fits = mono_before(mono_add(due, x->spans.deadline_ns), x->evidence.granted);
    return x->phase == VERDICT_FRESH && last.ns != 0 && fits ? due : MONO_NEVER;
}

/* The last attempt was not answered, and a read shows nothing of it. If answers alone are lost,
 * each trial begins a blind span, which goes on until a mark is taken: one ends it at once. The
 * DPU's retry may meet a conflict with it. */
static bool is_unanswered(const struct verdict *x)
{
    return evidence_is_failing(&x->evidence) && x->failure.cause == MARK_UNANSWERED;
}

static struct mono retry_unanswered(const struct verdict *x)
{
    return is_unanswered(x) ? next_in_grant(x) : MONO_NEVER;
}

static struct mono retry_is_granted(const struct verdict *x)
{
    return is_unanswered(x) ? MONO_NEVER : next_in_grant(x);
}

/* ---- when reads are due ---------------------------------------------------------------------- */

static struct mono last_look(const struct verdict *x)
{
    struct mono last = mono_max(x->read.asked_at, x->sight.looked_at);
    return x->phase == VERDICT_FRESH ? mono_max(last, x->mark.asked_at) : last; /* it looks, too */
}

static struct mono next_look(const struct verdict *x)
{
    return mono_add(last_look(x), mono_ns_max(pace_ns(x), hurry_ns(x)));
}

static struct mono read_is_wanted(const struct verdict *x)
{
    return x->read.wanted == ASK_READ ? (struct mono){0} : MONO_NEVER; /* at once */
}

/* One read looks for it, before the first mark is made: half a deadline before that, and half-way
 * to what the duration leaves at most. */
static struct mono renewal_is_overdue(const struct verdict *x)
{
    struct mono overdue = verdict_overdue_at(x);
    bool is_sought = x->phase == VERDICT_FRESH && mono_before(last_look(x), overdue);
    return is_sought ? overdue : MONO_NEVER;
}

/* From half an interval after that began: most watches are back sooner. */
static struct mono watch_is_mistrusted(const struct verdict *x)
{
    struct mono since = x->sight.blind_since;
    return mono_is_never(since) ? since : mono_max(next_look(x), mono_add(since, pace_ns(x) / 2));
}

/* A half-open watch must not hide that the DPU is back. */
static struct mono dpu_is_refused(const struct verdict *x)
{
    bool is_trusted = mono_is_never(x->sight.blind_since);
    return x->phase != VERDICT_FRESH && is_trusted ? next_look(x) : MONO_NEVER;
}

/* ---- what to ask ----------------------------------------------------------------------------- */

/* The first of the reasons for a read, or for a mark or trial, that is due; NULL: none is. */
static const struct reason *due_reason(const struct verdict *x, bool is_read, struct mono now)
{
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        const struct reason *r = &reasons[i];
        if ((r->what == ASK_READ) == is_read && mono_reached(now, r->due(x))) {
            return r;
        }
    }
    return NULL;
}

static void give_up_waiting(const struct verdict *x, struct ask *ask, struct mono now)
{
    if (mono_reached(now, awaited_until(x, ask))) {
        ask->under_way = ASK_NOTHING;
    }
}

/* Nobody answers, and what is sent looks for the way back. */
static bool is_lost(const struct verdict *x)
{
    return x->failure.cause == MARK_LOST && !x->sight.has_contact;
}

/* The mark or trial to ask for. A trial names the version that the last look showed: while another
 * look is due or under way, a renewal may have overtaken that one, and the trial follows the
 * answer. */
static const struct reason *mark_to_ask(const struct verdict *x, struct mono now)
{
    const struct reason *reason = due_reason(x, false, now);
    if (!reason || x->mark.under_way == ASK_MARK) {
        return NULL;
    }
    bool is_look_due = x->read.under_way != ASK_NOTHING || due_reason(x, true, now) != NULL;
    return reason->what == ASK_TRIAL && is_look_due ? NULL : reason;
}

static enum verdict_rule rule_of(const struct reason *reason)
{
    return RULE_ASKS + (enum verdict_rule)(reason - reasons);
}

void asking_plan(struct verdict *x, struct mono now, struct verdict_update *out)
{
    give_up_waiting(x, &x->read, now);
    give_up_waiting(x, &x->mark, now);
    const struct reason *mark = mark_to_ask(x, now);
    const struct reason *read = due_reason(x, true, now);
    bool may_mark = x->sight.shows == VERDICT_SEES_LEASE && !is_lost(x);
    bool is_replaced = mark && !may_mark;
    if (mark) {
        verdict_follow(out, rule_of(mark), mark->due(x).ns, now.ns);
        out->mark = may_mark;
        out->is_trial = may_mark && mark->what == ASK_TRIAL;
        x->mark.under_way = may_mark ? mark->what : x->mark.under_way;
        x->mark.asked_at = now;
    }
    if ((read || is_replaced) && x->read.under_way == ASK_NOTHING &&
        x->mark.under_way != ASK_MARK) {
        enum verdict_rule rule = is_replaced ? RULE_READ_REPLACES_A_MARK : rule_of(read);
        verdict_follow(out, rule, is_replaced ? now.ns : read->due(x).ns, now.ns);
        out->confirm = true;
        x->read = (struct ask){.under_way = ASK_READ, .asked_at = now};
    }
}

struct mono asking_next(const struct verdict *x, struct mono now)
{
    struct mono moments[ASKING_REASONS + 2] = {
        [ASKING_REASONS] = awaited_until(x, &x->read),
        [ASKING_REASONS + 1] = awaited_until(x, &x->mark),
    };
    for (size_t i = 0; i < ASKING_REASONS; i++) {
        moments[i] = reasons[i].due(x);
    }
    return mono_first_after(now, moments, ARRAY_LEN(moments));
}

void asking_end_mark(struct ask *mark, bool is_trial, bool is_open)
{
    mark->under_way = ASK_NOTHING;
    if (!is_open) {
        mark->wanted = is_trial && mark->wanted == ASK_MARK ? ASK_MARK : ASK_NOTHING;
    }
}
