/* SPDX-License-Identifier: Apache-2.0 */
/* What a record carried over a restart is worth: at the start, and after the first look. */
#include "tests/unit/expiry_world.h"

#define READY(w)    expect((w), READINESS_READY, REASON_LEASE_RENEWED, true)
#define HELD(w)     expect((w), READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, true)
#define EXPIRED(w)  expect((w), READINESS_NOT_READY, REASON_LEASE_EXPIRED, false)
#define AWAITING(w) expect((w), READINESS_UNKNOWN, REASON_AWAITING_FIRST_RENEWAL, false)

static const char *message(const struct world *w)
{
    return expiry_verdict(&w->x)->message;
}

/* The record of an agent that saw the renewal stamped (and observed) at 1. */
static struct expiry_carry carried(void)
{
    struct world w;
    world_ready(&w);
    return (struct expiry_carry){.verdict = *expiry_verdict(&w.x), .hold_until = SEC(341)};
}

static void restart_within_the_duration_is_ready_at_once(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    world_init(&w, &carry, SEC(30));
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(41).ns);
    world_stamp(&w, 1);
    world_read(&w, SEC(30), SEC(30.1));
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(41).ns);
}

static void restart_right_after_the_deadline_says_so_and_reads_at_once(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    world_init(&w, &carry, SEC(45));
    world_tick(&w, SEC(45));
    HELD(&w);
    assert_non_null(strstr(message(&w), "was restarted after the lease ran out"));
    assert_true(w.out.confirm);
}

static void restart_measures_renewals_by_the_dpus_own_clock(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    world_init(&w, &carry, SEC(30));
    world_stamp(&w, 21);
    world_read(&w, SEC(30), SEC(30.1));
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(61).ns);
}

static void restart_after_a_late_observation_still_measures(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    carry.verdict.observed = SEC(6); /* seen five seconds late */
    world_init(&w, &carry, SEC(300));
    world_stamp(&w, 298);
    world_read(&w, SEC(300), SEC(300.1));
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(340.1).ns);
}

static void live_dpu_is_ready_after_any_downtime(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    world_init(&w, &carry, SEC(300));
    HELD(&w);
    world_stamp(&w, 295);
    world_read(&w, SEC(300), SEC(300.1));
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(335).ns);
}

static void dead_dpu_is_not_ready_at_once_after_any_downtime(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    world_init(&w, &carry, SEC(300));
    world_stamp(&w, 1);
    world_read(&w, SEC(300), SEC(300.1));
    EXPIRED(&w);
}

/* It renewed while nobody looked; by its own clock too long ago, but clocks step back. */
static void changed_stamp_that_ran_out_over_a_restart_gets_a_grace(void **state)
{
    static const double stamps[] = {11, -50};
    struct expiry_carry carry = carried();
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(stamps); i++) {
        struct world w;
        world_init(&w, &carry, SEC(300));
        world_stamp(&w, stamps[i]);
        world_read(&w, SEC(300), SEC(300.1));
        HELD(&w);
        world_silence_until(&w, 320);
        HELD(&w);
        world_silence_until(&w, 321);
        EXPIRED(&w);
        world_init(&w, &carry, SEC(300));
        world_stamp(&w, stamps[i]);
        world_read(&w, SEC(300), SEC(300.1));
        world_stamp(&w, stamps[i] + 10);
        world_seen(&w, SEC(307));
        READY(&w);
    }
}

static void stepped_dpu_clock_over_a_restart_is_held_until_the_next_renewal(void **state)
{
    static const double stamps[] = {-5000, 5000};
    struct expiry_carry carry = carried();
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(stamps); i++) {
        struct world w;
        world_init(&w, &carry, SEC(300));
        world_stamp(&w, stamps[i]);
        world_read(&w, SEC(300), SEC(300.1));
        HELD(&w);
        world_stamp(&w, stamps[i] + 10);
        world_seen(&w, SEC(307));
        READY(&w);
    }
}

static void stepped_dpu_clock_within_the_duration_keeps_what_was_observed(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    world_init(&w, &carry, SEC(20));
    world_stamp(&w, -5000);
    world_read(&w, SEC(20), SEC(20.1));
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(41).ns);
    world_init(&w, &carry, SEC(39)); /* shortly before it runs out: the next stamp has its time */
    world_stamp(&w, -5000);
    world_read(&w, SEC(39), SEC(39));
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(59).ns);
}

static void record_older_than_the_stale_hold_does_not_vouch(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    world_init(&w, &carry, SEC(342));
    AWAITING(&w);
    world_stamp(&w, 340);
    world_read(&w, SEC(342), SEC(342.1));
    READY(&w); /* but the DPU's clock does */
}

static void recreated_lease_over_a_restart_is_held_for_a_grace(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    world_init(&w, &carry, SEC(300));
    (void)text_copy(w.lease.uid, sizeof(w.lease.uid), "uid-2");
    world_stamp(&w, 295);
    world_read(&w, SEC(300), SEC(300.1));
    HELD(&w);
    world_silence_until(&w, 321);
    EXPIRED(&w);
}

static void restart_of_a_not_ready_node_stays_not_ready_with_its_reason(void **state)
{
    struct world w;
    struct world before;
    (void)state;
    world_ready(&before);
    world_silence_until(&before, 41);
    world_read(&before, SEC(41), SEC(41));
    struct expiry_carry carry = {.verdict = *expiry_verdict(&before.x), .hold_until = SEC(400)};
    world_init(&w, &carry, SEC(100));
    EXPIRED(&w);
    assert_string_equal(message(&w), carry.verdict.message);
    world_fail(&w, SEC(101));
    EXPIRED(&w);
    world_stamp(&w, 1);
    world_read(&w, SEC(110), SEC(110));
    EXPIRED(&w);
    world_renew(&w, 120);
    READY(&w);
}

static void restart_during_an_outage_goes_on_holding(void **state)
{
    struct world w;
    struct world before;
    (void)state;
    world_ready(&before);
    world_fail(&before, SEC(20));
    world_tick(&before, SEC(50));
    struct expiry_carry carry = {.verdict = *expiry_verdict(&before.x), .hold_until = SEC(400)};
    world_init(&w, &carry, SEC(60));
    HELD(&w);
    world_fail(&w, SEC(61));
    HELD(&w);
    world_stamp(&w, 1);
    world_read(&w, SEC(70), SEC(70));
    HELD(&w); /* the DPU was cut off too: two intervals */
    world_silence_until(&w, 90);
    world_read(&w, SEC(90), SEC(90));
    EXPIRED(&w);
}

static void reported_state_is_carried(void **state)
{
    struct world w;
    struct world before;
    (void)state;
    world_ready(&before);
    world_report(&before, LEASE_HEALTH_UNHEALTHY, "probe");
    world_seen(&before, SEC(5));
    struct expiry_carry carry = {.verdict = *expiry_verdict(&before.x), .hold_until = SEC(400)};
    world_init(&w, &carry, SEC(10));
    expect(&w, READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false);
    assert_non_null(strstr(message(&w), "probe"));
    world_stamp(&w, 8);
    world_read(&w, SEC(10), SEC(10));
    READY(&w);
}

static void record_from_the_future_is_not_carried(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    world_init(&w, &carry, SEC(0.5));
    AWAITING(&w);
}

static void lease_absent_after_a_restart_is_not_found_past_the_deadline(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    world_init(&w, &carry, SEC(100));
    HELD(&w);
    world_absent(&w, SEC(100.1));
    assert_true(w.out.repair);
    world_read_ok(&w, SEC(100), SEC(100.1));
    expect(&w, READINESS_NOT_READY, REASON_LEASE_NOT_FOUND, false);
}

static void what_a_restart_has_to_know_is_written_at_once(void **state)
{
    struct world w;
    struct world before;
    (void)state;
    world_ready(&before);
    const struct expiry_carry carry = {.verdict = *expiry_verdict(&before.x),
                                       .hold_until = SEC(341)};
    world_stamp(&before, -3600); /* it went back: the next one has to follow it */
    world_seen(&before, SEC(3));
    assert_true(before.out.rewrite);
    world_init(&w, &carry, SEC(30));
    world_tick(&w, SEC(30));
    world_stamp(&w, 1);
    world_seen(&w, SEC(31));
    assert_true(w.out.rewrite); /* the carried one is confirmed */
    world_seen(&w, SEC(32));
    assert_false(w.out.rewrite);
}

static void a_lease_that_is_unreadable_after_a_restart_is_invalid_at_the_deadline(void **state)
{
    struct world w;
    struct world before;
    (void)state;
    world_ready(&before);
    const struct expiry_carry carry = {.verdict = *expiry_verdict(&before.x),
                                       .hold_until = SEC(341)};
    world_init(&w, &carry, SEC(30));
    for (int at = 30; at < 45; at += 5) {
        world_tick(&w, SEC(at));
        world_unreadable(&w, SEC(at), SEC(at + 0.1));
    }
    world_unreadable(&w, SEC(45), SEC(45));
    expect(&w, READINESS_NOT_READY, REASON_LEASE_INVALID, false);
}

/* What made no sense settled nothing: the DPU renewed while we were away. */
static void a_lease_that_can_be_read_again_after_a_restart_settles_the_record(void **state)
{
    struct world w;
    struct world before;
    (void)state;
    world_ready(&before);
    const struct expiry_carry carry = {.verdict = *expiry_verdict(&before.x),
                                       .hold_until = SEC(341)};
    world_init(&w, &carry, SEC(45));
    world_unreadable(&w, SEC(45), SEC(45.1));
    world_stamp(&w, 31);
    world_read(&w, SEC(46), SEC(46));
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->observed.ns, SEC(31).ns);
}

/* Its sign of life is the stepped stamp: no look before it is overdue again could count. */
static void a_clock_stepped_over_a_restart_makes_no_storm_of_looks(void **state)
{
    struct world w;
    struct world before;
    int looks = 0;
    (void)state;
    world_ready(&before);
    struct expiry_carry carry = {.verdict = *expiry_verdict(&before.x), .hold_until = SEC(341)};
    world_init(&w, &carry, SEC(39));
    w.has_control = true;
    world_stamp(&w, -5000);
    world_read(&w, SEC(39), SEC(39));
    READY(&w);
    for (struct mono now = SEC(39); mono_before(now, SEC(70)) && looks < 20;) {
        world_tick(&w, now);
        bool look = w.out.look;
        if (w.out.confirm) {
            world_read(&w, now, now);
        }
        while ((look || w.out.look) && looks++ < 20) {
            world_control(&w, now, EXPIRY_CONTROL_SEEN, "a", now);
            look = false;
        }
        now = w.out.wake_at;
    }
    assert_in_range(looks, 1, 6);
}

/* One that is said only once (by an older dpu-agent), while another renews: a leftover in the end.
 */
static void a_report_of_before_a_restart_stands_still_since_then(void **state)
{
    struct world w;
    struct world before;
    (void)state;
    world_ready(&before);
    world_report(&before, LEASE_HEALTH_SHUTDOWN, "");
    world_seen(&before, SEC(11));
    const struct expiry_carry carry = {.verdict = *expiry_verdict(&before.x)};
    world_init(&w, &carry, SEC(20));
    world_fail(&w, SEC(21));
    world_report(&w, LEASE_HEALTH_SHUTDOWN, "");
    world_stamp(&w, 45);
    world_read(&w, SEC(50), SEC(50));
    world_renew(&w, 59);
    expect(&w, READINESS_NOT_READY, REASON_DPU_SHUTDOWN, false);
    world_renew(&w, 60);
    READY(&w);
}

/* ---- what a record vouches for -----------------------------------------------------------------
 */

/* The record of an agent that called the node not ready, at 41. */
static struct expiry_carry carried_not_ready(void)
{
    struct world w;
    world_ready(&w);
    world_silence_until(&w, 42);
    EXPIRED(&w);
    return (struct expiry_carry){.verdict = *expiry_verdict(&w.x), .hold_until = SEC(341)};
}

static void record_that_saw_no_renewal_leaves_the_lease_its_time_again(void **state)
{
    struct world w;
    struct world before;
    (void)state;
    world_init(&before, NULL, SEC(0));
    world_stamp(&before, -100);
    world_read(&before, SEC(0), SEC(0));
    const struct expiry_carry carry = {.verdict = *expiry_verdict(&before.x)};
    world_init(&w, &carry, SEC(30));
    world_stamp(&w, -100);
    world_read(&w, SEC(30), SEC(30));
    AWAITING(&w);
    assert_int_equal(expiry_verdict(&w.x)->observed.ns, 0);
    world_silence_until(&w, 70);
    AWAITING(&w);
    world_read(&w, SEC(70), SEC(70));
    EXPIRED(&w);
}

static void record_that_names_no_lease_vouches_for_none(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    carry.verdict.lease.uid[0] = '\0';
    world_init(&w, &carry, SEC(30));
    AWAITING(&w);
}

/* The second starts before the first has looked. */
static void restart_upon_a_restart_loses_nothing(void **state)
{
    struct world w;
    struct world before;
    (void)state;
    world_ready(&before);
    before.lease.duration_s = 30; /* of its own, for somebody set it */
    world_renew(&before, 5);
    struct expiry_carry carry = {.verdict = *expiry_verdict(&before.x), .hold_until = SEC(300)};
    for (int at = 20; at < 30; at += 5) {
        world_init(&w, &carry, SEC(at));
        world_tick(&w, SEC(at));
        READY(&w);
        assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(35).ns);
        carry.verdict = *expiry_verdict(&w.x);
        assert_string_equal(carry.verdict.lease.renew_stamp, before.lease.renew_stamp);
        assert_int_equal(carry.verdict.lease.duration_s, 30);
    }
    w.lease.duration_s = 30;
    world_stamp(&w, 15);
    world_read(&w, SEC(26), SEC(26));
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(45).ns); /* as it was stamped */
}

static void restart_during_an_outage_says_that_nobody_was_reached_since(void **state)
{
    struct world w;
    struct world before;
    (void)state;
    world_ready(&before);
    world_fail(&before, SEC(20));
    world_tick(&before, SEC(50));
    const struct expiry_carry carry = {.verdict = *expiry_verdict(&before.x),
                                       .hold_until = SEC(400)};
    world_init(&w, &carry, SEC(60));
    assert_int_equal(expiry_contact(&w.x), EXPIRY_CONTACT_LOST);
    world_tick(&w, SEC(60));
    HELD(&w);
    assert_non_null(strstr(message(&w), "(not reached since the restart)"));
}

/* It admits nobody: there is no one whom a writer that dies within it could accuse. */
static void promise_of_a_carried_not_ready_is_whole(void **state)
{
    struct world w;
    struct expiry_carry carry = carried_not_ready();
    (void)state;
    world_init(&w, &carry, SEC(100));
    EXPIRED(&w);
    assert_int_equal(expiry_writer_until(&w.x, SEC(100)).ns, SEC(115).ns);
}

/* ---- what is seen after the restart ------------------------------------------------------------
 */

/* It may have begun long before: the DPU had no chance to renew either. */
static void outage_found_by_the_restart_leaves_the_dpu_its_retry(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    world_init(&w, &carry, SEC(100));
    world_watch(&w, SEC(100), false);
    world_fail(&w, SEC(105));
    HELD(&w);
    world_stamp(&w, 1);
    world_read(&w, SEC(200), SEC(200));
    HELD(&w);
    world_silence_until(&w, 219);
    HELD(&w);
    world_silence_until(&w, 221);
    EXPIRED(&w);
}

/* What it shows may have happened while we were away. */
static void watch_is_prompt_after_the_first_answered_read(void **state)
{
    static const struct {
        bool is_read;
        double observed;
    } rows[] = {{false, 25}, {true, 35}};
    struct expiry_carry carry = carried();
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_init(&w, &carry, SEC(30));
        world_watch(&w, SEC(30), true);
        world_stamp(&w, 21);
        world_seen(&w, SEC(31));
        if (rows[i].is_read) {
            world_read(&w, SEC(32), SEC(32));
        }
        world_stamp(&w, 25); /* by a clock that is slow, or a watch that is late */
        world_seen(&w, SEC(35));
        assert_true(w.out.renewed);
        assert_int_equal(expiry_verdict(&w.x)->observed.ns, SEC(rows[i].observed).ns);
    }
}

static void stamp_of_the_record_is_old_once_a_newer_was_seen(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    world_init(&w, &carry, SEC(30));
    world_stamp(&w, 21);
    world_read(&w, SEC(30), SEC(30));
    world_stamp(&w, 1); /* a lagging API server */
    world_read(&w, SEC(50), SEC(50));
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(61).ns);
}

/* Damage is no sign of life, even where a renewal would be one. */
static void lease_that_lost_its_stamp_over_a_restart_is_silent(void **state)
{
    struct world w;
    struct expiry_carry carry = carried();
    (void)state;
    world_init(&w, &carry, SEC(300));
    world_stamp(&w, 295);
    w.lease.renew_stamp[0] = '\0';
    w.lease.renew_time_valid = false;
    world_read(&w, SEC(300), SEC(300));
    expect(&w, READINESS_NOT_READY, REASON_LEASE_INVALID, false);
}

/* It got well, renewed, and died, all unseen. */
static void report_taken_back_while_we_were_away_makes_no_dead_dpu_ready(void **state)
{
    struct world w;
    struct world before;
    (void)state;
    world_ready(&before);
    world_report(&before, LEASE_HEALTH_UNHEALTHY, "probe");
    world_seen(&before, SEC(5));
    const struct expiry_carry carry = {.verdict = *expiry_verdict(&before.x)};
    world_init(&w, &carry, SEC(300));
    world_stamp(&w, 50);
    world_read(&w, SEC(300), SEC(300));
    EXPIRED(&w);
}

static void lease_made_anew_over_a_not_ready_restart_has_its_whole_duration(void **state)
{
    struct world w;
    struct expiry_carry carry = carried_not_ready();
    (void)state;
    world_init(&w, &carry, SEC(100));
    (void)text_copy(w.lease.uid, sizeof(w.lease.uid), "uid-2");
    world_stamp(&w, 95);
    world_read(&w, SEC(110), SEC(110));
    AWAITING(&w);
    assert_int_equal(expiry_verdict(&w.x)->observed.ns, 0); /* nobody saw it renewed */
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, 0);
    world_silence_until(&w, 150);
    AWAITING(&w);
    world_read(&w, SEC(150), SEC(150));
    EXPIRED(&w);
}

/* The stepped stamp is a sign of life of 39: what others wrote until the next was due, at 54, the
 * DPU had no reason to write. */
static void control_of_before_a_clock_stepped_over_a_restart_proves_nothing(void **state)
{
    static const struct {
        double written_at;
        bool is_proof;
    } rows[] = {{50, false}, {55, true}};
    struct expiry_carry carry = carried();
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_init(&w, &carry, SEC(39));
        w.has_control = true;
        world_stamp(&w, -5000);
        world_read(&w, SEC(39), SEC(39));
        world_read(&w, SEC(59), SEC(59)); /* the end of the grace */
        world_control(&w, SEC(59.1), EXPIRY_CONTROL_SEEN, "a", SEC(rows[i].written_at));
        if (rows[i].is_proof) {
            EXPIRED(&w);
        } else {
            expect(&w, READINESS_UNKNOWN, REASON_API_SERVER_NOT_WRITING, true);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restart_within_the_duration_is_ready_at_once),
        cmocka_unit_test(restart_right_after_the_deadline_says_so_and_reads_at_once),
        cmocka_unit_test(restart_measures_renewals_by_the_dpus_own_clock),
        cmocka_unit_test(restart_after_a_late_observation_still_measures),
        cmocka_unit_test(live_dpu_is_ready_after_any_downtime),
        cmocka_unit_test(dead_dpu_is_not_ready_at_once_after_any_downtime),
        cmocka_unit_test(changed_stamp_that_ran_out_over_a_restart_gets_a_grace),
        cmocka_unit_test(stepped_dpu_clock_over_a_restart_is_held_until_the_next_renewal),
        cmocka_unit_test(stepped_dpu_clock_within_the_duration_keeps_what_was_observed),
        cmocka_unit_test(record_older_than_the_stale_hold_does_not_vouch),
        cmocka_unit_test(recreated_lease_over_a_restart_is_held_for_a_grace),
        cmocka_unit_test(restart_of_a_not_ready_node_stays_not_ready_with_its_reason),
        cmocka_unit_test(restart_during_an_outage_goes_on_holding),
        cmocka_unit_test(reported_state_is_carried),
        cmocka_unit_test(record_from_the_future_is_not_carried),
        cmocka_unit_test(lease_absent_after_a_restart_is_not_found_past_the_deadline),
        cmocka_unit_test(what_a_restart_has_to_know_is_written_at_once),
        cmocka_unit_test(a_lease_that_is_unreadable_after_a_restart_is_invalid_at_the_deadline),
        cmocka_unit_test(a_lease_that_can_be_read_again_after_a_restart_settles_the_record),
        cmocka_unit_test(a_clock_stepped_over_a_restart_makes_no_storm_of_looks),
        cmocka_unit_test(a_report_of_before_a_restart_stands_still_since_then),
        cmocka_unit_test(record_that_saw_no_renewal_leaves_the_lease_its_time_again),
        cmocka_unit_test(record_that_names_no_lease_vouches_for_none),
        cmocka_unit_test(restart_upon_a_restart_loses_nothing),
        cmocka_unit_test(restart_during_an_outage_says_that_nobody_was_reached_since),
        cmocka_unit_test(promise_of_a_carried_not_ready_is_whole),
        cmocka_unit_test(outage_found_by_the_restart_leaves_the_dpu_its_retry),
        cmocka_unit_test(watch_is_prompt_after_the_first_answered_read),
        cmocka_unit_test(stamp_of_the_record_is_old_once_a_newer_was_seen),
        cmocka_unit_test(lease_that_lost_its_stamp_over_a_restart_is_silent),
        cmocka_unit_test(report_taken_back_while_we_were_away_makes_no_dead_dpu_ready),
        cmocka_unit_test(lease_made_anew_over_a_not_ready_restart_has_its_whole_duration),
        cmocka_unit_test(control_of_before_a_clock_stepped_over_a_restart_proves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
