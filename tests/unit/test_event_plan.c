/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/event_plan.h"

#include "base/attr.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BOOT_NS (1000 * NS_PER_SEC)
#define WALL_NS (INT64_C(1700000000) * NS_PER_SEC)
#define AT(s)   ((struct mono){BOOT_NS + (int64_t)(s)*NS_PER_SEC})
#define WALL(s) ((struct wall){WALL_NS + (int64_t)(s)*NS_PER_SEC})

enum { SETTLED_S = 3, RANDOM_RUNS = 200, RANDOM_STEPS = 400 };

/* The verdicts that the FSM gives. */
static const struct readiness READY = {
    .state = READINESS_READY, .reason = REASON_LEASE_RENEWED, .admit = true, .message = "renews"};
static const struct readiness EXPIRED = {
    .state = READINESS_NOT_READY, .reason = REASON_LEASE_EXPIRED, .message = "silent"};
static const struct readiness UNHEALTHY = {.state = READINESS_NOT_READY,
                                           .reason = REASON_DPU_REPORTED_UNHEALTHY,
                                           .message = "ovs is down"};
static const struct readiness HELD = {.state = READINESS_UNKNOWN,
                                      .reason = REASON_API_SERVER_UNREACHABLE,
                                      .admit = true,
                                      .message = "unreadable"};
static const struct readiness GIVEN_UP = {.state = READINESS_UNKNOWN,
                                          .reason = REASON_API_SERVER_UNREACHABLE,
                                          .message = "unreadable for too long"};
static const struct readiness AWAITING = {
    .state = READINESS_UNKNOWN, .reason = REASON_AWAITING_FIRST_RENEWAL, .message = "none yet"};

static void change(struct event_plan *p, const struct readiness *verdict, int64_t at_s)
{
    struct readiness v = *verdict;
    v.transition = WALL(at_s);
    event_plan_change(p, &v, AT(at_s));
}

/* Settled, with `left` as what a predecessor left; the clock stands at SETTLED_S. */
static struct event_plan settled(const struct readiness *left)
{
    struct event_plan p;
    event_plan_init(&p, left, AT(0));
    return p;
}

static const struct event_change *expect_write(struct event_plan *p, int64_t at_s)
{
    const struct event_change *c = event_plan_next(p, AT(at_s));
    assert_non_null(c);
    return c;
}

static void expect_nothing(struct event_plan *p, int64_t at_s)
{
    assert_null(event_plan_next(p, AT(at_s)));
}

/* Writes what is due and says how many writes that took. */
static int drain(struct event_plan *p, int64_t at_s)
{
    int count = 0;
    while (event_plan_next(p, AT(at_s))) {
        event_plan_done(p, EVENT_WRITTEN, AT(at_s));
        count++;
    }
    return count;
}

static void a_change_makes_one_event_with_its_own_time(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    change(&p, &EXPIRED, 10);
    const struct event_change *c = expect_write(&p, 11);
    assert_int_equal(c->reason, REASON_LEASE_EXPIRED);
    assert_int_equal(c->state, READINESS_NOT_READY);
    assert_false(c->admit);
    assert_string_equal(c->message, "silent");
    assert_int_equal(c->at.ns, WALL(10).ns);
    assert_int_equal(c->left_out, 0);
    expect_nothing(&p, 11); /* one at a time */
    event_plan_done(&p, EVENT_WRITTEN, AT(11));
    expect_nothing(&p, 11);
    assert_true(mono_is_never(event_plan_wake_at(&p, AT(11))));
    assert_int_equal(p.stats.created, 1);
}

static void a_reboot_is_an_event_beside_the_changes(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    event_plan_reboot(&p, WALL(1)); /* however short it was; a restart's settling is no matter */
    const struct event_change *c = expect_write(&p, 1);
    assert_true(c->is_reboot);
    assert_int_equal(c->at.ns, WALL(1).ns);
    assert_non_null(strstr(c->message, "rebooted"));
    event_plan_done(&p, EVENT_WRITTEN, AT(1));
    change(&p, &EXPIRED, 10);
    event_plan_reboot(&p, WALL(11));
    change(&p, &READY, 12);
    assert_int_equal(expect_write(&p, 12)->reason, REASON_LEASE_EXPIRED);
    event_plan_done(&p, EVENT_WRITTEN, AT(12));
    assert_true(expect_write(&p, 12)->is_reboot);
    event_plan_done(&p, EVENT_WRITTEN, AT(12));
    c = expect_write(&p, 12);
    assert_int_equal(c->reason, REASON_LEASE_RENEWED);
    assert_false(c->is_reboot);
    for (int i = 0; i < 100; i++) { /* bounded as they are */
        event_plan_reboot(&p, WALL(13 + i));
    }
    assert_int_equal(p.queued, EVENT_QUEUE);
}

static void another_message_alone_is_no_change(void **state)
{
    (void)state;
    struct readiness other = UNHEALTHY;
    struct event_plan p = settled(&READY);
    change(&p, &UNHEALTHY, 10);
    assert_int_equal(drain(&p, 10), 1);
    (void)text_copy(other.message, sizeof(other.message), "the bridge is down");
    change(&p, &other, 11);
    assert_int_equal(drain(&p, 11), 0);
}

static void a_changed_admission_is_a_change(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    change(&p, &HELD, 10);
    assert_true(expect_write(&p, 10)->admit);
    event_plan_done(&p, EVENT_WRITTEN, AT(10));
    change(&p, &GIVEN_UP, 20);
    assert_false(expect_write(&p, 20)->admit);
}

/* ---- start ---- */

static void a_restart_that_ends_where_it_began_writes_nothing(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    change(&p, &READY, 0);
    assert_int_equal(event_plan_wake_at(&p, AT(0)).ns, AT(SETTLED_S).ns);
    change(&p, &HELD, 1);
    expect_nothing(&p, 1);
    change(&p, &READY, 2);
    expect_nothing(&p, SETTLED_S);
    assert_true(mono_is_never(event_plan_wake_at(&p, AT(SETTLED_S))));
}

static void a_restart_tells_what_changed_meanwhile(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    change(&p, &HELD, 0);
    change(&p, &EXPIRED, 1);
    const struct event_change *c = expect_write(&p, SETTLED_S);
    assert_int_equal(c->reason, REASON_LEASE_EXPIRED);
    assert_int_equal(c->at.ns, WALL(1).ns);
}

static void the_first_start_tells_only_how_it_ends(void **state)
{
    (void)state;
    struct event_plan p = settled(NULL);
    change(&p, &AWAITING, 0);
    change(&p, &READY, 1);
    assert_int_equal(expect_write(&p, SETTLED_S)->reason, REASON_LEASE_RENEWED);
    event_plan_done(&p, EVENT_WRITTEN, AT(SETTLED_S));
    expect_nothing(&p, SETTLED_S);
}

static void waiting_that_lasts_is_told(void **state)
{
    (void)state;
    struct event_plan p = settled(NULL);
    change(&p, &AWAITING, 0);
    change(&p, &READY, SETTLED_S + 1); /* and the timer came late */
    assert_int_equal(expect_write(&p, SETTLED_S + 1)->reason, REASON_AWAITING_FIRST_RENEWAL);
    event_plan_done(&p, EVENT_WRITTEN, AT(4));
    assert_int_equal(expect_write(&p, SETTLED_S + 1)->reason, REASON_LEASE_RENEWED);
}

static void the_same_again_is_told_again(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    for (int i = 0; i < 4; i++) {
        change(&p, i % 2 == 0 ? &EXPIRED : &READY, 10 + i);
        assert_int_equal(drain(&p, 10 + i), 1);
    }
    assert_int_equal(p.stats.created, 4);
}

/* ---- failures ---- */

static void a_failed_try_is_repeated_after_the_wait_with_the_same_name(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    change(&p, &EXPIRED, 10);
    (void)expect_write(&p, 10);
    event_plan_done(&p, EVENT_FAILED, AT(15));
    expect_nothing(&p, 14);
    assert_int_equal(event_plan_wake_at(&p, AT(14)).ns, AT(15).ns);
    assert_int_equal(expect_write(&p, 15)->at.ns, WALL(10).ns);
    assert_int_equal(p.stats.failed, 1);
}

static void failures_cost_no_token(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    change(&p, &EXPIRED, 10);
    for (int i = 0; i < 5 * EVENT_BURST; i++) {
        (void)expect_write(&p, 10);
        event_plan_done(&p, EVENT_FAILED, AT(10));
    }
    assert_int_equal(drain(&p, 10), 1);
}

static void what_an_outage_holds_up_is_written_after_it(void **state)
{
    (void)state;
    static const struct readiness *const ALL[] = {&HELD, &READY, &UNHEALTHY, &READY, &EXPIRED};
    struct event_plan p = settled(&READY);
    change(&p, ALL[0], 10);
    (void)expect_write(&p, 10);
    for (int i = 1; i < (int)ARRAY_LEN(ALL); i++) {
        change(&p, ALL[i], 10 + i);
    }
    event_plan_done(&p, EVENT_FAILED, AT(30));
    for (int i = 0; i < (int)ARRAY_LEN(ALL); i++) {
        const struct event_change *c = expect_write(&p, 30);
        assert_int_equal(c->reason, ALL[i]->reason);
        assert_int_equal(c->at.ns, WALL(10 + i).ns);
        assert_int_equal(c->left_out, 0);
        event_plan_done(&p, EVENT_WRITTEN, AT(30));
    }
    expect_nothing(&p, 30);
    assert_int_equal(p.stats.created, 5);
}

static void of_more_than_the_queue_holds_the_oldest_are_left_out_and_counted(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    change(&p, &HELD, 10);
    (void)expect_write(&p, 10);
    for (int i = 1; i <= EVENT_QUEUE + 3; i++) {
        change(&p, i % 2 == 1 ? &READY : &EXPIRED, 10 + i);
    }
    event_plan_done(&p, EVENT_FAILED, AT(30));
    assert_int_equal(expect_write(&p, 30)->left_out, 0); /* it was begun before */
    event_plan_done(&p, EVENT_WRITTEN, AT(30));
    const struct event_change *c = expect_write(&p, 30);
    assert_int_equal(c->left_out, 3);
    assert_int_equal(c->at.ns, WALL(14).ns);
    event_plan_done(&p, EVENT_WRITTEN, AT(30));
    assert_int_equal(expect_write(&p, 30)->left_out, 0);
    event_plan_done(&p, EVENT_WRITTEN, AT(30));
    assert_int_equal(drain(&p, 30), EVENT_QUEUE - 2);
    assert_int_equal(p.stats.suppressed, 3);
}

static void what_is_refused_is_left_out_and_the_next_tells_of_it(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    for (int i = 0; i < 2; i++) {
        change(&p, i % 2 == 0 ? &EXPIRED : &READY, 10);
        (void)expect_write(&p, 10);
        event_plan_done(&p, EVENT_REFUSED, AT(10));
    }
    expect_nothing(&p, 10);
    change(&p, &EXPIRED, 11);
    assert_int_equal(expect_write(&p, 11)->left_out, 2);
    assert_int_equal(p.stats.failed, 2);
    assert_int_equal(p.stats.suppressed, 2);
}

static void an_outcome_that_nobody_waits_for_is_ignored(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    event_plan_done(&p, EVENT_WRITTEN, AT(10));
    assert_int_equal(p.stats.created, 0);
}

/* ---- the bound ---- */

static void a_storm_is_cut_to_the_burst_and_then_to_one_a_minute(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    int writes = 0;
    enum { STORM_S = 3600 };
    for (int64_t s = 10; s < 10 + STORM_S; s++) {
        change(&p, s % 2 == 0 ? &EXPIRED : &READY, s);
        writes += drain(&p, s);
    }
    assert_in_range(writes, EVENT_BURST + STORM_S / 60 - 1, EVENT_BURST + STORM_S / 60);
    int64_t end_s = 10 + STORM_S + EVENT_QUEUE * 60;
    for (int64_t s = 10 + STORM_S; s < end_s; s++) {
        writes += drain(&p, s);
    }
    assert_int_equal(p.stats.suppressed + (uint64_t)writes, STORM_S);
    assert_int_equal(p.change.at.ns, WALL(10 + STORM_S - 1).ns); /* the last change */
}

static void when_the_bucket_is_empty_it_wakes_for_the_next_token(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    for (int i = 0; i < EVENT_BURST; i++) {
        change(&p, i % 2 == 0 ? &EXPIRED : &READY, 10);
        assert_int_equal(drain(&p, 10), 1);
    }
    change(&p, &UNHEALTHY, 10);
    expect_nothing(&p, 10);
    assert_int_equal(event_plan_wake_at(&p, AT(10)).ns, AT(70).ns);
    expect_nothing(&p, 69);
    assert_int_equal(event_plan_wake_at(&p, AT(69)).ns, AT(70).ns);
    assert_int_equal(expect_write(&p, 70)->reason, REASON_DPU_REPORTED_UNHEALTHY);
}

static void a_clock_that_stands_still_or_runs_back_gives_no_token(void **state)
{
    (void)state;
    struct event_plan p = settled(&READY);
    for (int i = 0; i < EVENT_BURST; i++) {
        change(&p, i % 2 == 0 ? &EXPIRED : &READY, 100);
        assert_int_equal(drain(&p, 100), 1);
    }
    change(&p, &UNHEALTHY, 100);
    for (int64_t s = 100; s >= 10; s--) {
        expect_nothing(&p, s);
    }
    expect_nothing(&p, 159);
    assert_int_equal(drain(&p, 160), 1);
}

static uint32_t next_random(uint32_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    return *random;
}

/* Any changes, any outcomes: the writes stay within the bound, and in the end the last change has
 * been written, whatever went before. */
static void random_life(uint32_t seed)
{
    static const struct readiness *const ALL[] = {&READY, &EXPIRED,  &UNHEALTHY,
                                                  &HELD,  &GIVEN_UP, &AWAITING};
    struct event_plan p = settled(seed % 3 == 0 ? NULL : ALL[seed % ARRAY_LEN(ALL)]);
    const struct readiness *last = NULL;
    uint32_t random = seed * 2654435761U + 1;
    int64_t at_s = 0;
    uint64_t writes = 0;
    for (int i = 0; i < RANDOM_STEPS; i++) {
        at_s += next_random(&random) % (seed % 2 == 0 ? 3 : 200);
        if (next_random(&random) % 2 == 0) {
            last = ALL[next_random(&random) % ARRAY_LEN(ALL)];
            change(&p, last, at_s);
        }
        if (event_plan_next(&p, AT(at_s))) {
            enum event_outcome outcome = (enum event_outcome)(next_random(&random) % EVENT_REFUSED);
            writes += outcome == EVENT_FAILED ? 0 : 1;
            event_plan_done(&p, outcome, AT(at_s + next_random(&random) % 60));
        }
        assert_true(writes <= EVENT_BURST + (uint64_t)at_s / 60);
    }
    for (int i = 0; i < 3 * EVENT_QUEUE; i++) {
        struct mono wake = event_plan_wake_at(&p, AT(at_s));
        if (mono_is_never(wake)) {
            break;
        }
        at_s = (wake.ns - BOOT_NS + NS_PER_SEC - 1) / NS_PER_SEC;
        if (event_plan_next(&p, AT(at_s))) {
            event_plan_done(&p, EVENT_WRITTEN, AT(at_s));
        }
    }
    expect_nothing(&p, at_s + 1000000);
    assert_true(p.stats.created == 0 || (p.change.state == p.state && p.change.reason == p.reason));
    assert_true(!last || (p.state == last->state && p.reason == last->reason));
}

static void writes_are_bounded_and_the_last_change_is_written_in_the_end(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= RANDOM_RUNS; seed++) {
        random_life(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_makes_one_event_with_its_own_time),
        cmocka_unit_test(a_reboot_is_an_event_beside_the_changes),
        cmocka_unit_test(another_message_alone_is_no_change),
        cmocka_unit_test(a_changed_admission_is_a_change),
        cmocka_unit_test(a_restart_that_ends_where_it_began_writes_nothing),
        cmocka_unit_test(a_restart_tells_what_changed_meanwhile),
        cmocka_unit_test(the_first_start_tells_only_how_it_ends),
        cmocka_unit_test(waiting_that_lasts_is_told),
        cmocka_unit_test(a_failed_try_is_repeated_after_the_wait_with_the_same_name),
        cmocka_unit_test(failures_cost_no_token),
        cmocka_unit_test(the_same_again_is_told_again),
        cmocka_unit_test(what_an_outage_holds_up_is_written_after_it),
        cmocka_unit_test(of_more_than_the_queue_holds_the_oldest_are_left_out_and_counted),
        cmocka_unit_test(what_is_refused_is_left_out_and_the_next_tells_of_it),
        cmocka_unit_test(an_outcome_that_nobody_waits_for_is_ignored),
        cmocka_unit_test(a_storm_is_cut_to_the_burst_and_then_to_one_a_minute),
        cmocka_unit_test(when_the_bucket_is_empty_it_wakes_for_the_next_token),
        cmocka_unit_test(a_clock_that_stands_still_or_runs_back_gives_no_token),
        cmocka_unit_test(writes_are_bounded_and_the_last_change_is_written_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
