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

void sim_api_create_lease(struct sim *s)
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

static int64_t confirm_deadline_ns(const struct sim *s)
{
    const struct expiry_config config = host_config(s);
    return (int64_t)expiry_confirm_deadline_ms(&config) * NS_PER_MS;
}

static void host_start_read(struct sim *s, struct sim_read *read, enum expiry_source source)
{
    *read = (struct sim_read){.active = true, .source = source, .started = s->now};
    read->arrives = sim_soon(s, 1, 30);
    int64_t most_ns = s->api.slow ? 2 * confirm_deadline_ns(s) : 30 * NS_PER_MS;
    read->returns = mono_add(read->arrives, sim_random_between(&s->random, NS_PER_MS, most_ns));
    s->host_requests++;
}

static void host_event(struct sim *s, struct expiry_event event)
{
    struct expiry_update out;
    event.now = s->now;
    expiry_step(&s->host.fsm, &event, &out);
    s->host.wake_at = out.wake_at;
    static const char *const kinds[] = {"observed",    "absent",      "unreadable",
                                        "read ok",     "read failed", "watch broken",
                                        "watch works", "control",     "tick"};
    const struct readiness *v = expiry_verdict(&s->host.fsm);
    sim_tell(s, "host: %s -> %s/%s%s%s%s, valid for %.3f s", kinds[event.kind],
             readiness_state_name(v->state), readiness_reason_name(v->reason),
             out.renewed ? ", renewed" : "", out.confirm ? ", confirms" : "",
             out.rewrite ? ", writes" : "", (double)mono_since(v->valid_until, s->now) / 1e9);
    if (out.rewrite) {
        host_write_record(s);
    }
    if (out.confirm) {
        host_start_read(s, &s->host.confirm, EXPIRY_BY_CONFIRM);
    }
    if (out.look) {
        host_start_read(s, &s->host.look, EXPIRY_BY_READ);
    }
    if (out.restart_watch) {
        s->host.watching = false;
        s->host.watch_stuck = false;
        s->host.watch_retry = s->now;
    }
    if (out.repair && s->api.up && s->api.takes_writes && s->host.link_up &&
        !s->api.lease_present) {
        sim_api_create_lease(s);
        struct lease_view created = s->api.lease; /* the answer to the keeper's POST */
        host_event(s, (struct expiry_event){.kind = EXPIRY_LEASE_OBSERVED,
                                            .lease = &created,
                                            .source = EXPIRY_BY_READ});
    }
}

static bool host_has_path(const struct sim *s)
{
    return s->api.up && s->host.link_up;
}

/* What a read finds when it reaches the server. */
static void host_read_arrives(struct sim *s, struct sim_read *read)
{
    read->decided = true;
    read->answered = host_has_path(s) &&
                     (read->source == EXPIRY_BY_CONFIRM || read == &s->host.look || s->api.watches);
    read->present = s->api.lease_present;
    read->seen = s->api.lease;
    read->control = s->api.control;
    if (!host_has_path(s)) { /* refused at once, or hanging until the deadline */
        read->returns = sim_random_one_in(&s->random, 2)
                            ? mono_add(read->started, confirm_deadline_ns(s))
                            : read->returns;
    }
    struct mono deadline = mono_add(read->started, confirm_deadline_ns(s));
    if (mono_before(deadline, read->returns)) {
        read->returns = deadline;
        read->answered = false;
    }
}

/* Has it come back? Then it is over. */
static bool host_read_is_back(struct sim *s, struct sim_read *read)
{
    if (read->active && !read->decided && mono_reached(s->now, read->arrives)) {
        host_read_arrives(s, read);
    }
    if (!read->active || !read->decided || mono_before(s->now, read->returns)) {
        return false;
    }
    read->active = false;
    read->answered = read->answered && host_has_path(s);
    return true;
}

static void host_show(struct sim *s, const struct sim_read *done)
{
    host_event(s, (struct expiry_event){.kind = done->present ? EXPIRY_LEASE_OBSERVED
                                                              : EXPIRY_LEASE_ABSENT,
                                        .lease = &done->seen,
                                        .source = done->source});
    host_event(s, (struct expiry_event){
                      .kind = EXPIRY_READ_OK, .source = done->source, .started_at = done->started});
}

static void host_confirm_step(struct sim *s)
{
    if (!host_read_is_back(s, &s->host.confirm)) {
        return;
    }
    struct sim_read done = s->host.confirm;
    if (done.answered) {
        host_show(s, &done);
    } else {
        host_event(s, (struct expiry_event){.kind = EXPIRY_READ_FAILED,
                                            .source = done.source,
                                            .failure = "no answer"});
    }
}

static void host_look_step(struct sim *s)
{
    if (!host_read_is_back(s, &s->host.look)) {
        return;
    }
    struct sim_read done = s->host.look;
    struct lease_view control = {.duration_s = 40};
    (void)snprintf(control.renew_stamp, sizeof(control.renew_stamp), "%lld",
                   (long long)done.control.ns);
    host_event(s, (struct expiry_event){.kind = EXPIRY_CONTROL,
                                        .control = !done.answered         ? EXPIRY_CONTROL_LOST
                                                   : done.control.ns == 0 ? EXPIRY_CONTROL_NONE
                                                                          : EXPIRY_CONTROL_SEEN,
                                        .lease = &control,
                                        .control_at = done.control});
}

static void host_list_step(struct sim *s)
{
    if (!host_read_is_back(s, &s->host.list)) {
        return;
    }
    struct sim_read done = s->host.list;
    if (!done.answered) {
        host_event(s, (struct expiry_event){.kind = EXPIRY_WATCH_BROKEN});
        s->host.watch_retry = sim_soon(s, 100, 5000);
        return;
    }
    host_show(s, &done);
    s->host.watching = true;
    s->host.watch_stuck = false;
    s->host.watch_due = sim_soon(s, 1, 20);
    host_event(s, (struct expiry_event){.kind = EXPIRY_WATCH_WORKS});
}

static void host_watch_step(struct sim *s)
{
    struct sim_host *h = &s->host;
    if (!h->watching && !h->list.active && mono_reached(s->now, h->watch_retry)) {
        host_start_read(s, &h->list, EXPIRY_BY_READ);
    }
    if (h->watching && !h->watch_stuck && (!host_has_path(s) || !s->api.watches)) {
        if (sim_random_one_in(&s->random, 2)) {
            h->watch_stuck = true; /* half open: nobody tells us */
        } else {
            h->watching = false;
            h->watch_retry = sim_soon(s, 0, 1000);
            host_event(s, (struct expiry_event){.kind = EXPIRY_WATCH_BROKEN});
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

/* The kubelet of the host's node renews its own lease; it is not our host agent. */
static void kubelet_step(struct sim *s)
{
    if (s->api.control.ns == 0 || mono_before(s->now, s->api.next_control)) {
        return;
    }
    bool written = s->api.up && s->api.takes_writes && s->host.link_up;
    s->api.next_control = sim_soon(s, written ? 10000 : 200, written ? 10400 : 7000);
    s->api.control = written ? s->now : s->api.control;
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
    s->host.look.active = false;
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
    host_confirm_step(s);
    host_look_step(s);
    host_list_step(s);
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
    s->watchdog.mute_since = MONO_NEVER;
    s->api.up = true;
    s->api.takes_writes = true;
    s->api.watches = true;
    s->api.control = sim_random_one_in(&s->random, 3) ? (struct mono){0} : s->now;
    sim_api_create_lease(s);
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
        s->dpu.wake_at,          s->dpu.call.arrives,
        s->dpu.call.returns,     s->dpu.call.deadline,
        s->host.wake_at,         s->host.list.arrives,
        s->host.list.returns,    s->host.confirm.arrives,
        s->host.confirm.returns, s->host.look.arrives,
        s->host.look.returns,    s->api.next_control,
        s->host.watch_retry,     s->host.watch_due,
        s->host.restart_at,      s->host.wake_from_stop,
        s->next_fault,           s->heal_at,
        s->record.writer_until,  s->record.verdict.valid_until,
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
        kubelet_step(s);
        sim_dpu_step(s);
        host_step(s);
        sim_check(s);
    }
    return s->failure[0] == '\0';
}
