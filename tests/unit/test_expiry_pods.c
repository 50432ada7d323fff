/* SPDX-License-Identifier: Apache-2.0 */
/* Pods that lost their network, where they count: they take away what the lease admits. */
#include "tests/unit/expiry_world.h"

#define READY(w) expect((w), READINESS_READY, REASON_LEASE_RENEWED, true)
#define LOST(w)  expect((w), READINESS_NOT_READY, REASON_POD_NETWORK_LOST, false)

static void pods(struct world *w, double at, const char *sentence)
{
    world_step(w, (struct expiry_event){.kind = EXPIRY_PODS, .now = SEC(at), .pods = sentence});
}

static void lost_pods_refuse_and_end_by_themselves(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    READY(&w);
    pods(&w, 2, "a/b has lost it");
    LOST(&w);
    assert_true(w.out.verdict_changed && w.out.rewrite);
    assert_string_equal(expiry_verdict(&w.x)->message, "a/b has lost it");
    world_renew(&w, 11);
    LOST(&w); /* a renewal says nothing of them */
    pods(&w, 12, NULL);
    READY(&w);
}

static void they_never_vouch_for_a_dpu_and_do_not_hide_its_death(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    pods(&w, 2, "a/b has lost it");
    world_silence_until(&w, 60);
    expect(&w, READINESS_NOT_READY, REASON_LEASE_EXPIRED, false);
    pods(&w, 61, NULL);
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
    pods(&w, 43, "a/b has lost it");
    LOST(&w);
}

static void they_count_without_a_health_check(void **state)
{
    struct world w = {.lease = world_lease()};
    struct expiry_config config = world_config();
    (void)state;
    config.renew_interval_ns = 0;
    expiry_init(&w.x, &config, NULL, SEC(0));
    world_tick(&w, SEC(0));
    pods(&w, 1, "a/b has lost it");
    LOST(&w);
    pods(&w, 2, NULL);
    expect(&w, READINESS_READY, REASON_HEALTH_CHECK_DISABLED, true);
}

static void restart(struct world *w, bool pods_count)
{
    struct expiry_config config = world_config();
    const struct expiry_carry carry = {.verdict = *expiry_verdict(&w->x), .hold_until = SEC(300)};
    config.pods_count = pods_count;
    expiry_init(&w->x, &config, &carry, SEC(15));
    world_tick(w, SEC(15));
}

static void restart_makes_no_living_dpu_dead_nor_lost_pods_well(void **state)
{
    struct world w;
    (void)state;
    for (int counts = 0; counts <= 1; counts++) {
        world_ready(&w);
        world_renew(&w, 11);
        pods(&w, 12, "a/b has lost it");
        restart(&w, counts == 1);
        if (counts == 1) {
            LOST(&w);
            assert_string_equal(expiry_verdict(&w.x)->message, "a/b has lost it");
            pods(&w, 16, NULL);
        }
        READY(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_pods_refuse_and_end_by_themselves),
        cmocka_unit_test(they_never_vouch_for_a_dpu_and_do_not_hide_its_death),
        cmocka_unit_test(what_is_held_is_taken_away_too),
        cmocka_unit_test(they_count_without_a_health_check),
        cmocka_unit_test(restart_makes_no_living_dpu_dead_nor_lost_pods_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
