/* SPDX-License-Identifier: Apache-2.0 */
/* Where one thing ends and the next begins: windows, promises, what is forgotten when. */
#include "tests/unit/expiry_world.h"

#define READY(w)   expect((w), READINESS_READY, REASON_LEASE_RENEWED, true)
#define HELD(w)    expect((w), READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, true)
#define MUTE(w)    expect((w), READINESS_UNKNOWN, REASON_API_SERVER_NOT_WRITING, true)
#define EXPIRED(w) expect((w), READINESS_NOT_READY, REASON_LEASE_EXPIRED, false)

/* ---- short leases -----------------------------------------------------------------------------
 */

static void a_short_lease_is_read_several_times_before_it_runs_out(void **state)
{
    static const struct {
        int64_t duration_ms;
        int64_t reads_ms[3]; /* after the renewal */
    } rows[] = {{1500, {1250, 1375, 1500}}, {2100, {1500, 1800, 2100}}, {3000, {1500, 2250, 3000}}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w = {.lease = world_lease()};
        struct expiry_config config = world_config();
        config.renew_interval_ns = NS_PER_SEC;
        config.duration_ns = rows[i].duration_ms * NS_PER_MS;
        w.lease.duration_s = 0;
        expiry_init(&w.x, &config, NULL, SEC(0));
        world_read(&w, SEC(0), SEC(0));
        world_renew(&w, 1);
        for (size_t read = 0; read < ARRAY_LEN(rows[i].reads_ms); read++) {
            do {
                world_tick(&w, w.out.wake_at);
            } while (!w.out.confirm);
            assert_int_equal(mono_since(w.x.last_confirm, SEC(1)),
                             rows[i].reads_ms[read] * NS_PER_MS);
            world_read(&w, w.x.last_confirm, w.x.last_confirm);
        }
        assert_int_equal(expiry_verdict(&w.x)->state, READINESS_NOT_READY);
    }
}

/* Where a second is much, a quarter of the lease. */
static void reads_in_place_of_the_watch_have_a_pace(void **state)
{
    static const struct {
        int64_t interval_ms;
        int64_t duration_ms;
        int64_t pace_ms;
    } rows[] = {{10000, 40000, 10000}, {300, 2000, 500}, {300, 3000, 750}, {300, 8000, 1000}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w = {.lease = world_lease()};
        struct expiry_config config = world_config();
        config.renew_interval_ns = rows[i].interval_ms * NS_PER_MS;
        config.duration_ns = rows[i].duration_ms * NS_PER_MS;
        w.lease.duration_s = 0;
        expiry_init(&w.x, &config, NULL, SEC(0));
        world_read(&w, SEC(0), SEC(0));
        world_watch(&w, SEC(0.1), false);
        for (int n = 0; n < 4; n++) { /* and the DPU renews */
            struct mono before = w.x.last_confirm;
            do {
                world_tick(&w, w.out.wake_at);
            } while (!w.out.confirm);
            if (n > 0) {
                assert_int_equal(mono_since(w.x.last_confirm, before), rows[i].pace_ms * NS_PER_MS);
            }
            world_stamp(&w, (double)(w.x.last_confirm.ns - BOOT_NS) / 1e9);
            world_read(&w, w.x.last_confirm, w.x.last_confirm);
            assert_true(w.out.renewed);
        }
    }
}

/* ---- whatever is shown ------------------------------------------------------------------------
 */

static void whatever_the_api_server_shows_is_contact(void **state)
{
    static const enum expiry_event_kind kinds[] = {EXPIRY_LEASE_OBSERVED, EXPIRY_LEASE_ABSENT,
                                                   EXPIRY_LEASE_UNREADABLE, EXPIRY_READ_OK};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct world w;
        world_ready(&w);
        world_fail(&w, SEC(16));
        assert_int_equal(expiry_contact(&w.x), EXPIRY_CONTACT_LOST);
        world_step(&w, (struct expiry_event){.kind = kinds[i],
                                             .now = SEC(20),
                                             .lease = &w.lease,
                                             .failure = "no lease",
                                             .source = EXPIRY_BY_WATCH});
        assert_int_equal(expiry_contact(&w.x), EXPIRY_CONTACT_STANDS);
        assert_true(w.out.rewrite); /* how long it was lost outlives a restart */
    }
}

static void a_watch_that_shows_a_late_renewal_is_no_broken_one(void **state)
{
    static const struct {
        double at;
        bool is_read;
        bool restarts;
    } rows[] = {{20, true, true}, {20, false, false}, {12, true, false}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_ready(&w);
        world_stamp(&w, 11);
        if (rows[i].is_read) {
            world_read(&w, SEC(rows[i].at), SEC(rows[i].at));
        } else {
            world_seen(&w, SEC(rows[i].at));
        }
        assert_true(w.out.renewed);
        assert_true(w.out.restart_watch == rows[i].restarts);
    }
}

static void a_lease_that_only_the_watch_has_shown_counts_as_the_newest(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version), "9");
    world_renew(&w, 11);
    (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version), "7");
    (void)text_copy(w.lease.uid, sizeof(w.lease.uid), "uid-0"); /* replaced long ago */
    world_stamp(&w, 5);
    world_seen(&w, SEC(12));
    assert_string_equal(expiry_verdict(&w.x)->lease.uid, "uid-1");
}

/* The first renewal of a lease that took the place of another is dated from its own first stamp. */
static void a_baseline_that_was_replaced_dates_nothing(void **state)
{
    struct world w;
    (void)state;
    world_init(&w, NULL, SEC(0));
    world_stamp(&w, 0);
    world_read(&w, SEC(0), SEC(0));
    (void)text_copy(w.lease.uid, sizeof(w.lease.uid), "uid-2");
    world_stamp(&w, 0);
    world_seen(&w, SEC(30)); /* a clock that is 30 s behind */
    world_watch(&w, SEC(31), false);
    world_stamp(&w, 10);
    world_read(&w, SEC(45), SEC(45));
    assert_true(w.out.renewed);
    assert_int_equal(expiry_verdict(&w.x)->observed.ns, SEC(40).ns);
}

/* A control that nobody may read is asked for again when it decides. */
static void where_there_is_no_control_none_is_looked_for_before_the_deadline(void **state)
{
    struct world w;
    int looks = 0;
    (void)state;
    world_ready(&w);
    w.has_control = true;
    while (mono_before(w.out.wake_at, SEC(41))) {
        struct mono now = w.out.wake_at;
        world_tick(&w, now);
        const struct expiry_update asked = w.out;
        if (asked.look) {
            looks++;
            world_control(&w, now, EXPIRY_CONTROL_NONE, "", (struct mono){0});
        }
        if (asked.confirm) {
            world_read(&w, now, now);
        }
    }
    assert_int_equal(looks, 1);
    world_tick(&w, SEC(41));
    assert_true(w.out.look);
}

/* ---- outages --------------------------------------------------------------------------------- */

static void an_outage_before_the_last_renewal_extends_nothing_after_it(void **state)
{
    struct world w;
    double at = 3636;
    (void)state;
    world_ready(&w);
    world_fail(&w, SEC(16));
    world_read(&w, SEC(3610), SEC(3610)); /* an hour lost */
    world_renew(&w, 3620);
    READY(&w);
    while (expiry_verdict(&w.x)->state != READINESS_NOT_READY) { /* dead, and the API flaps */
        world_fail(&w, SEC(at));
        world_read(&w, SEC(at + 10), SEC(at + 10));
        at += 20;
        assert_true(at < 3920);
    }
}

/* The first renewal, too, is dated by the stamps: the baseline was seen when it could be. */
static void a_first_renewal_made_unseen_is_no_sign_of_life_now(void **state)
{
    static const struct {
        double stamp;
        double observed;
    } rows[] = {{11, 11}, {55, 55}, {97, 97}, {5000, 100}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_init(&w, NULL, SEC(0));
        world_stamp(&w, 0);
        world_read(&w, SEC(0), SEC(0));
        world_watch(&w, SEC(5), false);
        world_fail(&w, SEC(6));
        world_tick(&w, SEC(95));
        world_fail(&w, SEC(95));
        world_stamp(&w, rows[i].stamp);
        world_read(&w, SEC(100), SEC(100));
        assert_true(w.out.renewed);
        assert_int_equal(expiry_verdict(&w.x)->observed.ns, SEC(rows[i].observed).ns);
        assert_true(expiry_verdict(&w.x)->admit == (rows[i].observed > 60));
        world_silence_until(&w, 100 + 41);
        EXPIRED(&w);
    }
}

static void a_flapping_api_that_is_only_read_keeps_no_dead_dpu_alive(void **state)
{
    struct world w;
    double at = 10;
    (void)state;
    world_ready(&w);
    world_watch(&w, SEC(5), false);
    while (expiry_verdict(&w.x)->state != READINESS_NOT_READY) {
        world_fail(&w, SEC(at));
        world_read(&w, SEC(at + 8), SEC(at + 8));
        world_read(&w, SEC(at + 19), SEC(at + 19));
        at += 20;
        assert_true(at < 300);
    }
    EXPIRED(&w);
}

/* A frozen connection that goes on: what it brings may have been under way for long. */
static void a_watch_that_brings_something_after_contact_was_lost_is_late(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    while (mono_before(w.out.wake_at, SEC(60))) {
        struct mono now = w.out.wake_at;
        world_tick(&w, now);
        if (w.out.confirm) {
            world_fail(&w, now);
        }
    }
    HELD(&w);
    world_stamp(&w, 11);
    world_seen(&w, SEC(60));
    assert_true(w.out.renewed);
    assert_int_equal(expiry_verdict(&w.x)->observed.ns, SEC(11).ns);
    HELD(&w); /* the grace */
    world_renew(&w, 70);
    READY(&w);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(110).ns);
}

/* What is seen by the watch is new again once a read came after the stall. */
static void a_stall_is_over_with_the_next_read(void **state)
{
    static const struct {
        bool is_read;
        double observed;
    } rows[] = {{false, 15}, {true, 20}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_ready(&w);
        double late = (double)(w.out.wake_at.ns - BOOT_NS) / 1e9 + 2;
        world_tick(&w, SEC(late));
        assert_true(w.out.confirm);
        if (rows[i].is_read) {
            world_read(&w, SEC(late), SEC(late));
        }
        world_stamp(&w, 15); /* a clock that is slow, or a watch that is late */
        world_seen(&w, SEC(20));
        assert_true(w.out.renewed);
        assert_int_equal(expiry_verdict(&w.x)->observed.ns, SEC(rows[i].observed).ns);
    }
}

/* Most are back within a tenth of an interval. */
/* With an interval that is shorter than a read may take. */
static void the_next_read_follows_one_that_has_ended(void **state)
{
    (void)state;
    for (int is_answered = 0; is_answered < 2; is_answered++) {
        struct world w = {.lease = world_lease()};
        struct expiry_config config = world_config();
        config.renew_interval_ns = NS_PER_SEC;
        config.duration_ns = 4 * NS_PER_SEC;
        w.lease.duration_s = 4;
        expiry_init(&w.x, &config, NULL, SEC(0));
        world_read(&w, SEC(0), SEC(0));
        world_renew(&w, 0.5);
        while (!w.out.confirm) {
            world_tick(&w, w.out.wake_at);
        }
        struct mono asked = w.x.last_confirm;
        if (is_answered) {
            world_read(&w, asked, mono_add(asked, NS_PER_MS));
        } else {
            world_fail(&w, mono_add(asked, NS_PER_MS));
        }
        assert_true(mono_since(w.out.wake_at, asked) <= NS_PER_SEC);
        world_tick(&w, mono_add(asked, NS_PER_SEC));
        assert_true(w.out.confirm);
    }
}

static void a_broken_watch_is_not_replaced_by_a_read_at_once(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_watch(&w, SEC(5), false);
    assert_false(w.out.confirm);
    assert_int_equal(w.out.wake_at.ns, SEC(6).ns);
    world_tick(&w, SEC(6));
    assert_true(w.out.confirm);
}

static void a_watch_that_works_again_is_believed_after_the_next_read(void **state)
{
    static const struct {
        double read_at;
        double observed;
    } rows[] = {{100, 9}, {6, 11}, {10, 11}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_ready(&w);
        world_watch(&w, SEC(5), false);
        world_tick(&w, SEC(6));
        if (rows[i].read_at < 7) {
            world_read(&w, SEC(6), SEC(6));
        }
        world_watch(&w, SEC(7), true);
        if (rows[i].read_at >= 7 && rows[i].read_at < 11) {
            world_read(&w, SEC(rows[i].read_at), SEC(rows[i].read_at));
        }
        world_stamp(&w, 9); /* by a clock that is slow, or a watch that is late */
        world_seen(&w, SEC(11));
        assert_int_equal(expiry_verdict(&w.x)->observed.ns, SEC(rows[i].observed).ns);
    }
}

static void the_newest_failure_before_the_hold_is_its_reason(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_step(&w, (struct expiry_event){
                       .kind = EXPIRY_READ_FAILED, .now = SEC(20), .failure = "connection closed"});
    world_fail(&w, SEC(30));
    world_tick(&w, SEC(41));
    HELD(&w);
    assert_non_null(strstr(expiry_verdict(&w.x)->message, "connection refused"));
}

static void duration_on_the_lease_is_a_second_at_least(void **state)
{
    struct world w;
    struct expiry_config config = world_config();
    (void)state;
    config.renew_interval_ns = 200 * NS_PER_MS;
    config.duration_ns = 4 * NS_PER_SEC;
    w = (struct world){.lease = world_lease()};
    w.lease.duration_s = 1;
    expiry_init(&w.x, &config, NULL, SEC(0));
    world_read(&w, SEC(0), SEC(0));
    world_renew(&w, 0.1);
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(1.1).ns);
}

/* ---- what the writer promises ---------------------------------------------------------------- */

static void the_promise_beyond_the_deadline_needs_a_read_shortly_before_it(void **state)
{
    static const struct {
        double read_at;
        bool is_given;
    } rows[] = {{29.9, false}, {30, true}, {35.5, true}}; /* two leads of 5.5 s before 41 */
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_ready(&w);
        world_tick(&w, SEC(16));
        world_read(&w, SEC(16), SEC(16));
        world_read(&w, SEC(rows[i].read_at), SEC(rows[i].read_at));
        struct mono until = expiry_writer_until(&w.x, SEC(36));
        assert_int_equal(until.ns, rows[i].is_given ? SEC(51).ns : SEC(41).ns);
    }
}

static void the_promise_beyond_the_deadline_needs_a_word_of_the_control(void **state)
{
    static const struct {
        enum expiry_control control; /* UNKNOWN: no answer */
        bool is_given;
    } rows[] = {
        {EXPIRY_CONTROL_UNKNOWN, false}, {EXPIRY_CONTROL_NONE, true}, {EXPIRY_CONTROL_SEEN, true}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_ready(&w);
        w.has_control = true;
        world_tick(&w, SEC(16));
        world_read(&w, SEC(35.5), SEC(35.5));
        if (rows[i].control != EXPIRY_CONTROL_UNKNOWN) {
            world_control(&w, SEC(35.6), rows[i].control, "a", SEC(30));
        }
        struct mono until = expiry_writer_until(&w.x, SEC(36));
        assert_int_equal(until.ns, rows[i].is_given ? SEC(51).ns : SEC(41).ns);
    }
}

/* It may have been refused for a while only. */
static void a_control_that_could_not_be_had_is_asked_for_in_the_next_silence(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    w.has_control = true;
    world_tick(&w, SEC(16));
    assert_true(w.out.look);
    world_control(&w, SEC(16.1), EXPIRY_CONTROL_NONE, "", (struct mono){0});
    world_renew(&w, 21);
    assert_int_equal(expiry_writer_until(&w.x, SEC(56)).ns, SEC(61).ns);
    world_tick(&w, SEC(36));
    assert_true(w.out.look);
    world_control(&w, SEC(36.1), EXPIRY_CONTROL_NONE, "", (struct mono){0});
    world_read(&w, SEC(55.5), SEC(55.5));
    assert_int_equal(expiry_writer_until(&w.x, SEC(56)).ns, SEC(71).ns);
}

static void the_promise_of_a_verdict_that_cannot_run_out_is_whole(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_fail(&w, SEC(5)); /* nothing is accused while nobody can know */
    assert_true(w.out.rewrite);
    assert_int_equal(expiry_writer_until(&w.x, SEC(40)).ns, SEC(55).ns);
    world_ready(&w);
    world_silence_until(&w, 42);
    EXPIRED(&w);
    assert_int_equal(expiry_writer_until(&w.x, SEC(42)).ns, SEC(57).ns);
}

/* ---- states that were gone past -------------------------------------------------------------- */

static void an_older_state_sets_no_duration_and_no_holder(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_renew(&w, 11);
    world_renew(&w, 21);
    w.lease.duration_s = 600;
    (void)text_copy(w.lease.holder, sizeof(w.lease.holder), "somebody");
    world_stamp(&w, 11);
    world_seen(&w, SEC(22));
    assert_int_equal(expiry_verdict(&w.x)->valid_until.ns, SEC(61).ns);
    world_silence_until(&w, 61);
    w.lease = world_lease();
    world_stamp(&w, 21);
    world_read(&w, SEC(61), SEC(61.001));
    EXPIRED(&w);
}

/* A read is right even where versions go back: what follows it is no older state. */
static void a_version_counts_from_the_last_read_on(void **state)
{
    static const struct {
        const char *version; /* of what the watch brings after it, with a stamp that goes back */
        bool is_new;
    } rows[] = {{"501", true}, {"499", false}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_ready(&w);
        (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version), "900");
        world_renew(&w, 11);
        (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version), "500");
        world_stamp(&w, 21);
        world_read(&w, SEC(21), SEC(21));
        (void)text_copy(w.lease.resource_version, sizeof(w.lease.resource_version),
                        rows[i].version);
        world_stamp(&w, -500);
        world_seen(&w, SEC(45)); /* the next one has its time */
        assert_int_equal(expiry_verdict(&w.x)->valid_until.ns,
                         rows[i].is_new ? SEC(65).ns : SEC(61).ns);
    }
}

/* ---- proof that comes too late --------------------------------------------------------------- */

static void a_look_answered_after_contact_was_lost_condemns_nobody(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    w.has_control = true;
    world_silence_until(&w, 41); /* the looks are under way */
    world_read(&w, SEC(41), SEC(41.01));
    assert_true(expiry_verdict(&w.x)->admit);
    world_fail(&w, SEC(43));
    world_control(&w, SEC(43.1), EXPIRY_CONTROL_SEEN, "a", SEC(42));
    HELD(&w);
}

/* The early reads went well, then we were away for a moment: readers must not see it run out. */
static void a_stall_of_moments_at_the_deadline_is_held(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_silence_until(&w, 41);
    assert_int_equal(w.out.wake_at.ns, SEC(41).ns);
    world_tick(&w, SEC(41.999));
    READY(&w);
    world_ready(&w);
    world_silence_until(&w, 41);
    world_tick(&w, SEC(42));
    HELD(&w);
    assert_true(w.out.confirm);
    assert_true(mono_before(SEC(42), expiry_verdict(&w.x)->valid_until));
    world_read(&w, SEC(42), SEC(42.01));
    EXPIRED(&w);
}

/* ---- the control ----------------------------------------------------------------------------- */

/* It was written when the DPU was overdue already, and then no more: the server stopped between. */
static void a_control_that_moved_stands_still_after_one_and_a_half_of_its_intervals(void **state)
{
    static const struct {
        double written_at;
        bool is_heard;
    } rows[] = {{20.5, true}, {20.499, false}}; /* looked at 15 s later, before the deadline */
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        struct mono written = SEC(rows[i].written_at);
        world_ready(&w);
        w.has_control = true;
        world_tick(&w, SEC(16));
        world_read(&w, SEC(16), SEC(16));
        world_control(&w, SEC(16), EXPIRY_CONTROL_SEEN, "a", SEC(12));
        world_tick(&w, SEC(26));
        world_read(&w, SEC(26), SEC(26));
        world_control(&w, SEC(26), EXPIRY_CONTROL_SEEN, "b", written);
        world_tick(&w, SEC(35.5));
        assert_true(w.out.look);
        world_control(&w, SEC(35.5), EXPIRY_CONTROL_SEEN, "b", written);
        world_read(&w, SEC(41), SEC(41));
        if (rows[i].is_heard) {
            EXPIRED(&w);
        } else {
            MUTE(&w);
        }
    }
}

/* It runs to its end like a read, and no second one beside it. */
static void one_look_is_under_way_at_a_time(void **state)
{
    struct world w;
    double last = 0;
    int looks = 0;
    (void)state;
    world_ready(&w);
    w.has_control = true;
    for (double at = 16; at < 70; at += 0.5) { /* none is ever answered */
        world_read_ok(&w, SEC(at), SEC(at));
        if (w.out.look) {
            assert_true(at - last >= 6);
            last = at;
            looks++;
        }
    }
    assert_in_range(looks, 5, 9);
}

/* That it is gone is an answer that makes sense, whatever came before. */
static void a_lease_that_is_gone_is_no_unreadable_one(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    w.has_control = true;
    world_tick(&w, SEC(16));
    world_unreadable(&w, SEC(16), SEC(16));
    world_control(&w, SEC(16), EXPIRY_CONTROL_UNREADABLE, "", (struct mono){0});
    world_step(&w, (struct expiry_event){
                       .kind = EXPIRY_LEASE_ABSENT, .now = SEC(41), .source = EXPIRY_BY_CONFIRM});
    world_read_ok(&w, SEC(41), SEC(41));
    expect(&w, READINESS_NOT_READY, REASON_LEASE_NOT_FOUND, false);
}

static void a_lease_that_is_back_but_damaged_is_invalid(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_absent(&w, SEC(16));
    world_unreadable(&w, SEC(26), SEC(26));
    world_unreadable(&w, SEC(41), SEC(41));
    expect(&w, READINESS_NOT_READY, REASON_LEASE_INVALID, false);
}

static void a_lease_that_can_be_read_again_is_not_called_invalid(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    world_unreadable(&w, SEC(16), SEC(16));
    world_read(&w, SEC(26), SEC(26));
    world_silence_until(&w, 42);
    EXPIRED(&w);
}

/* As world_control, of a kubelet whose own lease lasts so long. */
static void control_of(struct world *w, struct mono now, uint32_t duration_s, const char *stamp,
                       struct mono written)
{
    struct lease_view lease = {.duration_s = duration_s};
    (void)text_copy(lease.renew_stamp, sizeof(lease.renew_stamp), stamp);
    world_step(w, (struct expiry_event){.kind = EXPIRY_CONTROL,
                                        .now = now,
                                        .control = EXPIRY_CONTROL_SEEN,
                                        .lease = &lease,
                                        .control_at = written});
}

/* Until it was last seen so: it may have been written more than once since. */
static void writes_were_not_taken_while_the_control_stood_still(void **state)
{
    static const struct {
        double first, again; /* written; 0: it does not say */
        double seen_again;
        bool is_graced;
    } rows[] = {
        {11, 35, 35.5, false},
        {10.9, 35, 35.5, true}, /* seen the same at 26; one and a half intervals are 15 s */
        {0, 0, 35.5, false},
        {0, 0, 41, true}, /* seen the same from 16 to 26, to 35.5 */
    };
    static const double looks[] = {16, 26, 35.5, 41};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_ready(&w);
        w.has_control = true;
        for (size_t n = 0; n < ARRAY_LEN(looks); n++) {
            bool is_new = looks[n] >= rows[i].seen_again;
            double written = is_new ? rows[i].again : rows[i].first;
            world_tick(&w, SEC(looks[n]));
            assert_true(w.out.look);
            world_read(&w, SEC(looks[n]), SEC(looks[n]));
            world_control(&w, SEC(looks[n]), EXPIRY_CONTROL_SEEN, is_new ? "b" : "a",
                          written > 0 ? SEC(written) : (struct mono){0});
        }
        if (rows[i].is_graced) {
            HELD(&w);
        } else {
            EXPIRED(&w);
        }
    }
}

static void what_a_control_showed_before_a_renewal_says_nothing_after_it(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    w.has_control = true;
    world_tick(&w, SEC(16));
    world_read(&w, SEC(16), SEC(16));
    control_of(&w, SEC(16), 240, "a", SEC(12));
    world_tick(&w, SEC(26));
    world_read(&w, SEC(26), SEC(26));
    control_of(&w, SEC(26), 240, "b", SEC(22)); /* it moves */
    world_renew(&w, 33);
    world_tick(&w, SEC(48));
    world_read(&w, SEC(48), SEC(48));
    control_of(&w, SEC(48), 240, "c", SEC(40)); /* and not since the DPU is overdue again */
    world_silence_until(&w, 73);
    world_read(&w, SEC(73), SEC(73));
    MUTE(&w);
}

static void what_a_control_showed_before_a_stamp_went_back_says_nothing_after_it(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    w.has_control = true;
    world_tick(&w, SEC(16));
    world_read(&w, SEC(16), SEC(16));
    world_control(&w, SEC(16), EXPIRY_CONTROL_SEEN, "a", SEC(12));
    world_tick(&w, SEC(26));
    world_read(&w, SEC(26), SEC(26));
    world_control(&w, SEC(26), EXPIRY_CONTROL_SEEN, "b", SEC(22)); /* it moves */
    world_stamp(&w, -500);
    world_seen(&w, SEC(30));
    world_read(&w, SEC(50), SEC(50)); /* the end of the grace */
    assert_true(expiry_verdict(&w.x)->admit);
    world_control(&w, SEC(50.1), EXPIRY_CONTROL_SEEN, "d", SEC(48));
    EXPIRED(&w);
}

/* One and a half quarters of its own lease's duration, within what kubelets do. */
static void a_control_may_stand_still_according_to_its_own_lease(void **state)
{
    static const struct {
        uint32_t duration_s;
        double still_s;
    } rows[] = {{4, 15}, {40, 15}, {100, 37.5}, {240, 90}, {3600, 90}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (int longer = 0; longer < 2; longer++) {
            struct world w;
            world_ready(&w);
            w.has_control = true;
            world_tick(&w, SEC(16));
            world_read(&w, SEC(141), SEC(141));
            w.x.control.asked_at = SEC(141);
            control_of(&w, SEC(141), rows[i].duration_s, "a",
                       SEC(141 - rows[i].still_s - longer / 1000.));
            if (longer) {
                MUTE(&w);
            } else {
                EXPIRED(&w);
            }
        }
    }
}

/* An etcd that was restored shows an older state, by its version or by its date. */
static void a_control_that_went_back_was_not_written(void **state)
{
    static const struct {
        double written_at[2]; /* 0: nobody can say */
        const char *version[2];
        bool is_heard;
    } rows[] = {{{14, 13}, {"", ""}, false},  {{0, 0}, {"20", "10"}, false},
                {{0, 15}, {"", ""}, false},   {{0, 17}, {"", ""}, true},
                {{0, 0}, {"10", "20"}, true}, {{0, 0}, {"20", ""}, true}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_ready(&w);
        w.has_control = true;
        for (int look = 0; look < 2; look++) {
            struct mono now = SEC(16 + 10 * look);
            double written_at = rows[i].written_at[look];
            struct lease_view lease = {.duration_s = 40};
            text_format(lease.renew_stamp, sizeof(lease.renew_stamp), "%d", look);
            (void)text_copy(lease.resource_version, sizeof(lease.resource_version),
                            rows[i].version[look]);
            world_tick(&w, now);
            world_read(&w, now, now);
            world_step(&w, (struct expiry_event){.kind = EXPIRY_CONTROL,
                                                 .now = now,
                                                 .control = EXPIRY_CONTROL_SEEN,
                                                 .lease = &lease,
                                                 .control_at = written_at > 0 ? SEC(written_at)
                                                                              : (struct mono){0}});
        }
        world_read(&w, SEC(41), SEC(41));
        if (rows[i].is_heard) {
            EXPIRED(&w);
        } else {
            MUTE(&w);
        }
    }
}

static void a_control_is_never_thought_to_be_quicker_than_a_kubelet(void **state)
{
    struct world w;
    (void)state;
    world_ready(&w);
    w.has_control = true;
    world_tick(&w, SEC(16));
    world_read(&w, SEC(16), SEC(16));
    control_of(&w, SEC(16), 4, "a", SEC(12));
    world_tick(&w, SEC(26));
    world_read(&w, SEC(26), SEC(26));
    control_of(&w, SEC(26), 4, "b", SEC(22)); /* four seconds ago: it does not stand still */
    world_read(&w, SEC(41), SEC(41));
    EXPIRED(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_lease_is_read_several_times_before_it_runs_out),
        cmocka_unit_test(reads_in_place_of_the_watch_have_a_pace),
        cmocka_unit_test(whatever_the_api_server_shows_is_contact),
        cmocka_unit_test(a_watch_that_shows_a_late_renewal_is_no_broken_one),
        cmocka_unit_test(a_lease_that_only_the_watch_has_shown_counts_as_the_newest),
        cmocka_unit_test(a_baseline_that_was_replaced_dates_nothing),
        cmocka_unit_test(where_there_is_no_control_none_is_looked_for_before_the_deadline),
        cmocka_unit_test(an_outage_before_the_last_renewal_extends_nothing_after_it),
        cmocka_unit_test(a_first_renewal_made_unseen_is_no_sign_of_life_now),
        cmocka_unit_test(a_flapping_api_that_is_only_read_keeps_no_dead_dpu_alive),
        cmocka_unit_test(a_watch_that_brings_something_after_contact_was_lost_is_late),
        cmocka_unit_test(a_stall_is_over_with_the_next_read),
        cmocka_unit_test(the_next_read_follows_one_that_has_ended),
        cmocka_unit_test(a_broken_watch_is_not_replaced_by_a_read_at_once),
        cmocka_unit_test(a_watch_that_works_again_is_believed_after_the_next_read),
        cmocka_unit_test(the_newest_failure_before_the_hold_is_its_reason),
        cmocka_unit_test(duration_on_the_lease_is_a_second_at_least),
        cmocka_unit_test(the_promise_beyond_the_deadline_needs_a_read_shortly_before_it),
        cmocka_unit_test(the_promise_beyond_the_deadline_needs_a_word_of_the_control),
        cmocka_unit_test(a_control_that_could_not_be_had_is_asked_for_in_the_next_silence),
        cmocka_unit_test(the_promise_of_a_verdict_that_cannot_run_out_is_whole),
        cmocka_unit_test(an_older_state_sets_no_duration_and_no_holder),
        cmocka_unit_test(a_version_counts_from_the_last_read_on),
        cmocka_unit_test(a_look_answered_after_contact_was_lost_condemns_nobody),
        cmocka_unit_test(a_stall_of_moments_at_the_deadline_is_held),
        cmocka_unit_test(a_control_that_moved_stands_still_after_one_and_a_half_of_its_intervals),
        cmocka_unit_test(one_look_is_under_way_at_a_time),
        cmocka_unit_test(a_lease_that_is_gone_is_no_unreadable_one),
        cmocka_unit_test(writes_were_not_taken_while_the_control_stood_still),
        cmocka_unit_test(a_lease_that_is_back_but_damaged_is_invalid),
        cmocka_unit_test(a_lease_that_can_be_read_again_is_not_called_invalid),
        cmocka_unit_test(what_a_control_showed_before_a_renewal_says_nothing_after_it),
        cmocka_unit_test(what_a_control_showed_before_a_stamp_went_back_says_nothing_after_it),
        cmocka_unit_test(a_control_may_stand_still_according_to_its_own_lease),
        cmocka_unit_test(a_control_that_went_back_was_not_written),
        cmocka_unit_test(a_control_is_never_thought_to_be_quicker_than_a_kubelet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
