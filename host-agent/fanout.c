/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/fanout.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "host-agent/carry.h"
#include "host-agent/sink_record.h"
#include "loop/daemon.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_LOG_NS (60 * NS_PER_SEC)

struct fanout {
    struct expiry fsm;
    struct readiness published; /* the verdict with the time of its transition */
    struct sink_record *record;
    struct boot_timer *timer;
    struct fanout_actions actions;
    struct fanout_sink sinks[FANOUT_MAX_SINKS];
    size_t sink_count;
    bool is_published; /* every sink has seen a verdict */
    struct log_repeat words;
    struct mono flip_logged_until;
    bool unlogged; /* a change was held back */
    struct mono wake_at;
    struct fanout_stats stats;
    struct mono lost_at;          /* API contact; MONO_NEVER: it is not lost */
    struct mono unanswered_since; /* the oldest confirming read without outcome; MONO_NEVER: none */
};

/* Takes over the verdict of the FSM; state, admission or reason changing is a transition. True if
 * it is one. */
static bool adopt_verdict(struct fanout *f)
{
    const struct readiness *v = expiry_verdict(&f->fsm);
    struct wall transition = f->published.transition;
    bool changed = transition.ns == 0 || v->state != f->published.state ||
                   v->admit != f->published.admit || v->reason != f->published.reason;
    if (changed) {
        transition = clock_wall_now();
        f->stats.changes[v->reason]++;
    }
    f->published = *v;
    f->published.transition = transition;
    return changed;
}

/* A change at most once an interval, and other words for the same at most once a minute: a probe
 * may find new ones at each run, a DPU may say one thing and another at each moment. */
static void log_verdict(struct fanout *f, bool changed, struct mono now)
{
    const struct readiness *v = &f->published;
    if (changed && mono_reached(now, f->flip_logged_until)) {
        log_repeat_reset(&f->words);
        f->flip_logged_until = mono_add(now, f->fsm.config.renew_interval_ns);
    }
    f->unlogged = changed || f->unlogged;
    if (!log_repeat_due(&f->words, now, WORDS_LOG_NS)) {
        return;
    }
    f->unlogged = false;
    log_info("readiness", "%s (%s%s): %s%s", readiness_state_name(v->state),
             readiness_reason_name(v->reason),
             v->state == READINESS_UNKNOWN ? (v->admit ? ", pods are admitted" : ", pods are held")
                                           : "",
             v->message, f->words.more);
}

static void publish(struct fanout *f)
{
    for (size_t i = 0; i < f->sink_count; i++) {
        f->sinks[i].publish(f->sinks[i].user, &f->published);
    }
}

static void count_renewal(struct fanout *f)
{
    struct wall stamp;
    f->stats.renewals++;
    const char *text = expiry_verdict(&f->fsm)->lease.renew_stamp;
    f->stats.has_skew = rfc3339_parse(text, strlen(text), &stamp, NULL) == 0;
    f->stats.skew_ns = f->stats.has_skew ? wall_since(stamp, clock_wall_now()) : 0;
}

static void count_contact(struct fanout *f, struct mono now)
{
    bool was_lost = f->lost_at.ns != MONO_NEVER.ns;
    if (f->fsm.contact_lost && !was_lost) {
        f->lost_at = now;
    } else if (!f->fsm.contact_lost && was_lost) {
        f->stats.outage_ns = mono_ns_add(f->stats.outage_ns, mono_since(now, f->lost_at));
        f->lost_at = MONO_NEVER;
    }
}

static void perform(struct fanout *f, const struct expiry_update *update, struct mono now)
{
    bool changed = adopt_verdict(f);
    if (update->rewrite) {
        sink_record_write(f->record, &f->published, expiry_writer_until(&f->fsm, now));
    }
    if (update->verdict_changed || !f->is_published) {
        f->is_published = true;
        log_verdict(f, changed, now);
        publish(f);
    } else if (f->unlogged && mono_reached(now, f->flip_logged_until)) {
        log_verdict(f, true, now);
    }
    if (update->confirm && f->actions.confirm) {
        f->unanswered_since = mono_min(f->unanswered_since, now);
        f->actions.confirm(f->actions.user);
    }
    if (update->look && f->actions.look) {
        f->actions.look(f->actions.user);
    }
    if (update->restart_watch && f->actions.restart_watch) {
        f->actions.restart_watch(f->actions.user);
    }
    if (update->repair && f->actions.repair) {
        f->actions.repair(f->actions.user);
    }
    f->wake_at = update->wake_at;
    boot_timer_arm(f->timer, update->wake_at);
}

bool fanout_makes_progress(const struct fanout *f, struct mono now)
{
    return !mono_reached(now, mono_add(f->wake_at, FANOUT_LATE_NS)) &&
           !mono_reached(now, mono_add(f->unanswered_since, FANOUT_UNANSWERED_NS));
}

void fanout_event(struct fanout *f, struct expiry_event event)
{
    struct expiry_update update;
    event.now = clock_mono_now();
    if (event.kind == EXPIRY_READ_OK || event.kind == EXPIRY_READ_FAILED) {
        f->unanswered_since = MONO_NEVER;
    }
    expiry_step(&f->fsm, &event, &update);
    count_contact(f, event.now);
    if (update.renewed) {
        carry_settled();
        count_renewal(f);
    }
    perform(f, &update, event.now);
}

static void on_timer(void *user)
{
    fanout_event(user, (struct expiry_event){.kind = EXPIRY_TICK});
}

int fanout_new(struct ev_loop *loop, const struct expiry_config *config,
               const struct expiry_carry *carry, struct sink_record *record, struct fanout **out,
               struct err *e)
{
    CLEANUP(free) struct fanout *f = calloc(1, sizeof(*f));
    if (!f) {
        return err_set(e, ERR_NOMEM, "out of memory");
    }
    f->record = record;
    f->wake_at = MONO_NEVER;
    f->lost_at = MONO_NEVER;
    f->unanswered_since = MONO_NEVER;
    if (carry) {
        f->published = carry->verdict; /* its transition lasts while the verdict does */
    }
    expiry_init(&f->fsm, config, carry, clock_mono_now());
    int rc = boot_timer_new(loop, on_timer, f, &f->timer, e);
    if (rc != 0) {
        return rc;
    }
    *out = TAKE(f);
    return 0;
}

void fanout_free(struct fanout *f)
{
    if (f) {
        boot_timer_free(f->timer);
        free(f);
    }
}

void fanout_set_actions(struct fanout *f, const struct fanout_actions *actions)
{
    f->actions = *actions;
}

int fanout_add_sink(struct fanout *f, const struct fanout_sink *sink, struct err *e)
{
    if (f->sink_count == FANOUT_MAX_SINKS) {
        return err_set(e, ERR_LIMIT, "more than %d sinks", (int)FANOUT_MAX_SINKS);
    }
    f->sinks[f->sink_count++] = *sink;
    return 0;
}

void fanout_start(struct fanout *f)
{
    fanout_event(f, (struct expiry_event){.kind = EXPIRY_TICK});
}

struct fanout_stats fanout_stats(const struct fanout *f, struct mono now)
{
    struct fanout_stats stats = f->stats;
    stats.api_reachable = f->fsm.contact_made && !f->fsm.contact_lost;
    if (f->lost_at.ns != MONO_NEVER.ns) {
        stats.outage_ns = mono_ns_add(stats.outage_ns, mono_since(now, f->lost_at));
    }
    return stats;
}

const struct readiness *fanout_verdict(const struct fanout *f)
{
    return &f->published;
}
