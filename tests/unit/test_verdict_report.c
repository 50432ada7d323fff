/* SPDX-License-Identifier: Apache-2.0 */
/* What the DPU says of itself: when it counts, and when it is over. */
#include "tests/support/case.h"
#include "tests/unit/verdict_world.h"

/* Reported at that time, for the first time. */
static void world_sick(struct world *w, double at)
{
    world_report(w, LEASE_HEALTH_UNHEALTHY, "ovs");
    world_stamp(w, at);
    text_format(w->lease.health_stamp, sizeof(w->lease.health_stamp), "%s", w->lease.renew_stamp);
    world_stamp(w, 1); /* as it was renewed */
    world_seen(w, SEC(at));
    SICK(w);
}

TEST_READY(reported_unhealthy_flips_at_once_and_the_next_renewal_recovers)
{
    world_report(w, LEASE_HEALTH_UNHEALTHY, "probe ovs: exit status 1");
    world_seen(w, SEC(7));
    SICK(w);
    expect_rule(w, RULE_REPORTED);
    assert_non_null(strstr(message(w), "probe ovs: exit status 1"));
    world_silence_until(w, 200);
    SICK(w);
    world_report(w, LEASE_HEALTH_NONE, "");
    world_renew(w, 201);
    READY(w);
}

TEST_READY(report_first_seen_under_a_foreign_holder_counts_once_it_is_ours)
{
    (void)text_copy(w->lease.holder, sizeof(w->lease.holder), "somebody");
    world_report(w, LEASE_HEALTH_UNHEALTHY, "ovs");
    (void)text_copy(w->lease.health_stamp, sizeof(w->lease.health_stamp), "report 7");
    world_seen(w, SEC(7));
    READY(w);
    w->lease = world_lease(); /* repaired */
    world_report(w, LEASE_HEALTH_UNHEALTHY, "ovs");
    (void)text_copy(w->lease.health_stamp, sizeof(w->lease.health_stamp), "report 7");
    world_version(w, 1000);
    world_stamp(w, 1);
    world_seen(w, SEC(9));
    SICK(w);
    world_renew(w, 11);
    SICK(w);
}

/* ovn-kubernetes' own health check renews while our agent says that a probe fails. */
TEST_READY(report_that_is_renewed_outlives_renewals_by_others)
{
    world_report(w, LEASE_HEALTH_UNHEALTHY, "ovs");
    for (int at = 11; at <= 201; at += 10) {
        (void)snprintf(w->lease.health_stamp, sizeof(w->lease.health_stamp), "report %d", at);
        world_seen(w, SEC(at));
        world_renew(w, at + 5);
        SICK(w);
    }
    world_renew(w, 216);
    world_renew(w, 236);
    SICK(w);
    world_renew(w, 242); /* the agent is gone for a duration, ovnkube goes on */
    READY(w);
}

TEST_READY(report_that_stands_still_without_renewals_ends_as_expiry)
{
    world_sick(w, 11);
    world_silence_until(w, 51);
    SICK(w);
    world_silence_until(w, 62);
    EXPIRED(w); /* by the first read that ends it */
    expect_rule(w, RULE_REPORT_IS_OVER);
    world_next_version(w);
    world_seen(w, SEC(65)); /* somebody touched the lease */
    EXPIRED(w);
    (void)text_copy(w->lease.health_stamp, sizeof(w->lease.health_stamp), "another");
    world_seen(w, SEC(66));
    SICK(w);
}

/* It is the last that is heard of the DPU, and says more than its silence. */
TEST_READY(announced_shutdown_stands_however_long_the_silence)
{
    world_report(w, LEASE_HEALTH_SHUTDOWN, "");
    (void)text_copy(w->lease.health_stamp, sizeof(w->lease.health_stamp), "report");
    world_seen(w, SEC(11));
    world_silence_until(w, 4000);
    expect(w, READINESS_NOT_READY, REASON_DPU_SHUTDOWN, false);
    world_report(w, LEASE_HEALTH_NONE, "");
    world_renew(w, 4001);
    READY(w);
}

/* What was refused stays refused until a renewal. */
TEST_READY(report_taken_back_admits_with_the_next_renewal)
{
    for (int is_renewed = 0; is_renewed < 2; is_renewed++) {
        world_ready(w);
        world_sick(w, 7);
        if (is_renewed) { /* by ovn-kubernetes' own health check */
            world_renew(w, 11);
            SICK(w);
        }
        world_report(w, LEASE_HEALTH_NONE, "");
        world_next_version(w);
        world_seen(w, SEC(20));
        SICK(w);
        if (is_renewed) {
            world_renew(w, 21);
            READY(w);
            continue;
        }
        world_silence_until(w, 62);
        EXPIRED(w);
    }
}

/* On a lease that an etcd brought back as it was, before the DPU could renew it again. */
TEST_READY(a_report_beside_an_old_stamp_counts_if_it_is_newer_than_all_renewals)
{
    static const struct {
        const char *reported;
        bool counts;
    } rows[] = {{"2026-09-21T14:13:45.000000Z", true},
                {"2026-09-21T14:13:41.000000Z", false}, /* with the last renewal: over by then */
                {"2026-09-21T14:13:35.000000Z", false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        world_ready(w);
        world_renew(w, 11);
        world_renew(w, 21); /* at 14:13:41 by the DPU's clock */
        world_version(w, 2);
        world_stamp(w, 11);
        world_report(w, LEASE_HEALTH_UNHEALTHY, "");
        (void)text_copy(w->lease.health_stamp, sizeof(w->lease.health_stamp), rows[i].reported);
        world_read(w, SEC(26), SEC(26));
        world_serve(w, SEC(26), MARK_TAKEN); /* a mark tells whether it stands */
        if (rows[i].counts) {
            SICK(w);
        } else {
            READY(w); /* a living DPU, and an etcd that was restored */
        }
    }
}

/* There by a watch, and after the host's restart: it is read, as an old renewal is. */
TEST_READY(a_report_on_an_etcd_that_was_restored_is_read_and_counts)
{
    world_version(w, 50);
    world_renew(w, 11);
    world_renew(w, 21);
    world_version(w, 20);
    world_stamp(w, 11);
    world_read(w, SEC(22), SEC(22));
    world_mark(w, MARK_NONSENSE, SEC(22), SEC(22)); /* so that no mark told that it stands */
    world_report(w, LEASE_HEALTH_UNHEALTHY, "ovs");
    (void)text_copy(w->lease.health_stamp, sizeof(w->lease.health_stamp),
                    "2026-09-21T14:13:45.000000Z");
    world_version(w, 22);
    world_seen(w, SEC(25));
    assert_true(w->out.confirm);
    world_read(w, SEC(25), SEC(25));
    SICK(w);
    w->lease.health = LEASE_HEALTH_NONE;
    w->lease.health_stamp[0] = '\0';
    world_version(w, 21); /* before it */
    world_stamp(w, 18);
    world_seen(w, SEC(26));
    world_read(w, SEC(26), SEC(26));
    SICK(w);
    world_version(w, 30);
    world_renew(w, 31);
    READY(w);
}
