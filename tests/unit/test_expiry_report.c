/* SPDX-License-Identifier: Apache-2.0 */
/* What the DPU says of itself: when it counts, and when it is over. */
#include "tests/unit/expiry_world.h"

#define READY(w)   expect((w), READINESS_READY, REASON_LEASE_RENEWED, true)
#define HELD(w)    expect((w), READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, true)
#define EXPIRED(w) expect((w), READINESS_NOT_READY, REASON_LEASE_EXPIRED, false)

static const char *message(const struct world *w)
{
    return expiry_verdict(&w->x)->message;
}

static void reported_unhealthy_flips_at_once_and_the_next_renewal_recovers(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_report(&w, LEASE_HEALTH_UNHEALTHY, "probe ovs: exit status 1");
    world_seen(&w, SEC(7));
    expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
    assert_non_null(strstr(message(&w), "probe ovs: exit status 1"));
    world_silence_until(&w, 200);
    expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
    world_report(&w, LEASE_HEALTH_NONE, "");
    world_renew(&w, 201);
    READY(&w);
}

/* The answer to our own creation comes after the watch has shown the first renewal. */
static void late_answer_without_a_stamp_does_not_hide_a_report_under_the_seen_one(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    struct lease_view renewed = w.lease;
    w.lease.renew_stamp[0] = '\0';
    w.lease.renew_time_valid = false;
    world_seen(&w, SEC(1.01));
    READY(&w);
    w.lease = renewed;
    world_seen(&w, SEC(1.02));
    READY(&w);
    world_report(&w, LEASE_HEALTH_UNHEALTHY, "probe ovs: exit status 1");
    world_seen(&w, SEC(2));
    expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
}

static void announced_shutdown_flips_at_once(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_report(&w, LEASE_HEALTH_SHUTDOWN, "");
    world_seen(&w, SEC(7));
    expect(&w, READINESS_NOT_READY, REASON_DPU_SHUTDOWN, false);
}

static void report_on_a_foreign_lease_is_ignored(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    (void)text_copy(w.lease.holder, sizeof(w.lease.holder), "somebody");
    world_report(&w, LEASE_HEALTH_UNHEALTHY, "");
    world_seen(&w, SEC(7));
    READY(&w);
}

static void leftover_report_under_ongoing_renewals_is_disproved(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_report(&w, LEASE_HEALTH_SHUTDOWN, "");
    world_seen(&w, SEC(7));
    world_renew(&w, 17);
    expect(&w, READINESS_NOT_READY, REASON_DPU_SHUTDOWN, false);
    world_renew(&w, 27);
    world_renew(&w, 37);
    expect(&w, READINESS_NOT_READY, REASON_DPU_SHUTDOWN, false);
    world_renew(&w, 47);
    READY(&w); /* it stood still for a duration */
    world_renew(&w, 57);
    READY(&w);
}

/* ovn-kubernetes' own health check renews while our agent says that a probe fails. */
static void report_that_is_renewed_outlives_renewals_by_others(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_report(&w, LEASE_HEALTH_UNHEALTHY, "ovs");
    for (int at = 11; at <= 201; at += 10) {
        (void)snprintf(w.lease.health_stamp, sizeof(w.lease.health_stamp), "report %d", at);
        world_seen(&w, SEC(at));
        world_renew(&w, at + 5);
        expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
    }
    world_renew(&w, 216);
    world_renew(&w, 236);
    expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
    world_renew(&w, 242); /* the agent is gone for a duration, ovnkube goes on */
    READY(&w);
}

static void report_that_stands_still_without_renewals_ends_as_expiry(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_report(&w, LEASE_HEALTH_UNHEALTHY, "ovs");
    (void)text_copy(w.lease.health_stamp, sizeof(w.lease.health_stamp), "report");
    world_seen(&w, SEC(11));
    world_silence_until(&w, 50);
    expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
    world_read_ok(&w, SEC(51), SEC(51));
    EXPIRED(&w); /* by the first read that ends it */
}

/* It is the last that is heard of the DPU, and says more than its silence. */
static void announced_shutdown_stands_however_long_the_silence(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_report(&w, LEASE_HEALTH_SHUTDOWN, "");
    (void)text_copy(w.lease.health_stamp, sizeof(w.lease.health_stamp), "report");
    world_seen(&w, SEC(11));
    world_silence_until(&w, 4000);
    world_read_ok(&w, SEC(4000), SEC(4000));
    expect(&w, READINESS_NOT_READY, REASON_DPU_SHUTDOWN, false);
    world_report(&w, LEASE_HEALTH_NONE, "");
    world_renew(&w, 4001);
    READY(&w);
}

static void report_taken_back_without_renewal_falls_back_on_the_observation(void **state)
{
    static const struct {
        double at;
        enum readiness_state expected;
    } rows[] = {{20, READINESS_READY}, {60, READINESS_NOT_READY}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_ready(&w);
        world_report(&w, LEASE_HEALTH_UNHEALTHY, "x");
        world_seen(&w, SEC(7));
        world_report(&w, LEASE_HEALTH_NONE, "");
        world_seen(&w, SEC(rows[i].at));
        assert_int_equal(expiry_verdict(&w.x)->state, rows[i].expected);
    }
}

static void recreated_lease_does_not_take_a_report_back(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_report(&w, LEASE_HEALTH_UNHEALTHY, "x");
    world_seen(&w, SEC(7));
    world_report(&w, LEASE_HEALTH_NONE, "");
    (void)text_copy(w.lease.uid, sizeof(w.lease.uid), "uid-2");
    w.lease.renew_stamp[0] = '\0';
    world_seen(&w, SEC(9));
    expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
    world_renew(&w, 11);
    READY(&w);
}

/* As a backup brings it back, report and all. */
static void report_on_a_recreated_lease_is_taken_back_there(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_report(&w, LEASE_HEALTH_UNHEALTHY, "x");
    world_seen(&w, SEC(7));
    (void)text_copy(w.lease.uid, sizeof(w.lease.uid), "uid-2");
    world_seen(&w, SEC(9));
    expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
    world_report(&w, LEASE_HEALTH_NONE, "");
    world_seen(&w, SEC(20));
    READY(&w);
}

static void report_seen_at_the_first_look_counts(void **state)
{
    struct world w;
    (void)state;
    world_init(&w, NULL, SEC(0));
    world_report(&w, LEASE_HEALTH_UNHEALTHY, "x");
    world_read(&w, SEC(0), SEC(0));
    expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
}

static void an_older_state_neither_reports_nor_takes_a_report_back(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_report(&w, LEASE_HEALTH_UNHEALTHY, "");
    world_renew(&w, 11);
    world_report(&w, LEASE_HEALTH_NONE, "");
    world_renew(&w, 21);
    READY(&w);
    world_report(&w, LEASE_HEALTH_UNHEALTHY, "");
    world_stamp(&w, 11);
    world_seen(&w, SEC(22)); /* a replica that lags */
    READY(&w);
    world_stamp(&w, 31);
    world_seen(&w, SEC(31));
    expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
    world_report(&w, LEASE_HEALTH_NONE, "");
    world_stamp(&w, 21);
    world_seen(&w, SEC(32));
    expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
}

/* Its grace is not over. */
static void report_taken_back_within_a_grace_leaves_the_dpu_its_time(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_stamp(&w, -3600); /* stamps that went back are a grace, too, */
    world_seen(&w, SEC(11));
    world_fail(&w, SEC(20));
    world_read(&w, SEC(35), SEC(35)); /* and the newest one is that of the outage, until 55 */
    world_report(&w, LEASE_HEALTH_UNHEALTHY, "");
    world_seen(&w, SEC(36));
    world_report(&w, LEASE_HEALTH_NONE, "");
    world_seen(&w, SEC(45));
    HELD(&w);
    assert_non_null(strstr(expiry_verdict(&w.x)->message, "can be read again"));
}

static void a_report_that_ran_out_stays_over(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_report(&w, LEASE_HEALTH_UNHEALTHY, "");
    (void)text_copy(w.lease.health_stamp, sizeof(w.lease.health_stamp), "report");
    world_seen(&w, SEC(11));
    world_silence_until(&w, 62);
    EXPIRED(&w);
    (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version), "2");
    world_seen(&w, SEC(65)); /* somebody touched the lease */
    EXPIRED(&w);
    (void)text_copy(w.lease.health_stamp, sizeof(w.lease.health_stamp), "another");
    world_seen(&w, SEC(66));
    expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
}

/* On a lease that an etcd brought back as it was, before the DPU could renew it again. */
static void a_report_beside_an_old_stamp_counts_if_it_is_newer_than_all_renewals(void **state)
{
    static const struct {
        const char *reported;
        bool counts;
    } rows[] = {{"2026-09-21T14:13:45.000000Z", true},
                {"2026-09-21T14:13:41.000000Z", false}, /* with the last renewal: over by then */
                {"2026-09-21T14:13:35.000000Z", false},
                {"some time", false}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_ready(&w);
        world_renew(&w, 11);
        world_renew(&w, 21); /* at 14:13:41 by the DPU's clock */
        world_stamp(&w, 11);
        world_report(&w, LEASE_HEALTH_UNHEALTHY, "");
        (void)text_copy(w.lease.health_stamp, sizeof(w.lease.health_stamp), rows[i].reported);
        world_read(&w, SEC(26), SEC(26));
        if (rows[i].counts) {
            expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
        } else {
            READY(&w);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reported_unhealthy_flips_at_once_and_the_next_renewal_recovers),
        cmocka_unit_test(late_answer_without_a_stamp_does_not_hide_a_report_under_the_seen_one),
        cmocka_unit_test(announced_shutdown_flips_at_once),
        cmocka_unit_test(report_on_a_foreign_lease_is_ignored),
        cmocka_unit_test(leftover_report_under_ongoing_renewals_is_disproved),
        cmocka_unit_test(report_that_is_renewed_outlives_renewals_by_others),
        cmocka_unit_test(report_that_stands_still_without_renewals_ends_as_expiry),
        cmocka_unit_test(announced_shutdown_stands_however_long_the_silence),
        cmocka_unit_test(report_taken_back_without_renewal_falls_back_on_the_observation),
        cmocka_unit_test(recreated_lease_does_not_take_a_report_back),
        cmocka_unit_test(report_on_a_recreated_lease_is_taken_back_there),
        cmocka_unit_test(report_seen_at_the_first_look_counts),
        cmocka_unit_test(an_older_state_neither_reports_nor_takes_a_report_back),
        cmocka_unit_test(report_taken_back_within_a_grace_leaves_the_dpu_its_time),
        cmocka_unit_test(a_report_that_ran_out_stays_over),
        cmocka_unit_test(a_report_beside_an_old_stamp_counts_if_it_is_newer_than_all_renewals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
