/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays a simulation of tests/model/heartbeat.pml, from stdin, through the C core: the world of
 * each step is as the model says, and the core asks and is answered at its own times. Model and
 * core have to come to the same phase, and the record's reader to the same answer, in the same step
 * or within two: the model's reads fall on whole steps, and a short outage counts a whole one.
 *
 * Lines are "STEP written writes reads watch delivered accused host phase admits".
 */
#include "contract/record.h"
#include "host-agent/verdict.h"

#include "base/text.h"
#include "base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_NS       (10 * NS_PER_SEC)
#define STALE_HOLD_NS (2 * STEP_NS)
#define START_NS      (1000 * NS_PER_SEC)
#define WALL_NS       (INT64_C(1790000000) * NS_PER_SEC)

enum { STEPS_MAX = 1000, SLACK_STEPS = 2 };

struct step {
    int written, writes, reads, delivered, accused, host, admits;
    char watch[12];
    char phase[12];
};

struct world {
    struct verdict x;
    struct verdict_config config;
    bool is_up;
    bool is_listed;
    bool is_watching;
    bool has_stamp;
    bool is_accused;
    int64_t stamp_step; /* of the lease */
    struct record record;
    bool has_record;
    const struct step *step; /* the present one */
    bool has_asked;          /* in it, of whatever sort */
    bool has_tried;          /* in it, by a mark */
    bool missed_failure;     /* since the last renewal: see is_unasked() */
    int64_t now_ns;
    struct verdict_update out;
};

static const char *phase_of(const struct verdict *x)
{
    static const char *const names[VERDICT_PHASE_COUNT] = {
        [VERDICT_AWAITING] = "AWAITING", [VERDICT_FRESH] = "FRESH",
        [VERDICT_EXPIRED] = "EXPIRED",   [VERDICT_REPORTED] = "REPORTED",
        [VERDICT_DISABLED] = "DISABLED",
    };
    enum readiness_reason reason = x->readiness.reason;
    bool is_held =
        reason == REASON_API_SERVER_UNREACHABLE || reason == REASON_API_SERVER_NOT_WRITING;
    return x->phase == VERDICT_FRESH && is_held ? "HOLDING" : names[x->phase];
}

static struct mono at(int64_t ns)
{
    return (struct mono){START_NS + ns};
}

static void stamp_of(int64_t step, struct lease_view *out)
{
    out->renew_time = (struct wall){WALL_NS + step * STEP_NS};
    out->renew_time_valid = true;
    text_format(out->renew_stamp, sizeof(out->renew_stamp), "%s",
                rfc3339_text(out->renew_time, true).text);
}

static struct lease_view lease_now(const struct world *w)
{
    struct lease_view lease = {
        .uid = "uid", .resource_version = "1", .holder = "dpu", .duration_s = 40};
    if (w->has_stamp) {
        stamp_of(w->stamp_step, &lease);
    }
    return lease;
}

/* As record.c does. */
static void write_record(struct world *w)
{
    const struct readiness *verdict = &w->x.readiness;
    struct mono until = mono_add(at(w->now_ns), verdict_writer_ahead_ns(&w->config));
    w->record.readiness = *verdict;
    w->record.evidence = w->x.evidence;
    w->record.writer_until = until;
    w->record.hold_until = mono_add(mono_max(verdict->lease_until, until), STALE_HOLD_NS);
    w->has_record = true;
}

static void feed(struct world *w, struct verdict_event event)
{
    struct verdict_update before = w->out;
    event.now = at(w->now_ns);
    verdict_step(&w->x, &event, &w->out);
    w->out.confirm |= before.confirm; /* what is asked for is answered below */
    w->out.mark |= before.mark;
    w->out.is_trial |= before.is_trial;
    if (w->out.rewrite) {
        write_record(w);
    }
}

static void see_lease(struct world *w, enum verdict_source source, struct mono started)
{
    const struct lease_view lease = lease_now(w);
    feed(w, (struct verdict_event){.kind = VERDICT_LEASE_OBSERVED,
                                   .source = source,
                                   .started_at = started,
                                   .lease = &lease});
}

static void answer_confirm(struct world *w)
{
    struct mono started = at(w->now_ns);
    w->out.confirm = false;
    w->now_ns += NS_PER_MS;
    if (!w->step->reads) {
        feed(w, (struct verdict_event){.kind = VERDICT_READ_FAILED,
                                       .source = VERDICT_BY_CONFIRM,
                                       .started_at = started,
                                       .failure = "refused"});
        return;
    }
    see_lease(w, VERDICT_BY_CONFIRM, started);
}

/* The model's API server answers a mark at once, or not at all. */
static void answer_mark(struct world *w)
{
    struct mono started = at(w->now_ns);
    struct lease_view judged = w->x.history.lease;
    struct lease_view lease = lease_now(w);
    bool is_silent = text_equal(judged.renew_stamp, lease.renew_stamp);
    enum mark_outcome outcome = !w->step->reads    ? MARK_LOST
                                : !is_silent       ? MARK_CONFLICT
                                : !w->step->writes ? MARK_REFUSED
                                                   : MARK_TAKEN;
    bool is_trial = w->out.is_trial;
    w->out.mark = false;
    w->out.is_trial = false;
    w->now_ns += NS_PER_MS;
    if (w->step->reads && outcome != MARK_TAKEN) {
        see_lease(w, VERDICT_BY_MARK, started);
    }
    feed(w, (struct verdict_event){.kind = VERDICT_MARK,
                                   .source = VERDICT_BY_MARK,
                                   .outcome = outcome,
                                   .is_trial = is_trial,
                                   .started_at = started,
                                   .lease = outcome == MARK_TAKEN && !is_trial ? &lease : NULL,
                                   .failure = "no"});
}

static void answer_all(struct world *w)
{
    while (w->out.confirm || w->out.mark) {
        w->has_asked = true;
        w->has_tried = w->has_tried || w->out.mark;
        if (w->out.confirm) {
            answer_confirm(w);
        } else {
            answer_mark(w);
        }
    }
}

static void tell_host_probe(struct world *w)
{
    const struct readiness_host_probes host_probes = {
        .count = 1, .each = {{.says = w->step->accused ? HOST_PROBE_FAILED : HOST_PROBE_WELL}}};
    w->is_accused = w->step->accused;
    feed(w, (struct verdict_event){
                .kind = VERDICT_HOST_PROBES, .host_probes = &host_probes, .accusation = "gone"});
}

static void start_host(struct world *w)
{
    const struct record carry = {.readiness = w->record.readiness,
                                 .hold_until = w->record.hold_until};
    w->out = (struct verdict_update){.wake_at = MONO_NEVER};
    verdict_init(&w->x, &w->config, w->has_record ? &carry : NULL, at(w->now_ns));
    tell_host_probe(w);
    w->is_listed = false;
    w->is_watching = true; /* until it is told otherwise */
}

/* A list comes before the first watch. */
static void run_watch(struct world *w)
{
    struct mono started = at(w->now_ns);
    if (!w->is_listed && w->step->reads) {
        w->is_listed = true;
        see_lease(w, VERDICT_BY_READ, started);
    }
    bool works = w->is_listed && strcmp(w->step->watch, "BROKEN") != 0;
    if (works != w->is_watching) {
        w->is_watching = works;
        feed(w, (struct verdict_event){.kind = works ? VERDICT_WATCH_WORKS : VERDICT_WATCH_BROKEN});
    }
}

/* One interval: what happens at its start, and then whatever the core asks for. */
static void run_step(struct world *w, int64_t number, const struct step *step)
{
    int64_t end_ns = (number + 1) * STEP_NS;
    bool starts = step->host && !w->is_up;
    w->step = step;
    w->has_asked = false;
    w->has_tried = false;
    w->now_ns = number * STEP_NS;
    w->is_up = step->host;
    if (step->written) {
        w->stamp_step = number;
        w->has_stamp = true;
    }
    if (!w->is_up) {
        return;
    }
    if (starts) {
        start_host(w);
    } else if (step->accused != w->is_accused) {
        tell_host_probe(w);
    }
    run_watch(w);
    if (step->delivered) {
        see_lease(w, VERDICT_BY_WATCH, at(w->now_ns));
    }
    answer_all(w);
    while (mono_before(w->out.wake_at, at(end_ns))) {
        w->now_ns = mono_since(mono_max(w->out.wake_at, at(w->now_ns)), at(0));
        feed(w, (struct verdict_event){.kind = VERDICT_TICK});
        answer_all(w);
    }
}

static bool is_near(struct mono instant, struct mono now)
{
    int64_t apart_ns = mono_since(instant, now);
    return apart_ns > -STEP_NS * 3 / 2 && apart_ns < STEP_NS * 3 / 2;
}

/* What the core does next hangs on less than a step, which the model does not have: a restart when
 * the hold of the record is just over, a crash before the core came to the model's phase, or a
 * first renewal, or a carried one, that has just run out. */
static bool is_undecided(const struct world *w, const struct step *next, bool had_observation)
{
    if (next && next->host && !w->is_up && w->has_record) {
        return is_near(w->record.hold_until, at(w->now_ns));
    }
    if (next && !next->host && w->is_up) {
        return strcmp(phase_of(&w->x), w->step->phase) != 0;
    }
    return !had_observation && w->x.history.stamp[0] != '\0' &&
           is_near(mono_add(w->x.history.observed, w->x.spans.duration_ns), at(w->now_ns));
}

/* The model asks in each step, the core at its pace: what fails in a step in which the core asks
 * nothing is no failure to it, and earns the DPU no retry. */
static void note_failure(struct world *w)
{
    bool is_missed = (!w->step->reads && !w->has_asked) || (!w->step->writes && !w->has_tried);
    bool is_renewed = mono_reached(w->x.history.observed, at(w->now_ns - STEP_NS));
    w->missed_failure = !is_renewed && (w->missed_failure || is_missed);
}

static bool is_unasked(const struct world *w, const char *phase)
{
    return w->missed_failure && text_equal(phase, "EXPIRED") &&
           text_equal(w->step->phase, "HOLDING");
}

static bool reader_admits(const struct world *w, int64_t end_ns)
{
    struct gate_decision decision;
    if (!w->has_record) {
        return false;
    }
    gate_judge(&w->record, w->record.boot_id, at(end_ns), "record", &decision);
    return decision.admit;
}

static bool read_step(struct step *s)
{
    char line[256];
    while (fgets(line, sizeof(line), stdin)) {
        /* of a program of ours, and bounded */
        if (sscanf(line, " STEP %d %d %d %11s %d %d %d %11s %d", &s->written, &s->writes, &s->reads,
                   s->watch, &s->delivered, &s->accused, &s->host, s->phase, &s->admits) == 9) {
            return true;
        }
    }
    return false;
}

/* An accusation hides whether the lease is renewed or held. */
static bool is_same_phase(const struct step *s, const char *phase)
{
    bool is_admitting = text_equal(phase, "FRESH") || text_equal(phase, "HOLDING");
    bool admits = text_equal(s->phase, "FRESH") || text_equal(s->phase, "HOLDING");
    return text_equal(s->phase, phase) || (s->accused && is_admitting && admits);
}

/* Does the word of a step stand in one of the steps around it? A host probe is heard at once. */
static bool agrees(const struct step *steps, int count, int number, const char *phase, int admits)
{
    int first = number > SLACK_STEPS ? number - SLACK_STEPS : 0;
    for (int i = first; i <= number + SLACK_STEPS && i < count; i++) {
        if (!phase && steps[i].admits == admits) {
            return true;
        }
        if (phase && is_same_phase(&steps[i], phase)) {
            bool holds = text_equal(phase, "FRESH") || text_equal(phase, "HOLDING");
            return admits == (holds && !steps[number].accused);
        }
    }
    return false;
}

/* The model could come to it later, if it lived. */
static bool ends_soon(const struct step *steps, int count, int number)
{
    for (int i = number + 1; i <= number + SLACK_STEPS && i < count; i++) {
        if (!steps[i].host) {
            return true;
        }
    }
    return false;
}

int main(void)
{
    static struct step steps[STEPS_MAX];
    static struct world w;
    int count = 0;
    int wrong = 0;
    while (count < STEPS_MAX && read_step(&steps[count])) {
        count++;
    }
    w.config = (struct verdict_config){.lease_ns = "",
                                       .lease_name = "",
                                       .holder = "dpu",
                                       .renew_interval_ns = STEP_NS,
                                       .duration_ns = 4 * STEP_NS,
                                       .api_outage_hold_ns = VERDICT_HOLD_UNLIMITED};
    int i = 0;
    for (bool had_observation = false; i < count; i++) {
        w.now_ns = i * STEP_NS;
        if (is_undecided(&w, &steps[i], true)) {
            break;
        }
        had_observation = w.is_up && w.x.history.stamp[0] != '\0';
        run_step(&w, i, &steps[i]);
        note_failure(&w);
        if (w.is_up && is_undecided(&w, NULL, had_observation)) {
            break;
        }
        bool admits = reader_admits(&w, (i + 1) * STEP_NS - NS_PER_MS);
        const char *phase = w.is_up ? phase_of(&w.x) : NULL;
        if (!agrees(steps, count, i, phase, admits)) {
            if (phase && (ends_soon(steps, count, i) || is_unasked(&w, phase))) {
                break;
            }
            printf("step %d: the core says %s, admits %d; the model %s, admits %d\n", i,
                   phase ? phase : "-", admits, steps[i].phase, steps[i].admits);
            wrong++;
        }
    }
    printf("%d steps, %d of them differ\n", i, wrong);
    return count == 0 || wrong > 0;
}
