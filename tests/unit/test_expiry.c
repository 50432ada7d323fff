/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/expiry_world.h"

#define READY(w)    expect((w), READINESS_READY, REASON_LEASE_RENEWED, true)
#define HELD(w)     expect((w), READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, true)
#define EXPIRED(w)  expect((w), READINESS_NOT_READY, REASON_LEASE_EXPIRED, false)
#define AWAITING(w) expect((w), READINESS_UNKNOWN, REASON_AWAITING_FIRST_RENEWAL, false)

static const char *message(const struct world *w)
{
    return expiry_verdict(&w->x)->message;
}

/* ---- nothing is alive until it has been seen alive ------------------------------------------- */

static void start_without_record_awaits_the_first_renewal(void **state)
{
    struct world w;
    (void)state;
    world_init(&w, NULL, SEC(0));
    AWAITING(&w);
    assert_string_equal(expiry_verdict(&w.x)->lease.ns, "ovn-kubernetes");
    assert_string_equal(expiry_verdict(&w.x)->lease.name, "ovn-dpu-w1");
    assert_int_equal(expiry_verdict(&w.x)->observed.ns, 0);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, 0);
    world_tick(&w, SEC(0));
    assert_true(w.out.rewrite);
    AWAITING(&w);
}

static void first_look_at_a_renewed_lease_is_only_a_baseline(void **state)
{
    struct world w;
    (void)state;
    world_init(&w, NULL, SEC(0));
    world_stamp(&w, -1);
    world_read(&w, SEC(0), SEC(0.01));
    AWAITING(&w);
    world_renew(&w, 9);
    assert_true(w.out.verdict_changed && w.out.renewed && w.out.rewrite);
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(49).ns);
}

/* An etcd that was restored right after the first look shows what was before it. */
static void stamp_older_than_the_baseline_is_no_renewal(void **state)
{
    struct world w;
    (void)state;
    world_init(&w, NULL, SEC(0));
    (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version), "900");
    world_stamp(&w, -1);
    world_read(&w, SEC(0), SEC(0.01));
    (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version), "500");
    world_stamp(&w, -500);
    world_read(&w, SEC(1), SEC(1.01));
    assert_false(w.out.renewed);
    AWAITING(&w);
    (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version), "501");
    world_renew(&w, 9);
    assert_true(w.out.renewed);
    READY(&w);
}

static void lease_created_with_a_stamp_by_somebody_is_a_baseline(void **state)
{
    struct world w;
    (void)state;
    world_init(&w, NULL, SEC(0));
    world_absent(&w, SEC(0.1));
    assert_true(w.out.repair);
    world_renew(&w, 1);
    AWAITING(&w);
    world_renew(&w, 11);
    READY(&w);
}

/* For whoever compares the record with what kubectl shows. */
static void verdict_names_the_lease_as_it_was_last_seen(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version), "7");
    world_renew(&w, 11);
    const struct readiness_lease *lease = &expiry_verdict(&w.x)->lease;
    assert_string_equal(lease->uid, "uid-1");
    assert_string_equal(lease->resource_version, "7");
    assert_string_equal(lease->renew_stamp, w.lease.renew_stamp);
    assert_int_equal(lease->duration_s, 40);
}

static void silence_for_a_duration_after_the_start_is_expiry(void **state)
{
    struct world w;
    (void)state;
    world_init(&w, NULL, SEC(0));
    world_stamp(&w, -100);
    world_tick(&w, SEC(0));
    world_read(&w, SEC(0), SEC(0.5));
    world_silence_until(&w, 40.5);
    AWAITING(&w);
    assert_int_equal(w.out.wake_at.ns, SEC(40.5).ns);
    world_tick(&w, SEC(40.5));
    assert_true(w.out.confirm);
    world_read(&w, SEC(40.5), SEC(40.501));
    EXPIRED(&w);
}

static void never_renewed_lease_expires_as_invalid_and_hints_at_the_configuration(void **state)
{
    struct world w;
    (void)state;
    world_init(&w, NULL, SEC(0));
    world_read(&w, SEC(0), SEC(0));
    world_silence_until(&w, 40);
    world_read(&w, SEC(40), SEC(40.002));
    expect(&w, READINESS_NOT_READY, REASON_LEASE_INVALID, false);
    assert_non_null(strstr(message(&w), "configuration mismatch"));
}

/* ---- expiry ---------------------------------------------------------------------------------- */

static void expired_lease_turns_not_ready_at_exact_deadline(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_silence_until(&w, 41);
    assert_int_equal(w.out.wake_at.ns, SEC(41).ns);
    READY(&w);
    world_tick(&w, SEC(41));
    assert_true(w.out.confirm);
    READY(&w); /* proof is one round trip away; readers of the record flip by valid_until */
    world_read(&w, SEC(41), SEC(41.001));
    EXPIRED(&w);
    assert_true(w.out.verdict_changed);
}

static void read_started_a_nanosecond_before_the_deadline_is_no_proof(void **state)
{
    struct world w;
    struct mono early = {SEC(41).ns - 1};
    (void)state;
    world_ready(&w);
    world_silence_until(&w, 41);
    world_read(&w, early, SEC(41.2));
    READY(&w);
    assert_true(w.out.confirm);
    world_read(&w, SEC(41.2), SEC(41.3));
    EXPIRED(&w);
}

static void renewal_seen_by_the_last_read_keeps_it_ready(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_silence_until(&w, 41);
    world_tick(&w, SEC(41));
    world_stamp(&w, 40.9);
    world_read(&w, SEC(41), SEC(41.001));
    READY(&w);
    assert_true(w.out.restart_watch); /* the watch had not shown it */
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(80.9).ns); /* as it was stamped */
}

static void early_reads_start_after_one_and_a_half_intervals(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    while (!w.out.confirm) {
        assert_true(mono_before(w.out.wake_at, SEC(17)));
        world_tick(&w, w.out.wake_at);
    }
    assert_int_equal(w.x.last_confirm.ns, SEC(16).ns);
}

static void steady_renewals_need_no_read(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    for (int i = 0; i < 50; i++) {
        double next = 1 + 10.3 * (i + 1);
        while (mono_before(w.out.wake_at, SEC(next))) {
            world_tick(&w, w.out.wake_at);
            assert_false(w.out.confirm);
        }
        world_renew(&w, next);
        READY(&w);
        assert_false(w.out.confirm);
    }
}

static void renewal_after_expiry_recovers_at_once(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_silence_until(&w, 41);
    world_read(&w, SEC(41), SEC(41.001));
    EXPIRED(&w);
    world_renew(&w, 55);
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(95).ns);
}

static void renewals_further_apart_than_the_duration_hint_at_the_configuration(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    for (int i = 1; i <= 2; i++) {
        world_silence_until(&w, 60 * i + 1);
        EXPIRED(&w);
        world_renew(&w, 60 * i + 1);
        READY(&w);
    }
    world_silence_until(&w, 180);
    EXPIRED(&w);
    assert_non_null(strstr(message(&w), "60s apart"));
    assert_non_null(strstr(message(&w), "configuration mismatch"));
}

/* ---- what is a renewal ----------------------------------------------------------------------- */

static void changes_without_a_new_stamp_do_not_extend_the_deadline(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    for (int at = 2; at < 41; at++) {
        (void)snprintf(w.lease.resource_version, sizeof(w.lease.resource_version), "%d", at);
        world_seen(&w, SEC(at));
        assert_false(w.out.renewed);
    }
    world_read(&w, SEC(41), SEC(41));
    EXPIRED(&w);
}

static void renewal_by_a_foreign_holder_does_not_count(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    (void)text_copy(w.lease.holder, sizeof(w.lease.holder), "somebody");
    for (int at = 11; at <= 41; at += 10) {
        world_renew(&w, at);
        assert_false(w.out.renewed);
    }
    world_read(&w, SEC(41), SEC(41.001));
    expect(&w, READINESS_NOT_READY, REASON_LEASE_INVALID, false);
    assert_non_null(strstr(message(&w), "'somebody'"));
}

static void unparseable_but_new_stamp_is_a_renewal(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    (void)text_copy(w.lease.renew_stamp, sizeof(w.lease.renew_stamp), "tomorrow");
    w.lease.renew_time_valid = false;
    world_seen(&w, SEC(11));
    assert_true(w.out.renewed);
}

/* A stepped clock, or an etcd restored with higher versions? The next stamp tells. */
static void stamps_that_go_back_count_from_the_second_on(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_stamp(&w, -3600);
    world_seen(&w, SEC(11));
    assert_false(w.out.renewed);
    READY(&w);
    world_stamp(&w, -3590);
    world_seen(&w, SEC(21));
    assert_true(w.out.renewed);
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(61).ns);
}

static void a_stamp_that_went_back_alone_keeps_nobody_alive(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_silence_until(&w, 36);
    world_stamp(&w, -500);
    (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version), "1000000900");
    world_seen(&w, SEC(36));
    assert_false(w.out.renewed);
    world_silence_until(&w, 42);
    HELD(&w); /* it may be a stepped clock: one retry's time */
    world_silence_until(&w, 57);
    EXPIRED(&w);
}

/* At the shortest timers one lost renewal is a whole lease. */
static void stamps_that_go_back_are_no_expiry_where_the_lease_is_short(void **state)
{
    struct world w = {.lease = world_lease()};
    struct expiry_config config = world_config();
    (void)state;
    config.renew_interval_ns = NS_PER_SEC;
    config.duration_ns = 2 * NS_PER_SEC;
    w.lease.duration_s = 2;
    expiry_init(&w.x, &config, NULL, SEC(0));
    world_read(&w, SEC(0), SEC(0));
    world_renew(&w, 1);
    world_stamp(&w, -100);
    world_seen(&w, SEC(2));
    world_silence_until(&w, 3);
    world_tick(&w, SEC(3));
    world_read(&w, SEC(3), SEC(3.001));
    HELD(&w);
    world_stamp(&w, -99);
    world_seen(&w, SEC(3.01));
    READY(&w);
}

static void stale_read_of_an_older_state_is_no_renewal_and_shortens_nothing(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_renew(&w, 11);
    world_renew(&w, 21);
    world_stamp(&w, 11);
    world_seen(&w, SEC(22));
    assert_false(w.out.renewed);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(61).ns);
    world_stamp(&w, 31);
    world_seen(&w, SEC(31));
    assert_true(w.out.renewed);
}

static void restored_etcd_showing_an_unknown_older_stamp_is_no_renewal(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version), "900");
    world_renew(&w, 11);
    (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version), "500");
    world_stamp(&w, -500);
    world_seen(&w, SEC(12));
    assert_false(w.out.renewed);
    (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version), "501");
    world_renew(&w, 21);
    assert_true(w.out.renewed);
}

/* ---- the duration on the lease --------------------------------------------------------------- */

static void duration_on_the_lease_is_clamped(void **state)
{
    static const struct {
        uint32_t on_lease_s;
        double expected_s;
    } rows[] = {{0, 40}, {1, 20}, {20, 20}, {30, 30}, {40, 40}, {599, 599}, {2147483647, 600}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_ready(&w);
        w.lease.duration_s = 30;
        world_renew(&w, 3);
        w.lease.duration_s = rows[i].on_lease_s;
        world_renew(&w, 5);
        world_renew(&w, 6); /* no grace for the change any more */
        assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(6 + rows[i].expected_s).ns);
    }
}

static void configured_duration_below_two_intervals_is_taken_as_it_is(void **state)
{
    struct world w;
    struct expiry_config config = world_config();
    (void)state;
    config.duration_ns = 12 * NS_PER_SEC;
    w = (struct world){.lease = world_lease()};
    w.lease.duration_s = 12;
    expiry_init(&w.x, &config, NULL, SEC(0));
    world_read(&w, SEC(0), SEC(0));
    world_renew(&w, 1);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(13).ns);
    world_silence_until(&w, 13);
    READY(&w);
    world_tick(&w, SEC(13));
    world_read(&w, SEC(13), SEC(13.001));
    EXPIRED(&w);
}

/* ---- evidence: outage, grace, stall ---------------------------------------------------------- */

static void api_outage_holds_ready_and_keeps_readers_admitting(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    struct mono promised = expiry_verdict(&w.x)->valid_until;
    while (mono_before(w.out.wake_at, SEC(400))) {
        struct mono now = w.out.wake_at;
        assert_true(mono_before(now, promised)); /* no gap between two written promises */
        world_tick(&w, now);
        bool rewrite = w.out.rewrite;
        if (w.out.confirm) {
            world_fail(&w, now);
        }
        if (rewrite || w.out.rewrite) {
            promised = expiry_verdict(&w.x)->valid_until;
        }
    }
    HELD(&w);
    assert_non_null(strstr(message(&w), "connection refused"));
}

static void dpu_gets_two_intervals_after_the_outage(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_fail(&w, SEC(16));
    world_tick(&w, SEC(41));
    HELD(&w);
    world_read(&w, SEC(99), SEC(100));
    HELD(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(120).ns);
    world_silence_until(&w, 120);
    HELD(&w);
    world_tick(&w, SEC(120));
    assert_true(w.out.confirm);
    world_read(&w, SEC(120), SEC(120.001));
    EXPIRED(&w);
}

static void renewal_within_the_grace_makes_it_ready_again(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_fail(&w, SEC(16));
    world_tick(&w, SEC(41));
    world_read(&w, SEC(99), SEC(100));
    world_renew(&w, 105);
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(145).ns);
}

static void outage_that_ends_shortly_before_the_deadline_extends_it(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_fail(&w, SEC(16));
    world_read(&w, SEC(34), SEC(35));
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(55).ns);
    world_silence_until(&w, 41.5);
    HELD(&w); /* the lease itself has run out */
    world_silence_until(&w, 55);
    HELD(&w);
    world_read(&w, SEC(55), SEC(55.1));
    EXPIRED(&w);
}

static void flapping_api_cannot_keep_a_dead_dpu_alive_for_ever(void **state)
{
    struct world w;
    double at = 16;
    (void)state;
    world_ready(&w);
    while (expiry_verdict(&w.x)->state != READINESS_NOT_READY) {
        world_fail(&w, SEC(at));
        world_read(&w, SEC(at + 10), SEC(at + 10));
        at += 20;
        assert_true(at < 300);
    }
    EXPIRED(&w);
}

static void watch_accepted_again_asks_for_a_read_and_proves_nothing(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_watch(&w, SEC(19), false);
    world_fail(&w, SEC(20));
    world_tick(&w, SEC(41));
    HELD(&w);
    world_fail(&w, SEC(46));
    world_watch(&w, SEC(52), true);
    assert_true(w.out.confirm);
    HELD(&w);
    world_read(&w, SEC(52), SEC(52.001));
    HELD(&w); /* the grace */
    world_silence_until(&w, 73);
    EXPIRED(&w);
}

static void failure_of_the_last_read_holds_instead_of_accusing(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_silence_until(&w, 41);
    world_tick(&w, SEC(41));
    READY(&w);
    world_fail(&w, SEC(46));
    HELD(&w);
    assert_true(mono_before(SEC(46), expiry_verdict(&w.x)->valid_until));
}

static void last_read_without_any_answer_holds_after_its_deadline(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_silence_until(&w, 41);
    world_tick(&w, SEC(41));
    while (mono_before(w.out.wake_at, SEC(48))) {
        world_tick(&w, w.out.wake_at);
    }
    HELD(&w);
}

static void stall_of_the_host_past_the_deadline_needs_a_read_after_waking(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_renew(&w, 11);
    world_tick(&w, SEC(3600));
    HELD(&w);
    assert_true(w.out.confirm);
    assert_true(mono_before(SEC(3600), expiry_verdict(&w.x)->valid_until));
    world_stamp(&w, 3595);
    world_read(&w, SEC(3600), SEC(3600.01));
    READY(&w);
}

static void dead_dpu_is_found_right_after_a_stall(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_tick(&w, SEC(3600));
    HELD(&w);
    world_read(&w, SEC(3600), SEC(3600.01));
    EXPIRED(&w);
}

static void late_renewal_event_after_a_stall_never_shows_not_ready(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_renew(&w, 100); /* 99 s later, before any tick */
    READY(&w);
    assert_false(w.out.verdict_changed);
}

static void outage_hold_option_bounds_the_hold(void **state)
{
    struct world w;
    struct expiry_config config = world_config();
    (void)state;
    config.api_outage_hold_ns = 300 * NS_PER_SEC;
    w = (struct world){.lease = world_lease()};
    expiry_init(&w.x, &config, NULL, SEC(0));
    world_read(&w, SEC(0), SEC(0));
    world_renew(&w, 1);
    world_fail(&w, SEC(20));
    world_tick(&w, SEC(340));
    HELD(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(341).ns);
    assert_int_equal(w.out.wake_at.ns, SEC(341).ns);
    world_tick(&w, SEC(341));
    expect(&w, READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, false);
    assert_true(w.out.verdict_changed);
    world_read(&w, SEC(400), SEC(400));
    expect(&w, READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, false);
    world_renew(&w, 401);
    READY(&w);
}

static void not_ready_stays_not_ready_through_an_outage(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_silence_until(&w, 41);
    world_read(&w, SEC(41), SEC(41));
    world_fail(&w, SEC(60));
    world_tick(&w, SEC(500));
    EXPIRED(&w);
}

static void awaiting_says_when_the_api_cannot_be_read(void **state)
{
    struct world w;
    (void)state;
    world_init(&w, NULL, SEC(0));
    world_fail(&w, SEC(5));
    AWAITING(&w);
    assert_non_null(strstr(message(&w), "connection refused"));
    world_fail(&w, SEC(500));
    AWAITING(&w);
    world_read(&w, SEC(600), SEC(600));
    assert_null(strstr(message(&w), "connection refused"));
    world_silence_until(&w, 639);
    AWAITING(&w); /* waiting counts from the first contact */
}

/* ---- deletion and damage --------------------------------------------------------------------- */

static void deleted_lease_runs_on_to_its_deadline_and_is_repaired(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_absent(&w, SEC(5));
    assert_true(w.out.repair);
    READY(&w);
    (void)text_copy(w.lease.uid, sizeof(w.lease.uid), "uid-2");
    w.lease.renew_stamp[0] = '\0';
    world_seen(&w, SEC(6));
    READY(&w);
    world_renew(&w, 11);
    assert_true(w.out.renewed);
    READY(&w);
}

static void lease_gone_at_the_deadline_is_not_found(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_absent(&w, SEC(39));
    world_read_ok(&w, SEC(39), SEC(39));
    world_tick(&w, SEC(41));
    world_absent(&w, SEC(41.01));
    world_read_ok(&w, SEC(41), SEC(41.01));
    expect(&w, READINESS_NOT_READY, REASON_LEASE_NOT_FOUND, false);
}

static void damaged_lease_tells_what_is_wrong(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct world w;
        world_ready(&w);
        if (i == 0) {
            w.lease.duration_s = 0;
        } else if (i == 1) {
            w.lease.holder[0] = '\0';
        } else {
            w.lease.renew_stamp[0] = '\0';
        }
        world_seen(&w, SEC(5));
        READY(&w);
        world_silence_until(&w, 41);
        world_read(&w, SEC(41), SEC(41));
        expect(&w, READINESS_NOT_READY, REASON_LEASE_INVALID, false);
    }
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void disabled_health_check_is_ready_and_ignores_everything(void **state)
{
    struct world w;
    struct expiry_config config = world_config();
    (void)state;
    config.renew_interval_ns = 0;
    w = (struct world){.lease = world_lease()};
    expiry_init(&w.x, &config, NULL, SEC(0));
    world_fail(&w, SEC(1));
    world_absent(&w, SEC(2));
    world_tick(&w, SEC(500));
    assert_false(w.out.confirm);
    assert_true(w.out.rewrite);
    expect(&w, READINESS_READY, REASON_HEALTH_CHECK_DISABLED, true);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(515).ns);
}

static void clock_going_backwards_changes_nothing(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_tick(&w, SEC(0.5));
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(41).ns);
}

static void times_near_the_end_of_the_clock_saturate(void **state)
{
    struct world w;
    struct mono late = {INT64_MAX - 5 * NS_PER_SEC};
    (void)state;
    world_init(&w, NULL, (struct mono){late.ns - NS_PER_SEC});
    world_seen(&w, (struct mono){late.ns - NS_PER_SEC});
    world_stamp(&w, 3);
    world_seen(&w, late);
    READY(&w);
    assert_true(mono_is_never(expiry_verdict(&w.x)->valid_until));
}

static void writer_never_promises_beyond_what_the_duration_leaves(void **state)
{
    static const struct {
        int64_t interval_s, duration_s, ahead_ms;
    } rows[] = {{10, 40, 15000}, {10, 12, 2000}, {10, 25, 15000}, {1, 2, 1000}, {0, 40, 15000}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct expiry_config config = world_config();
        config.renew_interval_ns = rows[i].interval_s * NS_PER_SEC;
        config.duration_ns = rows[i].duration_s * NS_PER_SEC;
        assert_int_equal(expiry_writer_ahead_ns(&config), rows[i].ahead_ms * NS_PER_MS);
    }
}

static void confirm_deadline_leaves_room_for_several_reads(void **state)
{
    struct expiry_config config = world_config();
    (void)state;
    assert_int_equal(expiry_confirm_deadline_ms(&config), 5000);
    config.duration_ns = 600 * NS_PER_SEC;
    assert_int_equal(expiry_confirm_deadline_ms(&config), 5000);
    config.duration_ns = 4 * NS_PER_SEC;
    assert_int_equal(expiry_confirm_deadline_ms(&config), 500);
    config.duration_ns = NS_PER_SEC;
    assert_int_equal(expiry_confirm_deadline_ms(&config), 250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start_without_record_awaits_the_first_renewal),
        cmocka_unit_test(first_look_at_a_renewed_lease_is_only_a_baseline),
        cmocka_unit_test(stamp_older_than_the_baseline_is_no_renewal),
        cmocka_unit_test(lease_created_with_a_stamp_by_somebody_is_a_baseline),
        cmocka_unit_test(verdict_names_the_lease_as_it_was_last_seen),
        cmocka_unit_test(silence_for_a_duration_after_the_start_is_expiry),
        cmocka_unit_test(never_renewed_lease_expires_as_invalid_and_hints_at_the_configuration),
        cmocka_unit_test(expired_lease_turns_not_ready_at_exact_deadline),
        cmocka_unit_test(read_started_a_nanosecond_before_the_deadline_is_no_proof),
        cmocka_unit_test(renewal_seen_by_the_last_read_keeps_it_ready),
        cmocka_unit_test(early_reads_start_after_one_and_a_half_intervals),
        cmocka_unit_test(steady_renewals_need_no_read),
        cmocka_unit_test(renewal_after_expiry_recovers_at_once),
        cmocka_unit_test(renewals_further_apart_than_the_duration_hint_at_the_configuration),
        cmocka_unit_test(changes_without_a_new_stamp_do_not_extend_the_deadline),
        cmocka_unit_test(renewal_by_a_foreign_holder_does_not_count),
        cmocka_unit_test(unparseable_but_new_stamp_is_a_renewal),
        cmocka_unit_test(stamps_that_go_back_count_from_the_second_on),
        cmocka_unit_test(a_stamp_that_went_back_alone_keeps_nobody_alive),
        cmocka_unit_test(stamps_that_go_back_are_no_expiry_where_the_lease_is_short),
        cmocka_unit_test(stale_read_of_an_older_state_is_no_renewal_and_shortens_nothing),
        cmocka_unit_test(restored_etcd_showing_an_unknown_older_stamp_is_no_renewal),
        cmocka_unit_test(duration_on_the_lease_is_clamped),
        cmocka_unit_test(configured_duration_below_two_intervals_is_taken_as_it_is),
        cmocka_unit_test(api_outage_holds_ready_and_keeps_readers_admitting),
        cmocka_unit_test(dpu_gets_two_intervals_after_the_outage),
        cmocka_unit_test(renewal_within_the_grace_makes_it_ready_again),
        cmocka_unit_test(outage_that_ends_shortly_before_the_deadline_extends_it),
        cmocka_unit_test(flapping_api_cannot_keep_a_dead_dpu_alive_for_ever),
        cmocka_unit_test(watch_accepted_again_asks_for_a_read_and_proves_nothing),
        cmocka_unit_test(failure_of_the_last_read_holds_instead_of_accusing),
        cmocka_unit_test(last_read_without_any_answer_holds_after_its_deadline),
        cmocka_unit_test(stall_of_the_host_past_the_deadline_needs_a_read_after_waking),
        cmocka_unit_test(dead_dpu_is_found_right_after_a_stall),
        cmocka_unit_test(late_renewal_event_after_a_stall_never_shows_not_ready),
        cmocka_unit_test(outage_hold_option_bounds_the_hold),
        cmocka_unit_test(not_ready_stays_not_ready_through_an_outage),
        cmocka_unit_test(awaiting_says_when_the_api_cannot_be_read),
        cmocka_unit_test(deleted_lease_runs_on_to_its_deadline_and_is_repaired),
        cmocka_unit_test(lease_gone_at_the_deadline_is_not_found),
        cmocka_unit_test(damaged_lease_tells_what_is_wrong),
        cmocka_unit_test(disabled_health_check_is_ready_and_ignores_everything),
        cmocka_unit_test(clock_going_backwards_changes_nothing),
        cmocka_unit_test(times_near_the_end_of_the_clock_saturate),
        cmocka_unit_test(writer_never_promises_beyond_what_the_duration_leaves),
        cmocka_unit_test(confirm_deadline_leaves_room_for_several_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
