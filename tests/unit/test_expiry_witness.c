/* SPDX-License-Identifier: Apache-2.0 */
/* Witnesses, the host's own probes: they take away what the lease admits, and never vouch. */
#include "tests/unit/expiry_world.h"

#define READY(w)   expect((w), READINESS_READY, REASON_LEASE_RENEWED, true)
#define ACCUSED(w) expect((w), READINESS_NOT_READY, REASON_HOST_PROBE_FAILED, false)

static void says(struct world *w, double at, enum readiness_testimony testimony)
{
    const struct readiness_witnesses witnesses = {
        .count = 2,
        .each = {{.probe = "pci:0000:03:00.0", .says = testimony},
                 {.probe = "netdev:p0", .says = TESTIMONY_NONE}}};
    world_step(w, (struct expiry_event){.kind = EXPIRY_WITNESSES,
                                        .now = SEC(at),
                                        .witnesses = &witnesses,
                                        .accusation = "probe 'pci:0000:03:00.0': gone"});
}

static void witness_refuses_at_once_and_then_the_lease_decides(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    says(&w, 2, TESTIMONY_WELL);
    READY(&w);
    assert_true(!w.out.verdict_changed && w.out.rewrite); /* a restart has to know its word */
    says(&w, 3, TESTIMONY_FAILED);
    ACCUSED(&w);
    assert_true(w.out.verdict_changed && w.out.rewrite);
    assert_string_equal(expiry_verdict(&w.x)->message,
                        "seen from the host: probe 'pci:0000:03:00.0': gone");
    world_renew(&w, 11);
    ACCUSED(&w); /* whatever the lease says */
    says(&w, 12, TESTIMONY_WELL);
    READY(&w);
}

static void witness_that_never_testified_proves_nothing(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    says(&w, 2, TESTIMONY_NONE);
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->witnesses.count, 2); /* but it is shown */
}

static void witness_never_vouches(void **state)
{
    struct world w;
    (void)state;
    world_init(&w, NULL, SEC(0));
    says(&w, 0, TESTIMONY_WELL);
    expect(&w, READINESS_UNKNOWN, REASON_AWAITING_FIRST_RENEWAL, false);
    says(&w, 0.5, TESTIMONY_FAILED);
    expect(&w, READINESS_UNKNOWN, REASON_AWAITING_FIRST_RENEWAL, false);
    world_ready(&w);
    says(&w, 2, TESTIMONY_FAILED);
    world_silence_until(&w, 60);
    expect(&w, READINESS_NOT_READY, REASON_LEASE_EXPIRED, false);
    says(&w, 61, TESTIMONY_WELL);
    expect(&w, READINESS_NOT_READY, REASON_LEASE_EXPIRED, false);
}

static void what_is_held_is_taken_away_too(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_fail(&w, SEC(10));
    world_fail(&w, SEC(42));
    expect(&w, READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, true);
    says(&w, 43, TESTIMONY_FAILED);
    ACCUSED(&w);
    says(&w, 44, TESTIMONY_WELL);
    expect(&w, READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, true);
}

static void witness_comes_before_the_pods_that_it_explains(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    says(&w, 2, TESTIMONY_FAILED);
    world_step(&w, (struct expiry_event){.kind = EXPIRY_PODS, .now = SEC(3), .pods = "a/b"});
    ACCUSED(&w);
    says(&w, 4, TESTIMONY_WELL);
    expect(&w, READINESS_NOT_READY, REASON_POD_NETWORK_LOST, false);
}

static void nobody_accuses_where_the_health_check_is_off(void **state)
{
    struct world w = {.lease = world_lease()};
    struct expiry_config config = world_config();
    (void)state;
    config.renew_interval_ns = 0;
    expiry_init(&w.x, &config, NULL, SEC(0));
    world_tick(&w, SEC(0));
    says(&w, 1, TESTIMONY_FAILED);
    expect(&w, READINESS_READY, REASON_HEALTH_CHECK_DISABLED, true);
}

static void restart(struct world *w, double at, double hold_until)
{
    struct expiry_config config = world_config();
    const struct expiry_carry carry = {.verdict = *expiry_verdict(&w->x),
                                       .hold_until = SEC(hold_until)};
    assert_int_equal(carry.verdict.witnesses.each[0].says, TESTIMONY_FAILED);
    expiry_init(&w->x, &config, &carry, SEC(at));
}

static void restart_forgets_neither_the_accusation_nor_the_lease(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_renew(&w, 11);
    says(&w, 12, TESTIMONY_FAILED);
    restart(&w, 15, 300);
    says(&w, 15, TESTIMONY_FAILED); /* who asks it tells first what the record says of it */
    ACCUSED(&w);
    says(&w, 16, TESTIMONY_WELL);
    READY(&w);
    world_silence_until(&w, 120); /* it was no renewal */
    expect(&w, READINESS_NOT_READY, REASON_LEASE_EXPIRED, false);
}

static void witness_that_is_asked_no_more_accuses_no_more(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    says(&w, 2, TESTIMONY_FAILED);
    restart(&w, 15, 300);
    world_tick(&w, SEC(15));
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->witnesses.count, 0);
}

/* The record says who accuses, and not why the lease was held. */
static void an_outage_behind_an_accusation_still_earns_its_grace(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    says(&w, 2, TESTIMONY_FAILED);
    restart(&w, 100, 300);
    says(&w, 100, TESTIMONY_WELL);
    expect(&w, READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, true);
    world_read(&w, SEC(101), SEC(101.1)); /* the DPU has its retry */
    expect(&w, READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, true);
    world_silence_until(&w, 130);
    expect(&w, READINESS_NOT_READY, REASON_LEASE_EXPIRED, false);
}

static void lease_that_ran_out_behind_an_accusation_is_no_living_dpu(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    says(&w, 2, TESTIMONY_FAILED);
    restart(&w, 100, 60);
    world_tick(&w, SEC(100));
    expect(&w, READINESS_UNKNOWN, REASON_AWAITING_FIRST_RENEWAL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(witness_refuses_at_once_and_then_the_lease_decides),
        cmocka_unit_test(witness_that_never_testified_proves_nothing),
        cmocka_unit_test(witness_never_vouches),
        cmocka_unit_test(what_is_held_is_taken_away_too),
        cmocka_unit_test(witness_comes_before_the_pods_that_it_explains),
        cmocka_unit_test(nobody_accuses_where_the_health_check_is_off),
        cmocka_unit_test(restart_forgets_neither_the_accusation_nor_the_lease),
        cmocka_unit_test(witness_that_is_asked_no_more_accuses_no_more),
        cmocka_unit_test(an_outage_behind_an_accusation_still_earns_its_grace),
        cmocka_unit_test(lease_that_ran_out_behind_an_accusation_is_no_living_dpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
