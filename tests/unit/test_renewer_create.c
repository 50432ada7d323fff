/* SPDX-License-Identifier: Apache-2.0 */
/* The lease is gone, and nobody makes it anew: then the DPU does. */
#include "tests/support/case.h"
#include "tests/unit/renewer_world.h"

/* Answers every request with a 404 until `until`; stops early at a RENEWER_CREATE. */
static struct mono missing_until(struct world *w, struct mono now, struct mono until)
{
    while (mono_before(now, until)) {
        if (w->r.under_way == RENEWER_CREATE) {
            break;
        }
        if (w->r.under_way != RENEWER_NONE) {
            world_fail(w, now, ERR_NOTFOUND, 404, -1);
        } else {
            now = w->out.wake_at;
            world_tick(w, now);
        }
    }
    return now;
}

/* Deleted while it renews every 10 s; the first 404 comes at 10 s. Returns when it creates. */
static struct mono deleted(struct world *w)
{
    world_renewing(w);
    return missing_until(w, SEC(0.1), SEC(120));
}

TEST(lease_that_stays_missing_for_its_duration_is_made_anew)
{
    struct world w;
    struct mono now = deleted(&w);
    expect_action(&w, RENEWER_CREATE);
    assert_in_range(now.ns, SEC(49).ns, SEC(56).ns);
    assert_true(w.out.deadline_ms > 0);
    (void)text_copy(w.lease.uid, sizeof(w.lease.uid), "uid-2");
    now = mono_add(now, NS_PER_SEC);
    world_created(&w, now);
    assert_true(w.out.renewed);
    assert_non_null(world_note(&w, RENEWER_NOTE_CREATED));
    assert_null(world_note(&w, RENEWER_NOTE_RECREATED));
    expect_action(&w, RENEWER_NONE);
    assert_true(mono_since(w.out.wake_at, now) <= 10 * NS_PER_SEC); /* the cadence goes on */
    world_tick(&w, w.out.wake_at);
    expect_action(&w, RENEWER_PUT_RENEWAL);
}

TEST(lease_that_comes_back_before_that_is_renewed_only)
{
    struct world w;
    world_renewing(&w);
    struct mono now = missing_until(&w, SEC(0.1), SEC(40));
    while (w.r.under_way == RENEWER_NONE) {
        now = w.out.wake_at;
        world_tick(&w, now);
    }
    world_ok(&w, now);
    expect_action(&w, RENEWER_PUT_RENEWAL);
    world_ok(&w, now);
    /* Gone again: the time counts anew. */
    struct mono again = missing_until(&w, now, SEC(300));
    expect_action(&w, RENEWER_CREATE);
    assert_true(mono_since(again, now) > 40 * NS_PER_SEC);
}

TEST(lease_never_seen_is_made_too)
{
    struct world w;
    struct renewer_config config = world_config();
    world_init(&w, &config);
    world_tick(&w, SEC(0));
    world_healthy(&w, SEC(0));
    struct mono now = missing_until(&w, SEC(0.1), SEC(120));
    expect_action(&w, RENEWER_CREATE);
    world_created(&w, now);
    assert_non_null(world_note(&w, RENEWER_NOTE_RENEWING));
}

TEST(unhealthy_or_unjudged_dpu_makes_no_lease)
{
    struct world w;
    struct renewer_config config = world_config();
    world_init(&w, &config);
    world_tick(&w, SEC(0));
    (void)missing_until(&w, SEC(0.1), SEC(200));
    assert_int_not_equal(w.r.under_way, RENEWER_CREATE);

    world_renewing(&w);
    world_verdict(&w, SEC(5), PROBE_UNHEALTHY, "down");
    struct mono now = missing_until(&w, SEC(5.1), SEC(200));
    assert_int_not_equal(w.r.under_way, RENEWER_CREATE);
    world_healthy(&w, now); /* missing for long enough */
    now = missing_until(&w, now, SEC(300));
    expect_action(&w, RENEWER_CREATE);
    assert_true(mono_before(now, SEC(212)));
}

/* It may make the lease, waits out the flip, and is unhealthy by then, or stopping. */
TEST(dpu_that_fails_before_its_turn_makes_no_lease)
{
    for (int stops = 0; stops < 2; stops++) {
        struct world w;
        world_renewing(&w);
        w.r.config.announce_shutdown = true;
        struct mono now = missing_until(&w, SEC(0.1), SEC(45));
        world_fail(&w, now, ERR_NOTFOUND, 404, -1);
        world_verdict(&w, SEC(58), PROBE_UNHEALTHY, "down");
        expect_action(&w, RENEWER_GET);
        world_healthy(&w, SEC(58.1));
        world_fail(&w, SEC(58.2), ERR_NOTFOUND, 404, -1);
        expect_action(&w, RENEWER_NONE);
        if (stops) {
            world_stop(&w, SEC(58.3));
        } else {
            world_verdict(&w, SEC(58.3), PROBE_UNHEALTHY, "down");
            world_tick(&w, SEC(59));
        }
        expect_action(&w, RENEWER_GET);
    }
}

TEST(outage_is_no_proof_that_the_lease_is_missing)
{
    struct world w;
    world_renewing(&w);
    struct mono now = missing_until(&w, SEC(0.1), SEC(20));
    while (mono_before(now, SEC(200))) {
        assert_int_not_equal(w.r.under_way, RENEWER_CREATE);
        if (w.r.under_way != RENEWER_NONE) {
            world_fail(&w, now, ERR_RETRY, 503, -1);
        } else {
            now = w.out.wake_at;
            world_tick(&w, now);
        }
    }
}

TEST(missing_right_is_said_once_and_tried_again_ever_more_rarely)
{
    struct world w;
    unsigned tries = 0;
    struct mono last = {0};
    int64_t bound_ns = 10 * NS_PER_SEC;
    struct mono now = deleted(&w);
    while (mono_before(now, SEC(7200))) {
        now = missing_until(&w, now, SEC(7200));
        if (w.r.under_way == RENEWER_CREATE) {
            if (tries++ > 0) {
                int64_t wait_ns = mono_since(now, last);
                assert_in_range(wait_ns, bound_ns, bound_ns + 20 * NS_PER_SEC);
                bound_ns = bound_ns * 2 < 600 * NS_PER_SEC ? bound_ns * 2 : 600 * NS_PER_SEC;
            }
            last = now;
            world_fail(&w, now, ERR_AUTH, 403, -1);
            const char *note = world_note(&w, RENEWER_NOTE_NOT_CREATED);
            assert_true((note != NULL) == (tries == 2)); /* one alone may be a server's start */
            assert_true(!note || strstr(note, "the server said no"));
            assert_null(world_note(&w, RENEWER_NOTE_FAILED));
        }
    }
    assert_in_range(tries, 15, 19);
}

/* A server that does not answer may be followed by one that has read its rules. */
TEST(missing_right_is_asked_for_soon_behind_an_outage)
{
    static const int statuses[] = {0, 500, 404};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        struct world w;
        struct mono now = deleted(&w);
        for (int denials = 0; denials < 8; denials++) {
            expect_action(&w, RENEWER_CREATE);
            world_fail(&w, now, ERR_AUTH, 403, -1);
            now = missing_until(&w, now, mono_add(now, 700 * NS_PER_SEC));
        }
        world_fail(&w, now, ERR_AUTH, 403, -1);
        struct mono denied = now;
        while (w.r.under_way == RENEWER_NONE) {
            now = w.out.wake_at;
            world_tick(&w, now);
        }
        expect_action(&w, RENEWER_GET);
        world_fail(&w, now, statuses[i] == 404 ? ERR_NOTFOUND : ERR_RETRY, statuses[i], -1);
        now = missing_until(&w, now, mono_add(now, 700 * NS_PER_SEC));
        expect_action(&w, RENEWER_CREATE);
        assert_true((mono_since(now, denied) < 60 * NS_PER_SEC) == (statuses[i] != 404));
    }
}

TEST(lease_that_another_made_first_is_read_and_renewed)
{
    struct world w;
    struct mono now = deleted(&w);
    world_conflict(&w, now);
    expect_action(&w, RENEWER_GET);
    world_ok(&w, now);
    expect_action(&w, RENEWER_PUT_RENEWAL);
}

/* Its Node is gone, too, or it is swept away again and again. */
TEST(failing_creations_are_a_lease_duration_apart)
{
    static const struct {
        int code;
        int status;
        enum renewer_note_kind told;
        unsigned most_notes;
    } rows[] = {{ERR_NOTFOUND, 404, RENEWER_NOTE_NOT_CREATED, 1},
                {ERR_RETRY, 500, RENEWER_NOTE_FAILED, 17}, /* one a minute */
                {ERR_RETRY, 0, RENEWER_NOTE_FAILED, 17},
                {ERR_PARSE, 422, RENEWER_NOTE_FAILED, 17}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        unsigned tries = 0;
        unsigned notes = 0;
        struct mono now = deleted(&w);
        while (mono_before(now, SEC(1000))) {
            now = missing_until(&w, now, SEC(1000));
            if (w.r.under_way == RENEWER_CREATE) {
                tries++;
                world_fail(&w, now, rows[i].code, rows[i].status, -1);
                notes += world_note(&w, rows[i].told) != NULL;
            }
        }
        assert_in_range(tries, 18, 25);
        assert_in_range(notes, 1, rows[i].most_notes);
    }
}
