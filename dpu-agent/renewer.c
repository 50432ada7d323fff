/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/renewer.h"

#include "base/err.h"
#include "base/text.h"
#include "contract/lease.h"

#include <assert.h>
#include <string.h>

enum {
    HTTP_CREATED = 201,
    HTTP_BAD_REQUEST = 400,
    HTTP_UNAUTHORIZED = 401,
    HTTP_FORBIDDEN = 403,
    HTTP_NOT_FOUND = 404,
    HTTP_UNPROCESSABLE = 422,
    HTTP_TOO_MANY_REQUESTS = 429,
    HTTP_SERVER_ERROR = 500
};

enum {
    CLEAN_ROUNDS_TO_FORGET = 10, /* a sighting of a stranger */
    /* Two sightings of a renewTime that is not ours make a second agent: a single one may be our
     * own former process or a restored etcd. */
    FOREIGN_RENEWALS_TO_REPORT = 2,
};

enum {
    TO_END = FSM_TO(RENEWER_STOPPING) | FSM_TO(RENEWER_STOPPED),
    TO_RENEWAL = FSM_TO(RENEWER_RENEWING) | FSM_TO(RENEWER_ACCOMPANYING),
    TO_REPORT = FSM_TO(RENEWER_REPORTING),
    TO_YIELD = FSM_TO(RENEWER_YIELDING),
};

static const struct fsm_state phases[RENEWER_PHASE_COUNT] = {
    [RENEWER_STARTING] = {"Starting", TO_RENEWAL | TO_REPORT | TO_YIELD | TO_END},
    [RENEWER_RENEWING] = {"Renewing", TO_REPORT | TO_YIELD | TO_END},
    [RENEWER_REPORTING] = {"Reporting", TO_RENEWAL | TO_YIELD | TO_END},
    [RENEWER_YIELDING] = {"Yielding", FSM_TO(RENEWER_STARTING) | TO_RENEWAL | TO_REPORT |
                                          FSM_TO(RENEWER_STOPPED)},
    [RENEWER_ACCOMPANYING] = {"Accompanying", TO_REPORT | TO_YIELD | TO_END},
    [RENEWER_STOPPING] = {"Stopping", FSM_TO(RENEWER_STOPPED)},
    [RENEWER_STOPPED] = {"Stopped", 0},
};

const char *renewer_phase_name(const struct renewer *r)
{
    return phases[r->phase].name;
}

/* An event, and the update that it leads to. */
struct step {
    const struct renewer_event *event;
    struct renewer_update *out;
};

/* ---- notes ---------------------------------------------------------------------------------- */

/* note_write() has what stands for the words in braces. */
/* clang-format off */
static const struct {
    const char *text;
    const char *as_companion; /* NULL: the same */
    enum log_level level;
    bool repeats; /* then at most once per LOG_AGAIN_NS */
} note_kinds[RENEWER_NOTE_KINDS] = {
    [RENEWER_NOTE_RENEWING] = {.level = LOG_INFO,
     .text = "renewing lease {lease} as '{holder}' every {interval}; a renewal is valid for {duration}",
     .as_companion = "another program renews lease {lease} as '{holder}', each time for {duration}: this companion adds the probes' results"},
    [RENEWER_NOTE_NOT_RENEWED] = {.level = LOG_WARN, .repeats = true,
     .text = "nobody has renewed lease {lease} for {renewed}, and a companion does not: check that ovnkube runs with its health check on, or set heartbeat=own"},
    [RENEWER_NOTE_MISSING] = {.level = LOG_WARN, .repeats = true,
     .text = "lease {lease} does not exist, because the host has not created it: check that dpu-host-agent runs there with this node name and namespace; waiting for the lease"},
    [RENEWER_NOTE_NOT_TAKEN] = {.level = LOG_WARN, .repeats = true,
     .text = "lease {lease} does not exist, and the API server did not take the one that this agent sent, nor perhaps the host's: check what the log says of that, then the API server; trying again"},
    [RENEWER_NOTE_CREATED] = {.level = LOG_WARN,
     .text = "created lease {lease}, which was missing for {missing}: no host created it"},
    [RENEWER_NOTE_NOT_CREATED] = {.level = LOG_INFO,
     .text = "this agent cannot create lease {lease} either: {why}; waiting for the host. If the host runs no dpu-host-agent, apply rbac/dpu-create"},
    [RENEWER_NOTE_FAILED] = {.level = LOG_WARN, .repeats = true,
     .text = "{doing} lease {lease} failed: {why}{hint}, will retry; last renewed {last}{ago}"},
    [RENEWER_NOTE_RECOVERED] = {.level = LOG_INFO,
     .text = "requests for lease {lease} succeed again after {failing}"},
    [RENEWER_NOTE_FOREIGN] = {.level = LOG_ERROR, .repeats = true,
     .text = "lease {lease} is held by '{other}', not by '{holder}': not renewing it"},
    [RENEWER_NOTE_OURS_AGAIN] = {.level = LOG_INFO,
     .text = "lease {lease} is no longer held by another"},
    [RENEWER_NOTE_SECOND_AGENT] = {.level = LOG_WARN,
     .text = "another program also renews lease {lease} as '{holder}' (with renewTime '{stamp}'). That is right if it is ovn-kubernetes' own health check on this DPU, and wrong if it is an old agent or another DPU with the same node name"},
    [RENEWER_NOTE_RECREATED] = {.level = LOG_INFO,
     .text = "lease {lease} was recreated, uid '{uid}'"},
    [RENEWER_NOTE_MISMATCH] = {.level = LOG_WARN,
     .text = "configuration mismatch: a renewal of lease {lease} is valid for {duration}, but this agent renews it only every {interval}: set dpu-node-lease-renew-interval and dpu-node-lease-duration alike on both sides"},
    [RENEWER_NOTE_UNHEALTHY] = {.level = LOG_WARN,
     .text = "DPU is unhealthy, not renewing its lease: {message}",
     .as_companion = "DPU is unhealthy, reporting it on its lease: {message}"},
    [RENEWER_NOTE_HEALTHY] = {.level = LOG_INFO,
     .text = "all probes pass, renewing the lease again",
     .as_companion = "all probes pass, removing the report"},
    [RENEWER_NOTE_LATE] = {.level = LOG_WARN, .repeats = true,
     .text = "a renewal is {late} late: this machine was suspended, stopped or overloaded"},
    [RENEWER_NOTE_SHUTDOWN] = {.level = LOG_INFO,
     .text = "announced the shutdown on lease {lease}"},
    [RENEWER_NOTE_UNANNOUNCED] = {.level = LOG_WARN,
     .text = "stopping without announcement: could not write lease {lease}{: }{said}"},
};
/* clang-format on */

/* The admin's next step after a refusal. */
static const char *refusal_hint(const struct renewer *r, int http_status)
{
    bool is_read = r->sent_action == RENEWER_GET;
    switch (http_status) {
    case HTTP_BAD_REQUEST:
    case HTTP_UNPROCESSABLE:
        return ": the API server rejects the lease as invalid";
    case HTTP_UNAUTHORIZED:
        return ": renew the token or client certificate, which may have expired";
    case HTTP_FORBIDDEN:
        return is_read ? ": this identity needs the verb 'get' on leases.coordination.k8s.io"
                       : ": this identity needs the verb 'update' on leases.coordination.k8s.io";
    default:
        return "";
    }
}

/* A duration for people: tenths of a second are enough. One that is yet to come is none: a note
 * that does not name it has it, too. */
static struct text_span note_span(int64_t ns)
{
    ns = mono_ns_max(ns, 0);
    int64_t unit_ns = ns < NS_PER_SEC ? NS_PER_MS : NS_PER_SEC / 10;
    return text_span(ns / unit_ns * unit_ns);
}

/* Writes the sentence; `event` is the one being handled. */
static void note_write(const struct renewer *r, enum renewer_note_kind kind,
                       const struct renewer_event *event, char *out, size_t out_bytes)
{
    const struct renewer_config *c = &r->config;
    const char *why = text_is_empty(event->message) ? "" : event->message;
    const struct text_span duration = text_span(mono_ns_mul(NS_PER_SEC, r->lease_duration_s));
    const struct text_span interval = note_span(c->interval_ns);
    const struct text_span renewed = note_span(mono_since(event->now, r->renewed_at));
    const struct text_span missing = note_span(mono_since(event->now, r->missing_since));
    const struct text_span failing = note_span(mono_since(event->now, r->failing_since));
    const struct text_span late = note_span(mono_since(event->now, r->slot));
    char lease[2 * NAMES_K8S_NAME_BYTES + 4];
    text_format(lease, sizeof(lease), "'%s/%s'", c->lease_ns, c->lease_name);
    const struct text_word words[] = {
        {"{lease}", lease},
        {"{holder}", c->holder},
        {"{other}", r->lease_holder},
        {"{stamp}", r->lease_stamp},
        {"{uid}", r->lease_uid},
        {"{message}", r->message},
        {"{interval}", interval.text},
        {"{duration}", duration.text},
        {"{renewed}", renewed.text},
        {"{last}", r->ever_renewed ? renewed.text : "never"},
        {"{ago}", r->ever_renewed ? " ago" : ""},
        {"{missing}", missing.text},
        {"{failing}", failing.text},
        {"{late}", late.text},
        {"{doing}", r->sent_action == RENEWER_GET      ? "getting"
                    : r->sent_action == RENEWER_CREATE ? "creating"
                                                       : "updating"},
        {"{why}", why[0] != '\0' ? why : "no answer"},
        {"{: }", why[0] != '\0' ? ": " : ""},
        {"{said}", why},
        {"{hint}", refusal_hint(r, event->http_status)},
    };
    const char *other = c->is_companion ? note_kinds[kind].as_companion : NULL;
    text_fill(out, out_bytes, other ? other : note_kinds[kind].text, words, ARRAY_LEN(words));
}

/* Adds a note to `out`, unless one of its kind was said less than its period ago. */
static void note_add(struct renewer *r, enum renewer_note_kind kind, const struct step *s)
{
    struct log_repeat *repeat = &r->repeats[kind];
    if (note_kinds[kind].repeats && !log_repeat_due(repeat, s->event->now, LOG_AGAIN_NS)) {
        return;
    }
    if (s->out->note_count == RENEWER_NOTES_MAX) {
        return;
    }
    struct renewer_note *note = &s->out->notes[s->out->note_count++];
    note->kind = kind;
    note->level = note_kinds[kind].level;
    note_write(r, kind, s->event, note->text, sizeof(note->text));
    size_t len = strlen(note->text);
    (void)text_copy(note->text + len, sizeof(note->text) - len,
                    repeat->more); /* a cut note has no room for it */
}

/* ---- pace -----------------------------------------------------------------------------------
 *
 * budget = the time between a renewal that is due and the end of the lease. RENEWER_TRIES requests
 * that run into their deadline, and the longest backoffs between them, fit into it; the first soon
 * gives way to another connection. Once that many have failed, or a write took longer, the deadline
 * widens. A request that is not answered by its deadline goes on beside the next try for the whole
 * budget, so that a slow API server, or a slow name server, does not fail for ever. */

/* How long the lease lasts: as it stands on the lease, and until that was read, as configured. */
static int64_t duration_ns(const struct renewer *r)
{
    return r->lease_duration_s > 0 ? mono_ns_mul(NS_PER_SEC, r->lease_duration_s)
                                   : r->config.duration_ns;
}

int64_t renewer_budget_ns(const struct renewer *r)
{
    int64_t interval_ns = r->config.interval_ns;
    int64_t lasts_ns = duration_ns(r);
    return lasts_ns > interval_ns ? lasts_ns - interval_ns : lasts_ns;
}

/* The longest pause after a failure. Once the lease has run out it is an interval, which is what
 * the host's grace counts with (lease_pace_grace_ns()). Before, it is half of what the lease still
 * lasts, so that another try fits in. */
static int64_t longest_pause_ns(const struct renewer *r, struct mono now)
{
    int64_t left_ns = mono_since(mono_add(r->renewed_at, duration_ns(r)), now);
    int64_t half_ns = mono_ns_max(left_ns / 2, RENEWER_BACKOFF_MAX_NS);
    return left_ns > 0 ? mono_ns_min(r->config.interval_ns, half_ns) : r->config.interval_ns;
}

int64_t renewer_backoff_ns(const struct renewer *r, uint32_t failures)
{
    int64_t wait_ns = mono_ns_min(RENEWER_BACKOFF_MIN_NS, renewer_budget_ns(r) / 15);
    return mono_ns_doubled(wait_ns, failures,
                           mono_ns_min(r->config.interval_ns, RENEWER_BACKOFF_MAX_NS));
}

/* Between the tries that have to fit. */
static int64_t waits_ns(const struct renewer *r)
{
    return renewer_backoff_ns(r, 1) + renewer_backoff_ns(r, 2);
}

/* The deadline while all is well. */
static int64_t first_deadline_ns(const struct renewer *r)
{
    int64_t share_ns = (renewer_budget_ns(r) - waits_ns(r)) / RENEWER_TRIES;
    return mono_ns_max(mono_ns_min(share_ns, lease_pace_deadline_ns(r->config.interval_ns)),
                       NS_PER_MS);
}

int64_t renewer_deadline_ns(const struct renewer *r)
{
    int64_t first_ns = first_deadline_ns(r);
    int64_t slow_ns = lease_pace_slow_deadline_ns(r->config.interval_ns);
    int64_t left_ns = renewer_budget_ns(r) - waits_ns(r) - first_ns;
    if (r->is_slow || r->failures >= RENEWER_TRIES) {
        return slow_ns;
    }
    return r->failures == 0
               ? first_ns
               : mono_ns_max(mono_ns_min(left_ns / (RENEWER_TRIES - 1), slow_ns), first_ns);
}

int64_t renewer_lasting_ns(const struct renewer *r)
{
    bool is_slow = r->failures >= RENEWER_TRIES;
    int64_t least_ns = is_slow ? RENEWER_LASTING_SLOW_NS : RENEWER_LASTING_MIN_NS;
    return mono_ns_max(mono_ns_min(renewer_budget_ns(r), RENEWER_LASTING_MAX_NS), least_ns);
}

/* The first slot of the cadence after `now`. The cadence starts with the first call, shifted to be
 * early rather than late by up to a tenth of the interval: a lease that outlasts its interval by
 * little must not run out in the first round. */
static struct mono next_slot(struct renewer *r, struct mono now)
{
    int64_t interval_ns = r->config.interval_ns;
    if (r->anchor.ns == 0) {
        r->anchor = mono_add(now, -prng_next(&r->random, interval_ns / 10));
    }
    int64_t passed = mono_since(now, r->anchor) / interval_ns;
    return mono_add(r->anchor, mono_ns_mul(interval_ns, mono_ns_add(passed, 1)));
}

/* ---- what an answer says about the lease ----------------------------------------------------- */

/* When we sent the renewTime that this lease shows; MONO_NEVER: it is not among the last ones. */
static struct mono sent_since(const struct renewer *r, const struct lease_view *lease)
{
    for (size_t i = 0; lease->renew_time_valid && i < RENEWER_SENT_STAMPS; i++) {
        if (r->sent[i].ns == lease->renew_time.ns && r->sent[i].ns != 0) {
            return r->sent_since[i];
        }
    }
    return MONO_NEVER;
}

/* When we sent the renewal that this lease shows, and whose arrival is news; MONO_NEVER: it shows
 * none. One that is older than the last that succeeded is shown by an API server that lags. */
static struct mono arrived_since(const struct renewer *r, const struct lease_view *lease)
{
    struct mono since = sent_since(r, lease);
    return mono_before(r->renewed_at, since) ? since : MONO_NEVER;
}

static bool is_foreign(const struct renewer *r)
{
    return r->lease_holder[0] != '\0' && !text_equal(r->lease_holder, r->config.holder);
}

/* A renewTime that neither we sent nor stood there before: somebody else renews our lease. */
static void look_for_foreign_renewal(struct renewer *r, const struct step *s)
{
    const struct lease_view *lease = s->event->lease;
    bool is_theirs = !r->config.is_companion && !is_foreign(r) && !text_is_empty(r->lease_uid) &&
                     !text_is_empty(lease->renew_stamp) &&
                     !text_equal(r->lease_stamp, lease->renew_stamp) &&
                     mono_is_never(sent_since(r, lease));
    (void)text_copy(r->lease_stamp, sizeof(r->lease_stamp), lease->renew_stamp);
    if (!is_theirs) {
        return;
    }
    r->foreign_renewals++;
    r->clean_rounds = 0;
    if (r->foreign_renewals == FOREIGN_RENEWALS_TO_REPORT) { /* once: it may be meant to be so */
        note_add(r, RENEWER_NOTE_SECOND_AGENT, s);
    }
}

/* As companion: the other writer's renewals, by our own clock. */
static void look_for_renewal(struct renewer *r, const struct step *s)
{
    bool is_first = text_is_empty(r->lease_uid);
    if (!is_first && text_equal(r->lease_stamp, s->event->lease->renew_stamp)) {
        if (mono_since(s->event->now, r->renewed_at) >= r->config.duration_ns) {
            note_add(r, RENEWER_NOTE_NOT_RENEWED, s);
        }
        return;
    }
    r->renewed_at = s->event->now;
    log_repeat_reset(&r->repeats[RENEWER_NOTE_NOT_RENEWED]);
    s->out->renewed = !is_first;
    if (s->out->renewed && !r->ever_renewed) {
        r->ever_renewed = true;
        note_add(r, RENEWER_NOTE_RENEWING, s);
    }
}

static void look_for_mismatch(struct renewer *r, const struct step *s)
{
    bool changed = r->lease_duration_s != s->event->lease->duration_s;
    r->lease_duration_s = s->event->lease->duration_s;
    if (changed && r->lease_duration_s > 0 &&
        mono_ns_mul(NS_PER_SEC, r->lease_duration_s) <= r->config.interval_ns) {
        note_add(r, RENEWER_NOTE_MISMATCH, s);
    }
}

static void look_at_holder(struct renewer *r, const struct step *s)
{
    bool was_foreign = is_foreign(r);
    (void)text_copy(r->lease_holder, sizeof(r->lease_holder), s->event->lease->holder);
    if (is_foreign(r)) {
        r->next_at = mono_add(s->event->now, r->config.interval_ns);
        note_add(r, RENEWER_NOTE_FOREIGN, s);
    } else if (was_foreign) {
        log_repeat_reset(&r->repeats[RENEWER_NOTE_FOREIGN]);
        note_add(r, RENEWER_NOTE_OURS_AGAIN, s);
    }
}

/* Takes over the lease that a successful answer shows: its tree is the one to edit from now on. */
static void lease_adopt(struct renewer *r, const struct step *s)
{
    const struct lease_view *lease = s->event->lease;
    bool anew = !text_is_empty(r->lease_uid) && !text_equal(r->lease_uid, lease->uid);
    if (r->config.is_companion) {
        look_for_renewal(r, s);
    }
    look_for_foreign_renewal(r, s);
    (void)text_copy(r->lease_uid, sizeof(r->lease_uid), lease->uid);
    if (r->sent_action == RENEWER_CREATE) {
        note_add(r, RENEWER_NOTE_CREATED, s);
    } else if (anew) {
        note_add(r, RENEWER_NOTE_RECREATED, s);
    }
    look_at_holder(r, s);
    look_for_mismatch(r, s);
    r->lease_current = true;
    r->missing_since = (struct mono){0};
    r->create_refused = false;
    r->create_denials = 0;
    r->create_failed = false;
    log_repeat_reset(&r->repeats[RENEWER_NOTE_MISSING]);
    log_repeat_reset(&r->repeats[RENEWER_NOTE_NOT_TAKEN]);
}

/* A 404. Decides whether we make the lease; overrules the backoff then. */
static void lease_miss(struct renewer *r, const struct step *s)
{
    note_add(r, r->create_failed ? RENEWER_NOTE_NOT_TAKEN : RENEWER_NOTE_MISSING, s);
    if (r->missing_since.ns == 0) {
        r->missing_since = s->event->now;
        r->create_at = mono_add(s->event->now, r->config.duration_ns);
    }
    if (r->phase == RENEWER_RENEWING && mono_reached(s->event->now, r->create_at)) {
        r->create_due = true;
        r->retry_at = (struct mono){0};
    }
}

/* An API server that has just started denies everything until it has read its rules. */
static int64_t denied_pause_ns(const struct renewer *r)
{
    return mono_ns_doubled(r->config.interval_ns, r->create_denials, RENEWER_CREATE_DENIED_NS);
}

static void creation_failed(struct renewer *r, const struct step *s)
{
    bool forbidden = s->event->http_status == HTTP_FORBIDDEN;
    bool lacks_something = forbidden || s->event->http_status == HTTP_NOT_FOUND;
    r->create_denials = forbidden ? r->create_denials + 1 : 0;
    r->create_failed = !lacks_something && s->event->code != ERR_CONFLICT;
    if (!lacks_something) {
        note_add(r, RENEWER_NOTE_FAILED, s);
    } else if (!r->create_refused && r->create_denials != 1) { /* one may be no lasting denial */
        note_add(r, RENEWER_NOTE_NOT_CREATED, s);
        r->create_refused = true;
    }
    r->create_at = mono_add(s->event->now, forbidden ? denied_pause_ns(r) : r->config.duration_ns);
}

/* The API server did not answer: another one may not deny us to make the lease. */
static void hope_to_create(struct renewer *r, const struct renewer_event *event)
{
    if (r->create_denials > 0) {
        r->create_denials = 0;
        r->create_at = mono_min(r->create_at, mono_add(event->now, r->config.interval_ns));
    }
}

/* ---- phases --------------------------------------------------------------------------------- */

static void change_phase(struct renewer *r, enum renewer_phase to)
{
    if (to != r->phase) {
        r->phase =
            (enum renewer_phase)fsm_move(phases, RENEWER_PHASE_COUNT, (int)r->phase, (int)to);
    }
}

static bool is_ending(const struct renewer *r)
{
    return r->phase == RENEWER_STOPPING || r->phase == RENEWER_STOPPED;
}

/* The phase that health and holder ask for. */
static void settle_phase(struct renewer *r)
{
    if (is_ending(r)) {
        return;
    }
    enum renewer_phase former = r->phase;
    if (is_foreign(r)) {
        change_phase(r, RENEWER_YIELDING);
    } else if (r->health == PROBE_HEALTH_UNKNOWN) {
        change_phase(r, RENEWER_STARTING);
    } else if (r->health == PROBE_HEALTHY) {
        change_phase(r, r->config.is_companion ? RENEWER_ACCOMPANYING : RENEWER_RENEWING);
    } else {
        change_phase(r, RENEWER_REPORTING);
    }
    if (r->phase == former) {
        return;
    }
    if (r->phase == RENEWER_RENEWING) {
        r->slot = r->flip_at; /* a renewal at once, wherever the cadence stands */
    }
    r->flipped = true;
    r->owed = false;
    if (r->phase != RENEWER_YIELDING) {
        r->next_at = r->flip_at;
    }
}

/* Ends the request under way, if there is one: what comes next comes at once. */
static void drop_request(struct renewer *r, struct renewer_update *out)
{
    out->cancel = r->under_way != RENEWER_NONE;
    r->under_way = RENEWER_NONE;
    r->retry_at = (struct mono){0};
}

static void stop_renewing(struct renewer *r, struct renewer_update *out)
{
    change_phase(r, RENEWER_STOPPED);
    drop_request(r, out);
    out->stopped = true;
}

/* ---- what is due ---------------------------------------------------------------------------- */

/* When the next request is due; NEVER: an event has to come first. What is owed is due at once, but
 * for the pause after a failure (`retry_at`); the rest has its cadence: `slot` of a renewal,
 * `next_at` of a report or a look. */
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
    case RENEWER_YIELDING:
        return mono_max(r->next_at, r->retry_at);
    case RENEWER_ACCOMPANYING:
        return mono_max(r->owed ? (struct mono){0} : r->next_at, r->retry_at);
    case RENEWER_STOPPING:
        return r->retry_at;
    case RENEWER_STOPPED:
    case RENEWER_PHASE_COUNT:
        break;
    }
    return MONO_NEVER;
}

/* The program beside a companion, or a host that is about to give the lease our duration. */
static bool expects_another_writer(const struct renewer *r)
{
    return r->config.is_companion || duration_ns(r) != r->config.duration_ns;
}

/* What the next request is. A tree that is not current, or that another writer has probably changed
 * since the last answer, is read before it is written; a lease that has just been missed again, and
 * for long enough, is made, whatever was read before. */
static enum renewer_action pick_action(const struct renewer *r, struct mono now)
{
    bool is_read = r->phase == RENEWER_YIELDING || (r->phase == RENEWER_ACCOMPANYING && !r->owed);
    bool is_old = expects_another_writer(r) && mono_before(r->answered_at, now);
    if (r->create_due && r->phase == RENEWER_RENEWING) { /* the phase may have changed meanwhile */
        return RENEWER_CREATE;
    }
    if (!r->lease_current || is_read || is_old) {
        return RENEWER_GET;
    }
    return r->phase == RENEWER_RENEWING ? RENEWER_PUT_RENEWAL : RENEWER_PUT_HEALTH;
}

static void fill_report(struct renewer *r, struct renewer_update *out)
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

static uint32_t deadline_ms(const struct renewer *r, struct mono now)
{
    int64_t deadline_ns = renewer_deadline_ns(r);
    if (r->phase == RENEWER_STOPPING) {
        deadline_ns =
            mono_ns_min(deadline_ns, mono_since(r->stop_until, now) / 2); /* one more try */
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
static void tell_flip(struct renewer *r, const struct step *s)
{
    r->flipped = false;
    if (r->told != PROBE_HEALTH_UNKNOWN) {
        r->flip_at = mono_add(s->event->now, mono_ns_min(RENEWER_FLIP_NS, r->config.interval_ns));
    }
    if (r->health == PROBE_UNHEALTHY && r->told != PROBE_UNHEALTHY) {
        note_add(r, RENEWER_NOTE_UNHEALTHY, s);
    } else if (r->health == PROBE_HEALTHY && r->told == PROBE_UNHEALTHY) {
        note_add(r, RENEWER_NOTE_HEALTHY, s);
    }
    r->told = r->health;
}

static void plan_request(struct renewer *r, const struct step *s)
{
    struct mono now = s->event->now;
    if (!mono_reached(now, due_at(r))) {
        return;
    }
    if (r->flipped) {
        tell_flip(r, s);
    }
    if (r->phase == RENEWER_RENEWING && mono_reached(now, r->slot)) {
        if (is_late(r, now)) {
            note_add(r, RENEWER_NOTE_LATE, s);
        }
        r->owed = true;
        r->slot = next_slot(r, now);
    }
    s->out->action = pick_action(r, now);
    s->out->fresh = r->fresh;
    s->out->deadline_ms = deadline_ms(r, now);
    s->out->lasts_ms = to_ms(renewer_lasting_ns(r));
    if (s->out->action == RENEWER_PUT_HEALTH) {
        fill_report(r, s->out);
    }
    r->create_due = false;
    r->under_way = s->out->action;
    r->sent_action = s->out->action;
    r->retry_at = (struct mono){0};
    r->sent_at = now;
}

/* ---- answers -------------------------------------------------------------------------------- */

static void note_recovery(struct renewer *r, const struct step *s)
{
    if (r->failures > 0) {
        note_add(r, RENEWER_NOTE_RECOVERED, s);
        log_repeat_reset(&r->repeats[RENEWER_NOTE_FAILED]);
    }
    r->failures = 0;
    r->conflicts = 0;
    r->fresh = false;
}

static void renewal_succeeded(struct renewer *r, struct mono sent_at, const struct step *s)
{
    if (!r->ever_renewed) {
        note_add(r, RENEWER_NOTE_RENEWING, s);
    }
    r->ever_renewed = true;
    r->renewed_at = sent_at;
    /* One that took more than an interval is not the one that is owed by now. */
    r->owed = r->owed && mono_before(sent_at, mono_add(r->slot, -r->config.interval_ns));
    r->is_slow = mono_since(s->event->now, sent_at) > first_deadline_ns(r);
    s->out->renewed = true;
}

/* Looks once an interval at the lease, whose renewals are not ours. */
static void look_as_companion(struct renewer *r, const struct renewer_event *event)
{
    const struct renewer_config *c = &r->config;
    const struct lease_view *lease = event->lease;
    bool is_right = lease->health == LEASE_HEALTH_NONE && lease->has_no_probe == c->has_no_probe &&
                    lease->sign[0] == '\0' && /* of a dpu-agent that renewed before */
                    (c->boot_id[0] == '\0' || text_equal(lease->boot_id, c->boot_id)) &&
                    (c->version[0] == '\0' || text_equal(lease->agent_version, c->version));
    r->owed = r->sent_action == RENEWER_GET && !is_right;
    r->next_at = next_slot(r, event->now);
}

static void answer_succeeded(struct renewer *r, const struct step *s)
{
    enum renewer_action action = r->sent_action;
    bool put = action != RENEWER_GET;
    bool is_announced = s->event->lease->health == LEASE_HEALTH_SHUTDOWN;
    struct mono arrived = put ? MONO_NEVER : arrived_since(r, s->event->lease);
    lease_adopt(r, s);
    if (put && r->conflicts == 0 && ++r->clean_rounds >= CLEAN_ROUNDS_TO_FORGET) {
        r->foreign_renewals = 0;
    }
    if (action == RENEWER_PUT_RENEWAL || action == RENEWER_CREATE) {
        renewal_succeeded(r, r->sent_at, s);
    } else if (r->phase == RENEWER_STOPPING && (put || is_announced)) {
        note_add(r, RENEWER_NOTE_SHUTDOWN, s);
    } else if (action == RENEWER_PUT_HEALTH) {
        r->next_at = mono_add(r->sent_at, r->config.interval_ns);
    }
    settle_phase(r);
    if (r->phase == RENEWER_RENEWING && r->owed && !mono_is_never(arrived) &&
        s->event->lease->health == LEASE_HEALTH_NONE) {
        renewal_succeeded(r, arrived, s);
        note_recovery(r, s);
    }
    if (r->phase == RENEWER_ACCOMPANYING) {
        look_as_companion(r, s->event);
    }
    /* A read that comes before a write proves nothing about the write. */
    if (put || r->phase == RENEWER_STARTING || r->phase == RENEWER_YIELDING ||
        (r->phase == RENEWER_ACCOMPANYING && !r->owed)) {
        note_recovery(r, s);
    }
    if (r->phase == RENEWER_STOPPING && (put || is_foreign(r) || is_announced)) {
        stop_renewing(r, s->out);
    }
}

/* A failed write is soon tried again. Where the API server has too much to do (one that does not
 * say until when may not be the only one: RENEWER_TRIES times as after another error), or cannot be
 * reached twice in a row, the tries that follow are spread over what the lease lasts, or further
 * apart as after any failure: thousands of DPUs need not knock again and again. Nor where it has no
 * such lease, once its host had the time to make it (RENEWER_TRIES looks): it is looked for with
 * the next renewal, or sooner if the lease would not last for as many tries. */
static int64_t pause_ns(struct renewer *r, const struct renewer_event *event)
{
    /* A conflict is an answer: it waits for other writers, not for the API server. */
    uint32_t count = event->code == ERR_CONFLICT ? r->conflicts - 1 : r->failures;
    int64_t wait_ns = prng_next(&r->random, renewer_backoff_ns(r, count));
    int64_t spread_ns = mono_ns_max(wait_ns, renewer_budget_ns(r) / RENEWER_TRIES);
    bool is_closed = event->is_unreachable && count > 1;
    bool is_busy = event->http_status == HTTP_TOO_MANY_REQUESTS &&
                   (event->retry_after_ms > 0 || count > RENEWER_TRIES);
    if (is_closed || is_busy) {
        return mono_ns_min(spread_ns, longest_pause_ns(r, event->now));
    }
    if (event->http_status == HTTP_NOT_FOUND && count > RENEWER_TRIES) {
        return mono_ns_min(mono_since(next_slot(r, event->now), event->now), spread_ns);
    }
    return wait_ns;
}

static void set_backoff(struct renewer *r, const struct renewer_event *event)
{
    int64_t wait_ns = pause_ns(r, event);
    if (event->retry_after_ms > 0) {
        int64_t asked_ns = mono_ns_mul(event->retry_after_ms, NS_PER_MS);
        wait_ns = mono_ns_min(mono_ns_add(asked_ns, wait_ns), longest_pause_ns(r, event->now));
    }
    if (event->http_status == HTTP_BAD_REQUEST || event->http_status == HTTP_UNPROCESSABLE) {
        wait_ns = r->config.interval_ns; /* the same words again would be refused again */
    }
    r->retry_at = mono_add(event->now, wait_ns);
}

static void answer_failed(struct renewer *r, const struct step *s)
{
    bool missing = s->event->http_status == HTTP_NOT_FOUND;
    if (r->failures == 0) {
        r->failing_since = s->event->now;
    }
    if (r->failures < UINT32_MAX) {
        r->failures++;
    }
    if (r->phase == RENEWER_STOPPING && missing) {
        note_add(r, RENEWER_NOTE_UNANNOUNCED, s);
        stop_renewing(r, s->out);
        return;
    }
    if (s->event->code != ERR_CONFLICT) {
        r->conflicts = 0;
    }
    /* Not refused as such: the tree may still be right, and if not, a conflict tells. */
    if (s->event->code != ERR_RETRY && s->event->code != ERR_AUTH) {
        r->lease_current = false;
    }
    r->fresh = s->event->http_status == 0 || s->event->http_status >= HTTP_SERVER_ERROR;
    if (r->fresh) {
        hope_to_create(r, s->event);
    }
    set_backoff(r, s->event);
    if (r->sent_action == RENEWER_CREATE) {
        creation_failed(r, s);
    } else if (missing) {
        lease_miss(r, s);
    } else {
        note_add(r, RENEWER_NOTE_FAILED, s);
    }
}

static bool is_asked_lease(const struct renewer *r, const struct lease_view *lease)
{
    return text_equal(lease->name, r->config.lease_name) &&
           text_equal(lease->ns, r->config.lease_ns);
}

static void handle_answer(struct renewer *r, const struct step *s)
{
    enum renewer_action action = r->under_way;
    struct renewer_event wrong = *s->event;
    const struct step failed = {.event = &wrong, .out = s->out};
    if (action == RENEWER_NONE) {
        return;
    }
    r->under_way = RENEWER_NONE;
    r->answered_at = s->event->now;
    if (s->event->sent_time.ns != 0) {
        r->sent[r->sent_next] = s->event->sent_time;
        r->sent_since[r->sent_next] = r->sent_at;
        r->sent_next = (r->sent_next + 1) % RENEWER_SENT_STAMPS;
    }
    /* A PUT that creates (201): the lease was deleted, and what we wrote is not the host's. */
    bool put = action == RENEWER_PUT_RENEWAL || action == RENEWER_PUT_HEALTH;
    bool created = put && s->event->http_status == HTTP_CREATED;
    if (created || s->event->code == ERR_CONFLICT) {
        r->lease_current = false;
        if (action == RENEWER_CREATE) { /* it is there, whatever the read shows */
            r->create_at = mono_add(s->event->now, r->config.duration_ns);
        }
        if (r->conflicts++ == 0) {
            return; /* read it and try again, at once */
        }
    }
    if (created) {
        wrong.code = ERR_CONFLICT;
        wrong.message = "the lease was gone, and the write recreated it";
    } else if (s->event->code == 0 && !is_asked_lease(r, s->event->lease)) {
        wrong.code = ERR_PARSE;
        wrong.message = "the answer shows another lease";
    }
    if (wrong.code == 0) {
        answer_succeeded(r, s);
    } else {
        answer_failed(r, &failed);
    }
}

/* Shows the lease as a read does. A try that is under way beside it knows less. */
static void handle_late(struct renewer *r, const struct step *s)
{
    const struct renewer_event answer = {.kind = RENEWER_ANSWER,
                                         .now = s->event->now,
                                         .http_status = s->event->http_status,
                                         .retry_after_ms = -1,
                                         .lease = s->event->lease};
    const struct step read = {.event = &answer, .out = s->out};
    if (s->event->code == ERR_CONFLICT) { /* what is written beside it is as old: read, at once */
        r->lease_current = false;
        r->retry_at = (struct mono){0};
        if (r->under_way != RENEWER_GET) {
            drop_request(r, s->out);
        }
        return;
    }
    if (s->event->http_status == HTTP_CREATED || !is_asked_lease(r, s->event->lease)) {
        r->lease_current = false;
        return;
    }
    drop_request(r, s->out);
    r->under_way = RENEWER_GET;
    r->sent_action = RENEWER_GET;
    handle_answer(r, &read);
}

/* ---- the other events ----------------------------------------------------------------------- */

static void handle_health(struct renewer *r, const struct renewer_event *event)
{
    if (is_ending(r) || event->health == PROBE_HEALTH_UNKNOWN) {
        return;
    }
    r->health = event->health;
    (void)text_copy(r->message, sizeof(r->message), event->message ? event->message : "");
    settle_phase(r);
}

static void handle_stop(struct renewer *r, const struct step *s)
{
    if (is_ending(r)) {
        return;
    }
    if (!r->config.announce_shutdown || is_foreign(r)) {
        stop_renewing(r, s->out);
        return;
    }
    /* A write under way may still be applied; then our write meets a conflict and is repeated. */
    change_phase(r, RENEWER_STOPPING);
    drop_request(r, s->out);
    r->conflicts = 0;
    r->failures = 0;
    r->stop_until = mono_add(s->event->now, RENEWER_STOP_NS);
}

void renewer_init(struct renewer *r, const struct renewer_config *config)
{
    assert(config->interval_ns > 0 && config->duration_ns > 0);
    *r = (struct renewer){.config = *config, .random = config->seed};
}

void renewer_step(struct renewer *r, const struct renewer_event *event, struct renewer_update *out)
{
    const struct step s = {.event = event, .out = out};
    *out = (struct renewer_update){.message = ""};
    switch (event->kind) {
    case RENEWER_TICK:
        break;
    case RENEWER_HEALTH:
        handle_health(r, event);
        break;
    case RENEWER_ANSWER:
        handle_answer(r, &s);
        break;
    case RENEWER_LATE:
        handle_late(r, &s);
        break;
    case RENEWER_STOP:
        handle_stop(r, &s);
        break;
    }
    if (r->phase == RENEWER_STOPPING && mono_reached(event->now, r->stop_until)) {
        note_add(r, RENEWER_NOTE_UNANNOUNCED, &s);
        stop_renewing(r, out);
    }
    plan_request(r, &s);
    out->wake_at = due_at(r);
    if (r->phase == RENEWER_STOPPING) {
        out->wake_at = mono_min(out->wake_at, r->stop_until);
    }
}
