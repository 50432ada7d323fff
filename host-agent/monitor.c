/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/monitor.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "host-agent/condition.h"
#include "host-agent/lease_keeper.h"
#include "host-agent/lease_watch.h"
#include "host-agent/podnet/podnet.h"
#include "host-agent/record.h"
#include "loop/daemon.h"
#include "outputs/events.h"

#include <stdlib.h>

struct monitor {
    struct monitor_config config;
    struct verdict verdict;
    struct record record; /* its verdict is what all are shown: with the time of its transition */
    struct boot_timer *timer;
    struct monitor_parts parts;
    bool is_published; /* everybody has seen a verdict */
    struct log_repeat words;
    struct mono flip_logged_until; /* changes are logged no faster than renewals come */
    bool unlogged;                 /* a change was held back */
    struct mono wake_at;
    struct mono hold_most; /* of what a predecessor left: nothing was heard since; else NEVER */
    struct monitor_stats stats;
    struct mono lost_at;          /* API contact, or counted as lost last; NEVER: it is not */
    struct mono unanswered_since; /* the oldest confirming read without outcome; MONO_NEVER: none */
};

/* Takes over what the core came to; state, admission or reason changing is a transition. True if
 * it is one. */
static bool adopt_verdict(struct monitor *m)
{
    const struct readiness *v = &m->verdict.readiness;
    const struct readiness was = m->record.readiness;
    bool changed = was.transition.ns == 0 || v->state != was.state || v->admit != was.admit ||
                   v->reason != was.reason;
    m->record.readiness = *v;
    m->record.readiness.transition = changed ? clock_wall_now() : was.transition;
    m->record.readiness.dpu_rebooted = was.dpu_rebooted;
    m->record.evidence = m->verdict.evidence;
    m->stats.changes[v->reason] += changed;
    return changed;
}

/* A change at most once an interval, and other words for the same at most once a minute: a probe
 * may find new ones at each run, a DPU may say one thing and another at each moment. */
static void log_verdict(struct monitor *m, bool changed, struct mono now)
{
    const struct readiness *v = &m->record.readiness;
    m->unlogged = changed || m->unlogged;
    if (m->unlogged && mono_reached(now, m->flip_logged_until)) {
        log_repeat_reset(&m->words);
        m->flip_logged_until = mono_add(now, m->config.verdict.renew_interval_ns);
    }
    char since[RFC3339_BYTES + 10] = "";
    if (m->unlogged && !changed) { /* it was held back */
        text_format(since, sizeof(since), " (since %s)", rfc3339_text(v->transition, true).text);
    }
    const char *held = v->admit ? ", Pods are admitted" : ", Pods are rejected";
    if (log_limited(&m->words, LOG_AGAIN_NS, LOG_INFO, "readiness", "%s (%s%s): %s%s",
                    readiness_state_name(v->state), readiness_reason_name(v->reason),
                    v->state == READINESS_UNKNOWN ? held : "", v->message, since)) {
        m->unlogged = false;
    }
}

/* The outputs decide nothing, and none waits for another. */
static void publish(struct monitor *m)
{
    const struct readiness *v = &m->record.readiness;
    daemon_notify_ready(m->config.daemon, "%s (%s): %s", readiness_state_name(v->state),
                        readiness_reason_name(v->reason), v->message);
    if (m->config.pods) {
        podnet_publish(m->config.pods, v);
    }
    if (m->parts.events) {
        events_publish(m->parts.events, v);
    }
    if (m->parts.condition) {
        condition_publish(m->parts.condition, v);
    }
}

static void note_reboot(struct monitor *m)
{
    m->stats.reboots++;
    m->record.readiness.dpu_rebooted = clock_wall_now();
    log_warn("readiness", "the DPU has rebooted: its boot ID is now '%s'",
             m->verdict.readiness.dpu_boot_id);
    if (m->parts.events) {
        events_tell_reboot(m->parts.events, m->record.readiness.dpu_rebooted);
    }
}

/* Asks for reads and marks of the lease; without a health check there are none. */
static void look_at_lease(struct monitor *m, const struct verdict_update *update, struct mono now)
{
    if (!m->parts.watch) {
        return;
    }
    if (update->confirm) {
        m->unanswered_since = mono_min(m->unanswered_since, now);
        lease_watch_confirm(m->parts.watch);
    }
    if (update->mark) {
        m->unanswered_since = mono_min(m->unanswered_since, now);
        lease_watch_mark(m->parts.watch, &m->verdict.history.lease, update->is_trial);
    }
    if (update->restart_watch) {
        lease_watch_restart(m->parts.watch);
    }
    if (update->repair) {
        lease_keeper_saw(m->parts.keeper, NULL);
    }
}

static void perform(struct monitor *m, const struct verdict_update *update, const json_t *lease,
                    struct mono now)
{
    bool changed = adopt_verdict(m);
    if (update->rewrite) {
        struct mono until = mono_add(now, verdict_writer_ahead_ns(&m->config.verdict));
        record_writer_write(m->parts.record, until, m->hold_most);
    }
    if (update->verdict_changed || !m->is_published) {
        m->is_published = true;
        log_verdict(m, changed, now);
        publish(m);
    } else if (m->unlogged && mono_reached(now, m->flip_logged_until)) {
        log_verdict(m, false, now);
    }
    if (lease && !update->is_past) {
        lease_keeper_saw(m->parts.keeper, lease);
    }
    look_at_lease(m, update, now);
    m->wake_at = mono_min(update->wake_at, m->unlogged ? m->flip_logged_until : MONO_NEVER);
    boot_timer_arm(m->timer, m->wake_at);
}

bool monitor_makes_progress(const struct monitor *m, struct mono now)
{
    return !mono_reached(now, mono_add(m->wake_at, MONITOR_LATE_NS)) &&
           !mono_reached(now, mono_add(m->unanswered_since, MONITOR_UNANSWERED_NS));
}

/* Why the verdict is as it is, for who asks with --log-level=debug. */
static void log_trace(const struct verdict_trace *trace)
{
    char text[VERDICT_RULE_BYTES];
    for (size_t i = 0; log_shows(LOG_DEBUG) && i < trace->count; i++) {
        verdict_trace_text(trace, i, text);
        log_debug("verdict", "%s", text);
    }
}

/* `lease` is what came with it, or NULL. */
static void take_event(struct monitor *m, struct verdict_event event, const json_t *lease)
{
    struct verdict_update update;
    event.now = clock_mono_now();
    event.wall = clock_wall_now();
    if (event.kind <= VERDICT_READ_FAILED || event.kind == VERDICT_MARK) {
        m->hold_most = MONO_NEVER; /* a crash loop before that extends nothing */
    }
    if (event.source == VERDICT_BY_CONFIRM || event.kind == VERDICT_MARK) {
        m->unanswered_since = MONO_NEVER;
    }
    verdict_step(&m->verdict, &event, &update);
    log_trace(&update.trace);
    m->stats = monitor_stats(m, event.now);
    m->lost_at = m->verdict.sight.has_contact ? MONO_NEVER : event.now;
    if (update.renewed) {
        record_carry_settled();
        m->stats.renewals++;
        m->stats.has_skew = update.has_skew;
        m->stats.skew_ns = update.skew_ns;
    }
    if (update.rebooted) {
        note_reboot(m);
    }
    perform(m, &update, lease, event.now);
}

void monitor_event(struct monitor *m, struct verdict_event event)
{
    take_event(m, event, NULL);
}

static void on_timer(void *user)
{
    monitor_event(user, (struct verdict_event){.kind = VERDICT_TICK});
}

/* The verdict first: who keeps the lease in shape can wait. */
static void on_lease_event(void *user, struct verdict_event event, const json_t *object)
{
    struct monitor *m = user;
    event.is_lasting =
        event.kind == VERDICT_LEASE_ABSENT && lease_keeper_is_denied(m->parts.keeper);
    take_event(m, event, object);
}

static void on_lease_written(void *user, const json_t *lease, struct mono sent_at, bool is_patch)
{
    struct monitor *m = user;
    lease_watch_saw(m->parts.watch, lease, sent_at, is_patch);
}

/* ---- start and end --------------------------------------------------------------------------- */

static void start_lease(struct monitor *m)
{
    const struct monitor_config *c = &m->config;
    const struct verdict_config *x = &c->verdict;
    const struct lease_keeper_config keeper = {
        .ns = x->lease_ns,
        .name = x->lease_name,
        .node = c->node,
        .holder = x->holder,
        .duration_s = (uint32_t)(x->duration_ns / NS_PER_SEC),
        .on_written = on_lease_written,
        .user = m,
    };
    m->parts.keeper = lease_keeper_start(daemon_loop(c->daemon), c->client, &keeper);
    const struct lease_watch_config watch = {
        .ns = x->lease_ns,
        .name = x->lease_name,
        .renew_interval_ns = x->renew_interval_ns,
        .deadline_ms = verdict_deadline_ms(x),
        .on_event = on_lease_event,
        .user = m,
    };
    m->parts.watch = lease_watch_start(c->client, &watch);
}

/* Those who tell the API server begin with the verdict that a predecessor left, if any. */
static void start_parts(struct monitor *m)
{
    const struct monitor_config *c = &m->config;
    const struct record_writer_config record = {.path = c->readiness_file,
                                                .node = c->node,
                                                .stale_hold_ns = c->stale_hold_ns,
                                                .turn = c->turn,
                                                .record = &m->record};
    const struct readiness *left =
        m->record.readiness.transition.ns != 0 ? &m->record.readiness : NULL;
    m->parts.record = record_writer_new(daemon_loop(c->daemon), &record);
    if (!c->client) {
        return;
    }
    if (c->verdict.renew_interval_ns != 0) {
        start_lease(m);
    }
    m->parts.events = c->events;
    if (c->events) {
        events_begin(c->events, left);
    }
    if (c->has_condition) {
        m->parts.condition =
            condition_new(daemon_loop(c->daemon), c->client, c->node, c->dpu, c->is_condition_firm);
    }
}

struct monitor *monitor_new(const struct monitor_config *config, const struct record *carry)
{
    struct monitor *m = MEM_NEW(struct monitor);
    m->config = *config;
    m->wake_at = MONO_NEVER;
    m->lost_at = MONO_NEVER;
    m->unanswered_since = MONO_NEVER;
    m->hold_most = MONO_NEVER;
    if (carry) {
        m->record.readiness = carry->readiness; /* its transition lasts while the verdict does */
        m->hold_most = config->verdict.renew_interval_ns ? carry->hold_until : MONO_NEVER;
    }
    m->timer = boot_timer_new(daemon_loop(config->daemon), on_timer, m);
    verdict_init(&m->verdict, &m->config.verdict, carry, clock_mono_now());
    start_parts(m);
    return m;
}

void monitor_free(struct monitor *m)
{
    if (m) {
        condition_free(m->parts.condition);
        lease_watch_stop(m->parts.watch);
        lease_keeper_stop(m->parts.keeper);
        boot_timer_free(m->timer);
        record_writer_free(m->parts.record);
        free(m);
    }
}

void monitor_start(struct monitor *m)
{
    monitor_event(m, (struct verdict_event){.kind = VERDICT_TICK});
}

struct monitor_stats monitor_stats(const struct monitor *m, struct mono now)
{
    struct monitor_stats stats = m->stats;
    stats.api_reachable = m->verdict.sight.has_contact;
    if (!mono_is_never(m->lost_at)) {
        stats.outage_ns = mono_ns_add(stats.outage_ns, mono_since(now, m->lost_at));
    }
    return stats;
}

const struct readiness *monitor_verdict(const struct monitor *m)
{
    return &m->record.readiness;
}

const struct monitor_parts *monitor_parts(const struct monitor *m)
{
    return &m->parts;
}
