/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/sim.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sim_tell(const struct sim *s, const char *fmt, ...)
{
    if (s->trace) {
        va_list ap;
        va_start(ap, fmt);
        (void)printf("%10.3f  ", (double)(s->now.ns - 1000 * NS_PER_SEC) / 1e9);
        (void)vprintf(fmt, ap);
        (void)printf("\n");
        va_end(ap);
    }
}

struct mono sim_soon(struct sim *s, int64_t least_ms, int64_t most_ms)
{
    return mono_add(s->now,
                    sim_random_between(&s->random, least_ms * NS_PER_MS, most_ms * NS_PER_MS));
}

static struct expiry_config host_config(const struct sim *s)
{
    return (struct expiry_config){.lease_ns = "ovn-kubernetes",
                                  .lease_name = "ovn-dpu-w1",
                                  .holder = NAMES_HOLDER_IDENTITY,
                                  .renew_interval_ns = s->timers.interval_ns,
                                  .duration_ns = s->timers.duration_ns,
                                  .api_outage_hold_ns = EXPIRY_HOLD_UNLIMITED};
}

/* ---- the API server ---------------------------------------------------------------------------
 */

void sim_api_touch(struct sim *s)
{
    (void)snprintf(s->api.lease.resource_version, sizeof(s->api.lease.resource_version), "%u",
                   ++s->api.next_version);
    s->host.watch_due = mono_max(sim_soon(s, 1, 20), s->host.watch_due);
}

static void api_create_lease(struct sim *s)
{
    s->api.lease =
        (struct lease_view){.ns = "ovn-kubernetes",
                            .name = "ovn-dpu-w1",
                            .holder = NAMES_HOLDER_IDENTITY,
                            .duration_s = (uint32_t)(s->timers.duration_ns / NS_PER_SEC)};
    (void)snprintf(s->api.lease.uid, sizeof(s->api.lease.uid), "uid-%u", ++s->api.next_uid);
    s->api.lease_present = true;
    sim_api_touch(s);
}

/* ---- the host's shell ------------------------------------------------------------------------ */

static void host_write_record(struct sim *s)
{
    struct record *r = &s->record;
    (void)text_copy(r->boot_id, sizeof(r->boot_id), SIM_BOOT_ID); /* it fits */
    r->verdict = *expiry_verdict(&s->host.fsm);
    r->writer_until = expiry_writer_until(&s->host.fsm, s->now);
    r->hold_until =
        mono_add(mono_max(r->writer_until, r->verdict.valid_until), s->timers.stale_hold_ns);
    s->has_record = true;
}

static void host_start_read(struct sim *s, struct sim_read *read, bool by_confirm)
{
    *read = (struct sim_read){.active = true, .by_confirm = by_confirm, .started = s->now};
    read->arrives = sim_soon(s, 1, 30);
    read->returns =
        mono_add(read->arrives, sim_random_between(&s->random, NS_PER_MS, 30 * NS_PER_MS));
    s->host_requests++;
}

static void host_event(struct sim *s, struct expiry_event event)
{
    struct expiry_update out;
    event.now = s->now;
    expiry_step(&s->host.fsm, &event, &out);
    s->host.wake_at = out.wake_at;
    static const char *const kinds[] = {"observed",    "absent",  "read ok",
                                        "read failed", "contact", "tick"};
    const struct readiness *v = expiry_verdict(&s->host.fsm);
    sim_tell(s, "host: %s -> %s/%s%s%s%s, valid for %.3f s", kinds[event.kind],
             readiness_state_name(v->state), readiness_reason_name(v->reason),
             out.renewed ? ", renewed" : "", out.confirm ? ", confirms" : "",
             out.rewrite ? ", writes" : "", (double)mono_since(v->valid_until, s->now) / 1e9);
    if (out.rewrite) {
        host_write_record(s);
    }
    if (out.confirm) {
        host_start_read(s, &s->host.confirm, true);
    }
    if (out.restart_watch) {
        s->host.watching = false;
        s->host.watch_stuck = false;
        s->host.watch_retry = s->now;
    }
    if (out.repair && s->api.up && s->host.link_up && !s->api.lease_present) {
        api_create_lease(s);
        struct lease_view created = s->api.lease; /* the answer to the keeper's POST */
        host_event(s, (struct expiry_event){.kind = EXPIRY_LEASE_OBSERVED, .lease = &created});
    }
}

static bool host_has_path(const struct sim *s)
{
    return s->api.up && s->host.link_up;
}

static void host_read_step(struct sim *s, struct sim_read *read)
{
    if (read->active && !read->decided && mono_reached(s->now, read->arrives)) {
        read->decided = true;
        read->answered = host_has_path(s);
        read->present = s->api.lease_present;
        read->seen = s->api.lease;
        if (!read->answered) { /* refused at once, or hanging until the deadline */
            const struct expiry_config config = host_config(s);
            int64_t hang_ns = (int64_t)expiry_confirm_deadline_ms(&config) * NS_PER_MS;
            read->returns =
                sim_random_one_in(&s->random, 2) ? mono_add(read->started, hang_ns) : read->returns;
        }
    }
    if (!read->active || !read->decided || mono_before(s->now, read->returns)) {
        return;
    }
    read->active = false;
    struct sim_read done = *read;
    if (done.answered && host_has_path(s)) {
        host_event(s, (struct expiry_event){.kind = done.present ? EXPIRY_LEASE_OBSERVED
                                                                 : EXPIRY_LEASE_ABSENT,
                                            .lease = &done.seen,
                                            .by_confirm = done.by_confirm});
        host_event(s, (struct expiry_event){.kind = EXPIRY_READ_OK, .started_at = done.started});
        if (!done.by_confirm) {
            s->host.watching = true;
            s->host.watch_stuck = false;
            s->host.watch_due = sim_soon(s, 1, 20);
        }
    } else {
        host_event(s, (struct expiry_event){.kind = EXPIRY_READ_FAILED, .failure = "no answer"});
        if (!done.by_confirm) {
            s->host.watch_retry = sim_soon(s, 100, 5000);
        }
    }
}

static void host_watch_step(struct sim *s)
{
    struct sim_host *h = &s->host;
    if (!h->watching && !h->list.active && mono_reached(s->now, h->watch_retry)) {
        host_start_read(s, &h->list, false);
    }
    if (h->watching && !h->watch_stuck && !host_has_path(s)) {
        if (sim_random_one_in(&s->random, 2)) {
            h->watch_stuck = true; /* half open: nobody tells us */
        } else {
            h->watching = false;
            h->watch_retry = sim_soon(s, 0, 1000);
            host_event(s, (struct expiry_event){.kind = EXPIRY_READ_FAILED, .failure = "reset"});
        }
    }
    if (h->watching && !h->watch_stuck && h->watch_version != s->api.next_version &&
        mono_reached(s->now, h->watch_due)) {
        h->watch_version = s->api.next_version;
        struct lease_view seen = s->api.lease;
        host_event(s, (struct expiry_event){.kind = s->api.lease_present ? EXPIRY_LEASE_OBSERVED
                                                                         : EXPIRY_LEASE_ABSENT,
                                            .lease = &seen});
    }
}

static void host_start(struct sim *s)
{
    const struct expiry_config config = host_config(s);
    struct expiry_carry carry = {.verdict = s->record.verdict, .hold_until = s->record.hold_until};
    expiry_init(&s->host.fsm, &config, s->has_record ? &carry : NULL, s->now);
    s->host.running = true;
    s->host.watching = false;
    s->host.watch_stuck = false;
    s->host.list.active = false;
    s->host.confirm.active = false;
    s->host.watch_retry = s->now;
    s->host.wake_at = s->now;
}

static void host_step(struct sim *s)
{
    struct sim_host *h = &s->host;
    if (!h->running && mono_reached(s->now, h->restart_at)) {
        host_start(s);
    }
    if (h->stopped && mono_reached(s->now, h->wake_from_stop)) {
        h->stopped = false;
    }
    if (!h->running || h->stopped) {
        return;
    }
    /* After a stall libev may run timers or sockets first: draw the order. */
    bool timers_first = sim_random_one_in(&s->random, 2);
    if (timers_first && mono_reached(s->now, h->wake_at)) {
        host_event(s, (struct expiry_event){.kind = EXPIRY_TICK});
    }
    host_read_step(s, &h->confirm);
    host_read_step(s, &h->list);
    host_watch_step(s);
    if (mono_reached(s->now, h->wake_at)) {
        host_event(s, (struct expiry_event){.kind = EXPIRY_TICK});
    }
}

/* ---- the run --------------------------------------------------------------------------------- */

void sim_init(struct sim *s, uint64_t seed)
{
    static const struct {
        int64_t interval_ms, duration_s;
    } timers[] = {{10000, 40}, {1000, 4}, {10000, 12}, {5000, 15}, {2000, 60}};
    *s = (struct sim){.seed = seed, .random = {seed}, .now = {1000 * NS_PER_SEC}};
    size_t i = (size_t)sim_random_between(&s->random, 0, 4);
    s->timers = (struct sim_timers){.interval_ns = timers[i].interval_ms * NS_PER_MS,
                                    .duration_ns = timers[i].duration_s * NS_PER_SEC,
                                    .stale_hold_ns = 300 * NS_PER_SEC};
    s->api.up = true;
    api_create_lease(s);
    s->dpu.link_up = true;
    s->dpu.wall_offset_ns = sim_random_between(&s->random, -7200 * NS_PER_SEC, 7200 * NS_PER_SEC);
    sim_dpu_start(s);
    s->host.link_up = true;
    s->next_fault = sim_soon(s, 60000, 120000);
    host_start(s);
}

static void consider(const struct sim *s, struct mono *next, struct mono when)
{
    if (mono_before(s->now, when)) {
        *next = mono_min(*next, when);
    }
}

static struct mono next_time(const struct sim *s)
{
    struct mono next = mono_add(s->now, s->timers.interval_ns / 7); /* a reader comes by */
    const struct mono times[] = {
        s->dpu.wake_at,
        s->dpu.call.arrives,
        s->dpu.call.returns,
        s->dpu.call.deadline,
        s->host.wake_at,
        s->host.list.arrives,
        s->host.list.returns,
        s->host.confirm.arrives,
        s->host.confirm.returns,
        s->host.watch_retry,
        s->host.watch_due,
        s->host.restart_at,
        s->host.wake_from_stop,
        s->next_fault,
        s->heal_at,
        s->record.writer_until,
        s->record.verdict.valid_until,
    };
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        consider(s, &next, times[i]);
    }
    return next;
}

bool sim_run(struct sim *s, int64_t span_ns)
{
    struct mono end = mono_add(s->now, span_ns);
    while (mono_before(s->now, end) && s->failure[0] == '\0') {
        s->now = next_time(s);
        s->steps++;
        sim_inject(s);
        sim_dpu_step(s);
        host_step(s);
        sim_check(s);
    }
    return s->failure[0] == '\0';
}
