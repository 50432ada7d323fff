/* SPDX-License-Identifier: Apache-2.0 */
/* What the record carries over a restart, and what happened while nobody looked. */
#include "tests/support/case.h"
#include "tests/unit/verdict_world.h"

static void restart(struct world *w, double at)
{
    world_restart(w, at, 10000);
    world_tick(w, SEC(at));
}

/* Its first list, and what it asks for. */
static void look(struct world *w, double at)
{
    const struct verdict_update asked = w->out;
    world_list(w, SEC(at));
    w->out.mark |= asked.mark;
    w->out.confirm |= asked.confirm;
    world_serve(w, SEC(at), MARK_TAKEN);
}

/* ---- a dead DPU ------------------------------------------------------------------------------ */

TEST_READY(a_restart_costs_a_dead_dpus_node_no_more_than_the_pause)
{
    static const struct {
        const char *why;
        double silent_until, back, condemned; /* renewed at 1 */
    } rows[] = {
        {"the marks of before count", 30, 30, 41},
        {"no pause worth the name", 1, 26, 41},
        {"blind from 11 to 30: R later", 1, 30, 30 + SERVE_S + R},
        {"away across the deadline: R later", 1, 100, 100 + SERVE_S + R},
        {"away for long: R later", 36, 3600, 3600 + SERVE_S + R},
        {"back right after the deadline", 40, 45, 45},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        print_message("%s\n", rows[i].why);
        world_ready(w);
        world_silence_until(w, rows[i].silent_until);
        restart(w, rows[i].back);
        assert_true(w->x.readiness.admit);                /* until it is proven */
        assert_true(w->out.mark == (rows[i].back >= 41)); /* overdue: at once, and no trial */
        assert_false(w->out.is_trial);
        look(w, rows[i].back);
        if (rows[i].condemned > rows[i].back) {
            world_condemns_at(w, rows[i].condemned);
        }
        EXPIRED(w);
    }
}

/* The attempt that failed is one of before, and the pause is no longer than that between two marks.
 */
TEST_READY(a_restart_within_an_outage_leaves_a_dpu_its_retry)
{
    static const enum mark_outcome outages[] = {MARK_LOST, MARK_NONSENSE, MARK_REFUSED};
    for (size_t i = 0; i < ARRAY_LEN(outages); i++) {
        world_ready(w);
        world_silence_until(w, 41); /* marked at 26 */
        world_tick_with(w, 41, outages[i]);
        assert_int_equal(w->x.evidence.failing.ns, SEC(41).ns);
        assert_true(w->out.rewrite);
        restart(w, 43);
        look(w, 43); /* 2 s were blind */
        HELD(w);
        world_condemns_at(w, 43 + SERVE_S + R);
    }
}

/* It may be a decision about everybody's writes. */
TEST_READY(a_denial_holds_over_a_restart_where_a_mark_was_taken_before)
{
    for (int was_taken = 0; was_taken < 2; was_taken++) {
        world_init(w, NULL, SEC(0));
        world_list(w, SEC(0.01));
        world_serve(w, SEC(0.01), was_taken ? MARK_TAKEN : MARK_DENIED);
        world_renew(w, 1);
        world_until(w, 40, MARK_DENIED);
        restart(w, 40);
        world_serve(w, SEC(40), MARK_DENIED);
        world_until(w, 80, MARK_DENIED);
        assert_true(w->x.readiness.admit == was_taken);
        world_until(w, 95, MARK_DENIED);
        EXPIRED(w);
    }
}

TEST_READY(a_host_agent_that_is_away_most_of_the_time_condemns_in_the_end)
{
    double at = 11;
    world_silence_until(w, at);
    while (w->x.readiness.admit) {
        restart(w, at + 25);
        look(w, at + 25);
        at += 35;
        world_silence_until(w, at);
        assert_true(at < 400);
    }
    EXPIRED(w);
}

/* In a crash loop before its first answered read: nobody knows anything new. */
TEST_READY(a_crash_loop_extends_no_retry)
{
    for (int at = 5; at < 500; at += 5) {
        restart(w, at);
        assert_true(w->x.readiness.admit);
        expect_observed(w, 1);
    }
    look(w, 500);
    HELD(w);
    for (int at = 505; w->x.readiness.admit; at += 5) { /* and it goes on */
        restart(w, at);
        look(w, at);
        assert_true(at < 580); /* o + D + B + R */
    }
    EXPIRED(w);
}

/* Killed and started again and again, each time before the answers that it waits for. */
TEST_READY(a_restart_grants_nothing_that_was_granted)
{
    world_until(w, 60, MARK_REFUSED);
    world_mark(w, MARK_TAKEN, SEC(60), SEC(60));
    for (double at = 62; at < 60 + R; at += 2) {
        restart(w, at);
        world_list(w, SEC(at + 1.5));
        assert_int_equal(w->x.evidence.granted.ns, SEC(60 + R).ns);
        HELD(w);
    }
    world_condemns_at(w, 60 + R);
}

TEST_READY(restart_of_a_not_ready_node_stays_not_ready_with_its_reason)
{
    char words[NAMES_MESSAGE_BYTES];
    world_silence_until(w, 42);
    text_format(words, sizeof(words), "%s", message(w));
    restart(w, 100);
    EXPIRED(w);
    assert_string_equal(message(w), words);
    struct world gone = *w;
    world_read_from(&gone, MARK_ABSENT, SEC(101), SEC(101));
    GONE(&gone);
    world_until(w, 110, MARK_LOST);
    EXPIRED(w);
    look(w, 110);
    EXPIRED(w);
    world_renew(w, 120);
    READY(w);
}

/* ---- a living DPU ---------------------------------------------------------------------------- */

TEST_READY(live_dpu_is_never_refused_after_any_downtime)
{
    static const double clock_steps[] = {0, -1, -30, -5000, 5000};
    for (size_t i = 0; i < ARRAY_LEN(clock_steps); i++) {
        for (double back = 3; back < 130; back += 3) { /* while we are away */
            double renewed = 1;
            world_ready(w);
            while (renewed + 10 <= back) {
                renewed += 10;
                world_renew_unseen(w, renewed + clock_steps[i]);
            }
            restart(w, back);
            look(w, back);
            assert_true(w->x.readiness.admit);
            for (int n = 0; n < 5; n++) {
                renewed += 10;
                world_silence_until(w, renewed);
                assert_true(w->x.readiness.admit);
                world_renew_unseen(w, renewed + clock_steps[i]);
                world_seen(w, SEC(renewed));
                READY(w);
            }
        }
    }
}

TEST_READY(a_renewal_made_meanwhile_is_dated_by_the_dpus_own_clock)
{
    static const struct {
        double seen, stamp, back, observed; /* the last one before, stamped 1 */
    } rows[] = {
        {1, 21, 30, 21},     {1, 295, 300, 295}, {6, 298, 300, 300}, /* seen five seconds late */
        {1, -50, 300, 1}, /* undatable: as early as it can be */
        {1, 6, 300, 1},   /* half an interval apart: another made it */
        {1, 5000, 300, 300},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        world_ready(w);
        w->x.readiness.observed = SEC(rows[i].seen);
        restart(w, rows[i].back);
        world_renew_unseen(w, rows[i].stamp);
        look(w, rows[i].back);
        expect_observed(w, rows[i].observed);
    }
}

/* ---- outages --------------------------------------------------------------------------------- */

TEST_READY(restart_within_an_outage_keeps_the_retry)
{
    static const enum mark_outcome outages[] = {MARK_LOST, MARK_REFUSED, MARK_NONSENSE};
    static const double restarts[] = {20, 34, 48, 55, 62, 69, 76, 83};
    for (size_t i = 0; i < ARRAY_LEN(outages); i++) {
        for (size_t n = 0; n < ARRAY_LEN(restarts); n++) { /* at 70 it is over */
            double at = restarts[n];
            world_ready(w);
            world_until(w, at < 70 ? at : 70, outages[i]);
            world_until(w, at, MARK_TAKEN);
            restart(w, at);
            world_serve(w, SEC(at), at < 70 ? outages[i] : MARK_TAKEN);
            assert_true(w->x.readiness.admit);
            if (at < 70) {
                world_until(w, 70, outages[i]);
            }
            world_tick_with(w, 70 > at ? 70 : at, MARK_TAKEN);
            world_silence_until(w, 70 + R - 0.1);
            assert_true(w->x.readiness.admit);
            world_silence_until(w, 90 + 2 * R);
            EXPIRED(w);
        }
    }
}

TEST_READY(what_was_held_for_too_long_is_not_admitted_by_a_restart)
{
    struct verdict_config config = world_config();
    config.api_outage_hold_ns = 60 * NS_PER_SEC;
    world_ready_with(w, &config);
    world_until(w, 109, MARK_LOST);
    world_mark(w, MARK_TAKEN, SEC(109), SEC(109.1));
    restart(w, 110);
    expect(w, READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, false);
    look(w, 111);
    assert_false(w->x.readiness.admit);
    world_renew(w, 112);
    READY(w);
}

/* ---- what a record vouches for --------------------------------------------------------------- */

TEST_READY(a_record_that_proves_nothing_awaits_the_first_renewal)
{
    for (int i = 0; i < 4; i++) {
        world_ready(w);
        if (i == 0) {
            w->x.readiness.lease.uid[0] = '\0'; /* names no lease */
        } else if (i == 1) {
            w->x.readiness.observed = SEC(400); /* of the future */
        } else if (i == 2) {
            w->x.readiness.observed = (struct mono){0}; /* saw no renewal */
        }
        world_restart(w, 342, i < 3 ? 1000 : 341); /* the last: readers refuse it by now */
        AWAITING(w);
        assert_true(w->x.evidence.has_marked); /* true all the same */
        look(w, 342);
        AWAITING(w);
        world_silence_until(w, 382);
        AWAITING(w); /* the lease has its time again */
        world_renew(w, 382);
        READY(w);
    }
}

/* It wrote nothing: neither what it was answered nor that it was not says anything of the DPU. */
TEST_READY(a_trial_is_no_evidence)
{
    static const enum mark_outcome outcomes[] = {MARK_TAKEN, MARK_DENIED, MARK_LOST};
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        world_ready(w);
        restart(w, 12);
        world_list(w, SEC(12));
        assert_true(w->out.mark && w->out.is_trial);
        world_mark(w, outcomes[i], SEC(12), SEC(12.1));
        assert_int_equal(w->x.evidence.checked.ns, SEC(1).ns);
        assert_int_equal(w->x.evidence.failing.ns, 0);
    }
}

TEST_READY(a_trial_keeps_nothing_that_is_evidence_from_being_asked_for)
{
    restart(w, 12);
    world_list(w, SEC(12));
    world_tick(w, SEC(23.5));
    assert_true(w->out.confirm && w->out.wake_at.ns == SEC(26).ns);
    world_tick(w, SEC(26));
    assert_true(w->out.mark && !w->out.is_trial);
}

/* An older writer knew no evidence, and a broken one may name any time. */
TEST_READY(evidence_is_no_older_than_the_renewal_and_no_newer_than_the_start)
{
    struct world broken = *w;
    w->x.evidence.checked = (struct mono){0};
    restart(w, 20);
    assert_int_equal(w->x.evidence.checked.ns, SEC(1).ns);
    broken.x.evidence.checked = SEC(100);
    restart(&broken, 20);
    assert_int_equal(broken.x.evidence.checked.ns, SEC(20).ns);
}

TEST_READY(restart_upon_a_restart_loses_nothing)
{
    w->lease.duration_s = 30; /* of its own, for somebody set it */
    world_renew(w, 5);
    for (int at = 15; at < 30; at += 5) { /* each before it has looked */
        restart(w, at);
        READY(w);
        assert_int_equal(w->x.readiness.lease_until.ns, SEC(35).ns);
        assert_string_equal(w->x.readiness.lease.renew_stamp, w->lease.renew_stamp);
        assert_int_equal(w->x.readiness.lease.duration_s, 30);
        assert_string_equal(w->x.history.lease.renew_stamp, w->lease.renew_stamp); /* for a mark */
    }
    look(w, 30);
    world_condemns_at(w, 5 + R); /* that somebody shortened it accuses nobody */
}

/* ---- what is seen after the restart ---------------------------------------------------------- */

TEST_READY(a_report_is_carried_and_ends_as_it_would_have)
{
    world_report(w, LEASE_HEALTH_UNHEALTHY, "probe");
    world_next_version(w);
    world_seen(w, SEC(5));
    SICK(w);
    struct world dead = *w;
    restart(w, 10);
    SICK(w);
    assert_non_null(strstr(message(w), "probe"));
    world_report(w, LEASE_HEALTH_NONE, "");
    world_renew_unseen(w, 8);
    look(w, 10);
    READY(w);
    restart(&dead, 300); /* it got well, renewed, and died, all unseen */
    world_report(&dead, LEASE_HEALTH_NONE, "");
    world_renew_unseen(&dead, 50);
    look(&dead, 300);
    assert_false(dead.x.readiness.admit);
    world_silence_until(&dead, 331);
    EXPIRED(&dead);
}

/* One that is said only once (by an older dpu-agent), while another renews: a leftover in the end.
 */
TEST_READY(a_report_of_before_a_restart_stands_still_since_then)
{
    world_report(w, LEASE_HEALTH_SHUTDOWN, "");
    world_next_version(w);
    world_seen(w, SEC(11));
    restart(w, 20);
    world_renew_unseen(w, 45);
    look(w, 50);
    world_renew(w, 59);
    expect(w, READINESS_NOT_READY, REASON_DPU_SHUTDOWN, false);
    world_renew(w, 60);
    READY(w);
}

/* An older dpu-agent reports once, and without a stamp: what is seen first after the restart is
 * nothing new. */
TEST_READY(a_report_without_a_stamp_lasts_over_a_restart)
{
    world_report(w, LEASE_HEALTH_UNHEALTHY, "ovs");
    world_seen(w, SEC(5));
    SICK(w);
    restart(w, 20);
    SICK(w);
    world_list(w, SEC(20.1));
    world_silence_until(w, 100);
    SICK(w);
    assert_non_null(strstr(message(w), "ovs"));
}
