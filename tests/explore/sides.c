/* SPDX-License-Identifier: Apache-2.0 */
/* The shells of both cores, as monitor.c, lease_watch.c and lease_writer.c are. */
#include "tests/explore/parts.h"

#include "base/err.h"
#include "base/text.h"
#include "base/time.h"
#include "kube/kube_core.h"

#include <string.h>

#define READ_NS       (30 * NS_PER_SEC) /* lease_watch.c: READ_LASTS_MS */
#define MAKE_NS       (5 * NS_PER_SEC)  /* lease_keeper.c, for these durations */
#define MARK_LASTS_MS 12000             /* MARK_LASTS_MS */
#define WATCH_NS      (4 * NS_PER_SEC)  /* kube_watch.c: RETRY_BASE_NS */

/* ---- the host: what the verdict asks for ----------------------------------------------------- */

static void host_event(struct scene s, struct verdict_event event);

static void record_write(struct scene s)
{
    struct world *w = s.w;
    const struct readiness *verdict = &w->host.core.readiness;
    struct mono until = mono_add(mono_of(w->now), verdict_writer_ahead_ns(&s.e->verdict));
    struct mono hold = mono_add(mono_max(verdict->lease_until, until), s.e->setting->stale_hold_ns);
    w->record.readiness = *verdict;
    w->record.evidence = w->host.core.evidence;
    w->record.hold_until = mono_min(hold, mono_of(w->host.hold_most));
    w->record.writer_until = mono_min(until, w->record.hold_until);
    w->has_record = true;
}

static void send_mark(struct scene s)
{
    struct host *h = &s.w->host;
    uint64_t version = mark_version(h->mark_core.version);
    bool is_patch = h->mark_core.action == MARK_PATCH;
    struct request *r = request_send(s, &h->mark, is_patch ? REQUEST_MARK : REQUEST_MARK_GET,
                                     NEVER - s.w->now, h->mark_due_ms * NS_PER_MS);
    r->body = (struct lease){.version = version, .mark = h->mark_number};
    r->is_dry = h->is_trial;
    world_tell(s.e, s.w, "the host sends a %s of version %llu",
               !is_patch     ? "read for its mark"
               : h->is_trial ? "trial"
                             : "mark",
               (unsigned long long)version);
}

static void start_mark(struct scene s, bool is_trial)
{
    struct host *h = &s.w->host;
    if (h->mark.kind != REQUEST_NONE && !h->is_trial) {
        return;
    }
    request_drop(s.w, &h->mark);
    h->is_trial = is_trial;
    h->mark_number++;
    mark_start(&h->mark_core, &h->core.history.lease, mono_of(s.w->now));
    send_mark(s);
}

static void open_watch(struct scene s)
{
    struct watch *watch = &s.w->host.watch;
    watch->state = WATCH_LISTING;
    watch->is_deaf = false;
    watch->held_count = 0;
    (void)request_send(s, &watch->list, REQUEST_LIST, NEVER - s.w->now, READ_NS);
}

static void host_perform(struct scene s, const struct verdict_update *out)
{
    struct host *h = &s.w->host;
    h->wake_at = out->wake_at.ns;
    if (out->rewrite) {
        record_write(s);
    }
    if (out->rebooted) {
        s.e->tally.reboots++;
        if (s.w->past.told_boot == s.w->lease.boot) {
            judge_fail(s.e, "reboot: one is told that was none");
        }
    }
    if (out->confirm && h->read.kind == REQUEST_NONE) {
        world_tell(s.e, s.w, "the host reads the lease");
        (void)request_send(s, &h->read, REQUEST_READ, h->read_due_ms * NS_PER_MS, READ_NS);
    }
    if (out->mark) {
        start_mark(s, out->is_trial);
    }
    if (out->restart_watch && !h->watch.has_failed) {
        world_tell(s.e, s.w, "the host mistrusts its watch, and opens another");
        request_drop(s.w, &h->watch.list);
        open_watch(s);
    }
    if (out->repair && h->make.kind == REQUEST_NONE) {
        (void)request_send(s, &h->make, REQUEST_MAKE, NEVER - s.w->now, MAKE_NS);
    }
}

/* Which rule the verdict followed. */
static void tell_rule(struct scene s, const struct verdict_trace *trace, size_t i)
{
    char text[VERDICT_RULE_BYTES];
    s.e->tally.rules[trace->steps[i].rule]++;
    if (s.e->is_told) {
        verdict_trace_text(trace, i, text);
        world_tell(s.e, s.w, "    rule: %s", text);
    }
}

static void host_event(struct scene s, struct verdict_event event)
{
    struct host *h = &s.w->host;
    struct verdict_update out;
    enum readiness_reason before = h->core.readiness.reason;
    event.now = mono_of(s.w->now);
    event.is_lasting = event.kind == VERDICT_LEASE_ABSENT && h->is_denied;
    if (event.kind <= VERDICT_READ_FAILED || event.kind == VERDICT_MARK) {
        h->hold_most = NEVER;
    }
    s.e->verdict_steps++;
    verdict_step(&h->core, &event, &out);
    for (size_t i = 0; i < out.trace.count; i++) {
        tell_rule(s, &out.trace, i);
    }
    if (before != h->core.readiness.reason) {
        world_tell(s.e, s.w, "the host says %s (%s): %s",
                   readiness_state_name(h->core.readiness.state),
                   readiness_reason_name(h->core.readiness.reason), h->core.readiness.message);
    }
    host_perform(s, &out);
}

/* ---- the host: what it is answered ----------------------------------------------------------- */

/* As lease_watch.c tells of a read. */
static void tell_read(struct scene s, const struct request *r, enum verdict_source source)
{
    struct lease_view lease;
    struct verdict_event event = {.source = source, .started_at = mono_of(r->sent_at)};
    if (r->status == 200) {
        lease_show(s.e, &r->shown, &lease);
        event.kind = VERDICT_LEASE_OBSERVED;
        event.lease = &lease;
    } else if (r->status == 404) {
        event.kind = VERDICT_LEASE_ABSENT;
    } else if (r->status == 0) {
        event.kind = VERDICT_READ_FAILED;
        event.failure = "no answer";
    } else {
        event.kind = VERDICT_LEASE_UNREADABLE;
        event.failure = "no lease";
    }
    host_event(s, event);
}

static void hope_for_watch(struct scene s)
{
    struct watch *watch = &s.w->host.watch;
    if (watch->state == WATCH_CLOSED) {
        watch->try_at = s.w->now;
    }
}

static uint32_t learned_ms(const struct scene *s, uint32_t due_ms, bool is_answered,
                           int64_t took_ns, uint32_t most_ms)
{
    return kube_patience_learn(due_ms, is_answered, took_ns / NS_PER_MS,
                               verdict_deadline_ms(&s->e->verdict), most_ms);
}

static void on_read(struct scene s, struct request *slot, bool is_late)
{
    struct request r = *slot;
    *slot = (struct request){.kind = REQUEST_NONE};
    if (r.status != 0) {
        s.w->host.read_due_ms = learned_ms(&s, s.w->host.read_due_ms, !is_late,
                                           s.w->now - r.sent_at, (uint32_t)(READ_NS / NS_PER_MS));
        hope_for_watch(s);
    }
    tell_read(s, &r, is_late ? VERDICT_BY_READ : VERDICT_BY_CONFIRM);
}

/* Not answered by its deadline: it goes on beside. */
static void on_read_due(struct scene s)
{
    struct host *h = &s.w->host;
    struct request r = h->read;
    h->late_read = r;
    h->late_read.due_at = NEVER;
    h->read = (struct request){.kind = REQUEST_NONE};
    r.status = 0;
    tell_read(s, &r, VERDICT_BY_CONFIRM);
}

static enum mark_answer answer_to_patch(const struct request *r)
{
    return r->is_unreachable   ? MARK_UNSENT
           : r->status == 200  ? MARK_LEASE
           : r->status == 0    ? MARK_NO_ANSWER
           : r->status == 404  ? MARK_NOT_FOUND
           : r->status == 409  ? MARK_CONFLICTS
           : r->status == 403  ? MARK_FORBIDS
           : r->status == -200 ? MARK_GARBLED
                               : MARK_FAILS;
}

static enum mark_answer answer_to_read(const struct request *r)
{
    return r->status == 200   ? MARK_LEASE
           : r->status == 404 ? MARK_NOT_FOUND
           : r->status == 0   ? MARK_NO_ANSWER
                              : MARK_GARBLED;
}

static void on_mark(struct scene s)
{
    struct host *h = &s.w->host;
    struct request r = h->mark;
    struct lease_view lease = {.duration_s = 0};
    bool is_patch = r.kind == REQUEST_MARK;
    bool is_slow = request_has_ended(s.w, &r) && r.status == 0; /* else its connection broke */
    enum mark_answer answer = is_patch ? answer_to_patch(&r) : answer_to_read(&r);
    h->mark = (struct request){.kind = REQUEST_NONE};
    h->mark_due_ms =
        learned_ms(&s, h->mark_due_ms, !is_slow,
                   is_slow ? h->mark_due_ms * NS_PER_MS : s.w->now - r.sent_at, MARK_LASTS_MS);
    if (answer == MARK_LEASE) {
        lease_show(s.e, &r.shown, &lease);
    }
    if (!is_patch && (answer == MARK_LEASE || answer == MARK_NOT_FOUND)) {
        tell_read(s, &r, VERDICT_BY_MARK);
    }
    if (h->mark.kind != REQUEST_NONE) { /* a mark was asked for, and ends this trial */
        return;
    }
    bool has_text = answer == MARK_LEASE && r.shown.mark == h->mark_number;
    if (mark_step(&h->mark_core, answer, &lease, has_text, mono_of(r.sent_at)) != MARK_END) {
        send_mark(s);
        return;
    }
    bool is_shown = is_patch && answer == MARK_LEASE && !h->is_trial;
    (h->is_trial ? s.e->tally.trials : s.e->tally.marks)[h->mark_core.outcome]++;
    world_tell(s.e, s.w, "the %s is %s", h->is_trial ? "trial" : "mark",
               mark_outcome_name(h->mark_core.outcome));
    host_event(s, (struct verdict_event){.kind = VERDICT_MARK,
                                         .source = VERDICT_BY_MARK,
                                         .outcome = h->mark_core.outcome,
                                         .is_trial = h->is_trial,
                                         .started_at = h->mark_core.proof_at,
                                         .failure = "no answer",
                                         .lease = is_shown ? &lease : NULL});
}

static void on_list(struct scene s)
{
    struct watch *watch = &s.w->host.watch;
    struct request r = watch->list;
    bool was_failing = watch->has_failed;
    watch->list = (struct request){.kind = REQUEST_NONE};
    bool works = (r.status == 200 || r.status == 404) && !world_has(s.w, WATCH_BROKEN);
    watch->state = works ? WATCH_OPEN : WATCH_CLOSED;
    watch->try_at = works ? NEVER : s.w->now + WATCH_NS;
    watch->is_deaf = works && world_has(s.w, WATCH_SILENT);
    watch->has_failed = !works;
    if (r.status == 200 || r.status == 404) {
        tell_read(s, &r, VERDICT_BY_READ);
    }
    if (works && was_failing) {
        host_event(s, (struct verdict_event){.kind = VERDICT_WATCH_WORKS});
    } else if (!works) {
        host_event(s, (struct verdict_event){.kind = VERDICT_WATCH_BROKEN});
    }
}

void host_break_watch(struct scene s)
{
    struct watch *watch = &s.w->host.watch;
    if (!s.w->host.runs || watch->state != WATCH_OPEN) {
        return;
    }
    *watch =
        (struct watch){.state = WATCH_CLOSED, .has_failed = true, .try_at = s.w->now + WATCH_NS};
    host_event(s, (struct verdict_event){.kind = VERDICT_WATCH_BROKEN});
}

static void watch_bring(struct scene s)
{
    struct watch *watch = &s.w->host.watch;
    struct lease lease = watch->held[0];
    struct lease_view view;
    memmove(&watch->held[0], &watch->held[1], sizeof(watch->held[0]) * (HELD_MAX - 1));
    watch->held[HELD_MAX - 1] = (struct lease){.uid = 0};
    watch->held_count--;
    lease_show(s.e, &lease, &view);
    host_event(s, (struct verdict_event){.kind = lease.uid == 0 ? VERDICT_LEASE_ABSENT
                                                                : VERDICT_LEASE_OBSERVED,
                                         .source = VERDICT_BY_WATCH,
                                         .lease = lease.uid == 0 ? NULL : &view});
}

/* The keeper's answer: a write that the API server took is a mark. */
static void on_made(struct scene s)
{
    struct host *h = &s.w->host;
    struct request r = h->make;
    struct lease_view lease;
    h->make = (struct request){.kind = REQUEST_NONE};
    h->is_denied = r.status == 403;
    if (r.status == 200) {
        lease_show(s.e, &r.shown, &lease);
        host_event(s, (struct verdict_event){.kind = VERDICT_MARK,
                                             .source = VERDICT_BY_KEEPER,
                                             .outcome = MARK_TAKEN,
                                             .started_at = mono_of(r.sent_at),
                                             .lease = &lease});
    }
}

void host_tell_probes(struct scene s)
{
    const struct readiness_host_probes probes = {
        .count = 1,
        .each = {{.says = world_has(s.w, ACCUSED) ? HOST_PROBE_FAILED : HOST_PROBE_WELL}}};
    host_event(s, (struct verdict_event){
                      .kind = VERDICT_HOST_PROBES, .host_probes = &probes, .accusation = "gone"});
}

/* ---- the host: its process ------------------------------------------------------------------- */

/* What a former process left comes through the record's own codec. Worlds that differ in one fault
 * often have the same record: it is coded once. */
static bool carry_record(struct scene s, struct record *out)
{
    static struct record coded, decoded;
    char page[RECORD_PAGE_BYTES];
    struct err e = ERR_INIT;
    if (!s.w->has_record) {
        return false;
    }
    if (memcmp(&coded, &s.w->record, sizeof(coded)) == 0) {
        *out = decoded;
        return true;
    }
    if (record_encode(&s.w->record, page, &e) != 0 ||
        record_decode(page, sizeof(page), out, &e) != 0) {
        judge_fail(s.e, "record: %s", e.msg);
        return false;
    }
    memcpy(&coded, &s.w->record, sizeof(coded));
    decoded = *out;
    return true;
}

void host_start(struct scene s)
{
    struct host *h = &s.w->host;
    struct record carry;
    bool has_carry = carry_record(s, &carry);
    uint32_t deadline_ms = verdict_deadline_ms(&s.e->verdict);
    *h = (struct host){.runs = true,
                       .read_due_ms = deadline_ms,
                       .mark_due_ms = deadline_ms,
                       .mark_number = h->mark_number,
                       .hold_most = has_carry ? carry.hold_until.ns : NEVER};
    verdict_init(&h->core, &s.e->verdict, has_carry ? &carry : NULL, mono_of(s.w->now));
    s.e->tally.carried += h->core.phase != VERDICT_AWAITING;
    world_tell(s.e, s.w, "the host agent starts, %s",
               h->core.phase != VERDICT_AWAITING ? "with what its record says" : "anew");
    host_event(s, (struct verdict_event){.kind = VERDICT_TICK});
    host_tell_probes(s);
    open_watch(s);
}

void host_kill(struct scene s)
{
    struct host *h = &s.w->host;
    request_drop(s.w, &h->mark);
    request_drop(s.w, &h->make);
    *h = (struct host){.runs = false, .mark_number = h->mark_number, .wake_at = NEVER};
    world_tell(s.e, s.w, "the host agent is killed");
}

/* ---- the DPU --------------------------------------------------------------------------------- */

static void dpu_put(struct scene s, const struct renewer_update *out)
{
    struct dpu *d = &s.w->dpu;
    int64_t wall = WALL_NS + s.w->now + d->clock_ns;
    struct request *r = request_send(s, &d->call, REQUEST_PUT, out->deadline_ms * NS_PER_MS,
                                     out->lasts_ms * NS_PER_MS);
    r->body = d->tree;
    r->body.boot = d->boot;
    if (out->action == RENEWER_PUT_RENEWAL) {
        d->sent = wall + (wall == d->tree.renewed ? 1000 : 0);
        r->body.renewed = d->sent;
        r->body.health = LEASE_HEALTH_NONE;
        r->body.reported = 0;
    } else {
        r->body.health = out->health;
        r->body.reported = wall + (wall == d->tree.reported ? 1000 : 0);
    }
}

static void dpu_perform(struct scene s, const struct renewer_update *out)
{
    struct dpu *d = &s.w->dpu;
    d->wake_at = out->wake_at.ns;
    if (out->cancel) {
        request_drop(s.w, &d->call);
        request_drop(s.w, &d->late);
    }
    if (out->action == RENEWER_NONE) {
        return;
    }
    world_tell(s.e, s.w, "the DPU sends a %s",
               out->action == RENEWER_GET           ? "read"
               : out->action == RENEWER_PUT_RENEWAL ? "renewal"
               : out->action == RENEWER_PUT_HEALTH  ? "report"
                                                    : "lease of its own");
    d->sent = 0;
    if (out->action == RENEWER_PUT_RENEWAL || out->action == RENEWER_PUT_HEALTH) {
        dpu_put(s, out);
    } else {
        (void)request_send(s, &d->call, out->action == RENEWER_GET ? REQUEST_GET : REQUEST_CREATE,
                           out->deadline_ms * NS_PER_MS, out->lasts_ms * NS_PER_MS);
    }
}

void dpu_event(struct scene s, struct renewer_event event)
{
    struct dpu *d = &s.w->dpu;
    struct renewer_update out;
    event.now = mono_of(s.w->now);
    s.e->renewer_steps++;
    renewer_step(&d->core, &event, &out);
    dpu_perform(s, &out);
}

/* Of the statuses that there are here, as kube_answer.c has it. */
static int code_of(int status)
{
    return status == 200   ? 0
           : status == 404 ? ERR_NOTFOUND
           : status == 409 ? ERR_CONFLICT
           : status == 403 ? ERR_AUTH
                           : ERR_RETRY;
}

static void dpu_answer(struct scene s, struct request *slot, bool is_late)
{
    struct dpu *d = &s.w->dpu;
    struct request r = *slot;
    struct lease_view lease;
    struct renewer_event event = {.kind = is_late ? RENEWER_LATE : RENEWER_ANSWER,
                                  .code = code_of(r.status),
                                  .http_status = r.status,
                                  .is_unreachable = r.is_unreachable,
                                  .message = "no answer",
                                  .sent_time = {d->sent}};
    *slot = (struct request){.kind = REQUEST_NONE};
    if (r.status == 200) {
        d->tree = r.shown;
        lease_show(s.e, &r.shown, &lease);
        event.lease = &lease;
    }
    if (!is_late || event.code == 0 || event.code == ERR_CONFLICT) {
        dpu_event(s, event);
    }
}

static void dpu_due(struct scene s)
{
    struct dpu *d = &s.w->dpu;
    struct request lost = d->call;
    request_drop(s.w, &d->late);
    d->late = lost;
    d->late.due_at = NEVER;
    lost.status = 0;
    d->call = lost;
    dpu_answer(s, &d->call, false);
}

void dpu_say(struct scene s)
{
    dpu_event(s, (struct renewer_event){.kind = RENEWER_HEALTH,
                                        .health = world_has(s.w, DPU_UNWELL) ? PROBE_UNHEALTHY
                                                                             : PROBE_HEALTHY,
                                        .message = "a probe fails"});
}

void dpu_start(struct scene s)
{
    struct dpu *d = &s.w->dpu;
    *d = (struct dpu){.runs = true, .boot = d->boot, .clock_ns = d->clock_ns};
    number_text(s.e->renewer.boot_id, sizeof(s.e->renewer.boot_id), "boot-", d->boot);
    renewer_init(&d->core, &s.e->renewer);
    world_tell(s.e, s.w, "the DPU's agent starts");
    dpu_event(s, (struct renewer_event){.kind = RENEWER_TICK});
    dpu_say(s);
}

void dpu_kill(struct scene s)
{
    struct dpu *d = &s.w->dpu;
    request_drop(s.w, &d->call);
    request_drop(s.w, &d->late);
    *d = (struct dpu){.runs = false, .boot = d->boot, .clock_ns = d->clock_ns, .wake_at = NEVER};
    world_tell(s.e, s.w, "the DPU's agent is gone");
}

/* ---- one thing that is due ------------------------------------------------------------------- */

static bool is_due(const struct world *w, int64_t at)
{
    return at <= w->now;
}

bool dpu_step(struct scene s)
{
    struct dpu *d = &s.w->dpu;
    if (request_is_answered(s.w, &d->call)) {
        dpu_answer(s, &d->call, false);
    } else if (request_is_answered(s.w, &d->late)) {
        dpu_answer(s, &d->late, true);
    } else if (request_has_ended(s.w, &d->late)) {
        request_drop(s.w, &d->late);
    } else if (request_is_overdue(s.w, &d->call)) {
        dpu_due(s);
    } else if (d->runs && is_due(s.w, d->wake_at)) {
        dpu_event(s, (struct renewer_event){.kind = RENEWER_TICK});
    } else {
        return false;
    }
    return true;
}

/* A request of the host's that is waited for until its end has failed there. */
static bool fail_at_end(const struct world *w, struct request *r)
{
    if (request_is_answered(w, r)) {
        return true;
    }
    if (!request_has_ended(w, r)) {
        return false;
    }
    r->status = 0;
    return true;
}

bool host_step(struct scene s)
{
    struct host *h = &s.w->host;
    struct watch *watch = &h->watch;
    if (watch->state == WATCH_OPEN && watch->held_count > 0 && !watch_is_held(s.w)) {
        watch_bring(s);
    } else if (request_is_answered(s.w, &h->read)) {
        on_read(s, &h->read, false);
    } else if (request_is_answered(s.w, &h->late_read)) {
        on_read(s, &h->late_read, true);
    } else if (request_has_ended(s.w, &h->late_read)) {
        request_drop(s.w, &h->late_read);
    } else if (request_is_overdue(s.w, &h->read)) {
        on_read_due(s);
    } else if (fail_at_end(s.w, &h->mark)) {
        on_mark(s);
    } else if (fail_at_end(s.w, &h->make)) {
        on_made(s);
    } else if (fail_at_end(s.w, &watch->list)) {
        on_list(s);
    } else if (watch->state == WATCH_CLOSED && is_due(s.w, watch->try_at)) {
        open_watch(s);
    } else if (is_due(s.w, h->wake_at)) {
        host_event(s, (struct verdict_event){.kind = VERDICT_TICK});
    } else {
        return false;
    }
    return true;
}
