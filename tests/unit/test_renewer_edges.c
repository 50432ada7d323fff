/* SPDX-License-Identifier: Apache-2.0 */
/* What is over, and what is forgotten with it. */
#include "tests/support/case.h"
#include "tests/unit/renewer_world.h"

/* Whether the next request goes out on a connection of its own. */
static bool is_next_fresh(struct world *w)
{
    world_tick(w, w->out.wake_at);
    assert_int_not_equal(w->out.action, RENEWER_NONE);
    return w->out.fresh;
}

TEST(a_connection_is_mistrusted_until_something_succeeds)
{
    static const struct {
        int code;
        int http_status;
        bool is_fresh;
    } rows[] = {{ERR_RETRY, 0, true},    {ERR_RETRY, 500, true}, {ERR_RETRY, 503, true},
                {ERR_RETRY, 429, false}, {ERR_AUTH, 403, false}, {ERR_RETRY, 499, false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_renewing(&w);
        assert_false(is_next_fresh(&w));
        world_fail(&w, w.r.sent_at, rows[i].code, rows[i].http_status, -1);
        assert_true(is_next_fresh(&w) == rows[i].is_fresh);
        world_ok(&w, w.r.sent_at);
        assert_false(is_next_fresh(&w));
    }
}

TEST(failures_are_forgotten_with_the_first_success)
{
    struct world w;
    world_renewing(&w);
    for (int i = 0; i < 5; i++) {
        world_tick(&w, w.out.wake_at);
        world_fail(&w, w.r.sent_at, ERR_RETRY, 503, -1);
    }
    world_tick(&w, w.out.wake_at);
    world_ok(&w, w.r.sent_at);
    assert_non_null(world_note(&w, RENEWER_NOTE_RECOVERED));
    world_tick(&w, w.out.wake_at);
    world_ok(&w, w.r.sent_at);
    assert_null(world_note(&w, RENEWER_NOTE_RECOVERED));
}

/* A read that comes before a write proves nothing about the write; one that is all there is, does.
 */
TEST(a_read_ends_the_trouble_only_where_nothing_is_to_be_written)
{
    struct world w;
    struct renewer_config config = world_config();
    world_init(&w, &config);
    world_tick(&w, SEC(0)); /* starting: nobody has judged yet */
    world_fail(&w, SEC(0.1), ERR_RETRY, 503, -1);
    world_tick(&w, w.out.wake_at);
    world_ok(&w, w.r.sent_at);
    assert_non_null(world_note(&w, RENEWER_NOTE_RECOVERED));

    world_verdict(&w, SEC(20), PROBE_UNHEALTHY, "ovs"); /* reporting */
    world_fail(&w, SEC(20.1), ERR_PARSE, 200, -1);
    world_tick(&w, w.out.wake_at);
    expect_action(&w, RENEWER_GET);
    world_ok(&w, w.r.sent_at);
    assert_null(world_note(&w, RENEWER_NOTE_RECOVERED));
    expect_action(&w, RENEWER_PUT_HEALTH);
    world_ok(&w, w.r.sent_at);
    assert_non_null(world_note(&w, RENEWER_NOTE_RECOVERED));

    accompanying(&w);
    world_tick(&w, w.out.wake_at);
    world_fail(&w, w.r.sent_at, ERR_RETRY, 503, -1);
    world_tick(&w, w.out.wake_at);
    world_ok(&w, w.r.sent_at);
    assert_non_null(world_note(&w, RENEWER_NOTE_RECOVERED));
}

TEST(a_verdict_that_nobody_has_yet_changes_nothing)
{
    struct world w;
    struct renewer_config config = world_config();
    world_init(&w, &config);
    world_tick(&w, SEC(0));
    world_ok(&w, SEC(0.05));
    world_healthy(&w, SEC(1));
    expect_action(&w, RENEWER_PUT_RENEWAL);
    assert_null(world_note(&w, RENEWER_NOTE_UNHEALTHY));
    world_ok(&w, SEC(1.1));
    world_verdict(&w, SEC(3), PROBE_HEALTH_UNKNOWN, "");
    world_tick(&w, w.out.wake_at);
    expect_action(&w, RENEWER_PUT_RENEWAL);
}

/* The lease is ours again before anybody has judged: there is nothing more to read. */
TEST(a_lease_that_is_ours_again_waits_for_the_verdict)
{
    struct world w;
    struct renewer_config config = world_config();
    world_init(&w, &config);
    (void)text_copy(w.lease.holder, sizeof(w.lease.holder), "somebody");
    world_tick(&w, SEC(0));
    world_ok(&w, SEC(0.1));
    world_tick(&w, w.out.wake_at);
    (void)text_copy(w.lease.holder, sizeof(w.lease.holder), config.holder);
    world_ok(&w, w.r.sent_at);
    assert_int_equal(w.out.wake_at.ns, MONO_NEVER.ns);
    world_healthy(&w, SEC(30));
    expect_action(&w, RENEWER_PUT_RENEWAL);
}

TEST(what_was_cancelled_renews_nothing)
{
    struct world w;
    world_renewing(&w);
    world_tick(&w, w.out.wake_at);
    struct mono sent_at = w.r.sent_at;
    world_stop(&w, sent_at);
    assert_true(w.out.stopped && w.out.cancel);
    world_step(&w, (struct renewer_event){.kind = RENEWER_ANSWER,
                                          .now = sent_at,
                                          .http_status = 200,
                                          .retry_after_ms = -1,
                                          .lease = &w.lease});
    assert_false(w.out.renewed);
}

/* Whatever has gone wrong until then. */
TEST(an_announcement_has_tries_of_its_own)
{
    struct world w;
    struct world stopped;
    announcing(&w);
    for (int i = 0; i < 8; i++) {
        world_tick(&w, w.out.wake_at);
        world_fail(&w, w.r.sent_at, ERR_RETRY, 503, -1);
    }
    struct mono now = w.r.sent_at;
    stopped = w;
    world_stop(&stopped, now);
    assert_int_equal(stopped.out.deadline_ms, 1000); /* half the time there is */
    assert_int_equal(stopped.out.wake_at.ns, mono_add(now, RENEWER_STOP_NS).ns);
    assert_non_null(strstr(stopped.out.message, "stopped on purpose"));
    world_fail(&stopped, now, ERR_RETRY, 503, -1);
    assert_true(mono_since(stopped.r.retry_at, now) <= NS_PER_SEC);

    announcing(&w);
    world_tick(&w, w.out.wake_at);
    world_conflict(&w, w.r.sent_at);
    world_ok(&w, w.r.sent_at);
    world_conflict(&w, w.r.sent_at);
    world_stop(&w, w.r.sent_at);
    world_ok(&w, w.r.sent_at);
    world_conflict(&w, w.r.sent_at); /* the announcement's first */
    expect_action(&w, RENEWER_GET);
}

TEST(the_last_stamps_whose_answers_were_lost_are_our_own)
{
    struct world w;
    for (int applied = 0; applied < RENEWER_SENT_STAMPS; applied++) {
        struct mono now;
        world_renewing(&w);
        char stamp[NAMES_STAMP_BYTES] = "";
        for (int i = 0; i < RENEWER_SENT_STAMPS; i++) {
            now = w.out.wake_at;
            world_tick(&w, now);
            expect_action(&w, RENEWER_PUT_RENEWAL);
            if (i == applied) {
                (void)text_copy(stamp, sizeof(stamp), w.stamp);
            }
            world_fail(&w, now, ERR_RETRY, 0, -1);
        }
        now = w.out.wake_at;
        world_tick(&w, now);
        (void)text_copy(w.lease.renew_stamp, sizeof(w.lease.renew_stamp), stamp);
        world_step(&w, (struct renewer_event){.kind = RENEWER_ANSWER,
                                              .now = now,
                                              .code = ERR_CONFLICT,
                                              .http_status = 409,
                                              .retry_after_ms = -1,
                                              .message = "written in between"});
        world_ok(&w, now);
        assert_int_equal(w.r.foreign_renewals, 0);
    }
}

TEST(a_failure_tells_how_long_ago_the_last_renewal_was)
{
    struct world w;
    world_renewing(&w);
    world_tick(&w, SEC(25));
    world_fail(&w, SEC(30), ERR_RETRY, 503, -1);
    assert_non_null(strstr(world_note(&w, RENEWER_NOTE_FAILED), "29.9"));
}

/* A renewal at the slot, which the server commits; but its answer is lost, and the next PUT meets a
 * conflict. Leaves the read that follows under way. */
static void lose_an_answer(struct world *w, int http_status, int64_t lost_ns)
{
    world_tick(w, w->r.slot);
    expect_action(w, RENEWER_PUT_RENEWAL);
    text_format(w->lease.renew_stamp, sizeof(w->lease.renew_stamp), "%s", w->stamp);
    world_fail(w, mono_add(w->r.sent_at, lost_ns), ERR_RETRY, http_status, -1);
    world_tick(w, w->out.wake_at);
    expect_action(w, RENEWER_PUT_RENEWAL);
    world_conflict(w, mono_add(w->r.sent_at, NS_PER_MS));
    expect_action(w, RENEWER_GET);
}

TEST(a_renewal_whose_answer_was_lost_is_not_made_again)
{
    static const int statuses[] = {0, 504};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        struct world w;
        world_renewing(&w);
        struct mono sent = w.r.slot;
        struct mono next = mono_add(sent, 10 * NS_PER_SEC);
        lose_an_answer(&w, statuses[i], NS_PER_SEC);
        world_ok(&w, w.r.sent_at);
        assert_true(w.out.renewed);
        assert_non_null(world_note(&w, RENEWER_NOTE_RECOVERED));
        assert_int_equal(w.r.renewed_at.ns, sent.ns);
        expect_action(&w, RENEWER_NONE);
        assert_int_equal(w.out.wake_at.ns, next.ns);
        world_tick(&w, next);
        expect_action(&w, RENEWER_PUT_RENEWAL);
    }
}

TEST(a_lost_renewal_of_before_is_none_of_this_interval)
{
    struct world w;
    world_renewing(&w);
    lose_an_answer(&w, 504, NS_PER_SEC);
    world_ok(&w, mono_add(w.r.slot, NS_PER_SEC)); /* a slow read: the next is due */
    expect_action(&w, RENEWER_PUT_RENEWAL);

    world_renewing(&w);
    lose_an_answer(&w, 504, 11 * NS_PER_SEC); /* the next was due before it was tried again */
    world_ok(&w, w.r.sent_at);
    expect_action(&w, RENEWER_PUT_RENEWAL);
}

TEST(what_the_lease_shows_beside_a_lost_renewal_is_mended)
{
    struct world w;
    world_renewing(&w);
    lose_an_answer(&w, 504, NS_PER_SEC);
    w.lease.health = LEASE_HEALTH_UNHEALTHY;
    world_ok(&w, w.r.sent_at);
    expect_action(&w, RENEWER_PUT_RENEWAL);

    world_renewing(&w); /* somebody else's write, beside a renewal that was refused */
    struct mono slot = w.r.slot;
    world_tick(&w, slot);
    world_conflict(&w, mono_add(slot, NS_PER_MS));
    world_ok(&w, mono_add(slot, 2 * NS_PER_MS));
    expect_action(&w, RENEWER_PUT_RENEWAL);
}

TEST(an_announced_shutdown_recovers_from_nothing)
{
    struct world w;
    announcing(&w);
    world_stop(&w, SEC(1));
    expect_action(&w, RENEWER_PUT_HEALTH);
    world_ok(&w, SEC(1.1));
    assert_non_null(world_note(&w, RENEWER_NOTE_SHUTDOWN));
    assert_null(world_note(&w, RENEWER_NOTE_RECOVERED));
}
