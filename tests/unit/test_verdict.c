/* SPDX-License-Identifier: Apache-2.0 */
/* Marks and evidence: when the core asks, what proves that the DPU is silent, and what holds. */
#include "tests/unit/verdict_world.h"

#include "contract/lease.h"
#include "tests/support/case.h"

static const struct {
    int64_t interval_ms;
    uint32_t duration_s;
} timers[] = {{10000, 40}, {2000, 10}, {1000, 4}, {1000, 2}, {200, 2}, {100, 1}, {10000, 12}};

static struct verdict_config timed(size_t row)
{
    struct verdict_config config = world_config();
    config.renew_interval_ns = timers[row].interval_ms * NS_PER_MS;
    config.duration_ns = timers[row].duration_s * NS_PER_SEC;
    return config;
}

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

/* ---- nothing is alive until it has been seen alive ------------------------------------------- */

TEST_READY(start_without_record_awaits_the_first_renewal)
{
    world_init(w, NULL, SEC(0));
    AWAITING(w);
    assert_string_equal(w->x.readiness.lease.ns, "ovn-kubernetes");
    assert_string_equal(w->x.readiness.lease.name, "ovn-dpu-w1");
    assert_int_equal(w->x.readiness.observed.ns, 0);
    assert_int_equal(w->x.readiness.lease_until.ns, 0);
    world_tick(w, SEC(0));
    assert_true(w->out.rewrite);
    world_stamp(w, -1);
    world_list(w, SEC(0.01));
    AWAITING(w);                                 /* a baseline only */
    assert_true(w->out.mark && w->out.is_trial); /* it tells whether we may write */
    world_mark(w, MARK_TAKEN, SEC(0.01), SEC(0.02));
    AWAITING(w);
    assert_true(w->x.evidence.has_marked);
    world_renew(w, 9);
    assert_true(w->out.verdict_changed && w->out.renewed && w->out.rewrite);
    READY(w);
    assert_int_equal(w->x.readiness.lease_until.ns, SEC(49).ns);
}

/* Waiting counts from the first contact, and a read is proof enough: nobody is admitted. */
TEST_READY(a_dpu_that_is_never_seen_alive_is_not_ready_a_duration_after_the_first_contact)
{
    world_init(w, NULL, SEC(0));
    world_fail(w, SEC(5));
    AWAITING(w);
    assert_non_null(strstr(message(w), "connection refused"));
    world_until(w, 600, MARK_LOST);
    AWAITING(w);
    world_read(w, SEC(600), SEC(600));
    assert_null(strstr(message(w), "connection refused"));
    world_silence_until(w, 640);
    AWAITING(w);
    world_silence_until(w, 651); /* the next read */
    INVALID(w);
    assert_non_null(strstr(message(w), "configuration mismatch"));
}

/* ---- marks ----------------------------------------------------------------------------------- */

TEST_READY(marks_are_as_few_as_evidence_needs_and_one_is_at_the_deadline)
{
    for (size_t row = 0; row < ARRAY_LEN(timers); row++) {
        const struct verdict_config config = timed(row);
        double r = seconds(config.renew_interval_ns);
        double d = seconds(config.duration_ns);
        double q = (double)verdict_deadline_ms(&config) / 1e3;
        double pace = r > 0.2 ? 2 * r : 0.4;
        double due = pace + q;
        double overdue = r + (r + q / 2 < (d - r) / 2 ? r + q / 2 : (d - r) / 2);
        world_ready_with(w, &config);
        while (w->x.readiness.state == READINESS_READY) {
            struct mono now = w->out.wake_at;
            assert_true(mono_reached(SEC(1 + d), now));
            world_tick(w, now);
            if (w->out.confirm) { /* once, where the renewal is overdue */
                assert_between(mono_since(now, SEC(1 + overdue)) + 1000, 0, 2000);
                expect_rule(w, RULE_ASKS + ASKS_RENEWAL_IS_OVERDUE);
            }
            if (w->out.mark) {
                due = due > d - q + 1e-6 ? d : due; /* none within q before the deadline */
                assert_between(mono_since(now, SEC(1 + due)) + 1000, 0, 2000);
                expect_rule(w, due >= d ? RULE_ASKS + ASKS_AT_THE_DEADLINE
                                        : RULE_ASKS + ASKS_EVIDENCE_IS_OLD);
                due += pace;
            }
            world_serve(w, now, MARK_TAKEN);
        }
        EXPIRED(w);
        assert_int_equal(w->reads, 1);
        assert_int_equal(w->x.mark.asked_at.ns, SEC(1 + d).ns);
    }
}

TEST_READY(a_death_costs_a_read_and_two_marks)
{
    world_silence_until(w, 41);
    READY(w);
    assert_int_equal(w->out.wake_at.ns, SEC(41).ns);
    world_tick(w, SEC(41));
    READY(w); /* proof is one round trip away */
    world_mark(w, MARK_TAKEN, SEC(41), SEC(41.001));
    EXPIRED(w);
    expect_rule(w, RULE_CONDEMNED);
    assert_true(w->out.verdict_changed);
    assert_int_equal(w->marks, 1);
    assert_int_equal(w->reads, 1);
}

/* What the keeper writes at the start is a mark, too, but does not tell whether we may patch. */
TEST_READY(a_write_of_the_keepers_leaves_the_first_mark_due)
{
    world_init(w, NULL, SEC(0));
    world_seen(w, SEC(0.01)); /* it made the lease */
    world_write(w, VERDICT_BY_KEEPER, MARK_TAKEN, SEC(0), SEC(0.01));
    assert_true(w->out.mark);
    world_serve(w, SEC(0.01), MARK_TAKEN);
    world_renew(w, 1);
    world_condemns_at(w, 41);
}

/* A mark that would be due within q before the deadline is put off until then, and so is one that
 * would be sent in a trial's place. */
TEST_READY(a_trial_just_before_the_deadline_stays_a_trial)
{
    world_init(w, NULL, SEC(0));
    world_tick(w, SEC(0));
    world_list(w, SEC(0.01));
    world_serve(w, SEC(0.01), MARK_CONFLICT); /* nobody knows yet whether we may write */
    world_renew(w, 1);
    world_until(w, 32, MARK_CONFLICT);
    world_list(w, SEC(32));
    assert_true(w->out.mark && w->out.is_trial);
    world_list(w, SEC(32.5));
    world_mark(w, MARK_CONFLICT, SEC(32), SEC(37.2)); /* a mark is due since 37, and put off */
    assert_true(w->out.mark && w->out.is_trial);
}

TEST_READY(a_living_dpu_costs_nothing)
{
    for (int i = 1; i <= 50; i++) {
        world_silence_until(w, 1 + 10.3 * i);
        world_renew(w, 1 + 10.3 * i);
        READY(w);
    }
    assert_int_equal(w->marks, 0);
    assert_int_equal(w->reads, 0);
}

TEST_READY(a_mark_started_a_nanosecond_before_the_deadline_is_no_proof)
{
    const struct mono early = {SEC(41).ns - 1};
    world_silence_until(w, 41);
    world_mark(w, MARK_TAKEN, early, SEC(41.2));
    READY(w);
    assert_false(w->followed[RULE_CONDEMNED]);
    expect_rule(w, RULE_EVIDENCE);
    assert_true(w->out.mark);
    world_mark(w, MARK_TAKEN, SEC(41.2), SEC(41.3));
    EXPIRED(w);
}

/* Somebody else writes: neither evidence nor a failure. */
TEST_READY(a_conflict_is_no_evidence_and_is_tried_again_soon)
{
    world_silence_until(w, 26);
    world_tick_with(w, 26, MARK_CONFLICT);
    expect_rule(w, RULE_CONFLICT_IS_NEITHER);
    w->marks = 0;
    world_until(w, 31, MARK_CONFLICT);
    assert_int_equal(w->marks, 0);
    world_until(w, 41, MARK_CONFLICT);
    assert_int_equal(w->marks, 2); /* half an interval apart */
    world_tick_with(w, 41, MARK_CONFLICT);
    assert_true(w->x.readiness.admit);
    world_silence_until(w, 47 + R); /* the first that is taken begins by then */
    EXPIRED(w);
}

TEST_READY(one_mark_is_under_way_at_a_time_and_none_is_waited_for_for_ever)
{
    int marks = 0;
    while (mono_before(w->out.wake_at, SEC(100))) { /* the shell tells nothing */
        struct mono last = w->x.mark.asked_at;
        world_tick(w, w->out.wake_at);
        assert_true(!w->out.mark || marks == 0 ||
                    mono_since(w->x.mark.asked_at, last) >= (4 * 5 + 1) * NS_PER_SEC);
        marks += w->out.mark;
    }
    assert_between(marks, 3, 5);
    HELD(w);
}

TEST_READY(one_read_is_under_way_at_a_time_and_a_list_does_not_end_it)
{
    struct mono last = {0};
    world_watch(w, SEC(2), false);
    while (mono_before(w->out.wake_at, SEC(30))) { /* the shell tells of lists alone */
        struct mono now = w->out.wake_at;
        world_tick(w, now);
        if (w->out.confirm) {
            assert_true(last.ns == 0 || mono_since(now, last) >= 20 * NS_PER_SEC);
            last = now;
        }
        world_told(w, MARK_LOST, VERDICT_BY_READ, now, now);
        assert_false(w->out.confirm && last.ns != now.ns &&
                     mono_since(now, last) < 20 * NS_PER_SEC);
    }
    assert_true(last.ns != 0);
}

TEST_READY(where_we_may_not_write_a_read_is_the_proof)
{
    world_init(w, NULL, SEC(0));
    world_list(w, SEC(0.01));
    world_serve(w, SEC(0.01), MARK_DENIED);
    world_write(w, VERDICT_BY_KEEPER, MARK_TAKEN, SEC(0.1), SEC(0.2)); /* which it may */
    world_renew(w, 1);
    world_until(w, 41, MARK_DENIED);
    READY(w);
    world_tick_with(w, 41, MARK_DENIED);
    EXPIRED(w);
    expect_rule(w, RULE_READ_IS_THE_PROOF);
}

/* Its first mark was lost: whether it may write is known before the DPU falls silent. */
TEST_READY(a_first_mark_that_tells_nothing_is_made_again)
{
    static const enum mark_outcome outcomes[] = {MARK_LOST, MARK_CONFLICT, MARK_REFUSED};
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        world_init(w, NULL, SEC(0));
        world_list(w, SEC(0.01));
        world_serve(w, SEC(0.01), outcomes[i]);
        world_renew(w, 1);
        world_until(w, 12, MARK_TAKEN);
        world_renew(w, 12);
        world_until(w, 60, MARK_DENIED); /* to everybody */
        MUTE(w);
    }
}

/* ---- a broken watch -------------------------------------------------------------------------- */

/* The DPU renews between two looks, at any phase: a trial of what the last one showed is overtaken
 * for ever, and where the host may write stays unknown. */
TEST(without_a_watch_the_first_mark_is_taken_in_time)
{
    for (int phase = 0; phase < 20; phase++) {
        struct world w;
        double renews_at = phase * 0.5 + 0.015;
        world_init(&w, NULL, SEC(0));
        world_tick(&w, SEC(0));
        world_list(&w, SEC(0.01));
        world_renew_unseen(&w, 0.012); /* it overtakes the very first */
        world_serve(&w, SEC(0.01), MARK_CONFLICT);
        world_watch(&w, SEC(0.02), false);
        while (mono_before(w.out.wake_at, SEC(40))) {
            struct mono now = w.out.wake_at;
            for (; mono_reached(now, SEC(renews_at)); renews_at += 10) {
                world_renew_unseen(&w, renews_at);
            }
            bool is_overtaken = !text_equal(w.x.history.lease.renew_stamp, w.lease.renew_stamp);
            world_tick(&w, now);
            world_serve(&w, now, w.out.mark && is_overtaken ? MARK_CONFLICT : MARK_TAKEN);
        }
        assert_true(w.x.evidence.has_marked);
    }
}

TEST_READY(with_a_broken_watch_a_read_comes_before_each_mark)
{
    world_silence_until(w, 11);
    world_renew(w, 11);
    world_watch(w, SEC(12), false);
    while (!w->out.confirm) {
        world_tick(w, w->out.wake_at);
    }
    assert_true(mono_reached(w->x.read.asked_at, SEC(13))); /* most are back by then */
    world_serve(w, w->x.read.asked_at, MARK_TAKEN);
    for (int at = 21; at < 500; at += 10) { /* a living DPU: no mark */
        world_renew_unseen(w, at);
        world_silence_until(w, at + 10);
        READY(w);
    }
    assert_int_equal(w->marks, 0);
    world_silence_until(w, 541);
    EXPIRED(w); /* the last one was made at 491, whenever it was seen */
    assert_between(w->marks, 2, 4);
}

TEST_READY(a_watch_that_works_again_after_a_read_needs_no_other)
{
    world_watch(w, SEC(5), false);
    world_read(w, SEC(6), SEC(6));
    world_watch(w, SEC(6.5), true);
    world_renew(w, 11);
    world_silence_until(w, 25.9);
    assert_int_equal(w->reads, 0);
}

/* ---- blind spans ----------------------------------------------------------------------------- */

/* Renewed at 1: o + D = 41, R = 20, evidence is due 10 s after the last, G = 26. */
TEST_READY(a_blind_span_does_not_count_against_the_dpu)
{
    static const struct {
        const char *why;
        struct {
            double from, to; /* marks that fail, and the next that is taken; from 0: none failed */
        } holes[6];
        double condemned;
    } rows[] = {
        {"t + R", {{16, 30}}, 30 + R},
        {"t + R, of a hole before the deadline", {{16, 20}}, 20 + R},
        {"t + R, long after", {{16, 100}}, 100 + R},
        {"not due yet: blind from 11 on", {{5, 30}}, 30 + R},
        {"from 26 on, so that B = 1", {{0, 16}, {18, 27}}, 27 + R},
        {"a pause of G is none", {{0, 27}}, 41},
        {"a longer one: blind from 11 on", {{0, 27.001}}, 27.001 + R},
        {"a pause, long after", {{0, 3600}}, 3600 + R},
        {"two holes: t + R", {{16, 20}, {31, 45}}, 45 + R},
        {"their sum bounds the rest: B = 4 + 4 + 3 + 1",
         {{16, 20}, {38, 42}, {58, 61}, {71, 72}},
         41 + 12 + R},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        double blind = 0;
        world_ready(w);
        for (size_t n = 0; n < ARRAY_LEN(rows[i].holes) && rows[i].holes[n].to > 0; n++) {
            double from = rows[i].holes[n].from;
            double to = rows[i].holes[n].to;
            if (from > 0) {
                world_mark(w, MARK_LOST, SEC(from), SEC(from));
            }
            world_mark(w, MARK_TAKEN, SEC(to), SEC(to));
        }
        world_serve(w, w->x.evidence.checked, MARK_TAKEN);
        print_message("%s\n", rows[i].why);
        blind = seconds(w->x.evidence.blind_ns);
        assert_true(w->x.readiness.admit);
        world_condemns_at(w, rows[i].condemned);
        assert_true(blind <= rows[i].condemned);
    }
}

/* It was made just before the outage, and is seen by a read after it. */
/* The API server may have taken no write before it answered the host's. */
TEST_READY(the_time_of_a_retry_counts_from_the_answer_to_the_mark)
{
    world_mark(w, MARK_LOST, SEC(26), SEC(26));
    world_mark(w, MARK_TAKEN, SEC(60), SEC(64));               /* as slow as that may be */
    assert_int_equal(w->x.evidence.blind_ns, 34 * NS_PER_SEC); /* what the mark proves is of 60 */
    world_condemns_at(w, 64 + R);
}

/* Each would change the version that the DPU's PUT is about to name. */
TEST_READY(no_mark_is_made_within_the_time_that_was_granted)
{
    world_mark(w, MARK_REFUSED, SEC(26), SEC(26));
    world_mark(w, MARK_TAKEN, SEC(60), SEC(60));
    world_serve(w, SEC(60), MARK_TAKEN);
    w->marks = 0;
    w->trials = 0;
    world_silence_until(w, 60 + R);
    assert_int_equal(w->marks, 0);
    assert_int_equal(w->trials, 3);                            /* which change nothing */
    assert_int_equal(w->x.evidence.blind_ns, 34 * NS_PER_SEC); /* all is well: no new span */
    world_tick_with(w, 60 + R, MARK_TAKEN);
    assert_int_equal(w->marks, 1);
    EXPIRED(w);
}

/* The DPU's retry may fail with it. */
TEST_READY(what_fails_in_the_time_that_was_granted_is_a_blind_span)
{
    static const enum mark_outcome outages[] = {MARK_LOST, MARK_REFUSED, MARK_NONSENSE};
    for (size_t i = 0; i < ARRAY_LEN(outages); i++) {
        world_ready(w);
        world_mark(w, MARK_REFUSED, SEC(26), SEC(26));
        world_mark(w, MARK_TAKEN, SEC(60), SEC(60));
        world_serve(w, SEC(60), MARK_TAKEN);
        world_until(w, 95, outages[i]);
        world_silence_until(w, 60 + R + 10);
        assert_true(w->x.evidence.blind_ns > (34 + 20) * NS_PER_SEC);
        world_condemns_at(w, seconds(w->x.evidence.granted.ns - SEC(0).ns));
    }
}

static struct mono next_trial(struct world *w)
{
    while (!w->out.mark) {
        struct mono now = w->out.wake_at;
        world_tick(w, now);
        if (!w->out.mark) { /* a trial follows a look that is due */
            world_serve(w, now, MARK_TAKEN);
        }
    }
    assert_true(w->out.is_trial);
    return w->x.mark.asked_at;
}

/* It may be one of several servers that fails. */
TEST_READY(the_first_failure_in_the_time_that_was_granted_is_soon_followed_by_another_trial)
{
    world_mark(w, MARK_REFUSED, SEC(26), SEC(26));
    world_mark(w, MARK_TAKEN, SEC(60), SEC(60));
    world_serve(w, SEC(60), MARK_TAKEN);
    struct mono first = next_trial(w);
    world_serve(w, first, MARK_REFUSED);
    struct mono second = next_trial(w);
    assert_between(mono_since(second, first), 0, NS_PER_SEC);
    world_serve(w, second, MARK_REFUSED);
    assert_between(mono_since(next_trial(w), second), 9 * NS_PER_SEC, 11 * NS_PER_SEC);
}

/* A trial in the time of a retry, and the mark that follows within a second since nobody answered
 * it: only a mark's text could show that it was taken. */
static struct mono mark_after_an_unanswered_trial(struct world *w)
{
    world_mark(w, MARK_REFUSED, SEC(26), SEC(26));
    world_mark(w, MARK_TAKEN, SEC(60), SEC(60));
    world_serve(w, SEC(60), MARK_TAKEN);
    struct mono trial = next_trial(w);
    world_mark(w, MARK_UNANSWERED, trial, mono_add(trial, NS_PER_SEC / 2));
    expect_rule(w, RULE_FAILS + MARK_UNANSWERED);
    while (!w->out.mark) {
        world_tick(w, w->out.wake_at);
    }
    expect_rule(w, RULE_ASKS + ASKS_RETRY_UNANSWERED);
    assert_false(w->out.is_trial);
    assert_between(mono_since(w->x.mark.asked_at, trial), 0, NS_PER_SEC);
    return w->x.mark.asked_at;
}

/* Writes are taken, and their answers lost: each trial fails, but B bounds what that gives. */
TEST_READY(trials_whose_answers_are_lost_do_not_hold_a_dead_dpu_for_ever)
{
    struct mono at = mark_after_an_unanswered_trial(w);
    world_mark(w, MARK_TAKEN, at, at); /* by its text */
    assert_between(w->x.evidence.blind_ns, 34 * NS_PER_SEC, 36 * NS_PER_SEC);
    while (w->x.phase == VERDICT_FRESH) {
        world_tick(w, w->out.wake_at);
        at = w->x.mark.asked_at;
        if (w->out.mark) {
            world_mark(w, w->out.is_trial ? MARK_UNANSWERED : MARK_TAKEN, at,
                       mono_add(at, 5 * NS_PER_SEC));
        } else if (w->out.confirm) {
            world_serve(w, w->x.read.asked_at, MARK_TAKEN);
        }
    }
    assert_between(mono_since(at, SEC(60)), 0, 5 * R * NS_PER_SEC);
}

/* The writes hang, and the DPU's retry does, too. */
TEST_READY(marks_that_are_not_answered_after_such_a_trial_are_a_blind_span)
{
    struct mono at = mark_after_an_unanswered_trial(w);
    world_mark(w, MARK_UNANSWERED, at, mono_add(at, NS_PER_SEC));
    w->marks = 0;
    w->trials = 0;
    world_until(w, 97, MARK_UNANSWERED);
    assert_int_equal(w->trials, 0);
    assert_between(w->marks, 1, 2); /* r apart */
    world_silence_until(w, 60 + R + 10);
    assert_true(w->x.evidence.blind_ns > (34 + 15) * NS_PER_SEC);
    world_condemns_at(w, seconds(w->x.evidence.granted.ns - SEC(0).ns));
}

/* The first mark that may condemn the DPU is taken, but the trial before it has met an outage. */
TEST_READY(a_trial_that_is_not_answered_when_the_grant_ends_has_failed)
{
    world_mark(w, MARK_REFUSED, SEC(26), SEC(26));
    world_mark(w, MARK_TAKEN, SEC(60), SEC(60));
    world_serve(w, SEC(60), MARK_TAKEN);
    world_silence_until(w, 82);
    while (!w->out.mark) {
        world_tick(w, w->out.wake_at);
    }
    assert_true(w->out.is_trial && mono_before(w->x.mark.asked_at, SEC(95))); /* nobody answers */
    world_tick(w, SEC(60 + R));
    assert_true(w->out.mark && !w->out.is_trial);
    world_serve(w, SEC(60 + R), MARK_TAKEN);
    HELD(w);
    assert_true(w->x.evidence.blind_ns > 34 * NS_PER_SEC);
    world_condemns_at(w, seconds(w->x.evidence.granted.ns - SEC(0).ns));
}

/* A read that began before a mark may run to its deadline after that one was taken. */
TEST_READY(what_failed_before_the_last_mark_was_taken_was_a_blind_span)
{
    world_mark(w, MARK_TAKEN, SEC(26), SEC(26));
    world_read_from(w, MARK_LOST, SEC(24), SEC(29));
    expect_rule(w, RULE_BLIND_SPAN_KNOWN_LATE);
    assert_int_equal(w->x.evidence.blind_ns, 2 * NS_PER_SEC);
    world_condemns_at(w, 29 + R);
}

TEST_READY(what_failed_before_the_last_renewal_says_nothing)
{
    world_renew(w, 26);
    world_read_from(w, MARK_LOST, SEC(24), SEC(29));
    assert_int_equal(w->x.evidence.failing.ns, 0);
    assert_int_equal(w->x.evidence.blind_ns, 0);
}

TEST_READY(a_renewal_that_an_outage_hid_leaves_the_dpu_the_retry_that_follows)
{
    struct verdict_config config = world_config();
    config.duration_ns = 12 * NS_PER_SEC;
    world_ready_with(w, &config);
    world_watch(w, SEC(2), false);
    world_serve(w, SEC(2), MARK_TAKEN);
    world_renew_unseen(w, 11);
    world_until(w, 32, MARK_LOST);
    world_read(w, SEC(32), SEC(32.001));
    assert_int_equal(w->x.readiness.observed.ns, SEC(11).ns);
    HELD(w);
    world_mark(w, MARK_TAKEN, SEC(32.5), SEC(32.501));
    HELD(w);
    assert_int_equal(w->x.evidence.blind_ns, 11500 * NS_PER_MS); /* from 21 on */
    world_condemns_at(w, 32.501 + R);                            /* from the answer on */
}

TEST_READY(the_retry_is_that_of_the_dpu)
{
    for (size_t row = 0; row < ARRAY_LEN(timers); row++) {
        const struct verdict_config config = timed(row);
        double back = 1 + 3 * seconds(config.duration_ns);
        double retry = seconds(lease_pace_grace_ns(config.renew_interval_ns));
        world_ready_with(w, &config);
        world_until(w, back, MARK_LOST);
        HELD(w);
        world_mark(w, MARK_TAKEN, SEC(back), SEC(back));
        HELD(w);
        assert_non_null(strstr(message(w), "one retry"));
        assert_non_null(strstr(message(w), "the API server does not answer"));
        struct world living = *w;
        world_condemns_at(w, back + retry);
        world_silence_until(&living, back + retry);
        world_renew(&living, back + retry - 0.001);
        READY(&living);
        assert_int_equal(living.x.evidence.blind_ns, 0);
        world_condemns_at(&living, back + retry - 0.001 + seconds(config.duration_ns));
    }
}

TEST_READY(after_an_outage_the_dpu_goes_first)
{
    world_watch(w, SEC(2), false);
    world_until(w, 60, MARK_LOST);
    assert_between(w->reads, 5, 7); /* one an interval */
    expect_rule(w, RULE_ASKS + ASKS_WATCH_IS_MISTRUSTED);
    world_list(w, SEC(61));
    world_list(w, SEC(64)); /* which puts nothing off */
    world_silence_until(w, 65.9);
    assert_int_equal(w->marks, 0);
    world_silence_until(w, 66.1);
    assert_int_equal(w->marks, 1);
    expect_rule(w, RULE_ASKS + ASKS_AFTER_AN_OUTAGE);
}

TEST_READY(an_attempt_that_fails_counts_from_its_start)
{
    world_silence_until(w, 23.5);
    world_tick(w, SEC(23.5));
    assert_true(w->out.confirm);
    world_read_from(w, MARK_LOST, SEC(23.5), SEC(25));
    assert_int_equal(w->x.evidence.failing.ns, SEC(23.5).ns);
    assert_false(w->x.read.under_way == ASK_READ);
}

/* Renewed at 1 by a lease of 12 s: evidence is over at 23.5. */
TEST_READY(without_any_outcome_the_state_is_held_when_evidence_is_over)
{
    struct verdict_config config = world_config();
    config.duration_ns = 12 * NS_PER_SEC;
    world_ready_with(w, &config);
    while (mono_before(w->out.wake_at, SEC(23.6))) {
        world_tick(w, w->out.wake_at);
    }
    HELD(w);
}

/* ---- what is held, and how it is shown ------------------------------------------------------- */

TEST_READY(without_evidence_the_last_state_is_held_and_the_cause_is_named)
{
    static const struct {
        enum mark_outcome server;
        enum readiness_reason reason;
        const char *says;
        const char *detail;
    } rows[] = {
        {MARK_LOST, REASON_API_SERVER_UNREACHABLE, "does not answer", "own words"},
        {MARK_NONSENSE, REASON_API_SERVER_UNREACHABLE, "answers cannot be read", "own words"},
        {MARK_UNANSWERED, REASON_API_SERVER_NOT_WRITING, "does not answer the host's writes",
         "own words"},
        {MARK_REFUSED, REASON_API_SERVER_NOT_WRITING, "takes no writes", "own words"},
        {MARK_DENIED, REASON_API_SERVER_NOT_WRITING, "denies the host's write", "own words"},
        {MARK_ABSENT, REASON_API_SERVER_NOT_WRITING, "being made anew", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        world_ready(w);
        print_message("%s\n", rows[i].says);
        world_until(w, 41, rows[i].server);
        READY(w);
        expect_rule(w, RULE_FAILS + (enum verdict_rule)rows[i].server);
        world_tick(w, SEC(41));
        expect(w, READINESS_UNKNOWN, rows[i].reason, true);
        assert_non_null(strstr(message(w), rows[i].says));
        world_serve(w, SEC(41), rows[i].server);
        world_until(w, 80.9, rows[i].server);
        expect(w, READINESS_UNKNOWN, rows[i].reason, true);
        world_renew_unseen(w, 80.9);
        world_read(w, SEC(80.9), SEC(80.9));
        READY(w);
    }
}

/* What failed before the last renewal is not why there is no evidence now. */
TEST_READY(reason_and_words_of_a_hold_tell_of_the_same_cause)
{
    static const enum mark_outcome before[] = {MARK_LOST, MARK_NONSENSE, MARK_REFUSED, MARK_DENIED};
    for (size_t i = 0; i < ARRAY_LEN(before); i++) {
        world_ready(w);
        world_until(w, 38, before[i]);
        world_renew(w, 38);
        READY(w);
        world_tick(w, SEC(100)); /* dpu-host-agent was stopped for a minute */
        expect(w, READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, true);
        assert_non_null(strstr(message(w), "dpu-host-agent was stopped or restarted"));
    }
}

/* A conflict: the API server does not deny the write, and somebody else was sooner. */
TEST_READY(a_denial_that_has_ended_in_conflicts_is_no_proof)
{
    world_mark(w, MARK_DENIED, SEC(26), SEC(26));
    for (int at = 30; at < 160; at += 5) {
        world_mark(w, MARK_CONFLICT, SEC(at), SEC(at));
        assert_true(w->x.readiness.admit);
    }
    world_mark(w, MARK_DENIED, SEC(160), SEC(160));
    assert_true(w->x.readiness.admit);
}

/* A server that starts again may forbid everything until it knows the rights. One that lasts a
 * duration may be a decision about us alone: then a read is the proof. */
/* An outage may have ended just before. */
TEST(a_denial_holds_for_the_time_of_a_retry_where_the_lease_is_shorter)
{
    struct world w;
    struct verdict_config config = world_config();
    config.duration_ns = 12 * NS_PER_SEC;
    world_ready_with(&w, &config);
    world_until(&w, 20, MARK_LOST);
    world_until(&w, 30 + R - 10, MARK_DENIED);
    assert_true(w.x.readiness.admit);
    world_until(&w, 30 + R + 10, MARK_DENIED);
    EXPIRED(&w);
}

TEST_READY(a_denial_after_an_outage_begins_anew)
{
    world_until(w, 200, MARK_LOST);
    HELD(w);
    world_until(w, 235, MARK_DENIED);
    MUTE(w);
    world_until(w, 262, MARK_DENIED);
    EXPIRED(w);
    expect_rule(w, RULE_DENIAL_LASTED);
    world_renew(w, 270);
    READY(w);
}

TEST_READY(a_pause_of_our_own_is_held_and_marked_at_once)
{
    world_silence_until(w, 41);
    world_tick(w, SEC(41.9));
    READY(w);
    world_ready(w);
    world_renew(w, 11);
    world_tick(w, SEC(3600));
    HELD(w);
    assert_true(w->out.mark);
    expect_rule(w, RULE_STALLED);
    struct world living = *w;
    world_renew_unseen(&living, 3595);
    world_mark(&living, MARK_CONFLICT, SEC(3600), SEC(3600.01));
    READY(&living);
    world_mark(w, MARK_TAKEN, SEC(3600), SEC(3600.01));
    HELD(w);
    expect_rule(w, RULE_BLIND_SPAN_OF_A_GAP);
    world_condemns_at(w, 3600.01 + R); /* from the answer on */
    world_ready(w);
    world_renew(w, 100); /* 99 s later, before any tick */
    READY(w);
    assert_false(w->out.verdict_changed);
}

TEST_READY(outage_hold_option_bounds_the_hold)
{
    struct verdict_config config = world_config();
    config.api_outage_hold_ns = 300 * NS_PER_SEC;
    for (enum mark_outcome server = MARK_LOST; server <= MARK_REFUSED; server++) {
        enum readiness_reason reason =
            server <= MARK_NONSENSE ? REASON_API_SERVER_UNREACHABLE : REASON_API_SERVER_NOT_WRITING;
        world_ready_with(w, &config);
        world_until(w, 341, server);
        expect(w, READINESS_UNKNOWN, reason, true);
        assert_int_equal(w->out.wake_at.ns, SEC(341).ns);
        world_tick(w, SEC(341));
        expect(w, READINESS_UNKNOWN, reason, false);
        assert_true(w->out.verdict_changed);
        expect_rule(w, RULE_HOLD_IS_OVER);
        assert_non_null(strstr(message(w), "--api-outage-hold (300s)"));
        world_mark(w, MARK_TAKEN, SEC(400), SEC(400));
        expect(w, READINESS_UNKNOWN, reason, false); /* an excuse never admits */
        struct world dead = *w;
        world_renew(w, 401);
        READY(w);
        world_serve(&dead, SEC(400), MARK_TAKEN);
        world_condemns_at(&dead, 400 + R);
    }
}

/* A watch that is half open must not hide its return. */
TEST_READY(a_dpu_that_is_not_ready_is_looked_for_once_an_interval)
{
    for (size_t row = 0; row < ARRAY_LEN(timers); row++) {
        const struct verdict_config config = timed(row);
        double start = 1 + 2 * seconds(config.duration_ns);
        double pace = seconds(config.renew_interval_ns);
        double hurry = seconds(config.duration_ns) / 4; /* a short interval is no reason for more */
        pace = pace > 0.2 ? pace : 0.2;
        hurry = hurry > pace && pace < 1 ? hurry : pace;
        world_ready_with(w, &config);
        world_silence_until(w, start);
        EXPIRED(w);
        w->reads = w->marks = 0;
        world_silence_until(w, start + 10 * pace);
        assert_between(w->reads, 10 * pace / hurry - 1, 10 * pace / hurry + 1);
        assert_int_equal(w->marks, 0);
        world_renew_unseen(w, start + 9.5 * pace);
        world_read(w, SEC(start + 10 * pace), SEC(start + 10 * pace));
        READY(w);
        assert_true(w->out.restart_watch);
    }
}

TEST_READY(whatever_the_api_server_shows_is_contact)
{
    static const enum verdict_event_kind kinds[] = {VERDICT_LEASE_OBSERVED, VERDICT_LEASE_ABSENT,
                                                    VERDICT_LEASE_UNREADABLE};
    world_init(w, NULL, SEC(0));
    assert_false(w->x.sight.has_contact);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        world_ready(w);
        world_fail(w, SEC(16));
        assert_false(w->x.sight.has_contact);
        world_step(w, (struct verdict_event){.kind = kinds[i],
                                             .now = SEC(20),
                                             .lease = &w->lease,
                                             .failure = "no lease",
                                             .source = VERDICT_BY_WATCH});
        assert_true(w->x.sight.has_contact);
    }
    world_mark(w, MARK_LOST, SEC(30), SEC(30));
    assert_false(w->x.sight.has_contact);
    world_mark(w, MARK_REFUSED, SEC(40), SEC(40));
    assert_true(w->x.sight.has_contact);
}

/* While nobody answers, a watch may be held up, too: what it brings then was made before. */
TEST_READY(what_a_watch_brings_after_a_failure_is_no_news)
{
    world_until(w, 39, MARK_LOST);
    for (int at = 11; at <= 31; at += 10) {
        world_renew_unseen(w, at);
        world_seen(w, SEC(39.5));
        expect_observed(w, at);
    }
    world_read(w, SEC(39.6), SEC(39.7)); /* the way is open again: what comes now is news */
    world_renew_unseen(w, 39);
    world_seen(w, SEC(40));
    expect_observed(w, 40);
}

/* ---- the duration on the lease --------------------------------------------------------------- */

TEST_READY(duration_on_the_lease_is_clamped)
{
    static const struct {
        uint32_t on_lease_s;
        double expected_s;
    } rows[] = {{0, 40}, {1, 20}, {20, 20}, {30, 30}, {40, 40}, {599, 599}, {2147483647, 600}};
    struct verdict_config config = world_config();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        world_ready(w);
        w->lease.duration_s = rows[i].on_lease_s;
        world_renew(w, 5);
        world_renew(w, 6); /* no time for the change any more */
        assert_int_equal(w->x.readiness.lease_until.ns, SEC(6 + rows[i].expected_s).ns);
        world_condemns_at(w, 6 + rows[i].expected_s);
        w->lease.duration_s = 40; /* as it was configured */
        world_renew(w, 1000);
        world_renew(w, 1001);
        assert_int_equal(w->x.readiness.lease_until.ns, SEC(1041).ns);
    }
    config.duration_ns = 12 * NS_PER_SEC; /* below two intervals: as it was configured */
    world_ready_with(w, &config);
    world_condemns_at(w, 13);
    config.renew_interval_ns = 200 * NS_PER_MS;
    world_ready_with(w, &config);
    w->lease.duration_s = 1;
    world_renew(w, 2);
    world_renew(w, 3);
    world_condemns_at(w, 4);
}

TEST_READY(a_duration_that_becomes_shorter_accuses_nobody_at_once)
{
    world_silence_until(w, 30);
    w->lease.duration_s = 20;
    world_seen(w, SEC(30));
    HELD(w);
    expect_rule(w, RULE_DURATION_SHORTENED);
    assert_non_null(strstr(message(w), "was shortened"));
    world_condemns_at(w, 41); /* the old time, which is before 30 + R */
    world_ready(w);
    world_renew(w, 2);
    w->lease.duration_s = 20;
    world_seen(w, SEC(3));
    world_condemns_at(w, 3 + R);
}

TEST_READY(renewals_further_apart_than_the_duration_hint_at_the_configuration)
{
    for (int i = 1; i <= 2; i++) {
        world_silence_until(w, 60 * i + 1);
        EXPIRED(w);
        world_renew(w, 60 * i + 1);
        READY(w);
    }
    world_silence_until(w, 180);
    EXPIRED(w);
    assert_non_null(strstr(message(w), "60s apart"));
    assert_non_null(strstr(message(w), "configuration mismatch"));
}

/* ---- the rest -------------------------------------------------------------------------------- */

TEST_READY(clock_going_backwards_changes_nothing)
{
    world_tick(w, SEC(0.5));
    READY(w);
    world_condemns_at(w, 41);
}

TEST_READY(times_near_the_end_of_the_clock_saturate)
{
    struct mono late = {INT64_MAX - 5 * NS_PER_SEC};
    world_init(w, NULL, (struct mono){late.ns - NS_PER_SEC});
    world_seen(w, (struct mono){late.ns - NS_PER_SEC});
    world_stamp(w, 3);
    world_seen(w, late);
    READY(w);
    assert_true(mono_is_never(w->x.readiness.lease_until));
}

/* No gap between two promises, whatever happens. */
TEST_READY(the_record_is_rewritten_before_its_promise_ends)
{
    for (enum mark_outcome server = MARK_LOST; server < MARK_OUTCOMES; server++) {
        world_ready(w);
        while (mono_before(w->out.wake_at, SEC(400))) {
            struct mono now = w->out.wake_at;
            assert_true(mono_since(now, w->written) < verdict_writer_ahead_ns(w->x.config));
            world_tick(w, now);
            world_serve(w, now, server);
        }
    }
}

TEST(writer_never_promises_beyond_what_the_duration_leaves)
{
    static const struct {
        int64_t interval_s, duration_s, ahead_ms;
        uint32_t deadline_ms; /* of a request: leaves room for several */
    } rows[] = {{10, 40, 15000, 5000}, {10, 600, 15000, 5000}, {10, 12, 2000, 1500},
                {10, 25, 15000, 3125}, {1, 4, 1500, 500},      {1, 2, 1000, 250},
                {0, 40, 15000, 5000}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct verdict_config config = world_config();
        config.renew_interval_ns = rows[i].interval_s * NS_PER_SEC;
        config.duration_ns = rows[i].duration_s * NS_PER_SEC;
        assert_int_equal(verdict_writer_ahead_ns(&config), rows[i].ahead_ms * NS_PER_MS);
        assert_int_equal(verdict_deadline_ms(&config), rows[i].deadline_ms);
    }
}

/* ---- which rule was followed ----------------------------------------------------------------- */

TEST_READY(a_rule_that_was_followed_is_told_with_its_numbers)
{
    char text[VERDICT_RULE_BYTES];
    world_silence_until(w, 41);
    world_tick(w, SEC(41));
    assert_int_equal(w->out.trace.count, 1);
    verdict_trace_text(&w->out.trace, 0, text);
    assert_string_equal(text, "asking for a mark: the DPU may be condemned from 1041.000 s on");
    world_mark(w, MARK_TAKEN, SEC(41), SEC(41.25));
    assert_int_equal(w->out.trace.count, 2);
    verdict_trace_text(&w->out.trace, 0, text);
    assert_string_equal(text, "nobody had renewed at 1041.000 s, which is E; N = 0.000 s");
    verdict_trace_text(&w->out.trace, 1, text);
    assert_string_equal(text, "evidence of 1041.000 s is not before max(o + D, N) = 1041.000 s: "
                              "NotReady (the formula)");
}

/* ---- the stories of docs/architecture.md ----------------------------------------------------- */

/* A request, at so many seconds after the last renewal, and the rule behind it. */
struct asked {
    double at;
    char what; /* r: a read, m: a mark, t: a trial */
    enum verdict_rule rule;
};

/* The API server is away from 5 on, until `back`. The requests are these, and no others. */
static void tell(struct world *w, double back, const struct asked *rows, size_t count)
{
    size_t n = 0;
    while (n < count) {
        double at = seconds(mono_since(w->out.wake_at, SEC(0)));
        world_tick(w, w->out.wake_at);
        while (w->out.mark || w->out.confirm) {
            const struct verdict_update asked = w->out;
            enum mark_outcome server = at > 5 && at < back ? MARK_LOST : MARK_TAKEN;
            char what = asked.confirm ? 'r' : asked.is_trial ? 't' : 'm';
            assert_true(n < count);
            print_message("%.3f %c\n", at, what);
            assert_int_equal(what, rows[n].what);
            assert_true(at >= rows[n].at && at < rows[n].at + 0.1);
            expect_rule(w, rows[n].rule);
            n++;
            if (asked.confirm) {
                world_read_from(w, server, SEC(at), SEC(at + SERVE_S));
            } else {
                world_mark(w, server, SEC(at), SEC(at + SERVE_S));
            }
            at += SERVE_S;
        }
    }
}

TEST_READY(the_story_of_a_death_is_as_the_page_tells_it)
{
    static const struct asked rows[] = {
        {22.5, 'r', RULE_ASKS + ASKS_RENEWAL_IS_OVERDUE},
        {25, 'm', RULE_ASKS + ASKS_EVIDENCE_IS_OLD},
        {40, 'm', RULE_ASKS + ASKS_AT_THE_DEADLINE},
    };
    world_init(w, NULL, SEC(-10));
    world_list(w, SEC(-9));
    world_serve(w, SEC(-9), MARK_TAKEN);
    world_renew(w, 0);
    tell(w, 0, rows, ARRAY_LEN(rows));
    EXPIRED(w);
    expect_rule(w, RULE_CONDEMNED);
}

TEST_READY(the_story_of_an_outage_is_as_the_page_tells_it)
{
    static const struct asked rows[] = {
        {10, 'r', RULE_ASKS + ASKS_WATCH_IS_MISTRUSTED},
        {20, 'r', RULE_ASKS + ASKS_WATCH_IS_MISTRUSTED},
        {22.5, 'r', RULE_ASKS + ASKS_RENEWAL_IS_OVERDUE},
        {25, 'r', RULE_READ_REPLACES_A_MARK},
        {35, 'r', RULE_READ_REPLACES_A_MARK},
        {40, 'r', RULE_READ_REPLACES_A_MARK}, /* the deadline */
        {50, 'r', RULE_READ_REPLACES_A_MARK},
        {60, 'r', RULE_READ_REPLACES_A_MARK},
        {70, 'r', RULE_READ_REPLACES_A_MARK},
        {75, 'm', RULE_ASKS + ASKS_AFTER_AN_OUTAGE},
        {85, 't', RULE_ASKS + ASKS_RETRY_IS_GRANTED},
        {95, 't', RULE_ASKS + ASKS_RETRY_IS_GRANTED},
        {105, 't', RULE_ASKS + ASKS_RETRY_IS_GRANTED},
        {113, 'm', RULE_ASKS + ASKS_AT_THE_DEADLINE},
    };
    world_init(w, NULL, SEC(-10));
    world_list(w, SEC(-9));
    world_serve(w, SEC(-9), MARK_TAKEN);
    world_renew(w, 0);
    world_watch(w, SEC(5), false);
    tell(w, 65, rows, 6);
    HELD(w);
    tell(w, 65, rows + 6, 3);
    world_watch(w, SEC(70.5), true);
    tell(w, 65, rows + 9, 4);
    HELD(w);
    struct world living = *w;
    world_renew(&living, 112); /* at the end of its retry */
    READY(&living);
    tell(w, 65, rows + 13, 1);
    EXPIRED(w);
    assert_int_equal(w->x.evidence.blind_ns, 65001 * NS_PER_MS);
}
