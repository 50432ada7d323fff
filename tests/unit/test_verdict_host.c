/* SPDX-License-Identifier: Apache-2.0 */
/* What the host itself sees: lost pods and host probes take away what the lease admits, and never
 * vouch. */
#include "tests/support/case.h"
#include "tests/unit/verdict_world.h"

#define PODLESS(w) expect((w), READINESS_NOT_READY, REASON_POD_NETWORK_LOST, false)
#define ACCUSED(w) expect((w), READINESS_NOT_READY, REASON_HOST_PROBE_FAILED, false)

/* ---- pods that lost their network, where they count ------------------------------------------ */

static void pods(struct world *w, double at, const char *sentence)
{
    world_step(w, (struct verdict_event){.kind = VERDICT_PODS, .now = SEC(at), .pods = sentence});
}

TEST_READY(lost_pods_refuse_and_end_by_themselves)
{
    READY(w);
    pods(w, 2, "a/b has lost it");
    PODLESS(w);
    assert_true(w->out.verdict_changed && w->out.rewrite);
    assert_string_equal(verdict_readiness(&w->x)->message, "a/b has lost it");
    world_renew(w, 11);
    PODLESS(w); /* a renewal says nothing of them */
    pods(w, 12, NULL);
    READY(w);
}

TEST_READY(lost_pods_never_vouch_for_a_dpu_and_do_not_hide_its_death)
{
    pods(w, 2, "a/b has lost it");
    world_silence_until(w, 60);
    EXPIRED(w);
    pods(w, 61, NULL);
    EXPIRED(w);
}

TEST_READY(lost_pods_take_away_what_is_held)
{
    world_until(w, 43, CHAIN_LOST);
    HELD(w);
    pods(w, 43, "a/b has lost it");
    PODLESS(w);
}

TEST(lost_pods_count_without_a_health_check)
{
    struct world w = {.lease = world_lease()};
    struct verdict_config config = world_config();
    config.renew_interval_ns = 0;
    w.config = config;
    verdict_init(&w.x, &w.config, NULL, SEC(0));
    world_tick(&w, SEC(0));
    pods(&w, 1, "a/b has lost it");
    PODLESS(&w);
    pods(&w, 2, NULL);
    expect(&w, READINESS_READY, REASON_HEALTH_CHECK_DISABLED, true);
}

static void restart_with_pods(struct world *w, bool pods_count)
{
    struct verdict_config config = world_config();
    const struct verdict_carry carry = {.verdict = *verdict_readiness(&w->x),
                                        .hold_until = SEC(300)};
    config.pods_count = pods_count;
    w->config = config;
    verdict_init(&w->x, &w->config, &carry, SEC(15));
    world_tick(w, SEC(15));
}

TEST(restart_makes_no_living_dpu_dead_nor_lost_pods_well)
{
    struct world w;
    for (int counts = 0; counts <= 1; counts++) {
        world_ready(&w);
        world_renew(&w, 11);
        pods(&w, 12, "a/b has lost it");
        restart_with_pods(&w, counts == 1);
        if (counts == 1) {
            PODLESS(&w);
            assert_string_equal(verdict_readiness(&w.x)->message, "a/b has lost it");
            pods(&w, 16, NULL);
        }
        READY(&w);
    }
}

/* ---- host probes
 * --------------------------------------------------------------------------------- */

static void says(struct world *w, double at, enum host_probe_state said)
{
    const struct readiness_host_probes host_probes = {
        .count = 2,
        .each = {{.probe = "pci:0000:03:00.0", .says = said},
                 {.probe = "netdev:p0", .says = HOST_PROBE_NEVER_WELL}}};
    world_step(w, (struct verdict_event){.kind = VERDICT_HOST_PROBES,
                                         .now = SEC(at),
                                         .host_probes = &host_probes,
                                         .accusation = "probe 'pci:0000:03:00.0': gone"});
}

TEST_READY(host_probe_refuses_at_once_and_then_the_lease_decides)
{
    says(w, 2, HOST_PROBE_WELL);
    READY(w);
    assert_true(!w->out.verdict_changed && w->out.rewrite); /* a restart has to know its word */
    says(w, 3, HOST_PROBE_FAILED);
    ACCUSED(w);
    assert_true(w->out.verdict_changed && w->out.rewrite);
    assert_string_equal(verdict_readiness(&w->x)->message,
                        "a host probe fails: probe 'pci:0000:03:00.0': gone");
    world_renew(w, 11);
    ACCUSED(w); /* whatever the lease says */
    says(w, 12, HOST_PROBE_WELL);
    READY(w);
}

TEST_READY(host_probe_that_was_never_well_proves_nothing)
{
    says(w, 2, HOST_PROBE_NEVER_WELL);
    READY(w);
    assert_int_equal(verdict_readiness(&w->x)->host_probes.count, 2); /* but it is shown */
}

TEST(host_probe_never_vouches)
{
    struct world w;
    world_init(&w, NULL, SEC(0));
    says(&w, 0, HOST_PROBE_WELL);
    AWAITING(&w);
    says(&w, 0.5, HOST_PROBE_FAILED);
    AWAITING(&w);
    world_ready(&w);
    says(&w, 2, HOST_PROBE_FAILED);
    world_silence_until(&w, 60);
    EXPIRED(&w);
    says(&w, 61, HOST_PROBE_WELL);
    EXPIRED(&w);
}

TEST_READY(a_host_probe_takes_away_what_is_held)
{
    world_until(w, 43, CHAIN_LOST);
    HELD(w);
    says(w, 43, HOST_PROBE_FAILED);
    ACCUSED(w);
    says(w, 44, HOST_PROBE_WELL);
    HELD(w);
}

TEST_READY(host_probe_comes_before_the_pods_that_it_explains)
{
    says(w, 2, HOST_PROBE_FAILED);
    world_step(w, (struct verdict_event){.kind = VERDICT_PODS, .now = SEC(3), .pods = "a/b"});
    ACCUSED(w);
    says(w, 4, HOST_PROBE_WELL);
    PODLESS(w);
}

TEST(nobody_accuses_where_the_health_check_is_off)
{
    struct world w = {.lease = world_lease()};
    struct verdict_config config = world_config();
    config.renew_interval_ns = 0;
    w.config = config;
    verdict_init(&w.x, &w.config, NULL, SEC(0));
    world_tick(&w, SEC(0));
    says(&w, 1, HOST_PROBE_FAILED);
    expect(&w, READINESS_READY, REASON_HEALTH_CHECK_DISABLED, true);
}

static void restart(struct world *w, double at, double hold_until)
{
    struct verdict_config config = world_config();
    const struct verdict_carry carry = {.verdict = *verdict_readiness(&w->x),
                                        .hold_until = SEC(hold_until)};
    assert_int_equal(carry.verdict.host_probes.each[0].says, HOST_PROBE_FAILED);
    w->config = config;
    verdict_init(&w->x, &w->config, &carry, SEC(at));
}

TEST_READY(restart_forgets_neither_the_accusation_nor_the_lease)
{
    world_renew(w, 11);
    says(w, 12, HOST_PROBE_FAILED);
    restart(w, 15, 300);
    says(w, 15, HOST_PROBE_FAILED); /* who asks it tells first what the record says of it */
    ACCUSED(w);
    says(w, 16, HOST_PROBE_WELL);
    READY(w);
    world_silence_until(w, 120); /* it was no renewal */
    EXPIRED(w);
}

TEST_READY(host_probe_that_is_asked_no_more_accuses_no_more)
{
    says(w, 2, HOST_PROBE_FAILED);
    restart(w, 15, 300);
    world_tick(w, SEC(15));
    READY(w);
    assert_int_equal(verdict_readiness(&w->x)->host_probes.count, 0);
}

/* The record says who accuses, and not why the lease was held. */
TEST_READY(an_outage_behind_an_accusation_still_earns_its_grace)
{
    says(w, 2, HOST_PROBE_FAILED);
    restart(w, 100, 300);
    says(w, 100, HOST_PROBE_WELL);
    HELD(w);
    world_serve(w, SEC(100), CHAIN_TAKEN);
    HELD(w);
    world_condemns_at(w, 120); /* the DPU has its retry */
}

TEST_READY(lease_that_ran_out_behind_an_accusation_is_no_living_dpu)
{
    says(w, 2, HOST_PROBE_FAILED);
    restart(w, 100, 60);
    world_tick(w, SEC(100));
    AWAITING(w);
}
