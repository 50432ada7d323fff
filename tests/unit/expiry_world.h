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

static inline void world_step(struct world *w, struct expiry_event event)
{
    expiry_step(&w->x, &event, &w->out);
    assert_true(mono_before(event.now, w->out.wake_at));
}

static inline void world_tick(struct world *w, struct mono now)
{
    world_step(w, (struct expiry_event){.kind = EXPIRY_TICK, .now = now});
}

static inline void world_seen(struct world *w, struct mono now)
{
    world_step(
        w, (struct expiry_event){.kind = EXPIRY_LEASE_OBSERVED, .now = now, .lease = &w->lease});
}

static inline void world_read(struct world *w, struct mono started, struct mono now)
{
    world_step(
        w, (struct expiry_event){
               .kind = EXPIRY_LEASE_OBSERVED, .now = now, .lease = &w->lease, .by_confirm = true});
    bool renewed = w->out.renewed;
    bool restart = w->out.restart_watch;
    bool confirm = w->out.confirm;
    world_step(w, (struct expiry_event){.kind = EXPIRY_READ_OK, .now = now, .started_at = started});
    w->out.renewed |= renewed;
    w->out.restart_watch |= restart;
    w->out.confirm |= confirm;
}

static inline void world_absent(struct world *w, struct mono now)
{
    world_step(w, (struct expiry_event){.kind = EXPIRY_LEASE_ABSENT, .now = now});
}

static inline void world_read_ok(struct world *w, struct mono started, struct mono now)
{
    world_step(w, (struct expiry_event){.kind = EXPIRY_READ_OK, .now = now, .started_at = started});
}

static inline void world_fail(struct world *w, struct mono now)
{
    world_step(w, (struct expiry_event){
                      .kind = EXPIRY_READ_FAILED, .now = now, .failure = "connection refused"});
}

static inline void world_contact(struct world *w, struct mono now)
{
    world_step(w, (struct expiry_event){.kind = EXPIRY_CONTACT, .now = now});
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
