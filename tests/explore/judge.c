/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold in every world, from docs/architecture.md, written anew: no code of the cores is
 * used but dpu-gate's reader, which has to agree with the judge's own.
 *
 *   refused   A DPU that runs, that reaches the API server whenever anybody does, and that was
 *             admitted, is not refused for its lease, whatever else is broken; and nobody is
 *             refused within the duration of the last renewal.
 *   late      A DPU that renews no more is admitted no longer than its lease and the time of a
 *             retry, once the host can have evidence.
 *   back      When all has been well for long enough, the DPU is admitted.
 *   report    A DPU that says that it is not well is refused with the host's next look.
 *   accused   What a host probe accuses is refused at once, and nothing else is refused for that.
 *   stale     The last word of a dead writer ends.
 *   reboot    Another boot of the DPU is told once, and nothing else is told as one.
 *   pace      Neither side asks for more than it may between two points of time.
 *   gate      dpu-gate says the same.
 *   record    What is written can be read.
 *   loop      Nothing goes on for ever at one time.
 */
#include "tests/explore/world.h"

#include "tests/sim/retry.h"

#include "base/text.h"
#include "base/time.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HANG_NS RETRY_HANG_NS

void judge_fail(struct explorer *e, const char *fmt, ...)
{
    if (e->failure[0] != '\0') {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(e->failure, sizeof(e->failure), fmt, ap);
    va_end(ap);
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Once it can see again the host needs a read and a mark, each of which may be an interval away,
 * and gives the DPU the time of a retry. */
static int64_t settle_ns(const struct setting *t)
{
    int64_t settle = retry_ns(t->interval_ns) + 2 * t->interval_ns + HANG_NS;
    return most(settle, t->duration_ns + t->interval_ns);
}

/* ---- the truth ------------------------------------------------------------------------------- */

static bool has_any(const struct world *w, const enum fault *faults, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (world_has(w, faults[i])) {
            return true;
        }
    }
    return false;
}

#define HAS_ANY(w, ...)                                                                            \
    has_any(w, (const enum fault[]){__VA_ARGS__},                                                  \
            sizeof((const enum fault[]){__VA_ARGS__}) / sizeof(enum fault))

/* A DPU whose requests take as long as others leave the lease alone cannot write it. */
static bool is_dpu_bad(const struct world *w)
{
    return HAS_ANY(w, DPU_DOWN, DPU_STOPPED, DPU_CUT, DPU_SLOWEST, DPU_UNWELL) || !w->dpu.runs ||
           (world_has(w, DPU_SLOW) && world_has(w, TOUCHES));
}

/* While it waits for an answer, it learns nothing. */
static bool is_blind(const struct world *w)
{
    return !w->host.runs || w->host.read.kind != REQUEST_NONE ||
           w->host.mark.kind != REQUEST_NONE ||
           HAS_ANY(w, API_DOWN, API_SILENT, API_UNSURE, API_READ_ONLY, API_STUCK, HOST_DENIED,
                   HOST_CUT, HOST_SLOWEST, HOST_SLOW, HOST_GARBAGE, HOST_STALE, HOST_LOOP);
}

static bool is_murky(const struct world *w)
{
    const struct watch *watch = &w->host.watch;
    return is_blind(w) || watch->state != WATCH_OPEN || watch->is_deaf || world_has(w, WATCH_LATE);
}

void judge_look(struct world *w)
{
    struct past *p = &w->past;
    if (is_dpu_bad(w)) {
        p->dpu_bad_at = w->now;
    }
    if (is_blind(w)) {
        p->blind_at = w->now;
    }
    if (is_murky(w)) {
        p->murky_at = w->now;
    }
    if (world_has(w, DPU_SLOW)) {
        p->slow_at = w->now;
    }
    if (w->record.evidence.granted.ns > w->now && (world_has(w, HOST_LOOP) || !w->host.runs)) {
        p->away_at = w->now;
    }
    if (world_has(w, TOUCHES)) {
        p->touched_at = w->now;
    }
    if (w->faults != 0 || !w->host.runs || !w->dpu.runs) {
        p->broken_at = w->now;
    }
    p->host_down_since = w->host.runs ? 0 : p->host_down_since != 0 ? p->host_down_since : w->now;
}

/* ---- the readers ----------------------------------------------------------------------------- */

/* As docs/architecture.md tells a reader. */
static bool is_admitted(const struct world *w, enum readiness_reason *out_reason)
{
    *out_reason = REASON_RECORD_MISSING;
    if (!w->has_record) {
        return false;
    }
    *out_reason = w->record.readiness.reason;
    if (w->record.readiness.admit && w->now >= w->record.hold_until.ns) {
        *out_reason = REASON_RECORD_STALE;
        return false;
    }
    return w->record.readiness.admit;
}

static bool is_of_lease(enum readiness_reason reason)
{
    return reason == REASON_LEASE_EXPIRED || reason == REASON_LEASE_NOT_FOUND ||
           reason == REASON_LEASE_INVALID;
}

static double ago(const struct world *w, int64_t then)
{
    return then == 0 ? -1 : (double)(w->now - then) / 1e9;
}

static void fail(struct explorer *e, const struct world *w, const char *rule, const char *what)
{
    const struct past *p = &w->past;
    judge_fail(e,
               "%s: %s, %s (%s); seconds ago: renewal %.3f, DPU at fault %.3f, blind %.3f, without "
               "watch %.3f, anything broken %.3f",
               rule, what, readiness_state_name(w->record.readiness.state),
               readiness_reason_name(w->record.readiness.reason), ago(w, p->renewed_at),
               ago(w, p->dpu_bad_at), ago(w, p->blind_at), ago(w, p->murky_at),
               ago(w, p->broken_at));
}

/* Renewals, since the DPU was last at fault, that the host could tell from what was before. */
static bool is_regular(const struct explorer *e, const struct past *p)
{
    int64_t bad_at = most(most(p->dpu_bad_at, p->gone_at), p->stepped_at);
    return p->renewed_before > bad_at + e->setting->interval_ns / 2;
}

static void check_refused(struct explorer *e, struct world *w, enum readiness_reason reason)
{
    const struct past *p = &w->past;
    bool is_disturbed = p->gone_at > p->renewed_before || p->stepped_at > p->renewed_before;
    if (!is_of_lease(reason) || !p->was_ready) {
        return;
    }
    bool is_slow = HAS_ANY(w, HOST_SLOW, HOST_SLOWEST, API_UNTOLD); /* it waited for an answer */
    bool is_blocked = HAS_ANY(w, API_DOWN, API_SILENT, API_READ_ONLY, API_STUCK, HOST_CUT);
    if (is_blocked && !is_slow && w->lease.uid != 0) {
        fail(e, w, "refused", "a DPU is refused while the host can have no evidence");
    }
    /* A slow DPU, or one whose lease is shorter than the time of a retry, needs that time after an
     * outage. The host gives it after one that it has met: without a hold the outage was shorter
     * than the pause between two marks. */
    bool is_short = e->setting->duration_ns < retry_ns(e->setting->interval_ns);
    if ((is_short || p->slow_at >= p->renewed_at) && !p->was_held) {
        return;
    }
    /* A host agent that does not run in the time that it granted learns of no outage in it, and a
     * restart grants nothing anew. */
    if (p->away_at >= p->renewed_at) {
        return;
    }
    /* After a step of the DPU's clock that the host did not watch, its renewals cannot be dated. */
    if (p->stepped_at != 0 && p->murky_at >= p->renewed_before) {
        return;
    }
    if (is_regular(e, p)) {
        fail(e, w, "refused", "a DPU that is well is refused");
    } else if (!is_disturbed && w->now < p->renewed_at + e->setting->duration_ns &&
               p->dpu_bad_at < p->renewed_at && p->blind_at < p->renewed_at) {
        fail(e, w, "refused", "a DPU is refused whose lease has not run out");
    }
}

static void check_late(struct explorer *e, struct world *w)
{
    const struct setting *t = e->setting;
    const struct past *p = &w->past;
    /* A read shows a renewal that no watch did at most a duration after it was made. */
    int64_t unseen_ns = p->murky_at >= p->renewed_at ? t->duration_ns : 0;
    int64_t limit = p->renewed_at + t->duration_ns + unseen_ns;
    if (p->stepped_at != 0) {
        limit = most(limit, p->renewed_at + 2 * t->interval_ns + HANG_NS + NS_PER_SEC);
    }
    limit = most(limit, p->blind_at + settle_ns(t));
    limit = most(limit, p->gone_at + settle_ns(t));
    limit = most(limit, p->touched_at + t->interval_ns);
    if (w->now > limit) {
        fail(e, w, "late", "a dead DPU is admitted");
    }
}

static void check_report(struct explorer *e, struct world *w)
{
    const struct past *p = &w->past;
    if (p->reported_since != 0 && p->murky_at < p->reported_since && p->reported_since < w->now) {
        fail(e, w, "report", "a DPU that says that it is not well is admitted");
    }
}

static void check_back(struct explorer *e, struct world *w)
{
    int64_t bound_ns = 3 * e->setting->interval_ns + 2 * HANG_NS;
    if (w->now - w->past.broken_at > bound_ns && w->now - w->past.gone_at > bound_ns) {
        fail(e, w, "back", "all has been well, and the DPU is refused");
    }
}

static void check_writer(struct explorer *e, struct world *w)
{
    const struct setting *t = e->setting;
    int64_t limit_ns = t->stale_hold_ns + t->duration_ns + 2 * t->interval_ns;
    if (w->past.host_down_since != 0 && w->now - w->past.host_down_since > limit_ns) {
        fail(e, w, "stale", "the last word of a dead writer counts");
    }
}

void judge_check(struct explorer *e, struct world *w)
{
    enum readiness_reason reason;
    bool admits = is_admitted(w, &reason);
    bool is_accused = world_has(w, ACCUSED) && w->host.runs;
    e->tally.told[reason][admits]++;
    if (admits && is_accused) {
        fail(e, w, "accused", "a DPU is admitted that a host probe accuses");
    }
    if (reason == REASON_HOST_PROBE_FAILED && !is_accused && w->host.runs) {
        fail(e, w, "accused", "a DPU is refused that no host probe accuses");
    }
    if (admits) {
        check_late(e, w);
        check_report(e, w);
        check_writer(e, w);
    } else {
        check_refused(e, w, reason);
        check_back(e, w);
    }
    w->past.was_held = admits && reason != REASON_LEASE_RENEWED;
    if (admits && reason == REASON_LEASE_RENEWED) {
        w->past.was_ready = true;
    } else if (!admits && reason != REASON_HOST_PROBE_FAILED) {
        w->past.was_ready = false;
    }
    w->past.told_boot = w->record.readiness.dpu_boot_id[0] == '\0'
                            ? 0
                            : (uint32_t)(w->record.readiness.dpu_boot_id[5] - '0');
}

/* ---- at a point of time ---------------------------------------------------------------------- */

/* Of one side, between two points: a burst after an outage included. */
enum { HOST_REQUESTS_MOST = 24, DPU_REQUESTS_MOST = 16 };

void judge_gate(struct explorer *e, struct world *w)
{
    enum readiness_reason reason;
    struct gate_decision gate;
    bool admits = is_admitted(w, &reason);
    if (!w->has_record) {
        return;
    }
    gate_judge(&w->record, w->record.boot_id, (struct mono){w->now}, "record", &gate);
    if (gate.admit != admits || gate.reason != reason) {
        fail(e, w, "gate", gate.admit ? "dpu-gate admits" : "dpu-gate refuses");
    }
}

void judge_pace(struct explorer *e, struct world *w)
{
    /* A server that lags is left by the client, which is not played here. */
    bool is_lagging = world_has(w, HOST_STALE);
    if ((w->past.host_requests > HOST_REQUESTS_MOST && !is_lagging) ||
        w->past.dpu_requests > DPU_REQUESTS_MOST) {
        judge_fail(e, "pace: %u requests of the host, %u of the DPU", w->past.host_requests,
                   w->past.dpu_requests);
    }
    w->past.host_requests = 0;
    w->past.dpu_requests = 0;
}
