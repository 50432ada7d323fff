/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/renewer.h"

#include "base/err.h"
#include "base/text.h"
#include "base/time.h"
#include "contract/lease.h"
#include "dpu-agent/renewer_lease.h"
#include "dpu-agent/renewer_pace.h"
#include "dpu-agent/renewer_words.h"

#include <assert.h>

enum {
    HTTP_CREATED = 201,
    HTTP_BAD_REQUEST = 400,
    HTTP_NOT_FOUND = 404,
    HTTP_UNPROCESSABLE = 422,
    HTTP_SERVER_ERROR = 500
};

enum { CLEAN_ROUNDS_TO_FORGET = 10 }; /* a sighting of a stranger */

static const struct fsm_state phases[RENEWER_PHASE_COUNT] = {
    [RENEWER_STARTING] = {"starting", FSM_TO(RENEWER_RENEWING) | FSM_TO(RENEWER_REPORTING) |
                                          FSM_TO(RENEWER_YIELDING) | FSM_TO(RENEWER_ACCOMPANYING) |
                                          FSM_TO(RENEWER_STOPPING) | FSM_TO(RENEWER_STOPPED)},
    [RENEWER_RENEWING] = {"renewing", FSM_TO(RENEWER_REPORTING) | FSM_TO(RENEWER_YIELDING) |
                                          FSM_TO(RENEWER_STOPPING) | FSM_TO(RENEWER_STOPPED)},
    [RENEWER_REPORTING] = {"reporting", FSM_TO(RENEWER_RENEWING) | FSM_TO(RENEWER_YIELDING) |
                                            FSM_TO(RENEWER_ACCOMPANYING) |
                                            FSM_TO(RENEWER_STOPPING) | FSM_TO(RENEWER_STOPPED)},
    [RENEWER_YIELDING] = {"yielding", FSM_TO(RENEWER_STARTING) | FSM_TO(RENEWER_RENEWING) |
                                          FSM_TO(RENEWER_REPORTING) | FSM_TO(RENEWER_ACCOMPANYING) |
                                          FSM_TO(RENEWER_STOPPED)},
    [RENEWER_ACCOMPANYING] = {"accompanying", FSM_TO(RENEWER_REPORTING) | FSM_TO(RENEWER_YIELDING) |
                                                  FSM_TO(RENEWER_STOPPING) |
                                                  FSM_TO(RENEWER_STOPPED)},
    [RENEWER_STOPPING] = {"stopping", FSM_TO(RENEWER_STOPPED)},
    [RENEWER_STOPPED] = {"stopped", 0},
};

void renewer_init(struct renewer *r, const struct renewer_config *config)
{
    assert(config->interval_ns > 0 && config->duration_ns > 0);
    *r = (struct renewer){.config = *config, .random = config->seed};
}

static int64_t min_ns(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* ---- phases --------------------------------------------------------------------------------- */

static void move(struct renewer *r, enum renewer_phase to)
{
    if (to != r->phase) {
        r->phase =
            (enum renewer_phase)fsm_move(phases, RENEWER_PHASE_COUNT, (int)r->phase, (int)to);
    }
}

/* The phase that verdict and holder ask for. */
static void settle(struct renewer *r)
{
    if (r->stopping) {
        return;
    }
    enum renewer_phase former = r->phase;
    if (r->foreign) {
        move(r, RENEWER_YIELDING);
    } else if (r->verdict == PROBE_HEALTH_UNKNOWN) {
        move(r, RENEWER_STARTING);
    } else if (r->verdict == PROBE_HEALTHY) {
        move(r, r->config.is_companion ? RENEWER_ACCOMPANYING : RENEWER_RENEWING);
    } else {
        move(r, RENEWER_REPORTING);
    }
    if (r->phase == former) {
        return;
    }
    if (r->phase == RENEWER_RENEWING) {
        r->slot = r->flip_at; /* wherever the cadence stands */
    }
    r->flipped = true;
    r->owed = false;
    r->report_at = r->flip_at;
    if (r->phase == RENEWER_ACCOMPANYING) {
        r->read_at = r->flip_at;
    }
}

static void finish(struct renewer *r, struct renewer_update *out)
{
    move(r, RENEWER_STOPPED);
    out->cancel = r->under_way != RENEWER_NONE;
    out->stopped = true;
    r->under_way = RENEWER_NONE;
}

/* ---- what is due ---------------------------------------------------------------------------- */

static struct mono due_at(const struct renewer *r)
{
    if (r->under_way != RENEWER_NONE) {
        return MONO_NEVER;
    }
    switch (r->phase) {
    case RENEWER_STARTING:
        return r->lease_current ? MONO_NEVER : r->retry_at;
    case RENEWER_RENEWING:
        return mono_max(r->owed ? (struct mono){0} : r->slot, r->retry_at);
    case RENEWER_REPORTING:
        return mono_max(r->report_at, r->retry_at);
    case RENEWER_YIELDING:
        return mono_max(r->read_at, r->retry_at);
    case RENEWER_ACCOMPANYING:
        return mono_max(r->owed ? (struct mono){0} : r->read_at, r->retry_at);
    case RENEWER_STOPPING:
        return r->retry_at;
    case RENEWER_STOPPED:
    case RENEWER_PHASE_COUNT:
        break;
    }
    return MONO_NEVER;
}

static enum renewer_action pick(const struct renewer *r, struct mono now)
{
    bool is_read = r->phase == RENEWER_YIELDING || (r->phase == RENEWER_ACCOMPANYING && !r->owed);
    bool is_old = r->config.is_companion && mono_before(r->answered_at, now);
    if (r->create_due && r->phase == RENEWER_RENEWING) { /* it may have changed meanwhile */
        return RENEWER_CREATE;
    }
    if (!r->lease_current || is_read || is_old) {
        return RENEWER_GET;
    }
    return r->phase == RENEWER_RENEWING ? RENEWER_PUT_RENEWAL : RENEWER_PUT_HEALTH;
}

static void say_health(struct renewer *r, struct renewer_update *out)
{
    if (r->phase == RENEWER_STOPPING) {
        out->health = LEASE_HEALTH_SHUTDOWN;
        out->message = "the DPU agent was stopped on purpose";
    } else if (r->phase == RENEWER_REPORTING) {
        out->health = LEASE_HEALTH_UNHEALTHY;
        out->message = r->message;
    }
}

static uint32_t to_ms(int64_t ns)
{
    int64_t ms = ns / NS_PER_MS;
    return ms < 1 ? 1 : ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static uint32_t deadline_ms(const struct renewer *r, enum renewer_action action, struct mono now)
{
    int64_t deadline_ns = action == RENEWER_CREATE ? renewer_lasting_ns(r) : renewer_deadline_ns(r);
    if (r->phase == RENEWER_STOPPING) {
        deadline_ns = min_ns(deadline_ns, mono_since(r->stop_until, now) / 2); /* one more try */
    }
    return to_ms(deadline_ns);
}

/* A renewal that starts so long after it could have: not by the API server's doing. */
static bool is_late(const struct renewer *r, struct mono now)
{
    struct mono could = mono_max(r->slot, r->answered_at);
    return r->slot.ns != 0 && mono_since(now, could) > r->config.interval_ns;
}

/* The first request since the phase changed: the log tells what is written, and no more often. */
static void tell_flip(struct renewer *r, const struct renewer_event *event,
                      struct renewer_update *out)
{
    r->flipped = false;
    if (r->told != PROBE_HEALTH_UNKNOWN) {
        r->flip_at = mono_add(event->now, min_ns(RENEWER_FLIP_NS, r->config.interval_ns));
    }
    if (r->verdict == PROBE_UNHEALTHY && r->told != PROBE_UNHEALTHY) {
        renewer_note_add(r, RENEWER_NOTE_UNHEALTHY, event, out);
    } else if (r->verdict == PROBE_HEALTHY && r->told == PROBE_UNHEALTHY) {
        renewer_note_add(r, RENEWER_NOTE_HEALTHY, event, out);
    }
    r->told = r->verdict;
}

static void plan(struct renewer *r, const struct renewer_event *event, struct renewer_update *out)
{
    struct mono now = event->now;
    if (!mono_reached(now, due_at(r))) {
        return;
    }
    if (r->flipped) {
        tell_flip(r, event, out);
    }
    if (r->phase == RENEWER_RENEWING && mono_reached(now, r->slot)) {
        if (is_late(r, now)) {
            renewer_note_add(r, RENEWER_NOTE_LATE, event, out);
        }
        r->owed = true;
        r->slot = renewer_next_slot(r, now);
    }
    out->action = pick(r, now);
    out->fresh = r->fresh;
    out->deadline_ms = deadline_ms(r, out->action, now);
    out->lasts_ms = to_ms(renewer_lasting_ns(r));
    if (out->action == RENEWER_PUT_HEALTH) {
        say_health(r, out);
    }
    r->create_due = false;
    r->under_way = out->action;
    r->sent_action = out->action;
    r->retry_at = (struct mono){0};
    r->sent_at = now;
}

/* ---- answers -------------------------------------------------------------------------------- */

static void recover(struct renewer *r, const struct renewer_event *event,
                    struct renewer_update *out)
{
    if (r->failures > 0) {
        renewer_note_add(r, RENEWER_NOTE_RECOVERED, event, out);
        renewer_note_reset(r, RENEWER_NOTE_FAILED);
    }
    r->failures = 0;
    r->conflicts = 0;
    r->fresh = false;
}

static void renewal_succeeded(struct renewer *r, struct mono sent_at,
                              const struct renewer_event *event, struct renewer_update *out)
{
    if (!r->ever_renewed) {
        renewer_note_add(r, RENEWER_NOTE_RENEWING, event, out);
    }
    r->ever_renewed = true;
    r->renewed_at = sent_at;
    /* One that took more than an interval is not the one that is owed by now. */
    r->owed = r->owed && mono_before(sent_at, mono_add(r->slot, -r->config.interval_ns));
    r->is_slow = mono_since(event->now, sent_at) > renewer_first_deadline_ns(r);
    out->renewed = true;
}

/* What the lease says beside the renewals that are not ours: once an interval it is looked at. */
static void accompany(struct renewer *r, enum renewer_action action,
                      const struct renewer_event *event)
{
    const struct renewer_config *c = &r->config;
    const struct lease_view *lease = event->lease;
    bool is_right = lease->health == LEASE_HEALTH_NONE && lease->has_no_probe == c->has_no_probe &&
                    (c->boot_id[0] == '\0' || text_equal(lease->boot_id, c->boot_id)) &&
                    (c->version[0] == '\0' || text_equal(lease->agent_version, c->version));
    r->owed = action == RENEWER_GET && !is_right;
    r->read_at = renewer_next_slot(r, event->now);
}

static void answer_succeeded(struct renewer *r, enum renewer_action action,
                             const struct renewer_event *event, struct renewer_update *out)
{
    bool put = action != RENEWER_GET;
    bool is_announced = event->lease->health == LEASE_HEALTH_SHUTDOWN;
    struct mono arrived = put ? MONO_NEVER : renewer_arrived(r, event->lease);
    renewer_adopt(r, event, out);
    if (put && r->conflicts == 0 && ++r->clean_rounds >= CLEAN_ROUNDS_TO_FORGET) {
        r->strangers = 0;
    }
    if (action == RENEWER_PUT_RENEWAL || action == RENEWER_CREATE) {
        renewal_succeeded(r, r->sent_at, event, out);
    } else if (r->phase == RENEWER_STOPPING && (put || is_announced)) {
        renewer_note_add(r, RENEWER_NOTE_SHUTDOWN, event, out);
    } else if (action == RENEWER_PUT_HEALTH) {
        r->report_at = mono_add(r->sent_at, r->config.interval_ns);
    }
    settle(r);
    if (r->phase == RENEWER_RENEWING && r->owed && !mono_is_never(arrived) &&
        event->lease->health == LEASE_HEALTH_NONE) {
        renewal_succeeded(r, arrived, event, out);
        recover(r, event, out);
    }
    if (r->phase == RENEWER_ACCOMPANYING) {
        accompany(r, action, event);
    }
    /* A read that comes before a write proves nothing about the write. */
    if (put || r->phase == RENEWER_STARTING || r->phase == RENEWER_YIELDING ||
        (r->phase == RENEWER_ACCOMPANYING && !r->owed)) {
        recover(r, event, out);
    }
    if (r->phase == RENEWER_STOPPING && (put || r->foreign || is_announced)) {
        finish(r, out);
    }
}

static void back_off(struct renewer *r, const struct renewer_event *event)
{
    int64_t longest_ns = lease_pace_pause_ns(r->config.interval_ns);
    /* A conflict is an answer: it waits for other writers, not for the API server. */
    bool conflict = event->code == ERR_CONFLICT;
    uint32_t count = conflict ? r->conflicts - 1 : r->failures;
    int64_t wait_ns = prng_next(&r->random, renewer_backoff_ns(r, count));
    if (event->retry_after_ms > 0) {
        int64_t asked_ns = mono_ns_mul(event->retry_after_ms, NS_PER_MS);
        wait_ns = min_ns(mono_ns_add(asked_ns, wait_ns), longest_ns);
    }
    if (event->http_status == HTTP_BAD_REQUEST || event->http_status == HTTP_UNPROCESSABLE) {
        wait_ns = longest_ns; /* the same words again would be refused again */
    }
    r->retry_at = mono_add(event->now, wait_ns);
}

static void answer_failed(struct renewer *r, enum renewer_action action,
                          const struct renewer_event *event, struct renewer_update *out)
{
    bool missing = event->http_status == HTTP_NOT_FOUND;
    if (r->failures == 0) {
        r->failing_since = event->now;
    }
    if (r->failures < UINT32_MAX) {
        r->failures++;
    }
    if (r->phase == RENEWER_STOPPING && missing) {
        renewer_note_add(r, RENEWER_NOTE_UNANNOUNCED, event, out);
        finish(r, out);
        return;
    }
    if (event->code != ERR_CONFLICT) {
        r->conflicts = 0;
    }
    /* Not refused as such: the tree may still be right, and if not, a conflict tells. */
    if (event->code != ERR_RETRY && event->code != ERR_AUTH) {
        r->lease_current = false;
    }
    r->fresh = event->http_status == 0 || event->http_status >= HTTP_SERVER_ERROR;
    if (r->fresh) {
        renewer_hope_to_create(r, event);
    }
    back_off(r, event);
    if (action == RENEWER_CREATE) {
        renewer_creation_failed(r, event, out);
    } else if (missing) {
        renewer_miss(r, event, out);
    } else {
        renewer_note_add(r, RENEWER_NOTE_FAILED, event, out);
    }
}

static bool is_asked_lease(const struct renewer *r, const struct lease_view *lease)
{
    return text_equal(lease->name, r->config.lease_name) &&
           text_equal(lease->ns, r->config.lease_ns);
}

static void handle_answer(struct renewer *r, const struct renewer_event *event,
                          struct renewer_update *out)
{
    enum renewer_action action = r->under_way;
    struct renewer_event wrong = *event;
    if (action == RENEWER_NONE) {
        return;
    }
    r->under_way = RENEWER_NONE;
    r->answered_at = event->now;
    if (!text_is_empty(event->sent_stamp)) {
        text_format(r->sent[r->sent_next], NAMES_STAMP_BYTES, "%s", event->sent_stamp);
        r->sent_since[r->sent_next] = r->sent_at;
        r->sent_next = (r->sent_next + 1) % RENEWER_SENT_STAMPS;
    }
    /* A PUT that creates (201): the lease was deleted, and what we wrote is not the host's. */
    bool put = action == RENEWER_PUT_RENEWAL || action == RENEWER_PUT_HEALTH;
    bool created = put && event->http_status == HTTP_CREATED;
    if (created || event->code == ERR_CONFLICT) {
        r->lease_current = false;
        if (r->conflicts++ == 0) {
            return; /* read it and try again, at once */
        }
    }
    if (created) {
        wrong.code = ERR_CONFLICT;
        wrong.message = "the lease was gone, and the write created it anew";
    } else if (event->code == 0 && !is_asked_lease(r, event->lease)) {
        wrong.code = ERR_PARSE;
        wrong.message = "the answer shows another lease";
    }
    if (wrong.code == 0) {
        answer_succeeded(r, action, event, out);
    } else {
        answer_failed(r, action, &wrong, out);
    }
}

/* Shows the lease as a read does. A try that is under way beside it knows less. */
static void handle_late(struct renewer *r, const struct renewer_event *event,
                        struct renewer_update *out)
{
    const struct renewer_event answer = {.kind = RENEWER_ANSWER,
                                         .now = event->now,
                                         .http_status = event->http_status,
                                         .retry_after_ms = -1,
                                         .lease = event->lease};
    if (event->code == ERR_CONFLICT) { /* what is written beside it is as old: read, at once */
        bool is_reading = r->under_way == RENEWER_GET;
        r->lease_current = false;
        out->cancel = r->under_way != RENEWER_NONE && !is_reading;
        r->under_way = is_reading ? RENEWER_GET : RENEWER_NONE;
        r->retry_at = (struct mono){0};
        return;
    }
    if (event->http_status == HTTP_CREATED || !is_asked_lease(r, event->lease)) {
        r->lease_current = false;
        return;
    }
    out->cancel = r->under_way != RENEWER_NONE;
    r->under_way = RENEWER_GET;
    r->sent_action = RENEWER_GET;
    r->retry_at = (struct mono){0};
    handle_answer(r, &answer, out);
}

/* ---- the other events ----------------------------------------------------------------------- */

static void handle_verdict(struct renewer *r, const struct renewer_event *event)
{
    if (r->stopping || event->verdict == PROBE_HEALTH_UNKNOWN) {
        return;
    }
    r->verdict = event->verdict;
    text_format(r->message, sizeof(r->message), "%s", event->message ? event->message : "");
    settle(r);
}

static void handle_stop(struct renewer *r, const struct renewer_event *event,
                        struct renewer_update *out)
{
    if (r->stopping) {
        return;
    }
    r->stopping = true;
    if (!r->config.announce_shutdown || r->foreign) {
        finish(r, out);
        return;
    }
    /* What is under way may still be applied; then our write meets a conflict and is repeated. */
    move(r, RENEWER_STOPPING);
    out->cancel = r->under_way != RENEWER_NONE;
    r->under_way = RENEWER_NONE;
    r->conflicts = 0;
    r->failures = 0;
    r->retry_at = (struct mono){0};
    r->stop_until = mono_add(event->now, RENEWER_STOP_NS);
}

void renewer_step(struct renewer *r, const struct renewer_event *event, struct renewer_update *out)
{
    out->note_count = 0;
    out->cancel = false;
    out->action = RENEWER_NONE;
    out->fresh = false;
    out->deadline_ms = 0;
    out->lasts_ms = 0;
    out->health = LEASE_HEALTH_NONE;
    out->message = "";
    out->renewed = false;
    out->stopped = false;
    switch (event->kind) {
    case RENEWER_TICK:
        break;
    case RENEWER_VERDICT:
        handle_verdict(r, event);
        break;
    case RENEWER_ANSWER:
        handle_answer(r, event, out);
        break;
    case RENEWER_LATE:
        handle_late(r, event, out);
        break;
    case RENEWER_STOP:
        handle_stop(r, event, out);
        break;
    }
    if (r->phase == RENEWER_STOPPING && mono_reached(event->now, r->stop_until)) {
        renewer_note_add(r, RENEWER_NOTE_UNANNOUNCED, event, out);
        finish(r, out);
    }
    plan(r, event, out);
    out->wake_at = due_at(r);
    if (r->phase == RENEWER_STOPPING) {
        out->wake_at = mono_min(out->wake_at, r->stop_until);
    }
}
