/* SPDX-License-Identifier: Apache-2.0 */
/* A small world around one verdict: events in one line each, time passed in. */
#ifndef TESTS_UNIT_VERDICT_WORLD_H
#define TESTS_UNIT_VERDICT_WORLD_H

#include "host-agent/verdict.h"

#include "base/text.h"
#include "base/time.h"
#include "tests/support/case.h"

#define BOOT_NS (1000 * NS_PER_SEC)
#define SEC(n)  ((struct mono){(int64_t)((n)*1e9 + (double)BOOT_NS + 0.5)})

/* R at the world's interval of 10 s: a pause of 10 s, three requests of 9 s, and a second. */
#define R       38.0
#define SERVE_S 0.001 /* world_serve takes that long for a request: R counts from its answer */

#define READY(w)    expect((w), READINESS_READY, REASON_LEASE_RENEWED, true)
#define HELD(w)     expect((w), READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, true)
#define MUTE(w)     expect((w), READINESS_UNKNOWN, REASON_API_SERVER_NOT_WRITING, true)
#define EXPIRED(w)  expect((w), READINESS_NOT_READY, REASON_LEASE_EXPIRED, false)
#define INVALID(w)  expect((w), READINESS_NOT_READY, REASON_LEASE_INVALID, false)
#define GONE(w)     expect((w), READINESS_NOT_READY, REASON_LEASE_NOT_FOUND, false)
#define SICK(w)     expect((w), READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false)
#define AWAITING(w) expect((w), READINESS_UNKNOWN, REASON_AWAITING_FIRST_RENEWAL, false)

struct world {
    struct verdict_config config;
    struct verdict x;
    struct verdict_update out; /* of the last call below; what it said in several steps is united */
    bool followed[VERDICT_RULES]; /* since expect_rule() last asked */
    struct lease_view lease;      /* as it is in etcd */
    bool may_not_create;          /* a lease that is gone stays gone */
    int marks, trials, reads;     /* asked for, and answered by world_serve */
    struct mono written;          /* the record, for the last time */
};

static inline struct verdict_config world_config(void)
{
    return (struct verdict_config){.lease_ns = "ovn-kubernetes",
                                   .lease_name = "ovn-dpu-w1",
                                   .holder = "ovnkube-dpu-node",
                                   .renew_interval_ns = 10 * NS_PER_SEC,
                                   .duration_ns = 40 * NS_PER_SEC,
                                   .api_outage_hold_ns = VERDICT_HOLD_UNLIMITED};
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

static inline void world_init_with(struct world *w, const struct verdict_config *config,
                                   const struct record *carry, struct mono now)
{
    *w = (struct world){.config = *config, .lease = world_lease()};
    w->lease.duration_s = (uint32_t)(config->duration_ns / NS_PER_SEC);
    verdict_init(&w->x, &w->config, carry, now);
}

static inline void world_init(struct world *w, const struct record *carry, struct mono now)
{
    struct verdict_config config = world_config();
    world_init_with(w, &config, carry, now);
}

/* The DPU's own stamp: its wall clock reads `seconds` past an epoch of its own. */
static inline void world_stamp(struct world *w, double seconds)
{
    w->lease.renew_time =
        (struct wall){INT64_C(1790000000) * NS_PER_SEC + (int64_t)(seconds * 1e9)};
    w->lease.renew_time_valid = true;
    text_format(w->lease.renew_stamp, sizeof(w->lease.renew_stamp), "%s",
                rfc3339_text(w->lease.renew_time, true).text);
}

/* One more step of the same call. */
static inline void world_also(struct world *w, struct verdict_event event)
{
    const struct verdict_update before = w->out;
    verdict_step(&w->x, &event, &w->out);
    assert_true(mono_before(event.now, w->out.wake_at));
    w->written = w->out.rewrite ? event.now : w->written;
    w->out.verdict_changed |= before.verdict_changed;
    w->out.renewed |= before.renewed;
    w->out.rebooted |= before.rebooted;
    w->out.rewrite |= before.rewrite;
    w->out.confirm |= before.confirm;
    w->out.mark |= before.mark;
    w->out.is_trial |= before.is_trial;
    w->out.restart_watch |= before.restart_watch;
    w->out.repair |= before.repair;
    for (size_t i = 0; i < w->out.trace.count; i++) {
        w->followed[w->out.trace.steps[i].rule] = true;
    }
}

static inline void world_step(struct world *w, struct verdict_event event)
{
    w->out = (struct verdict_update){.wake_at = MONO_NEVER};
    world_also(w, event);
}

static inline void world_tick(struct world *w, struct mono now)
{
    world_step(w, (struct verdict_event){.kind = VERDICT_TICK, .now = now});
}

static inline void world_observe(struct world *w, enum verdict_source source, struct mono started,
                                 struct mono now)
{
    world_step(w, (struct verdict_event){.kind = VERDICT_LEASE_OBSERVED,
                                         .now = now,
                                         .started_at = started,
                                         .lease = &w->lease,
                                         .source = source});
}

/* As a working watch shows it. */
static inline void world_seen(struct world *w, struct mono now)
{
    world_observe(w, VERDICT_BY_WATCH, now, now);
}

static inline void world_version(struct world *w, uint64_t version)
{
    text_format(w->lease.resource_version, sizeof(w->lease.resource_version), "%llu",
                (unsigned long long)version);
}

static inline void world_next_version(struct world *w)
{
    const char *text = w->lease.resource_version;
    uint64_t version;
    assert_int_equal(text_to_u64(text, strlen(text), &version, NULL), 0);
    world_version(w, version + 1);
}

/* The list before the watch. */
static inline void world_list(struct world *w, struct mono now)
{
    world_observe(w, VERDICT_BY_READ, now, now);
}

/* What the core asks for is answered by a server of one kind. */
static inline void world_told(struct world *w, enum mark_outcome server, enum verdict_source source,
                              struct mono started, struct mono now)
{
    struct verdict_event event = {.now = now,
                                  .started_at = started,
                                  .source = source,
                                  .lease = &w->lease,
                                  .is_lasting = w->may_not_create};
    event.kind = server == MARK_LOST       ? VERDICT_READ_FAILED
                 : server == MARK_NONSENSE ? VERDICT_LEASE_UNREADABLE
                 : server == MARK_ABSENT   ? VERDICT_LEASE_ABSENT
                                           : VERDICT_LEASE_OBSERVED;
    event.failure = server == MARK_LOST ? "connection refused" : "the answer is not a JSON object";
    world_step(w, event);
}

static inline void world_read_from(struct world *w, enum mark_outcome server, struct mono started,
                                   struct mono now)
{
    world_told(w, server, VERDICT_BY_CONFIRM, started, now);
}

/* The read that `confirm` asks for. */
static inline void world_read(struct world *w, struct mono started, struct mono now)
{
    world_read_from(w, MARK_TAKEN, started, now);
}

static inline void world_fail(struct world *w, struct mono now)
{
    world_read_from(w, MARK_LOST, now, now);
}

/* A write that counts from `started` has ended: a mark, or one of the keeper's. */
static inline void world_write(struct world *w, enum verdict_source who, enum mark_outcome outcome,
                               struct mono started, struct mono now)
{
    bool is_trial = who == VERDICT_BY_MARK && w->out.is_trial;
    bool is_written = outcome == MARK_TAKEN && !is_trial;
    w->out = (struct verdict_update){.wake_at = MONO_NEVER};
    if (is_written) {
        world_next_version(w);
    } else if (outcome < MARK_TAKEN && outcome > MARK_NONSENSE) {
        world_told(w, outcome, VERDICT_BY_MARK, started, now);
    }
    world_also(w, (struct verdict_event){.kind = VERDICT_MARK,
                                         .now = now,
                                         .started_at = started,
                                         .source = who,
                                         .outcome = outcome,
                                         .is_trial = is_trial,
                                         .lease = is_written ? &w->lease : NULL,
                                         .failure = "the server's own words"});
}

static inline void world_mark(struct world *w, enum mark_outcome outcome, struct mono started,
                              struct mono now)
{
    world_write(w, VERDICT_BY_MARK, outcome, started, now);
}

/* Answers what the last step asked for, and what the answers ask for, a millisecond each. */
static inline void world_serve(struct world *w, struct mono now, enum mark_outcome server)
{
    for (int storm = 0; w->out.mark || w->out.confirm; storm++) {
        struct mono then = mono_add(now, NS_PER_MS);
        assert_between(storm, 0, 4);
        const struct verdict_update asked = w->out;
        if (asked.mark) {
            w->marks += !asked.is_trial;
            w->trials += asked.is_trial;
            world_mark(w, server, now, then);
        }
        if (asked.confirm) {
            bool mark_again = asked.mark && w->out.mark;
            w->reads++;
            world_read_from(w, server, now, then);
            w->out.mark |= mark_again;
        }
        now = then;
    }
}

static inline void world_tick_with(struct world *w, double at, enum mark_outcome server)
{
    world_tick(w, SEC(at));
    world_serve(w, SEC(at), server);
}

/* Wakes as the core asks, before `until`; nobody renews. */
static inline void world_until(struct world *w, double until, enum mark_outcome server)
{
    while (mono_before(w->out.wake_at, SEC(until))) {
        struct mono now = w->out.wake_at;
        world_tick(w, now);
        world_serve(w, now, server);
    }
}

/* A dead DPU and a well API server. */
static inline void world_silence_until(struct world *w, double until)
{
    world_until(w, until, MARK_TAKEN);
}

/* The core condemns at `at`, and not a moment before. */
static inline void world_condemns_at(struct world *w, double at)
{
    world_silence_until(w, at);
    assert_true(w->x.readiness.state != READINESS_NOT_READY);
    world_tick_with(w, at, MARK_TAKEN);
    assert_int_equal(w->x.readiness.state, READINESS_NOT_READY);
}

static inline void world_absent(struct world *w, struct mono now)
{
    world_step(w, (struct verdict_event){.kind = VERDICT_LEASE_ABSENT, .now = now});
}

static inline void world_watch(struct world *w, struct mono now, bool works)
{
    world_step(w, (struct verdict_event){.kind = works ? VERDICT_WATCH_WORKS : VERDICT_WATCH_BROKEN,
                                         .now = now});
}

/* A renewal, stamped by a DPU whose clock runs as ours does. */
static inline void world_renew_unseen(struct world *w, double at)
{
    world_next_version(w);
    world_stamp(w, at);
}

/* One that the watch shows. */
static inline void world_renew(struct world *w, double at)
{
    world_renew_unseen(w, at);
    world_seen(w, SEC(at));
}

/* Started at 0 with a lease never renewed; the first mark is taken, the first renewal seen at 1. */
static inline void world_ready_with(struct world *w, const struct verdict_config *config)
{
    world_init_with(w, config, NULL, SEC(0));
    world_tick(w, SEC(0));
    world_list(w, SEC(0.01));
    world_serve(w, SEC(0.01), MARK_TAKEN);
    world_renew(w, 1);
    w->marks = 0;
    w->reads = 0;
}

static inline void world_ready(struct world *w)
{
    struct verdict_config config = world_config();
    world_ready_with(w, &config);
}

/* A case that begins so, on `w`. */
#define TEST_READY(name)                                                                           \
    static void name##_in(struct world *w);                                                        \
    TEST(name)                                                                                     \
    {                                                                                              \
        struct world w;                                                                            \
        world_ready(&w);                                                                           \
        name##_in(&w);                                                                             \
    }                                                                                              \
    static void name##_in(struct world *w)

/* Without a health check. */
static inline void world_disabled(struct world *w)
{
    struct verdict_config config = world_config();
    config.renew_interval_ns = 0;
    world_init_with(w, &config, NULL, SEC(0));
}

/* The next process starts with the record of this one. */
static inline void world_restart(struct world *w, double at, double hold_until)
{
    const struct record carry = {
        .readiness = w->x.readiness, .evidence = w->x.evidence, .hold_until = SEC(hold_until)};
    verdict_init(&w->x, &w->config, &carry, SEC(at));
}

/* What the DPU says of itself, the next time that the lease is seen. */
static inline void world_report(struct world *w, enum lease_health health, const char *why)
{
    w->lease.health = health;
    (void)text_copy(w->lease.health_message, sizeof(w->lease.health_message), why);
}

static inline const char *message(const struct world *w)
{
    return w->x.readiness.message;
}

/* The core says that it followed `rule` since this was asked last, or since the start. */
static inline void expect_rule(struct world *w, enum verdict_rule rule)
{
    if (!w->followed[rule]) {
        const struct verdict_trace t = {.steps = {{.rule = rule}}, .count = 1};
        char text[VERDICT_RULE_BYTES];
        verdict_trace_text(&t, 0, text);
        fail_msg("this rule was not followed: %s", text);
    }
    memset(w->followed, 0, sizeof(w->followed));
}

static inline void expect_observed(const struct world *w, double at)
{
    assert_int_equal(w->x.readiness.observed.ns, SEC(at).ns);
}

static inline void expect(const struct world *w, enum readiness_state state,
                          enum readiness_reason reason, bool admit)
{
    const struct readiness *v = &w->x.readiness;
    if (v->state != state || v->reason != reason || v->admit != admit) {
        fail_msg("verdict is %s/%s admit=%d (%s), expected %s/%s admit=%d",
                 readiness_state_name(v->state), readiness_reason_name(v->reason), v->admit,
                 v->message, readiness_state_name(state), readiness_reason_name(reason), admit);
    }
}

#endif
