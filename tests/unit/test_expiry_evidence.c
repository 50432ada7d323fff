/* SPDX-License-Identifier: Apache-2.0 */
/* What counts as evidence against a DPU: broken watches, odd answers, servers that do not write. */
#include "tests/unit/expiry_world.h"

#include "contract/lease_pace.h"

#define READY(w)   expect((w), READINESS_READY, REASON_LEASE_RENEWED, true)
#define HELD(w)    expect((w), READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, true)
#define MUTE(w)    expect((w), READINESS_UNKNOWN, REASON_API_SERVER_NOT_WRITING, true)
#define EXPIRED(w) expect((w), READINESS_NOT_READY, REASON_LEASE_EXPIRED, false)

/* ---- other timers ---------------------------------------------------------------------------- */

static const struct {
    int64_t interval_ms;
    uint32_t duration_s;
} timers[] = {{10000, 40}, {2000, 10}, {1000, 4}, {1000, 2}, {200, 2}, {100, 1}};

static double interval_of(const struct world *w)
{
    return (double)w->x.config.renew_interval_ns / 1e9;
}

static double duration_of(const struct world *w)
{
    return (double)w->x.config.duration_ns / 1e9;
}

/* Between two reads. */
static double pace_of(const struct world *w)
{
    return interval_of(w) > 0.2 ? interval_of(w) : 0.2;
}

/* Ready, with the last renewal seen at 1. */
static void ready_at(struct world *w, size_t row)
{
    struct expiry_config config = world_config();
    config.renew_interval_ns = timers[row].interval_ms * NS_PER_MS;
    config.duration_ns = timers[row].duration_s * NS_PER_SEC;
    *w = (struct world){.lease = world_lease()};
    w->lease.duration_s = timers[row].duration_s;
    expiry_init(&w->x, &config, NULL, SEC(0.9));
    world_tick(w, SEC(0.9));
    world_read(w, SEC(0.9), SEC(0.91));
    world_renew(w, 1);
    READY(w);
}

/* ---- a broken watch is no lost contact ------------------------------------------------------- */

enum breakage { REFUSED, CUT_AFTER_A_SECOND, HANGING };

static void a_broken_watch_alone_delays_no_verdict(void **state)
{
    (void)state;
    for (size_t row = 0; row < ARRAY_LEN(timers); row++) {
        for (enum breakage how = REFUSED; how <= HANGING; how++) {
            struct world w;
            ready_at(&w, row);
            double end = 1 + duration_of(&w);
            uint32_t reads = 0;
            for (double at = 1.05; at < end; at += 0.05) {
                struct mono now = SEC(at);
                world_tick(&w, now);
                bool due = w.out.confirm;
                bool half = (int)(at * 20) % 20 < 10;
                world_watch(&w, now, how == CUT_AFTER_A_SECOND && half);
                due = due || w.out.confirm;
                if (due) {
                    reads++;
                    world_read(&w, now, now);
                }
                READY(&w);
            }
            world_silence_until(&w, end + 0.3);
            EXPIRED(&w);
            assert_true((double)reads <= duration_of(&w) / pace_of(&w) + 3);
        }
    }
}

static void renewals_are_seen_by_reads_while_the_watch_is_broken(void **state)
{
    struct world w;
    double seen_at = 0;
    (void)state;
    ready_at(&w, 0);
    world_watch(&w, SEC(5), false);
    for (double renewed = 11; renewed < 500; renewed += 10) {
        world_silence_until(&w, renewed + 3);
        world_stamp(&w, renewed);
        if (seen_at == 0) {
            seen_at = renewed;
        }
        READY(&w);
    }
    world_silence_until(&w, 540);
    EXPIRED(&w); /* the last one was made at 491, whenever it was seen */
}

/* ---- an answer is an answer ------------------------------------------------------------------ */

static void a_lease_that_cannot_be_read_is_invalid_at_the_deadline(void **state)
{
    struct world w;
    (void)state;
    for (size_t row = 0; row < ARRAY_LEN(timers); row++) {
        ready_at(&w, row);
        double end = 1 + duration_of(&w);
        while (mono_before(w.out.wake_at, SEC(end))) {
            struct mono now = w.out.wake_at;
            world_tick(&w, now);
            if (w.out.confirm) {
                world_unreadable(&w, now, now);
            }
            READY(&w);
        }
        world_tick(&w, SEC(end));
        assert_true(w.out.confirm);
        world_unreadable(&w, SEC(end), SEC(end + 0.001));
        expect(&w, READINESS_NOT_READY, REASON_LEASE_INVALID, false);
        assert_non_null(strstr(expiry_verdict(&w.x)->message, "not a JSON object"));
        world_renew(&w, end + 1); /* the first readable state is new: it was renewed meanwhile */
        READY(&w);
    }
}

/* A proxy that answers everything with its own page. */
static void nonsense_in_place_of_everything_is_held_for_one_more_duration(void **state)
{
    struct world w;
    (void)state;
    ready_at(&w, 0);
    w.has_control = true;
    while (mono_before(w.out.wake_at, SEC(80))) {
        struct mono now = w.out.wake_at;
        world_tick(&w, now);
        bool look = w.out.look;
        if (w.out.confirm) {
            world_unreadable(&w, now, now);
        }
        if (look || w.out.look) {
            world_control(&w, now, EXPIRY_CONTROL_UNREADABLE, "", (struct mono){0});
        }
        assert_true(expiry_verdict(&w.x)->admit);
        assert_true(mono_before(now, SEC(41)) ||
                    strstr(expiry_verdict(&w.x)->message, "answers could not be read"));
    }
    HELD(&w);
    world_unreadable(&w, SEC(81), SEC(81));
    expect(&w, READINESS_NOT_READY, REASON_LEASE_INVALID, false);
}

/* ---- silence is proof only while others are heard -------------------------------------------- */

/* A kubelet that writes its lease at `offset` and every `every` seconds after, until `mute_at`, and
 * a host that is `late` each time. */
struct kubelet {
    double offset;
    double every;
    double mute_at;
    double late;
};

/* A dead or cut-off DPU, all of whose server answers. */
static void silence_with(struct world *w, double until, struct kubelet kubelet)
{
    w->has_control = true;
    while (mono_before(w->out.wake_at, SEC(until))) {
        struct mono now = mono_add(w->out.wake_at, (int64_t)(kubelet.late * 1e9));
        double at = (double)(now.ns - BOOT_NS) / 1e9;
        double last = at < kubelet.mute_at ? at : kubelet.mute_at;
        int64_t writes = (int64_t)((last - kubelet.offset) / kubelet.every + 100) - 100; /* floor */
        double written = kubelet.offset + kubelet.every * (double)writes;
        char stamp[32];
        (void)snprintf(stamp, sizeof(stamp), "%.3f", written);
        world_tick(w, now);
        bool look = w->out.look;
        if (w->out.confirm) {
            world_read(w, now, now);
        }
        if (look || w->out.look) {
            world_control(w, now, EXPIRY_CONTROL_SEEN, stamp, SEC(written));
        }
    }
}

static void silence_with_kubelet(struct world *w, double until, double mute_at, double offset)
{
    silence_with(w, until, (struct kubelet){.offset = offset, .every = 10, .mute_at = mute_at});
}

static void a_server_that_takes_no_writes_condemns_nobody(void **state)
{
    (void)state;
    for (size_t row = 0; row < ARRAY_LEN(timers); row++) {
        for (double offset = 0; offset < 10; offset += 1.7) {
            struct world w;
            ready_at(&w, row);
            silence_with_kubelet(&w, 500, 1.01, offset - 10);
            MUTE(&w);
            assert_true(mono_before(SEC(499), expiry_verdict(&w.x)->valid_until));
            world_renew(&w, 500);
            READY(&w);
        }
    }
}

/* A credential that is refused everything hides a control that stood still. */
static void a_control_that_was_seen_and_is_refused_needs_a_read_of_the_lease(void **state)
{
    struct world w;
    (void)state;
    ready_at(&w, 0);
    silence_with_kubelet(&w, 100, 1.01, -9);
    MUTE(&w);
    struct mono now = w.out.wake_at;
    world_tick(&w, now);
    assert_true(w.out.look);
    world_control(&w, now, EXPIRY_CONTROL_NONE, "", (struct mono){0});
    assert_true(expiry_verdict(&w.x)->admit);
    while (!w.out.confirm) {
        now = w.out.wake_at;
        world_tick(&w, now);
    }
    world_read(&w, now, now); /* the lease is not refused: the control alone cannot be had */
    EXPIRED(&w);
}

static void the_promise_to_readers_waits_for_the_control(void **state)
{
    struct world w;
    (void)state;
    ready_at(&w, 0);
    silence_with_kubelet(&w, 41, 1.01, -9);
    assert_int_equal(expiry_writer_until(&w.x, SEC(40)).ns, SEC(41).ns);
    ready_at(&w, 0);
    silence_with_kubelet(&w, 41, 1e6, -9);
    assert_true(mono_before(SEC(41), expiry_writer_until(&w.x, SEC(40))));
}

static void a_dead_dpu_is_found_at_the_deadline_while_the_kubelet_is_heard(void **state)
{
    (void)state;
    for (double offset = 0; offset < 10; offset += 1.7) {
        struct world w;
        ready_at(&w, 0);
        silence_with_kubelet(&w, 41.2, 1e6, offset);
        EXPIRED(&w);
    }
    for (size_t row = 1; row < ARRAY_LEN(timers); row++) {
        struct world w;
        ready_at(&w, row);
        silence_with_kubelet(&w, 1 + duration_of(&w) + 10 + 2 * interval_of(&w) + 1, 1e6, 3);
        EXPIRED(&w);
    }
}

static void writes_taken_again_give_the_dpu_its_retry(void **state)
{
    struct world w;
    (void)state;
    ready_at(&w, 0);
    silence_with_kubelet(&w, 200, 1.01, -9);
    MUTE(&w);
    silence_with_kubelet(&w, 215, 1e6, 1);
    HELD(&w);
    assert_non_null(strstr(expiry_verdict(&w.x)->message, "takes writes again"));
    silence_with_kubelet(&w, 240, 1e6, 1);
    EXPIRED(&w);
}

/* A slow host looks a little more than an interval apart; the kubelet writes with a spread. */
static void a_control_written_twice_between_two_looks_did_not_stand_still(void **state)
{
    static const double EVERY = 10.26;
    (void)state;
    for (double offset = -EVERY; offset < 0; offset += 0.1) {
        struct world w;
        ready_at(&w, 0);
        silence_with(&w, 43, (struct kubelet){offset, EVERY, 1e6, 0.7});
        EXPIRED(&w);
    }
}

/* A starved kubelet, or a server that takes a write now and then. */
static void a_control_that_moves_rarely_keeps_no_dead_dpu_alive(void **state)
{
    (void)state;
    for (double every = 16; every < 60; every += 7) {
        struct world w;
        ready_at(&w, 0);
        silence_with(&w, 41 + 3 * every + 21, (struct kubelet){0, every, 1e6, 0});
        EXPIRED(&w);
    }
}

static void the_hold_of_a_mute_server_is_bounded_like_an_outage(void **state)
{
    struct world w;
    (void)state;
    ready_at(&w, 0);
    w.x.config.api_outage_hold_ns = 60 * NS_PER_SEC;
    silence_with_kubelet(&w, 100, 1.01, -9);
    MUTE(&w);
    silence_with_kubelet(&w, 103, 1.01, -9);
    expect(&w, READINESS_UNKNOWN, REASON_API_SERVER_NOT_WRITING, false);
}

static void a_control_that_cannot_be_had_changes_nothing(void **state)
{
    static const enum expiry_control outcomes[] = {EXPIRY_CONTROL_NONE, EXPIRY_CONTROL_LOST,
                                                   EXPIRY_CONTROL_UNREADABLE};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        struct world w;
        ready_at(&w, 0);
        w.has_control = true;
        while (mono_before(w.out.wake_at, SEC(41.1))) {
            struct mono now = w.out.wake_at;
            world_tick(&w, now);
            bool look = w.out.look;
            if (w.out.confirm) {
                world_read(&w, now, now);
            }
            if (look || w.out.look) {
                world_control(&w, now, outcomes[i], "", (struct mono){0});
            }
        }
        EXPIRED(&w);
    }
}

/* ---- reads run to their deadline ------------------------------------------------------------- */

static void a_read_under_way_is_not_replaced_and_its_end_is_a_failure(void **state)
{
    (void)state;
    for (size_t row = 0; row < ARRAY_LEN(timers); row++) {
        struct world w;
        ready_at(&w, row);
        double deadline_s = expiry_confirm_deadline_ms(&w.x.config) / 1e3;
        struct mono ends = MONO_NEVER;
        while (mono_before(w.out.wake_at, SEC(20 * duration_of(&w)))) {
            struct mono now = mono_min(w.out.wake_at, ends);
            if (now.ns == ends.ns) {
                ends = MONO_NEVER;
                world_fail(&w, now);
            } else {
                world_tick(&w, now);
                assert_true(!w.out.confirm || ends.ns == MONO_NEVER.ns);
            }
            if (w.out.confirm) {
                ends = mono_add(now, (int64_t)(deadline_s * 1e9));
            }
            assert_true(expiry_verdict(&w.x)->admit);
        }
        HELD(&w);
        assert_non_null(strstr(expiry_verdict(&w.x)->message, "connection refused"));
    }
}

static void a_hanging_server_is_held_no_longer_than_the_option_says(void **state)
{
    struct world w;
    (void)state;
    ready_at(&w, 2);
    w.x.config.api_outage_hold_ns = 20 * NS_PER_SEC;
    for (double at = 1.1; at < 26; at += 0.1) {
        world_tick(&w, SEC(at));
        if (w.out.confirm) {
            world_fail(&w, SEC(at));
        }
    }
    expect(&w, READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, false);
}

static void a_dpu_that_is_not_ready_is_looked_for_once_an_interval(void **state)
{
    (void)state;
    for (size_t row = 0; row < ARRAY_LEN(timers); row++) {
        struct world w;
        ready_at(&w, row);
        world_silence_until(&w, 2 * duration_of(&w) + 3);
        EXPIRED(&w);
        double start = (double)(w.out.wake_at.ns - BOOT_NS) / 1e9;
        double span_s = 10 * pace_of(&w);
        uint32_t reads = 0;
        while (mono_before(w.out.wake_at, SEC(start + span_s))) {
            struct mono now = w.out.wake_at;
            world_tick(&w, now);
            if (w.out.confirm) {
                reads++;
                world_read(&w, now, now);
            }
        }
        assert_in_range(reads, 9, 11);
        world_stamp(&w, start + span_s);
        world_read(&w, SEC(start + span_s), SEC(start + span_s + 0.01)); /* half-open watch */
        READY(&w);
        assert_true(w.out.restart_watch);
    }
}

/* ---- after an outage ------------------------------------------------------------------------- */

static void the_grace_is_that_of_the_dpus_own_retry(void **state)
{
    (void)state;
    for (size_t row = 0; row < ARRAY_LEN(timers); row++) {
        struct world w;
        ready_at(&w, row);
        double back = 1 + 3 * duration_of(&w);
        double grace_s = (double)lease_pace_grace_ns(w.x.config.renew_interval_ns) / 1e9;
        world_fail(&w, SEC(1.01));
        world_tick(&w, SEC(back - 0.1));
        world_read(&w, SEC(back), SEC(back));
        world_silence_until(&w, back + grace_s - 0.01);
        HELD(&w);
        world_renew(&w, back + grace_s - 0.005);
        READY(&w);
    }
}

/* Renewed once during the outage, and dead since: not Ready for a whole duration from first sight
 * on, but held for the grace. */
static void a_renewal_made_unseen_is_dated_by_the_dpus_stamps(void **state)
{
    struct world w;
    (void)state;
    ready_at(&w, 0);
    world_watch(&w, SEC(5), false);
    world_fail(&w, SEC(6));
    world_tick(&w, SEC(95));
    world_fail(&w, SEC(95));
    world_stamp(&w, 11);
    world_read(&w, SEC(100), SEC(100));
    assert_true(w.out.renewed);
    HELD(&w);
    assert_int_equal(expiry_verdict(&w.x)->observed.ns, SEC(11).ns);
    world_silence_until(&w, 121);
    EXPIRED(&w);
}

/* The machine was cut off: a watch that hung breaks long after the reads. */
static void a_watch_that_breaks_during_an_outage_saw_nothing_of_it(void **state)
{
    struct world w;
    (void)state;
    ready_at(&w, 0);
    world_fail(&w, SEC(6));
    world_watch(&w, SEC(60), false);
    world_tick(&w, SEC(95));
    world_fail(&w, SEC(95));
    world_stamp(&w, 11);
    world_read(&w, SEC(100), SEC(100));
    assert_int_equal(expiry_verdict(&w.x)->observed.ns, SEC(11).ns);
    world_silence_until(&w, 121);
    EXPIRED(&w);
}

static void a_renewal_after_the_outage_counts_from_its_stamp_but_never_ahead(void **state)
{
    static const struct {
        double stamp;
        double observed;
    } rows[] = {{97, 97}, {150, 100}, {1.5, 5}, {-20, 100}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        ready_at(&w, 0);
        world_watch(&w, SEC(5), false);
        world_fail(&w, SEC(6));
        world_tick(&w, SEC(95));
        world_fail(&w, SEC(95));
        world_stamp(&w, rows[i].stamp);
        world_read(&w, SEC(100), SEC(100));
        if (rows[i].stamp > 1) { /* one that went back waits for the next */
            assert_int_equal(expiry_verdict(&w.x)->observed.ns, SEC(rows[i].observed).ns);
        } else {
            HELD(&w);
        }
    }
}

static void a_duration_that_becomes_shorter_accuses_nobody_at_once(void **state)
{
    struct world w;
    (void)state;
    ready_at(&w, 0);
    world_silence_until(&w, 30);
    w.lease.duration_s = 20;
    world_read(&w, SEC(30), SEC(30));
    expect(&w, READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, true);
    world_silence_until(&w, 40);
    HELD(&w);
    world_silence_until(&w, 42);
    EXPIRED(&w);
}

/* ---- a watch that resumes tells the past ----------------------------------------------------- */

static void set_version(struct world *w, const char *uid, const char *version)
{
    (void)text_copy(w->lease.uid, sizeof(w->lease.uid), uid);
    (void)text_copy(w->lease.resource_version, sizeof(w->lease.resource_version), version);
}

static void what_a_resumed_watch_tells_of_a_lease_that_was_replaced_is_no_renewal(void **state)
{
    struct world w;
    (void)state;
    ready_at(&w, 0);
    world_silence_until(&w, 45);
    set_version(&w, "uid-2", "30"); /* the host's own, after the old one was deleted */
    w.lease.renew_stamp[0] = '\0';
    w.lease.renew_time_valid = false;
    world_read(&w, SEC(46), SEC(46));
    set_version(&w, "uid-1", "20"); /* made at 20, while nobody watched */
    world_stamp(&w, 20);
    world_seen(&w, SEC(47));
    assert_false(w.out.renewed);
    assert_false(expiry_verdict(&w.x)->admit);
    set_version(&w, "uid-2", "31"); /* its first renewal */
    world_stamp(&w, 48);
    world_seen(&w, SEC(48));
    READY(&w);
}

static void what_a_resumed_watch_tells_of_a_lease_that_is_gone_is_no_renewal(void **state)
{
    struct world w;
    (void)state;
    ready_at(&w, 0);
    world_silence_until(&w, 45);
    EXPIRED(&w);
    world_step(&w, (struct expiry_event){
                       .kind = EXPIRY_LEASE_ABSENT, .now = SEC(46), .source = EXPIRY_BY_READ});
    set_version(&w, "uid-1", "20");
    world_stamp(&w, 20);
    world_seen(&w, SEC(47));
    assert_false(w.out.renewed);
    assert_false(expiry_verdict(&w.x)->admit);
}

/* Made, renewed and deleted between two reads: the next read tells whether it is there. */
static void what_a_resumed_watch_tells_of_a_lease_that_came_and_went_is_no_renewal(void **state)
{
    struct world w;
    (void)state;
    ready_at(&w, 0);
    world_silence_until(&w, 45);
    const struct expiry_event absent = {
        .kind = EXPIRY_LEASE_ABSENT, .now = SEC(46), .source = EXPIRY_BY_READ};
    world_step(&w, absent);
    for (int life = 0; life < 2; life++) {
        set_version(&w, "uid-2", "30");
        w.lease.renew_stamp[0] = '\0';
        w.lease.renew_time_valid = false;
        world_seen(&w, SEC(47 + life));
        assert_true(w.out.confirm || life > 0);
        set_version(&w, "uid-2", "31");
        world_stamp(&w, 20);
        world_seen(&w, SEC(47.1 + life));
        assert_false(w.out.renewed);
        assert_false(expiry_verdict(&w.x)->admit);
        world_absent(&w, SEC(47.2 + life));
    }
    world_read(&w, SEC(49), SEC(49)); /* there it is */
    world_renew(&w, 50);
    READY(&w);
}

static void a_look_that_says_nothing_yet_is_not_repeated_at_once(void **state)
{
    struct world w;
    struct world before;
    (void)state;
    ready_at(&before, 0);
    struct expiry_carry carry = {.verdict = *expiry_verdict(&before.x), .hold_until = SEC(400)};
    world_init(&w, &carry, SEC(100));
    w.has_control = true;
    world_tick(&w, SEC(100));
    world_read(&w, SEC(100), SEC(100.1)); /* made anew, and then the host was restarted */
    for (int i = 0; i < 3; i++) {
        world_control(&w, SEC(100.2 + i / 10.), EXPIRY_CONTROL_NONE, "", (struct mono){0});
        assert_false(w.out.look);
    }
}

/* A credential that is refused for a while hides the control, too. */
static void a_control_that_was_refused_with_all_else_is_asked_again(void **state)
{
    struct world w;
    (void)state;
    ready_at(&w, 0);
    w.has_control = true;
    while (mono_before(w.out.wake_at, SEC(45))) {
        struct mono now = w.out.wake_at;
        world_tick(&w, now);
        bool look = w.out.look;
        if (w.out.confirm) {
            world_fail(&w, now);
        }
        if (look || w.out.look) {
            world_control(&w, now, EXPIRY_CONTROL_NONE, "", (struct mono){0});
        }
    }
    world_read(&w, SEC(45), SEC(45));
    struct world next = w;
    world_tick(&next, SEC(55)); /* before the end of the grace */
    assert_true(next.out.look);
    next = w;
    world_read(&next, SEC(66), SEC(66)); /* after the grace, and before the look is answered */
    HELD(&next);
    silence_with_kubelet(&w, 200, 1.01, -9);
    MUTE(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_watch_alone_delays_no_verdict),
        cmocka_unit_test(renewals_are_seen_by_reads_while_the_watch_is_broken),
        cmocka_unit_test(a_lease_that_cannot_be_read_is_invalid_at_the_deadline),
        cmocka_unit_test(nonsense_in_place_of_everything_is_held_for_one_more_duration),
        cmocka_unit_test(a_server_that_takes_no_writes_condemns_nobody),
        cmocka_unit_test(a_control_that_was_seen_and_is_refused_needs_a_read_of_the_lease),
        cmocka_unit_test(the_promise_to_readers_waits_for_the_control),
        cmocka_unit_test(a_dead_dpu_is_found_at_the_deadline_while_the_kubelet_is_heard),
        cmocka_unit_test(writes_taken_again_give_the_dpu_its_retry),
        cmocka_unit_test(a_control_written_twice_between_two_looks_did_not_stand_still),
        cmocka_unit_test(a_control_that_moves_rarely_keeps_no_dead_dpu_alive),
        cmocka_unit_test(the_hold_of_a_mute_server_is_bounded_like_an_outage),
        cmocka_unit_test(a_control_that_cannot_be_had_changes_nothing),
        cmocka_unit_test(a_control_that_was_refused_with_all_else_is_asked_again),
        cmocka_unit_test(a_read_under_way_is_not_replaced_and_its_end_is_a_failure),
        cmocka_unit_test(a_hanging_server_is_held_no_longer_than_the_option_says),
        cmocka_unit_test(a_dpu_that_is_not_ready_is_looked_for_once_an_interval),
        cmocka_unit_test(the_grace_is_that_of_the_dpus_own_retry),
        cmocka_unit_test(a_renewal_made_unseen_is_dated_by_the_dpus_stamps),
        cmocka_unit_test(a_watch_that_breaks_during_an_outage_saw_nothing_of_it),
        cmocka_unit_test(a_renewal_after_the_outage_counts_from_its_stamp_but_never_ahead),
        cmocka_unit_test(a_duration_that_becomes_shorter_accuses_nobody_at_once),
        cmocka_unit_test(what_a_resumed_watch_tells_of_a_lease_that_was_replaced_is_no_renewal),
        cmocka_unit_test(what_a_resumed_watch_tells_of_a_lease_that_is_gone_is_no_renewal),
        cmocka_unit_test(what_a_resumed_watch_tells_of_a_lease_that_came_and_went_is_no_renewal),
        cmocka_unit_test(a_look_that_says_nothing_yet_is_not_repeated_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
