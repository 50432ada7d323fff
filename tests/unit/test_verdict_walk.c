/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random walks: whatever comes from outside, in whatever order, never reaches an assert, and what
 * the core says stays within its own words. Each rule is followed by one of them. WALK_SEEDS
 * chooses more (default 3000).
 */
#include "tests/unit/verdict_world.h"

#include "tests/sim/sim_random.h"
#include "tests/support/case.h"

enum { STEPS = 120 };

static int64_t draw(struct sim_random *r, int64_t least, int64_t most)
{
    return sim_random_between(r, least, most);
}

static struct verdict_config any_config(struct sim_random *r)
{
    struct verdict_config c = world_config();
    c.renew_interval_ns = draw(r, 1, 100) * 100 * NS_PER_MS;
    c.duration_ns = c.renew_interval_ns + draw(r, 1, 60) * NS_PER_SEC;
    c.api_outage_hold_ns = draw(r, 0, 1) ? VERDICT_HOLD_UNLIMITED : draw(r, 0, 100) * NS_PER_SEC;
    return c;
}

static struct record any_carry(struct sim_random *r, double now)
{
    struct world w = {.lease = world_lease()};
    world_stamp(&w, (double)draw(r, -200, 200));
    struct record c = {
        .readiness = {.state = (enum readiness_state)draw(r, 0, 2),
                      .admit = draw(r, 0, 1) == 1,
                      .reason = (enum readiness_reason)draw(r, 0, REASON_COUNT - 1),
                      .message = "as it was",
                      .observed = SEC(now - (double)draw(r, -5, 700)),
                      .lease_until = SEC(now + (double)draw(r, -700, 700)),
                      .lease = {.duration_s = (uint32_t)draw(r, 0, 700)},
                      .host_probes = {.count = 1, .each = {{.says = HOST_PROBE_FAILED}}}},
        .evidence = {.checked = SEC(now + (double)draw(r, -700, 5)),
                     .blind_ns = draw(r, 0, 1) * draw(r, 0, 700) * NS_PER_SEC,
                     .granted = {draw(r, 0, 1) * SEC(now + (double)draw(r, -700, 700)).ns}},
        .hold_until = SEC(now + (double)draw(r, -700, 700)),
    };
    (void)text_copy(c.readiness.lease.uid, sizeof(c.readiness.lease.uid), "uid-1");
    (void)text_copy(c.readiness.lease.renew_stamp, sizeof(c.readiness.lease.renew_stamp),
                    draw(r, 0, 9) ? w.lease.renew_stamp : "no time");
    return c;
}

static void any_lease(struct sim_random *r, struct lease_view *lease, double now)
{
    struct world w = {.lease = *lease};
    if (draw(r, 0, 2)) {
        world_stamp(&w, now + (double)draw(r, -50, 5) * (draw(r, 0, 5) ? 0.1 : 100));
    }
    *lease = w.lease;
    lease->duration_s = draw(r, 0, 3) ? lease->duration_s : (uint32_t)draw(r, 0, 1 << 30);
    lease->health = (enum lease_health)(draw(r, 0, 5) ? 0 : draw(r, 0, 2));
    (void)snprintf(lease->health_stamp, sizeof(lease->health_stamp), "%d", (int)draw(r, 0, 3));
    (void)snprintf(lease->uid, sizeof(lease->uid), "uid-%d", (int)(draw(r, 0, 9) ? 1 : 2));
    (void)snprintf(lease->resource_version, sizeof(lease->resource_version), "%d",
                   (int)draw(r, 0, 1000));
    (void)text_copy(lease->holder, sizeof(lease->holder),
                    draw(r, 0, 9) ? "ovnkube-dpu-node" : "somebody");
    if (!draw(r, 0, 15)) {
        lease->renew_stamp[0] = '\0';
        lease->renew_time_valid = false;
    }
}

static void walk(uint64_t seed, bool followed[static VERDICT_RULES])
{
    struct sim_random r = {seed};
    const struct verdict_config config = any_config(&r);
    double now = 1000;
    bool accused = false;
    const struct record carry = any_carry(&r, now);
    struct world w = {.lease = world_lease()};
    w.config = config;
    verdict_init(&w.x, &w.config, draw(&r, 0, 3) ? &carry : NULL, SEC(now));
    for (int i = 0; i < STEPS; i++) {
        now += (double)draw(&r, 0, 1000) / (draw(&r, 0, 20) ? 100 : 1);
        any_lease(&r, &w.lease, now);
        const struct readiness_host_probes host_probes = {
            .count = 1, .each = {{.says = (enum host_probe_state)draw(&r, 0, 2)}}};
        const struct verdict_event event = {
            .kind = (enum verdict_event_kind)draw(&r, 0, VERDICT_TICK),
            .now = SEC(now),
            .source = (enum verdict_source)draw(&r, 0, VERDICT_BY_MARK),
            .started_at = SEC(now - (double)draw(&r, 0, 50) / 10),
            .failure = "failure",
            .pods = draw(&r, 0, 1) ? "pods" : NULL,
            .host_probes = &host_probes,
            .accusation = "gone",
            .outcome = (enum mark_outcome)draw(&r, 0, MARK_OUTCOMES - 1),
            .is_trial = draw(&r, 0, 3) == 0,
            .is_lasting = draw(&r, 0, 1) == 1,
            .lease = &w.lease, /* of a mark, too: our own write */
        };
        const enum verdict_phase before = w.x.phase;
        const bool admitted = w.x.readiness.admit;
        verdict_step(&w.x, &event, &w.out);
        const struct readiness *v = &w.x.readiness;
        for (size_t n = 0; n < w.out.trace.count; n++) {
            followed[w.out.trace.steps[n].rule] = true;
        }
        accused = event.kind == VERDICT_HOST_PROBES ? host_probes.each[0].says == HOST_PROBE_FAILED
                                                    : accused; /* a carried word is its asker's */
        assert_true(mono_before(event.now, w.out.wake_at));
        assert_true(v->state != READINESS_READY || v->admit);
        assert_true(v->state != READINESS_NOT_READY || !v->admit);
        assert_true(!v->admit || !accused); /* it takes away, whatever the lease says, */
        assert_true(v->reason != REASON_HOST_PROBE_FAILED || accused); /* and nobody else does */
        assert_true(v->reason < REASON_RECORD_MISSING && v->message[0] != '\0');
        /* Only what is proven condemns, and only a renewal admits again. */
        assert_true(before != VERDICT_FRESH || w.x.phase != VERDICT_EXPIRED ||
                    (event.kind == VERDICT_MARK && !event.is_trial) ||
                    (event.kind == VERDICT_LEASE_ABSENT && event.is_lasting));
        assert_true(before == VERDICT_FRESH || w.x.phase != VERDICT_FRESH ||
                    event.kind == VERDICT_LEASE_OBSERVED || event.kind == VERDICT_MARK);
        assert_true(admitted || !v->admit || w.out.renewed || event.kind == VERDICT_PODS ||
                    event.kind == VERDICT_HOST_PROBES);
        assert_true(v->observed.ns == 0 || mono_reached(event.now, v->observed));
        assert_true(w.x.evidence.blind_ns >= 0);
    }
}

TEST(no_walk_reaches_an_assert)
{
    const char *more = getenv("WALK_SEEDS");
    uint64_t seeds = 3000;
    if (more) {
        assert_int_equal(text_to_u64(more, strlen(more), &seeds, NULL), 0);
    }
    bool followed[VERDICT_RULES] = {false};
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        walk(seed, followed);
    }
    followed[RULE_DENIAL_LASTED] = true;         /* a_denial_after_an_outage_begins_anew has it */
    followed[RULE_FAILS + MARK_CONFLICT] = true; /* neither is a failure */
    followed[RULE_FAILS + MARK_TAKEN] = true;
    for (size_t i = 0; i < ARRAY_LEN(followed); i++) {
        if (!followed[i]) {
            fail_msg("no walk follows rule %zu of enum verdict_rule", i);
        }
    }
}
