/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/renewer.h"

#include "contract/lease.h"
#include "tests/support/case.h"
#include "tests/unit/renewer_world.h"

/* ---- start and cadence ---------------------------------------------------------------------- */

TEST(nothing_is_written_before_the_first_verdict)
{
    struct world w;
    struct renewer_config config = world_config();
    world_init(&w, &config);
    world_tick(&w, SEC(0));
    expect_action(&w, RENEWER_GET);
    world_ok(&w, SEC(0.1));
    expect_action(&w, RENEWER_NONE);
    assert_true(mono_is_never(w.out.wake_at));
    world_healthy(&w, SEC(2));
    expect_action(&w, RENEWER_PUT_RENEWAL);
    world_ok(&w, SEC(2.1));
    assert_true(w.out.renewed);
    assert_non_null(world_note(&w, RENEWER_NOTE_RENEWING));
}

TEST(steady_state_is_one_put_per_interval_and_no_read)
{
    struct world w;
    world_renewing(&w);
    assert_false(mono_before(w.out.wake_at, SEC(9)));
    assert_false(mono_before(SEC(10), w.out.wake_at));
    struct mono due = w.out.wake_at;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(w.out.wake_at.ns, due.ns + i * 10 * NS_PER_SEC);
        world_tick(&w, (struct mono){w.out.wake_at.ns - 1});
        expect_action(&w, RENEWER_NONE);
        struct mono now = w.out.wake_at;
        world_tick(&w, now);
        expect_action(&w, RENEWER_PUT_RENEWAL);
        assert_false(w.out.fresh);
        world_ok(&w, mono_add(now, 5 * NS_PER_MS));
        expect_action(&w, RENEWER_NONE);
        assert_int_equal(w.out.note_count, 0);
    }
}

TEST(phase_of_the_cadence_differs_between_agents)
{
    int64_t lowest = INT64_MAX;
    int64_t highest = 0;
    for (uint64_t seed = 1; seed < 400; seed += 2) {
        struct world w;
        struct renewer_config config = world_config();
        config.seed = seed * UINT64_C(0x9e3779b97f4a7c15);
        world_init(&w, &config);
        world_healthy(&w, SEC(0));
        world_ok(&w, SEC(0.01));
        world_ok(&w, SEC(0.02));
        int64_t gap = mono_since(w.out.wake_at, SEC(0));
        lowest = gap < lowest ? gap : lowest;
        highest = gap > highest ? gap : highest;
    }
    assert_in_range(lowest, 9 * NS_PER_SEC, 9 * NS_PER_SEC + NS_PER_SEC / 20);
    assert_in_range(highest, 10 * NS_PER_SEC - NS_PER_SEC / 20, 10 * NS_PER_SEC);
}

TEST(missed_ticks_are_not_replayed_after_a_stall)
{
    struct world w;
    world_renewing(&w);
    struct mono due = w.out.wake_at;
    struct mono woken = mono_add(due, 35 * NS_PER_SEC);
    world_tick(&w, woken);
    expect_action(&w, RENEWER_PUT_RENEWAL);
    assert_non_null(strstr(world_note(&w, RENEWER_NOTE_LATE), "35s late"));
    world_ok(&w, mono_add(woken, NS_PER_MS));
    expect_action(&w, RENEWER_NONE);
    assert_int_equal(w.out.wake_at.ns, mono_add(due, 40 * NS_PER_SEC).ns); /* same cadence */
}

TEST(slow_answer_is_not_taken_for_a_stall_of_ours)
{
    struct world w;
    struct renewer_config config = world_config();
    config.interval_ns = NS_PER_SEC;
    world_init(&w, &config);
    world_healthy(&w, SEC(0));
    world_ok(&w, SEC(0.01));
    world_ok(&w, SEC(4));
    expect_action(&w, RENEWER_PUT_RENEWAL); /* the slots in between are gone, one is due */
    assert_null(world_note(&w, RENEWER_NOTE_LATE));
}

TEST(cadence_at_the_end_of_time_does_not_wrap)
{
    struct world w;
    struct renewer_config config = world_config();
    struct mono late = {INT64_MAX - 5};
    world_init(&w, &config);
    world_healthy(&w, late);
    expect_action(&w, RENEWER_GET);
    world_ok(&w, late);
    expect_action(&w, RENEWER_PUT_RENEWAL);
    world_ok(&w, late);
    assert_true(mono_is_never(w.out.wake_at));
}

/* ---- deadlines and retries ------------------------------------------------------------------ */

TEST(three_tries_fit_between_a_due_renewal_and_the_end_of_the_lease)
{
    static const struct {
        double interval_s;
        double configured_s;
        uint32_t lease_s; /* 0: none seen */
        double budget_s;
    } rows[] = {
        {10, 40, 40, 30}, {10, 40, 0, 30},  {10, 11, 11, 1},  {10, 40, 12, 2},
        {0.5, 2, 2, 1.5}, {1, 3, 3, 2},     {0.2, 1, 1, 0.8}, {0.2, 40, 1, 0.8},
        {20, 60, 60, 40}, {10, 40, 10, 10}, {10, 40, 5, 5},   {10, 40, 2147483647, 2147483637},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        struct renewer_config config = world_config();
        config.interval_ns = (int64_t)(rows[i].interval_s * 1e9);
        config.duration_ns = (int64_t)(rows[i].configured_s * 1e9);
        world_init(&w, &config);
        w.r.lease_duration_s = rows[i].lease_s;
        int64_t all = 3 * renewer_deadline_ns(&w.r) + renewer_backoff_ns(&w.r, 1) +
                      renewer_backoff_ns(&w.r, 2);
        assert_int_equal(renewer_budget_ns(&w.r), (int64_t)(rows[i].budget_s * 1e9));
        assert_true(all <= renewer_budget_ns(&w.r));
        assert_true(renewer_deadline_ns(&w.r) == lease_pace_deadline_ns(config.interval_ns) ||
                    all > renewer_budget_ns(&w.r) - 3); /* and none of it is wasted */
        assert_in_range(renewer_deadline_ns(&w.r), 40 * NS_PER_MS, 5 * NS_PER_SEC);
        w.r.failures = 3;
        assert_int_equal(renewer_deadline_ns(&w.r),
                         lease_pace_slow_deadline_ns(config.interval_ns));
    }
}

TEST(failed_renewal_is_retried_with_growing_jittered_backoff_on_a_fresh_connection)
{
    static const int64_t bound_ms[] = {200, 400, 800, 1600, 3200, 5000, 5000, 5000};
    struct world w;
    world_renewing(&w);
    struct mono now = w.out.wake_at;
    world_tick(&w, now);
    for (size_t i = 0; i < ARRAY_LEN(bound_ms); i++) {
        now = mono_add(now, w.out.deadline_ms * NS_PER_MS);
        world_fail(&w, now, ERR_RETRY, 0, -1);
        while (w.out.action == RENEWER_NONE) {
            int64_t wait = mono_since(w.out.wake_at, now);
            assert_in_range(wait, 1, bound_ms[i] * NS_PER_MS);
            now = w.out.wake_at;
            world_tick(&w, now);
        }
        expect_action(&w, RENEWER_PUT_RENEWAL);
        assert_true(w.out.fresh);
    }
    world_ok(&w, now);
    assert_true(w.out.renewed);
    assert_non_null(world_note(&w, RENEWER_NOTE_RECOVERED));
    assert_false(mono_before(mono_add(now, 10 * NS_PER_SEC), w.out.wake_at)); /* back in step */
}

TEST(failures_are_logged_at_once_then_each_minute_then_the_recovery)
{
    struct world w;
    int notes = 0;
    world_renewing(&w);
    struct mono first = w.out.wake_at;
    struct mono now = first;
    world_tick(&w, now);
    while (mono_before(now, mono_add(first, 150 * NS_PER_SEC))) {
        if (w.out.action != RENEWER_NONE) {
            world_fail(&w, now, ERR_RETRY, 503, -1);
            const char *note = world_note(&w, RENEWER_NOTE_FAILED);
            bool counts = note && strstr(note, " not shown)");
            assert_int_equal(counts,
                             note && notes > 0); /* nothing was held back before the first */
            notes += note != NULL;
        } else {
            now = w.out.wake_at;
            world_tick(&w, now);
        }
    }
    assert_int_equal(notes, 3);
    while (w.out.action == RENEWER_NONE) {
        now = w.out.wake_at;
        world_tick(&w, now);
    }
    world_ok(&w, mono_add(first, 155 * NS_PER_SEC));
    assert_non_null(strstr(world_note(&w, RENEWER_NOTE_RECOVERED), "155s"));
    now = w.out.wake_at;
    world_tick(&w, now);
    world_fail(&w, now, ERR_RETRY, 503, -1);
    assert_non_null(world_note(&w, RENEWER_NOTE_FAILED)); /* a new failure is news again */
}

TEST(refusals_get_the_right_wait_and_words)
{
    static const struct {
        int code;
        int status;
        int64_t retry_after_ms;
        double least_s;
        double most_s;
        enum renewer_action next;
        const char *words;
    } rows[] = {
        {ERR_AUTH, 401, -1, 0, 0.2, RENEWER_PUT_RENEWAL, "does not know us"},
        {ERR_AUTH, 403, -1, 0, 0.2, RENEWER_PUT_RENEWAL, "verb 'update' on leases"},
        {ERR_RETRY, 429, 1000, 1, 1.2, RENEWER_PUT_RENEWAL, "the server said no"},
        {ERR_RETRY, 429, 60000, 10, 10, RENEWER_PUT_RENEWAL, "the server said no"},
        {ERR_RETRY, 503, 3000, 3, 3.2, RENEWER_PUT_RENEWAL, "the server said no"},
        {ERR_RETRY, 500, -1, 0, 0.2, RENEWER_PUT_RENEWAL, "the server said no"},
        {ERR_PARSE, 422, -1, 10, 10, RENEWER_GET, "invalid as we write it"},
        {ERR_PARSE, 400, -1, 10, 10, RENEWER_GET, "invalid as we write it"},
        {ERR_GONE, 410, -1, 0, 0.2, RENEWER_GET, "the server said no"},
        {ERR_PARSE, 200, -1, 0, 0.2, RENEWER_GET, "the server said no"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        world_renewing(&w);
        struct mono now = w.out.wake_at;
        world_tick(&w, now);
        world_fail(&w, now, rows[i].code, rows[i].status, rows[i].retry_after_ms);
        const char *note = world_note(&w, RENEWER_NOTE_FAILED);
        assert_non_null(note);
        assert_non_null(strstr(note, rows[i].words));
        assert_non_null(strstr(note, "updating lease 'ovn-kubernetes/ovn-dpu-w1'"));
        assert_null(strchr(strstr(note, "last renewed "), 'm')); /* seconds ago */
        double wait_s = (double)mono_since(w.out.wake_at, now) / 1e9;
        if (wait_s < rows[i].least_s || wait_s > rows[i].most_s) {
            fail_msg("row %zu waits %f s", i, wait_s);
        }
        world_tick(&w, w.out.wake_at);
        expect_action(&w, rows[i].next);
    }
}

TEST(forbidden_read_names_the_verb_get)
{
    struct world w;
    struct renewer_config config = world_config();
    world_init(&w, &config);
    world_tick(&w, SEC(0));
    world_fail(&w, SEC(0.1), ERR_AUTH, 403, -1);
    assert_non_null(strstr(world_note(&w, RENEWER_NOTE_FAILED), "verb 'get' on leases"));
    assert_non_null(strstr(world_note(&w, RENEWER_NOTE_FAILED), "last renewed never"));
}

TEST(request_rate_stays_bounded_under_any_refusal)
{
    static const struct {
        int code;
        int status;
    } rows[] = {{ERR_CONFLICT, 409}, {ERR_RETRY, 500}, {ERR_AUTH, 403},
                {ERR_NOTFOUND, 404}, {ERR_PARSE, 422}, {ERR_PARSE, 200}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        unsigned requests = 0;
        world_renewing(&w);
        struct mono now = w.out.wake_at;
        struct mono end = mono_add(now, 1000 * NS_PER_SEC);
        world_tick(&w, now);
        while (mono_before(now, end)) {
            if (w.out.action == RENEWER_GET && rows[i].status != 404) {
                requests++;
                world_ok(&w, now);
            } else if (w.out.action != RENEWER_NONE) {
                requests++;
                world_fail(&w, now, rows[i].code, rows[i].status, -1);
            } else {
                now = w.out.wake_at;
                world_tick(&w, now);
            }
        }
        assert_in_range(requests, 100, 1000); /* below one per second, two per round at worst */
    }
}

/* ---- the lease ------------------------------------------------------------------------------ */

TEST(missing_lease_is_waited_for_and_said_at_once_and_each_minute)
{
    struct world w;
    struct renewer_config config = world_config();
    int notes = 0;
    struct mono now = SEC(0);
    config.duration_ns = 3600 * NS_PER_SEC; /* not for us to make yet */
    world_init(&w, &config);
    world_tick(&w, now);
    world_healthy(&w, now);
    while (mono_before(now, SEC(130))) {
        if (w.r.under_way != RENEWER_NONE) {
            assert_int_equal(w.r.under_way, RENEWER_GET);
            world_fail(&w, now, ERR_NOTFOUND, 404, -1);
            assert_false(w.out.fresh); /* an answer came: the connection is well */
            notes += world_note(&w, RENEWER_NOTE_MISSING) != NULL;
            assert_true(notes > 0);
        } else {
            now = w.out.wake_at;
            world_tick(&w, now);
        }
    }
    assert_int_equal(notes, 3);
    while (w.r.under_way == RENEWER_NONE) {
        now = w.out.wake_at;
        world_tick(&w, now);
    }
    world_ok(&w, now);
    expect_action(&w, RENEWER_PUT_RENEWAL); /* at once */
}

TEST(conflict_costs_one_read_and_then_the_put)
{
    struct world w;
    world_renewing(&w);
    struct mono now = w.out.wake_at;
    world_tick(&w, now);
    world_conflict(&w, now);
    expect_action(&w, RENEWER_GET);
    world_ok(&w, now);
    expect_action(&w, RENEWER_PUT_RENEWAL);
    world_ok(&w, now);
    assert_true(w.out.renewed);
    expect_action(&w, RENEWER_NONE);
    assert_int_equal(w.out.note_count, 0);
    assert_int_equal(w.out.wake_at.ns, mono_add(now, 10 * NS_PER_SEC).ns);
    world_tick(&w, w.out.wake_at);
    world_conflict(&w, w.r.sent_at);
    world_fail(&w, w.r.sent_at, ERR_RETRY, 500, -1); /* the read: what follows is no second one */
    world_tick(&w, w.out.wake_at);
    world_ok(&w, w.r.sent_at);
    world_conflict(&w, w.r.sent_at);
    expect_action(&w, RENEWER_GET);
}

TEST(second_conflict_in_a_row_backs_off)
{
    struct world w;
    world_renewing(&w);
    struct mono now = w.out.wake_at;
    world_tick(&w, now);
    world_conflict(&w, now);
    world_ok(&w, now);
    world_conflict(&w, now);
    expect_action(&w, RENEWER_NONE);
    assert_non_null(world_note(&w, RENEWER_NOTE_FAILED));
    world_tick(&w, w.out.wake_at);
    expect_action(&w, RENEWER_GET);
}

TEST(conflicts_in_a_row_back_off_like_failures)
{
    static const int64_t bound_ms[] = {200, 400, 800};
    int64_t longest_ns[ARRAY_LEN(bound_ms)] = {0};
    for (uint64_t seed = 1; seed < 200; seed++) {
        struct world w;
        world_renewing(&w);
        w.r.random = seed * UINT64_C(0x9e3779b97f4a7c15);
        struct mono now = w.out.wake_at;
        world_tick(&w, now);
        world_conflict(&w, now); /* the first is read and tried at once */
        for (size_t i = 0; i < ARRAY_LEN(bound_ms); i++) {
            world_ok(&w, now);
            world_conflict(&w, now);
            int64_t wait_ns = mono_since(w.out.wake_at, now);
            longest_ns[i] = wait_ns > longest_ns[i] ? wait_ns : longest_ns[i];
            now = w.out.wake_at;
            world_tick(&w, now);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(bound_ms); i++) {
        assert_in_range(longest_ns[i], bound_ms[i] * NS_PER_MS * 9 / 10, bound_ms[i] * NS_PER_MS);
    }
}

TEST(waits_never_start_over_by_themselves)
{
    struct world w;
    world_renewing(&w);
    world_tick(&w, w.out.wake_at);
    w.r.failures = UINT32_MAX;
    world_fail(&w, w.r.sent_at, ERR_RETRY, 0, -1);
    assert_int_equal(w.r.failures, UINT32_MAX);
}

TEST(put_that_was_applied_although_its_answer_was_lost_is_our_own)
{
    struct world w;
    world_renewing(&w);
    for (int i = 0; i < 5; i++) {
        struct mono now = w.out.wake_at;
        world_tick(&w, now);
        expect_action(&w, RENEWER_PUT_RENEWAL);
        (void)text_copy(w.lease.renew_stamp, sizeof(w.lease.renew_stamp), w.stamp); /* applied */
        world_fail(&w, now, ERR_RETRY, 0, -1);
        now = w.out.wake_at;
        world_tick(&w, now);
        world_conflict(&w, now);
        expect_action(&w, RENEWER_GET);
        world_ok(&w, now);
        assert_null(world_note(&w, RENEWER_NOTE_SECOND_AGENT));
        expect_action(&w, RENEWER_NONE);
    }
}

TEST(put_that_creates_is_no_renewal)
{
    struct world w;
    world_renewing(&w);
    struct mono now = w.out.wake_at;
    world_tick(&w, now);
    world_step(&w, (struct renewer_event){.kind = RENEWER_ANSWER,
                                          .now = now,
                                          .http_status = 201,
                                          .retry_after_ms = -1,
                                          .lease = &w.lease,
                                          .sent_stamp = w.stamp});
    assert_false(w.out.renewed);
    expect_action(&w, RENEWER_GET);
    world_ok(&w, now);
    expect_action(&w, RENEWER_PUT_RENEWAL);
    world_step(&w, (struct renewer_event){.kind = RENEWER_ANSWER, /* and once more */
                                          .now = now,
                                          .http_status = 201,
                                          .retry_after_ms = -1,
                                          .lease = &w.lease,
                                          .sent_stamp = w.stamp});
    assert_false(w.out.renewed);
    expect_action(&w, RENEWER_NONE); /* it backs off */
    assert_non_null(strstr(world_note(&w, RENEWER_NOTE_FAILED), "created it anew"));
}

TEST(answer_that_shows_another_lease_is_no_success)
{
    struct world w;
    world_renewing(&w);
    struct mono now = w.out.wake_at;
    world_tick(&w, now);
    (void)text_copy(w.lease.name, sizeof(w.lease.name), "ovn-dpu-w2");
    world_ok(&w, now);
    assert_false(w.out.renewed);
    assert_non_null(strstr(world_note(&w, RENEWER_NOTE_FAILED), "another lease"));
    world_tick(&w, w.out.wake_at);
    expect_action(&w, RENEWER_GET);
}

TEST(deleted_and_recreated_lease_is_found_and_renewed)
{
    struct world w;
    world_renewing(&w);
    struct mono now = w.out.wake_at;
    world_tick(&w, now);
    world_fail(&w, now, ERR_NOTFOUND, 404, -1);
    assert_non_null(world_note(&w, RENEWER_NOTE_MISSING));
    now = w.out.wake_at;
    world_tick(&w, now);
    expect_action(&w, RENEWER_GET);
    (void)text_copy(w.lease.uid, sizeof(w.lease.uid), "uid-2");
    w.lease.renew_stamp[0] = '\0';
    world_ok(&w, now);
    assert_non_null(strstr(world_note(&w, RENEWER_NOTE_RECREATED), "uid-2"));
    expect_action(&w, RENEWER_PUT_RENEWAL);
}

TEST(foreign_holder_is_left_alone_and_reported_each_minute)
{
    struct world w;
    int notes = 0;
    world_renewing(&w);
    struct mono now = w.out.wake_at;
    struct mono start = now;
    world_tick(&w, now);
    (void)text_copy(w.lease.holder, sizeof(w.lease.holder), "somebody");
    world_conflict(&w, now);
    while (mono_before(now, mono_add(start, 125 * NS_PER_SEC))) {
        if (w.r.under_way != RENEWER_NONE) {
            assert_int_equal(w.r.under_way, RENEWER_GET);
            world_ok(&w, now);
            expect_action(&w, RENEWER_NONE);
            const char *note = world_note(&w, RENEWER_NOTE_FOREIGN);
            assert_true(!note || strstr(note, "is held by 'somebody'"));
            notes += note != NULL;
        } else {
            assert_int_equal(mono_since(w.out.wake_at, now), 10 * NS_PER_SEC);
            now = w.out.wake_at;
            world_tick(&w, now);
        }
    }
    assert_int_equal(notes, 3);
    while (w.r.under_way == RENEWER_NONE) {
        world_tick(&w, w.out.wake_at);
    }
    w.lease.holder[0] = '\0';
    world_ok(&w, mono_add(now, 10 * NS_PER_SEC));
    assert_non_null(world_note(&w, RENEWER_NOTE_OURS_AGAIN));
    expect_action(&w, RENEWER_PUT_RENEWAL);
}

TEST(second_agent_is_reported_once_and_we_go_on_renewing)
{
    struct world w;
    unsigned notes = 0;
    unsigned renewed = 0;
    world_renewing(&w);
    for (int i = 0; i < 13; i++) { /* 130 s */
        struct mono now = w.out.wake_at;
        world_tick(&w, now);
        (void)snprintf(w.lease.renew_stamp, sizeof(w.lease.renew_stamp), "theirs-%d", i);
        world_conflict(&w, now);
        world_ok(&w, now);
        const char *note = world_note(&w, RENEWER_NOTE_SECOND_AGENT);
        notes += note != NULL;
        assert_true(i > 0 || !note); /* once may be our own former process */
        assert_true(i != 1 || note);
        expect_action(&w, RENEWER_PUT_RENEWAL);
        world_ok(&w, now);
        renewed += w.out.renewed;
    }
    assert_int_equal(notes, 1);
    assert_int_equal(renewed, 13);
}

/* Sees a renewTime that is not ours, and says whether it was told of. */
static bool meet_a_stranger(struct world *w)
{
    struct mono now = w->out.wake_at;
    world_tick(w, now);
    (void)snprintf(w->lease.renew_stamp, sizeof(w->lease.renew_stamp), "theirs-%u", w->puts);
    world_conflict(w, now);
    world_ok(w, now);
    bool is_told = world_note(w, RENEWER_NOTE_SECOND_AGENT) != NULL;
    world_ok(w, now);
    return is_told;
}

TEST(one_sighting_is_forgotten_after_ten_rounds_of_our_own)
{
    for (int rounds = 8; rounds < 11; rounds++) {
        struct world w;
        world_renewing(&w);
        for (int i = 0; i < 20; i++) {
            world_tick(&w, w.out.wake_at);
            world_ok(&w, w.r.sent_at);
        }
        assert_false(meet_a_stranger(&w));
        for (int i = 0; i < rounds; i++) {
            world_tick(&w, w.out.wake_at);
            world_ok(&w, w.r.sent_at);
        }
        assert_int_equal(meet_a_stranger(&w), rounds < 10);
    }
}

TEST(annotation_by_a_controller_is_no_second_agent)
{
    struct world w;
    world_renewing(&w);
    for (int i = 0; i < 5; i++) {
        struct mono now = w.out.wake_at;
        world_tick(&w, now);
        world_conflict(&w, now); /* renewTime is the one we wrote */
        world_ok(&w, now);
        assert_int_equal(w.out.note_count, 0);
        world_ok(&w, now);
    }
}

TEST(lease_that_ends_before_the_next_renewal_is_a_configuration_mismatch)
{
    struct world w;
    world_renewing(&w);
    for (int i = 0; i < 3; i++) {
        struct mono now = w.out.wake_at;
        w.lease.duration_s = 10;
        world_tick(&w, now);
        world_ok(&w, now);
        const char *note = world_note(&w, RENEWER_NOTE_MISMATCH);
        assert_int_equal(note != NULL, i == 0);
        assert_true(!note || strstr(note, "configuration mismatch"));
    }
    w.lease.duration_s = 11;
    world_tick(&w, w.out.wake_at);
    world_ok(&w, w.r.sent_at);
    assert_null(world_note(&w, RENEWER_NOTE_MISMATCH));
}

/* ---- health --------------------------------------------------------------------------------- */

TEST(report_is_renewed_once_per_interval_and_the_lease_is_not)
{
    struct world w;
    world_renewing(&w);
    unsigned renewals = w.puts;
    world_verdict(&w, SEC(5), PROBE_UNHEALTHY, "probe 'ovs': down");
    assert_non_null(world_note(&w, RENEWER_NOTE_UNHEALTHY));
    for (int i = 0; i < 100; i++) {
        expect_action(&w, RENEWER_PUT_HEALTH);
        assert_int_equal(w.out.health, LEASE_HEALTH_UNHEALTHY);
        assert_string_equal(w.out.message, "probe 'ovs': down");
        world_ok(&w, SEC(5.1 + 10 * i));
        assert_int_equal(w.out.note_count, 0);
        assert_int_equal(w.out.wake_at.ns, SEC(15 + 10 * i).ns);
        world_verdict(&w, SEC(6 + 10 * i), PROBE_UNHEALTHY, "probe 'ovs': down");
        expect_action(&w, RENEWER_NONE);
        assert_null(world_note(&w, RENEWER_NOTE_UNHEALTHY));
        world_tick(&w, w.out.wake_at);
    }
    assert_int_equal(w.puts, renewals);
}

/* As upstream's own DPU side does, which knows nothing of our report. */
TEST(report_is_written_again_beside_another_that_renews_the_lease)
{
    struct world w;
    unsigned notes = 0;
    world_renewing(&w);
    world_verdict(&w, SEC(5), PROBE_UNHEALTHY, "down");
    world_ok(&w, SEC(5.1));
    for (int i = 1; i < 60; i++) {
        (void)snprintf(w.lease.renew_stamp, sizeof(w.lease.renew_stamp), "theirs-%d", i);
        struct mono now = w.out.wake_at;
        world_tick(&w, now);
        expect_action(&w, RENEWER_PUT_HEALTH);
        world_conflict(&w, now);
        expect_action(&w, RENEWER_GET);
        world_ok(&w, now);
        for (size_t n = 0; n < w.out.note_count; n++) {
            assert_int_equal(w.out.notes[n].kind, RENEWER_NOTE_SECOND_AGENT);
            assert_int_equal(w.out.notes[n].severity, RENEWER_WARN);
            notes++;
        }
        expect_action(&w, RENEWER_PUT_HEALTH);
        world_ok(&w, now);
        assert_int_equal(w.out.note_count, 0);
    }
    assert_int_equal(notes, 1);
}

TEST(reporting_dpu_reports_on_a_lease_that_was_made_anew)
{
    struct world w;
    world_renewing(&w);
    world_verdict(&w, SEC(5), PROBE_UNHEALTHY, "down");
    world_ok(&w, SEC(5.1));
    world_tick(&w, SEC(15));
    world_conflict(&w, SEC(15.1));
    (void)text_copy(w.lease.uid, sizeof(w.lease.uid), "uid-2");
    world_ok(&w, SEC(15.2));
    assert_non_null(world_note(&w, RENEWER_NOTE_RECREATED));
    expect_action(&w, RENEWER_PUT_HEALTH);
}

TEST(a_late_report_is_no_late_renewal)
{
    struct world w;
    world_renewing(&w);
    world_verdict(&w, SEC(5), PROBE_UNHEALTHY, "down");
    world_ok(&w, SEC(5.1));
    world_tick(&w, SEC(200));
    expect_action(&w, RENEWER_PUT_HEALTH);
    assert_null(world_note(&w, RENEWER_NOTE_LATE));
}

TEST(recovery_renews_at_once_and_keeps_the_cadence)
{
    struct world w;
    world_renewing(&w);
    struct mono slot = w.out.wake_at;
    world_verdict(&w, SEC(1), PROBE_UNHEALTHY, "down");
    world_ok(&w, SEC(1.1));
    world_healthy(&w, SEC(3));
    assert_non_null(world_note(&w, RENEWER_NOTE_HEALTHY));
    expect_action(&w, RENEWER_PUT_RENEWAL);
    world_ok(&w, SEC(3.1));
    assert_int_equal(w.out.wake_at.ns, slot.ns);
}

TEST(changed_message_is_written_at_most_once_per_interval)
{
    struct world w;
    world_renewing(&w);
    world_verdict(&w, SEC(1), PROBE_UNHEALTHY, "a");
    world_ok(&w, SEC(1.1));
    world_verdict(&w, SEC(2), PROBE_UNHEALTHY, "b");
    expect_action(&w, RENEWER_NONE);
    assert_int_equal(w.out.wake_at.ns, SEC(11).ns);
    world_verdict(&w, SEC(3), PROBE_UNHEALTHY, "c");
    world_tick(&w, SEC(11));
    expect_action(&w, RENEWER_PUT_HEALTH);
    assert_string_equal(w.out.message, "c");
    world_ok(&w, SEC(11.1));
    assert_int_equal(w.out.wake_at.ns, SEC(21).ns);
}

TEST(report_that_fails_or_meets_a_conflict_is_written_again)
{
    struct world w;
    world_renewing(&w);
    world_verdict(&w, SEC(1), PROBE_UNHEALTHY, "a");
    world_ok(&w, SEC(1.1));
    world_verdict(&w, SEC(2), PROBE_UNHEALTHY, "b");
    world_tick(&w, SEC(11));
    world_conflict(&w, SEC(11.1));
    expect_action(&w, RENEWER_GET);
    world_ok(&w, SEC(11.2));
    expect_action(&w, RENEWER_PUT_HEALTH);
    world_fail(&w, SEC(11.3), ERR_RETRY, 0, -1);
    world_tick(&w, w.out.wake_at);
    expect_action(&w, RENEWER_PUT_HEALTH);
    assert_string_equal(w.out.message, "b");
    world_ok(&w, SEC(12));
    assert_true(mono_before(SEC(21), w.out.wake_at));
}

TEST(verdict_that_flips_during_a_put_is_acted_on_right_after_it)
{
    struct world w;
    world_renewing(&w);
    struct mono now = w.out.wake_at;
    world_tick(&w, now);
    world_verdict(&w, now, PROBE_UNHEALTHY, "down");
    expect_action(&w, RENEWER_NONE);
    world_ok(&w, now);
    expect_action(&w, RENEWER_PUT_HEALTH);
    world_healthy(&w, now);
    world_ok(&w, now);
    expect_action(&w, RENEWER_NONE); /* the second flip in a row waits a second */
    assert_int_equal(w.out.wake_at.ns, mono_add(now, NS_PER_SEC).ns);
    world_tick(&w, w.out.wake_at);
    expect_action(&w, RENEWER_PUT_RENEWAL);
}

TEST(probe_that_flips_all_the_time_is_written_once_a_second)
{
    struct world w;
    unsigned writes = 0;
    unsigned notes = 0;
    world_renewing(&w);
    for (int i = 0; i < 1430; i++) { /* 100 s */
        struct mono now = mono_add(SEC(20), i * 70 * NS_PER_MS);
        world_verdict(&w, now, i % 2 == 0 ? PROBE_UNHEALTHY : PROBE_HEALTHY, "down");
        for (;;) {
            notes += world_note(&w, RENEWER_NOTE_UNHEALTHY) != NULL;
            notes += world_note(&w, RENEWER_NOTE_HEALTHY) != NULL;
            if (w.r.under_way == RENEWER_NONE) {
                break;
            }
            writes++;
            world_ok(&w, now);
        }
    }
    assert_in_range(writes, 90, 120);
    assert_in_range(notes, 90, 100);
}

TEST(flip_and_back_between_two_writes_changes_nothing)
{
    struct world w;
    world_renewing(&w);
    world_verdict(&w, SEC(2), PROBE_UNHEALTHY, "down");
    world_ok(&w, SEC(2.1));
    world_healthy(&w, SEC(2.2));
    assert_int_equal(w.out.wake_at.ns, SEC(3).ns);
    world_verdict(&w, SEC(2.3), PROBE_UNHEALTHY, "down");
    world_tick(&w, w.out.wake_at);
    expect_action(&w, RENEWER_PUT_HEALTH);
    assert_null(world_note(&w, RENEWER_NOTE_HEALTHY));
}

TEST(restart_on_a_dead_dataplane_reports_and_never_renews)
{
    struct world w;
    struct renewer_config config = world_config();
    world_init(&w, &config);
    world_tick(&w, SEC(0));
    world_ok(&w, SEC(0.1));
    world_verdict(&w, SEC(2), PROBE_UNHEALTHY, "down");
    expect_action(&w, RENEWER_PUT_HEALTH);
    world_ok(&w, SEC(2.1));
    assert_int_equal(w.puts, 0);
}

/* ---- stopping ------------------------------------------------------------------------------- */

TEST(stop_leaves_the_lease_alone)
{
    struct world w;
    world_renewing(&w);
    world_tick(&w, w.out.wake_at);
    world_stop(&w, SEC(11));
    assert_true(w.out.stopped && w.out.cancel);
    expect_action(&w, RENEWER_NONE);
    world_tick(&w, SEC(100));
    expect_action(&w, RENEWER_NONE);
    assert_false(w.out.stopped || w.out.cancel); /* that was said */
}

TEST(announced_stop_writes_shutdown_first)
{
    struct world w;
    announcing(&w);
    world_stop(&w, SEC(5));
    assert_false(w.out.stopped);
    expect_action(&w, RENEWER_PUT_HEALTH);
    assert_int_equal(w.out.health, LEASE_HEALTH_SHUTDOWN);
    assert_true(w.out.deadline_ms <= 1000);
    world_ok(&w, SEC(5.1));
    assert_true(w.out.stopped);
    assert_non_null(world_note(&w, RENEWER_NOTE_SHUTDOWN));
}

TEST(announcement_survives_a_conflict_with_our_own_last_put)
{
    struct world w;
    announcing(&w);
    struct mono now = w.out.wake_at;
    world_tick(&w, now);
    world_stop(&w, now);
    assert_true(w.out.cancel);
    expect_action(&w, RENEWER_PUT_HEALTH);
    world_conflict(&w, now);
    expect_action(&w, RENEWER_GET);
    world_ok(&w, now);
    expect_action(&w, RENEWER_PUT_HEALTH);
    world_ok(&w, now);
    assert_true(w.out.stopped);
}

/* Its answer comes while the second try is under way. */
TEST(announcement_that_lands_late_is_one)
{
    struct world w;
    announcing(&w);
    world_stop(&w, SEC(5));
    world_fail(&w, SEC(6), ERR_RETRY, 0, -1);
    w.lease.health = LEASE_HEALTH_SHUTDOWN;
    world_step(&w,
               (struct renewer_event){
                   .kind = RENEWER_LATE, .now = SEC(6.5), .http_status = 200, .lease = &w.lease});
    assert_true(w.out.stopped);
    assert_non_null(world_note(&w, RENEWER_NOTE_SHUTDOWN));
    assert_null(world_note(&w, RENEWER_NOTE_UNANNOUNCED));
}

TEST(announcement_gives_up_after_two_seconds)
{
    struct world w;
    struct mono now = SEC(5);
    announcing(&w);
    world_stop(&w, now);
    while (!w.out.stopped) {
        if (w.out.action != RENEWER_NONE && mono_before(now, SEC(6.9))) {
            now = mono_add(now, w.out.deadline_ms * NS_PER_MS);
            world_fail(&w, now, ERR_RETRY, 0, -1);
        } else {
            now = w.out.wake_at;
            world_tick(&w, now);
        }
    }
    assert_int_equal(now.ns, SEC(7).ns);
    assert_non_null(world_note(&w, RENEWER_NOTE_UNANNOUNCED));
}

TEST(nothing_is_announced_on_a_foreign_or_missing_lease)
{
    struct world w;
    announcing(&w);
    (void)text_copy(w.lease.holder, sizeof(w.lease.holder), "somebody");
    world_tick(&w, w.out.wake_at);
    world_conflict(&w, w.r.sent_at);
    world_ok(&w, w.r.sent_at);
    world_stop(&w, SEC(12));
    assert_true(w.out.stopped);

    announcing(&w);
    world_stop(&w, SEC(5));
    world_fail(&w, SEC(5.1), ERR_NOTFOUND, 404, -1);
    assert_true(w.out.stopped);
    assert_non_null(world_note(&w, RENEWER_NOTE_UNANNOUNCED));
}

/* ---- beside another that renews ---------------------------------------------------------------
 */

TEST(a_companion_reads_once_an_interval_and_never_renews)
{
    struct world w;
    accompanying(&w);
    for (int i = 0; i < 1000; i++) {
        struct mono now = w.out.wake_at;
        assert_in_range(now.ns, SEC(19 + 10 * i).ns, SEC(21 + 10 * i).ns);
        upstream_renews(&w);
        world_tick(&w, now);
        expect_action(&w, RENEWER_GET);
        world_ok(&w, mono_add(now, 5 * NS_PER_MS));
        expect_action(&w, RENEWER_NONE);
        assert_true(w.out.renewed);
        assert_int_equal(w.out.note_count, 0); /* two writers are meant to be */
    }
}

TEST(a_companion_reads_right_before_it_writes)
{
    struct world w;
    accompanying(&w);
    world_verdict(&w, SEC(12), PROBE_UNHEALTHY, "ovs is dead");
    for (int i = 0; i < 5; i++) {
        double at = 12 + 11 * i;
        upstream_renews(&w);
        expect_action(&w, RENEWER_GET);
        world_ok(&w, SEC(at + 0.1));
        expect_action(&w, RENEWER_PUT_HEALTH);
        assert_int_equal(w.out.health, LEASE_HEALTH_UNHEALTHY);
        assert_string_equal(w.out.message, "ovs is dead");
        if (i == 2) { /* upstream was between the two */
            world_conflict(&w, SEC(at + 0.15));
            expect_action(&w, RENEWER_GET);
            world_ok(&w, SEC(at + 0.17));
            expect_action(&w, RENEWER_PUT_HEALTH);
            assert_int_equal(w.out.note_count, 0);
        }
        w.lease.health = LEASE_HEALTH_UNHEALTHY;
        world_ok(&w, SEC(at + 0.2));
        expect_action(&w, RENEWER_NONE);
        world_tick(&w, SEC(at + 11));
    }
}

TEST(a_companion_takes_back_what_is_not_true_any_more)
{
    struct world w;
    accompanying(&w);
    w.lease.health = LEASE_HEALTH_UNHEALTHY; /* of a former life */
    world_tick(&w, SEC(20.2));
    world_ok(&w, SEC(20.3));
    expect_action(&w, RENEWER_PUT_HEALTH);
    assert_int_equal(w.out.health, LEASE_HEALTH_NONE);
    world_ok(&w, SEC(20.4)); /* a webhook puts it back: not before the next look */
    expect_action(&w, RENEWER_NONE);
    assert_false(mono_before(w.out.wake_at, SEC(29)));
    world_tick(&w, SEC(30.2));
    world_ok(&w, SEC(30.3));
    expect_action(&w, RENEWER_PUT_HEALTH);
    world_fail(&w, SEC(30.4), ERR_RETRY, 500, -1);
    world_tick(&w, SEC(31));
    expect_action(&w, RENEWER_GET);
    world_ok(&w, SEC(31.1));
    expect_action(&w, RENEWER_PUT_HEALTH);
    w.lease.health = LEASE_HEALTH_NONE;
    world_ok(&w, SEC(31.2));
    assert_non_null(world_note(&w, RENEWER_NOTE_RECOVERED));
    expect_action(&w, RENEWER_NONE);
}

TEST(a_companion_that_is_well_again_says_so_at_once)
{
    struct world w;
    accompanying(&w);
    world_verdict(&w, SEC(12), PROBE_UNHEALTHY, "ovs is dead");
    world_ok(&w, SEC(12.1));
    w.lease.health = LEASE_HEALTH_UNHEALTHY;
    world_ok(&w, SEC(12.2));
    world_healthy(&w, SEC(14)); /* its next look would be at 20 */
    expect_action(&w, RENEWER_GET);
    world_ok(&w, SEC(14.1));
    expect_action(&w, RENEWER_PUT_HEALTH);
    assert_int_equal(w.out.health, LEASE_HEALTH_NONE);
}

TEST(a_companion_says_which_boot_it_is)
{
    struct world w;
    struct renewer_config config = world_config();
    config.is_companion = true;
    (void)text_copy(config.boot_id, sizeof(config.boot_id), "boot-2");
    world_init(&w, &config);
    (void)text_copy(w.lease.boot_id, sizeof(w.lease.boot_id), "boot-1");
    world_healthy(&w, SEC(0));
    world_ok(&w, SEC(0.1));
    expect_action(&w, RENEWER_PUT_HEALTH);
    assert_int_equal(w.out.health, LEASE_HEALTH_NONE);
    (void)text_copy(w.lease.boot_id, sizeof(w.lease.boot_id), "boot-2");
    world_ok(&w, SEC(0.2));
    expect_action(&w, RENEWER_NONE);
    world_tick(&w, SEC(10.3));
    world_ok(&w, SEC(10.4));
    expect_action(&w, RENEWER_NONE);
}

TEST(a_companion_of_another_version_says_so)
{
    struct world w;
    struct renewer_config config = world_config();
    config.is_companion = true;
    (void)text_copy(config.version, sizeof(config.version), "2");
    world_init(&w, &config);
    (void)text_copy(w.lease.agent_version, sizeof(w.lease.agent_version), "1");
    world_healthy(&w, SEC(0));
    world_ok(&w, SEC(0.1));
    expect_action(&w, RENEWER_PUT_HEALTH);
    (void)text_copy(w.lease.agent_version, sizeof(w.lease.agent_version), "2");
    world_ok(&w, SEC(0.2));
    expect_action(&w, RENEWER_NONE);
    world_tick(&w, SEC(10.3));
    world_ok(&w, SEC(10.4));
    expect_action(&w, RENEWER_NONE);
}

TEST(a_companion_that_asks_nobody_says_so_and_takes_it_back)
{
    for (int has_none = 0; has_none < 2; has_none++) {
        struct world w;
        struct renewer_config config = world_config();
        config.is_companion = true;
        config.has_no_probe = has_none;
        world_init(&w, &config);
        w.lease.has_no_probe = !has_none;
        world_healthy(&w, SEC(0));
        world_ok(&w, SEC(0.1));
        expect_action(&w, RENEWER_PUT_HEALTH);
        w.lease.has_no_probe = has_none;
        world_ok(&w, SEC(0.2));
        expect_action(&w, RENEWER_NONE);
    }
}

TEST(a_companion_says_that_nobody_renews)
{
    struct world w;
    accompanying(&w);
    for (int i = 2; i < 5; i++) {
        world_tick(&w, SEC(i * 10 + 0.2));
        world_ok(&w, SEC(i * 10 + 0.25));
        assert_int_equal(w.out.note_count, 0);
    }
    world_tick(&w, SEC(50.4));
    world_ok(&w, SEC(50.5));
    assert_non_null(strstr(world_note(&w, RENEWER_NOTE_NOT_RENEWED), "nobody renews lease"));
    world_tick(&w, SEC(60.4)); /* nor does it make a lease that is gone */
    world_fail(&w, SEC(60.5), ERR_NOTFOUND, 404, -1);
    for (int i = 0; i < 100; i++) {
        struct mono now = w.out.wake_at;
        world_tick(&w, now);
        expect_action(&w, RENEWER_GET);
        world_fail(&w, mono_add(now, NS_PER_MS), ERR_NOTFOUND, 404, -1);
    }
}

TEST(a_companion_announces_a_shutdown)
{
    struct world w;
    accompanying(&w);
    world_stop(&w, SEC(15));
    expect_action(&w, RENEWER_GET);
    world_ok(&w, SEC(15.1));
    expect_action(&w, RENEWER_PUT_HEALTH);
    assert_int_equal(w.out.health, LEASE_HEALTH_SHUTDOWN);
    world_ok(&w, SEC(15.2));
    assert_true(w.out.stopped);
}
