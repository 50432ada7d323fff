/* SPDX-License-Identifier: Apache-2.0 */
/* A small world around one readiness FSM: events in one line each, time passed in. */
#ifndef TESTS_UNIT_EXPIRY_WORLD_H
#define TESTS_UNIT_EXPIRY_WORLD_H

#include "host-agent/expiry.h"

#include "base/rfc3339.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SEC(n)  ((struct mono){(int64_t)((n)*1e9) + BOOT_NS})
#define BOOT_NS (1000 * NS_PER_SEC)

struct world {
    bool has_control; /* looks are answered by the test */
    struct expiry x;
    struct expiry_update out;
    struct lease_view lease;
};

static inline struct expiry_config world_config(void)
{
    return (struct expiry_config){.lease_ns = "ovn-kubernetes",
                                  .lease_name = "ovn-dpu-w1",
                                  .holder = "ovnkube-dpu-node",
                                  .renew_interval_ns = 10 * NS_PER_SEC,
                                  .duration_ns = 40 * NS_PER_SEC,
                                  .api_outage_hold_ns = EXPIRY_HOLD_UNLIMITED};
}

static inline struct lease_view world_lease(void)
{
    return (struct lease_view){.ns = "ovn-kubernetes",
                               .name = "ovn-dpu-w1",
                               .uid = "uid-1",
                               .resource_version = "1",
                               .holder = "ovnkube-dpu-node",
                               .duration_s = 40};
}

static inline void world_init(struct world *w, const struct expiry_carry *carry, struct mono now)
{
    struct expiry_config config = world_config();
    *w = (struct world){.lease = world_lease()};
    expiry_init(&w->x, &config, carry, now);
}

/* The DPU's own stamp: its wall clock reads `seconds` past an epoch of its own. */
static inline void world_stamp(struct world *w, double seconds)
{
    w->lease.renew_time =
        (struct wall){INT64_C(1790000000) * NS_PER_SEC + (int64_t)(seconds * 1e9)};
    w->lease.renew_time_valid = true;
    rfc3339_format_micro(w->lease.renew_time, w->lease.renew_stamp);
}

/* A look at the control finds none, unless the test has one. */
static inline void world_step(struct world *w, struct expiry_event event)
{
    expiry_step(&w->x, &event, &w->out);
    assert_true(mono_before(event.now, w->out.wake_at));
    if (w->out.look && !w->has_control) {
        struct expiry_update first = w->out;
        const struct expiry_event none = {
            .kind = EXPIRY_CONTROL, .now = event.now, .control = EXPIRY_CONTROL_NONE};
        expiry_step(&w->x, &none, &w->out);
        w->out.confirm |= first.confirm;
        w->out.renewed |= first.renewed;
        w->out.rewrite |= first.rewrite;
        w->out.restart_watch |= first.restart_watch;
        w->out.verdict_changed |= first.verdict_changed;
    }
}

/* The answer to a look at the control, written at `at` (0: it does not say). */
static inline void world_control(struct world *w, struct mono now, enum expiry_control control,
                                 const char *stamp, struct mono at)
{
    struct lease_view lease = {.duration_s = 40};
    (void)text_copy(lease.renew_stamp, sizeof(lease.renew_stamp), stamp);
    world_step(w, (struct expiry_event){.kind = EXPIRY_CONTROL,
                                        .now = now,
                                        .control = control,
                                        .lease = &lease,
                                        .control_at = at});
}

static inline void world_tick(struct world *w, struct mono now)
{
    world_step(w, (struct expiry_event){.kind = EXPIRY_TICK, .now = now});
}

/* As a working watch shows it. */
static inline void world_seen(struct world *w, struct mono now)
{
    world_step(
        w, (struct expiry_event){.kind = EXPIRY_LEASE_OBSERVED, .now = now, .lease = &w->lease});
}

static inline void world_read_ok(struct world *w, struct mono started, struct mono now)
{
    world_step(w, (struct expiry_event){.kind = EXPIRY_READ_OK,
                                        .now = now,
                                        .started_at = started,
                                        .source = EXPIRY_BY_CONFIRM});
}

static inline void world_read(struct world *w, struct mono started, struct mono now)
{
    world_step(w, (struct expiry_event){.kind = EXPIRY_LEASE_OBSERVED,
                                        .now = now,
                                        .lease = &w->lease,
                                        .source = EXPIRY_BY_CONFIRM});
    struct expiry_update first = w->out;
    world_read_ok(w, started, now);
    w->out.renewed |= first.renewed;
    w->out.restart_watch |= first.restart_watch;
    w->out.confirm |= first.confirm;
}

static inline void world_absent(struct world *w, struct mono now)
{
    world_step(w, (struct expiry_event){.kind = EXPIRY_LEASE_ABSENT, .now = now});
}

static inline void world_fail(struct world *w, struct mono now)
{
    world_step(w, (struct expiry_event){.kind = EXPIRY_READ_FAILED,
                                        .now = now,
                                        .failure = "connection refused",
                                        .source = EXPIRY_BY_CONFIRM});
}

static inline void world_unreadable(struct world *w, struct mono started, struct mono now)
{
    world_step(w, (struct expiry_event){.kind = EXPIRY_LEASE_UNREADABLE,
                                        .now = now,
                                        .failure = "the answer is not a JSON object",
                                        .source = EXPIRY_BY_CONFIRM});
    world_read_ok(w, started, now);
}

static inline void world_watch(struct world *w, struct mono now, bool works)
{
    world_step(w, (struct expiry_event){.kind = works ? EXPIRY_WATCH_WORKS : EXPIRY_WATCH_BROKEN,
                                        .now = now});
}

/* A renewal seen by the watch, stamped by a DPU whose clock runs as ours does. */
static inline void world_renew(struct world *w, double at)
{
    world_stamp(w, at);
    world_seen(w, SEC(at));
}

/* Started at 0 with a lease that was never renewed, first renewal seen at 1. */
static inline void world_ready(struct world *w)
{
    world_init(w, NULL, SEC(0));
    world_tick(w, SEC(0));
    world_read(w, SEC(0), SEC(0.01));
    world_renew(w, 1);
}

/* What the DPU says of itself, the next time that the lease is seen. */
static inline void world_report(struct world *w, enum lease_health health, const char *why)
{
    w->lease.health = health;
    (void)text_copy(w->lease.health_message, sizeof(w->lease.health_message), why);
}

/* A dead DPU and a well host: early reads succeed at the times the FSM asks for them. */
static inline void world_silence_until(struct world *w, double until)
{
    while (mono_before(w->out.wake_at, SEC(until))) {
        struct mono now = w->out.wake_at;
        world_tick(w, now);
        if (w->out.confirm) {
            world_read(w, now, mono_add(now, NS_PER_MS));
        }
    }
}

static inline void expect(const struct world *w, enum readiness_state state,
                          enum readiness_reason reason, bool admit)
{
    const struct readiness *v = expiry_verdict(&w->x);
    if (v->state != state || v->reason != reason || v->admit != admit) {
        fail_msg("verdict is %s/%s admit=%d (%s), expected %s/%s admit=%d",
                 readiness_state_name(v->state), readiness_reason_name(v->reason), v->admit,
                 v->message, readiness_state_name(state), readiness_reason_name(reason), admit);
    }
}

#endif
