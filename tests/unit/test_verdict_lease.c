/* SPDX-License-Identifier: Apache-2.0 */
/* What the lease shows: what is a renewal, when it was made, and which states are past. */
#include "tests/support/case.h"
#include "tests/unit/verdict_world.h"

static void set_uid(struct world *w, const char *uid, bool is_renewed)
{
    (void)text_copy(w->lease.uid, sizeof(w->lease.uid), uid);
    if (!is_renewed) {
        w->lease.renew_stamp[0] = '\0';
        w->lease.renew_time_valid = false;
    }
}

static void step_absent(struct world *w, double at, enum verdict_source source, bool is_lasting)
{
    world_step(w, (struct verdict_event){.kind = VERDICT_LEASE_ABSENT,
                                         .now = SEC(at),
                                         .started_at = SEC(at),
                                         .source = source,
                                         .is_lasting = is_lasting});
}

/* ---- what is a renewal ----------------------------------------------------------------------- */

TEST_READY(changes_without_a_new_stamp_do_not_extend_the_deadline)
{
    for (int at = 2; at < 41; at++) {
        world_silence_until(w, at);
        world_next_version(w);
        world_seen(w, SEC(at));
        assert_false(w->out.renewed);
        world_serve(w, SEC(at), MARK_TAKEN);
    }
    world_condemns_at(w, 41);
}

/* Somebody else's stamp came in between. */
TEST_READY(the_stamp_of_the_last_renewal_is_none_when_it_comes_back)
{
    /* renewed at 1 */
    (void)text_copy(w->lease.holder, sizeof(w->lease.holder), "somebody");
    world_renew(w, 5);
    assert_false(w->out.renewed);
    w->lease = world_lease();
    world_version(w, 1000);
    world_stamp(w, 1);
    world_seen(w, SEC(6));
    assert_false(w->out.renewed);
    expect_observed(w, 1);
}

/* It was deleted and made anew, and a server that lags shows the former one. */
TEST_READY(a_renewal_counts_after_a_lease_that_is_gone_was_shown_once_more)
{
    world_renew(w, 11);
    const struct lease_view former = w->lease;
    set_uid(w, "uid-2", false);
    world_next_version(w);
    world_seen(w, SEC(12));
    world_renew(w, 13);
    assert_true(w->out.renewed);
    const struct lease_view present = w->lease;
    w->lease = former;
    world_read(w, SEC(14), SEC(14));
    assert_false(w->out.renewed);
    w->lease = present;
    world_renew_unseen(w, 23);
    world_read(w, SEC(24), SEC(24));
    assert_true(w->out.renewed);
    expect_observed(w, 23);
}

/* The server goes on with the watch from there, and repeats renewals that the host has not seen. */
TEST_READY(what_a_server_that_lags_repeats_is_no_renewal)
{
    const struct lease_view former = w->lease;
    set_uid(w, "uid-2", false);
    world_next_version(w);
    world_seen(w, SEC(12));
    struct lease_view unseen[2];
    for (int i = 0; i < 2; i++) {
        world_renew_unseen(w, 13 + 10 * i);
        unseen[i] = w->lease;
    }
    (void)text_copy(w->lease.boot_id, sizeof(w->lease.boot_id), "another");
    world_renew(w, 33);
    assert_true(w->out.renewed);
    const struct lease_view present = w->lease;
    w->lease = former;
    world_list(w, SEC(34));
    for (int i = 0; i < 2; i++) {
        w->lease = unseen[i];
        world_seen(w, SEC(35 + i));
        assert_false(w->out.renewed);
        assert_false(w->out.rebooted);
        world_read(w, SEC(35 + i), SEC(35 + i));
        assert_false(w->out.renewed);
    }
    w->lease = present;
    world_seen(w, SEC(37));
    assert_false(w->out.renewed);
    expect_observed(w, 33);
    world_renew(w, 43);
    assert_true(w->out.renewed);
}

/* It was deleted and made anew, and then etcd was restored: the former lease stands. */
TEST_READY(a_mark_is_made_on_the_lease_that_stands_after_a_restore)
{
    const struct lease_view former = w->lease;
    set_uid(w, "uid-2", false);
    world_version(w, 90);
    world_seen(w, SEC(12));
    w->lease = former;
    world_read(w, SEC(14), SEC(14));
    assert_string_equal(w->x.history.lease.uid, "uid-1"); /* which a mark is made on */
    world_condemns_at(w, 41);
}

TEST_READY(renewal_by_a_foreign_holder_does_not_count)
{
    (void)text_copy(w->lease.holder, sizeof(w->lease.holder), "somebody");
    for (int at = 11; at < 41; at += 10) {
        world_silence_until(w, at);
        world_renew(w, at);
        assert_false(w->out.renewed);
    }
    world_condemns_at(w, 41);
    INVALID(w);
    assert_non_null(strstr(message(w), "'somebody'"));
}

TEST_READY(a_new_text_is_a_renewal_whatever_time_it_names)
{
    world_renew_unseen(w, 8);
    (void)text_copy(w->lease.renew_stamp, sizeof(w->lease.renew_stamp), "tomorrow");
    w->lease.renew_time_valid = false;
    world_read(w, SEC(11), SEC(11));
    assert_true(w->out.renewed);
    expect_observed(w, 11); /* nobody can tell when it was made */
    world_next_version(w);
    world_stamp(w, -3600); /* a clock that stepped back */
    world_seen(w, SEC(21));
    assert_true(w->out.renewed);
    world_condemns_at(w, 61);
}

/* The DPU's clock was set back by 12 s at 15, so that dpu-agent held its stamp at 21. A restart of
 * the host changes nothing. */
TEST_READY(a_renewal_after_a_stamp_that_was_held_counts_from_now)
{
    for (int is_restarted = 0; is_restarted < 2; is_restarted++) {
        world_ready(w);
        world_renew(w, 11);
        world_next_version(w);
        world_stamp(w, 11.000001);
        world_seen(w, SEC(21));
        expect_observed(w, 21);
        if (is_restarted) {
            world_restart(w, 22, 10000);
        }
        world_read(w, SEC(22), SEC(22));
        world_watch(w, SEC(22), false);
        world_renew_unseen(w, 19);
        world_read(w, SEC(31.1), SEC(31.1));
        expect_observed(w, 31.1);
        world_renew_unseen(w, 29);
        world_read(w, SEC(42), SEC(42));
        expect_observed(w, 41.1); /* from then on the stamps tell again */
    }
}

TEST_READY(an_older_state_is_no_renewal_and_sets_nothing)
{
    world_version(w, 900);
    world_renew(w, 11);
    const struct lease_view living = w->lease;
    world_version(w, 500);
    world_stamp(w, 5);
    w->lease.duration_s = 20;
    (void)text_copy(w->lease.holder, sizeof(w->lease.holder), "somebody");
    world_seen(w, SEC(12));
    assert_false(w->out.renewed);
    READY(w);
    assert_int_equal(w->x.readiness.lease_until.ns, SEC(51).ns);
    (void)text_copy(w->lease.uid, sizeof(w->lease.uid), "uid-0"); /* replaced long ago */
    world_seen(w, SEC(13));
    assert_string_equal(w->x.readiness.lease.uid, "uid-1");
    w->lease = living;
    world_renew(w, 21);
    assert_true(w->out.renewed);
}

/* A mark that is taken on it confirms the older state: a baseline for version and stamp. */
TEST_READY(an_etcd_that_was_restored_forges_no_renewal_and_hides_none)
{
    for (int is_alive = 0; is_alive < 2; is_alive++) {
        world_ready(w);
        world_version(w, 900);
        world_silence_until(w, 11);
        world_renew(w, 11);
        for (int restored = 0; restored < 2; restored++) { /* twice: another older state */
            world_version(w, (uint64_t)(500 - 100 * restored));
            world_stamp(w, -500 - 100 * restored);
            world_watch(w, SEC(20 + 5 * restored), false);
            world_read(w, SEC(20 + 5 * restored), SEC(20 + 5 * restored));
            assert_false(w->out.renewed);
            world_serve(w, SEC(20 + 5 * restored), MARK_TAKEN);
            expect_observed(w, 11);
        }
        if (is_alive) {
            world_next_version(w);
            world_stamp(w, 31); /* the DPU goes on */
            world_read(w, SEC(31), SEC(31));
            assert_true(w->out.renewed);
            READY(w);
            continue;
        }
        for (double at = 31; at < 80; at += 1) {
            world_silence_until(w, at);
            expect_observed(w, 11);
        }
        EXPIRED(w);
        for (int restored = 0; restored < 4; restored++) { /* and none makes a dead DPU Ready */
            world_version(w, (uint64_t)(300 - 50 * restored));
            world_stamp(w, -1000 + 10 * restored);
            w->marks = 0;
            world_read(w, SEC(80 + 11 * restored), SEC(80 + 11 * restored));
            world_serve(w, SEC(80 + 11 * restored), MARK_TAKEN);
            EXPIRED(w);
            world_silence_until(w, 90 + 11 * restored);
            assert_between(w->marks, 1, 2); /* a write tells whether it stands */
            EXPIRED(w);
        }
    }
}

/* The DPU renews for the first time after `at`, on a restored lease, with a stamp that is not the
 * latest ever: a mark tells that the lease stands, and the next renewal counts. */
static void expect_ready_after_a_mark(struct world *w, double at)
{
    w->marks = 0;
    world_next_version(w);
    world_stamp(w, -2940);
    world_seen(w, SEC(at));
    assert_false(w->out.renewed);
    world_serve(w, SEC(at), MARK_TAKEN);
    assert_int_equal(w->marks, 1);
    EXPIRED(w);
    world_next_version(w);
    world_stamp(w, -2930);
    world_seen(w, SEC(at + 10));
    READY(w);
}

/* The same one, or one that was deleted since the backup. The DPU's clock has been set back. */
TEST_READY(a_dpu_whose_clock_was_set_back_is_soon_believed_on_a_restored_lease)
{
    for (int is_former = 0; is_former < 2; is_former++) {
        world_ready(w);
        world_version(w, 900);
        world_renew(w, 11);
        world_next_version(w);
        world_stamp(w, -3000);
        world_seen(w, SEC(21));
        world_silence_until(w, 70);
        EXPIRED(w);
        set_uid(w, is_former ? "uid-0" : "uid-1", true);
        world_version(w, 500);
        world_stamp(w, -3500);
        world_watch(w, SEC(70), false);
        world_read(w, SEC(70), SEC(70));
        assert_true(w->out.mark == !is_former);
        if (!is_former) {
            world_mark(w, MARK_DENIED, SEC(70.1), SEC(70.1));
        }
        world_watch(w, SEC(70.5), true);
        expect_ready_after_a_mark(w, 71.5);
    }
}

TEST_READY(a_write_of_the_keepers_tells_that_a_restored_lease_stands)
{
    world_version(w, 900);
    world_renew(w, 11);
    world_next_version(w);
    world_stamp(w, -3000); /* set back */
    world_seen(w, SEC(21));
    world_silence_until(w, 70);
    world_version(w, 500);
    world_stamp(w, -2940);
    world_write(w, VERDICT_BY_KEEPER, MARK_TAKEN, SEC(70), SEC(70.01));
    assert_false(w->out.mark);
    EXPIRED(w);
    world_next_version(w);
    world_stamp(w, -2930);
    world_seen(w, SEC(80));
    READY(w);
}

/* Nobody may mark it meanwhile, and others' writes take its version past the one that we know. */
TEST_READY(a_restored_state_that_was_seen_is_no_renewal_under_a_newer_version_either)
{
    world_version(w, 900);
    world_renew(w, 11);
    world_version(w, 898);
    world_stamp(w, -20);
    world_mark(w, MARK_DENIED, SEC(52), SEC(52.1));
    world_version(w, 901);
    world_mark(w, MARK_DENIED, SEC(53), SEC(53.1));
    assert_false(w->out.renewed);
    MUTE(w);
    world_stamp(w, -19); /* it was not seen: a DPU whose clock was set back */
    world_version(w, 902);
    world_read(w, SEC(54), SEC(54.1));
    assert_true(w->out.renewed);
}

/* ---- when it was made ------------------------------------------------------------------------ */

TEST_READY(what_comes_after_a_pause_of_our_own_or_a_broken_watch_is_late_until_a_read)
{
    for (int how = 0; how < 5; how++) {
        bool is_read = how % 2 == 1;
        world_ready(w);
        world_read(w, SEC(2), SEC(2)); /* and the next is not due for long */
        if (how < 2) {
            struct mono late = mono_add(w->out.wake_at, NS_PER_SEC);
            world_tick(w, late);
        } else {
            world_watch(w, SEC(13), false);
            if (how == 4) { /* it stays so, whatever is read */
                world_read(w, SEC(13.2), SEC(13.2));
            } else {
                world_watch(w, SEC(13.5), true);
            }
        }
        if (is_read) {
            world_read(w, SEC(14), SEC(14));
        }
        world_renew_unseen(w, 15); /* a clock that is slow, or a watch that is late */
        world_seen(w, SEC(15.9));
        assert_true(w->out.renewed);
        expect_observed(w, is_read ? 15.9 : 15);
    }
}

/* Its stamp is the latest ever, since the DPU's clock was set back after it. */
TEST_READY(what_a_late_watch_brings_of_before_a_read_is_no_renewal)
{
    world_version(w, 1000);
    world_renew(w, 11);
    world_renew_unseen(w, 21);
    const struct lease_view late = w->lease;
    world_next_version(w);
    world_stamp(w, -9);
    world_read(w, SEC(31), SEC(31));
    assert_true(w->out.renewed);
    const struct lease_view now = w->lease;
    w->lease = late;
    world_seen(w, SEC(60));
    assert_false(w->out.renewed);
    w->lease = now;
    world_serve(w, SEC(60), MARK_TAKEN);
    expect_observed(w, 31);
}

TEST_READY(a_read_that_shows_what_an_overdue_watch_did_not_restarts_it)
{
    static const struct {
        double made, at; /* just before: the watch may be on its way */
        bool is_read, restarts;
    } rows[] = {
        {11, 24, true, true}, {11, 24, false, false}, {11, 12, true, false}, {23, 24, true, false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        world_ready(w);
        world_renew_unseen(w, rows[i].made);
        if (rows[i].is_read) {
            world_read(w, SEC(rows[i].at), SEC(rows[i].at));
        } else {
            world_seen(w, SEC(rows[i].at));
        }
        assert_true(w->out.renewed);
        assert_true(w->out.restart_watch == rows[i].restarts);
    }
}

/* ---- gone, damaged, unreadable --------------------------------------------------------------- */

/* Where the host may make it anew it is no evidence that it is gone. */
TEST_READY(lease_that_is_gone_for_good_is_not_found)
{
    for (int is_lasting = 0; is_lasting < 2; is_lasting++) {
        world_ready(w);
        w->may_not_create = is_lasting == 1;
        step_absent(w, 2, VERDICT_BY_CONFIRM, is_lasting == 1);
        assert_true(w->out.repair);
        world_until(w, 41, MARK_ABSENT);
        READY(w);
        world_until(w, 41.1, MARK_ABSENT);
        if (is_lasting) {
            GONE(w);
            expect_rule(w, RULE_ABSENCE_IS_THE_PROOF);
        } else {
            MUTE(w);
            world_until(w, 300, MARK_ABSENT);
            MUTE(w);
        }
        world_renew_unseen(w, 300);
        world_read(w, SEC(300), SEC(300));
        READY(w);
    }
}

TEST_READY(a_read_comes_before_the_mark_of_a_lease_that_a_watch_missed)
{
    world_silence_until(w, 20);
    step_absent(w, 20, VERDICT_BY_WATCH, false);
    while (mono_before(w->out.wake_at, SEC(41))) { /* nobody answers the read of 23.5 */
        world_tick(w, w->out.wake_at);
        assert_false(w->out.mark); /* one is due at 26 */
    }
}

/* The keeper makes it anew beside a mark, whose answer comes later and says that it is gone. */
TEST(a_lease_that_was_gone_is_marked_again_an_interval_later)
{
    struct world w;
    struct verdict_config config = world_config();
    config.duration_ns = 60 * NS_PER_SEC;
    world_ready_with(&w, &config);
    world_silence_until(&w, 26);
    world_tick(&w, SEC(26));
    assert_true(w.out.mark);
    world_write(&w, VERDICT_BY_KEEPER, MARK_TAKEN, SEC(26.01), SEC(26.02));
    world_mark(&w, MARK_ABSENT, SEC(26.015), SEC(26.03));
    world_read(&w, SEC(27), SEC(27));
    world_condemns_at(&w, 36.015 + SERVE_S + R);
}

/* Of an etcd that was restored: what a mark can be made of. */
TEST_READY(an_older_lease_is_one_that_is_there)
{
    world_version(w, 900);
    world_renew(w, 11);
    step_absent(w, 20, VERDICT_BY_CONFIRM, false);
    assert_int_equal(w->x.sight.shows, VERDICT_SEES_GONE);
    world_version(w, 500);
    world_read(w, SEC(21), SEC(21));
    assert_int_equal(w->x.sight.shows, VERDICT_SEES_LEASE);
    assert_true(w->out.mark);
    expect_rule(w, RULE_STATE_IS_PAST);
}

TEST_READY(damaged_lease_tells_what_is_wrong)
{
    static const char *const says[] = {"no leaseDurationSeconds", "no holder",
                                       "has never been renewed"};
    for (int i = 0; i < 3; i++) {
        world_ready(w);
        if (i == 0) {
            w->lease.duration_s = 0;
        } else if (i == 1) {
            w->lease.holder[0] = '\0';
        } else {
            set_uid(w, "uid-1", false);
        }
        world_next_version(w);
        world_seen(w, SEC(5));
        READY(w);
        world_condemns_at(w, 41);
        INVALID(w);
        assert_non_null(strstr(message(w), says[i]));
    }
}

TEST_READY(a_lease_that_can_be_read_again_is_not_called_invalid)
{
    world_until(w, 60, MARK_NONSENSE);
    HELD(w);
    struct world living = *w;
    world_renew_unseen(&living, 59);
    world_read(&living, SEC(60), SEC(60));
    READY(&living);
    world_silence_until(w, 70 + R);
    EXPIRED(w);
    world_read_from(w, MARK_NONSENSE, SEC(91), SEC(91));
    INVALID(w);
    assert_non_null(strstr(message(w), "cannot be read"));
}

/* ---- a watch that resumes tells the past ----------------------------------------------------- */

/* Made, renewed and deleted between two reads: the next read tells whether it is there. */
TEST_READY(what_a_resumed_watch_tells_of_a_lease_that_is_gone_is_no_renewal)
{
    world_silence_until(w, 45);
    step_absent(w, 46, VERDICT_BY_READ, false);
    for (int life = 0; life < 3; life++) {
        set_uid(w, life == 0 ? "uid-1" : "uid-2", false);
        world_next_version(w);
        world_seen(w, SEC(47 + life));
        assert_true(w->out.confirm || life > 0); /* is it there? */
        world_next_version(w);
        world_stamp(w, 20);
        world_seen(w, SEC(47.1 + life));
        assert_false(w->out.renewed || w->x.readiness.admit);
        step_absent(w, 47.2 + life, VERDICT_BY_WATCH, false);
    }
    world_read(w, SEC(50), SEC(50));            /* there it is, */
    assert_false(w->x.read.wanted == ASK_READ); /* and nobody asks again */
    world_renew(w, 51);
    READY(w);
}
