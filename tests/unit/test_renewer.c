/* SPDX-License-Identifier: Apache-2.0 */
/* What the renewer writes to the lease, and when. The legend of the scripts is in renewer_world.h.
 */
#include "dpu-agent/renewer.h"

#include "contract/lease.h"
#include "tests/support/case.h"
#include "tests/unit/renewer_world.h"

/* ---- start and cadence ---------------------------------------------------------------------- */

SCRIPT(nothing_is_written_before_the_first_verdict, starting,
       "tick>get @0.1 ok>none asleep @2 healthy>put @2.1 ok renewed "
       "!every_10s;_a_renewal_is_valid_for_40s")

TEST(steady_state_is_one_put_per_interval_and_no_read)
{
    struct world w = renewing();
    struct mono due = w.out.wake_at;
    assert_between(due.ns, SEC(9).ns, SEC(10).ns);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(w.out.wake_at.ns, due.ns + i * 10 * NS_PER_SEC);
        world_tick(&w, (struct mono){w.out.wake_at.ns - 1});
        expect_action(&w, RENEWER_NONE);
        play(&w, "wake>put -fresh +0.005 ok>none silent");
    }
}

TEST(phase_of_the_cadence_differs_between_agents)
{
    int64_t lowest = INT64_MAX;
    int64_t highest = 0;
    for (uint64_t seed = 1; seed < 400; seed += 2) {
        struct world w = starting();
        w.r.random = seed * UINT64_C(0x9e3779b97f4a7c15);
        play(&w, "healthy +0.01 ok +0.01 ok");
        int64_t gap = mono_since(w.out.wake_at, SEC(0));
        lowest = gap < lowest ? gap : lowest;
        highest = gap > highest ? gap : highest;
    }
    assert_between(lowest, 9 * NS_PER_SEC, 9 * NS_PER_SEC + NS_PER_SEC / 20);
    assert_between(highest, 10 * NS_PER_SEC - NS_PER_SEC / 20, 10 * NS_PER_SEC);
}

TEST(missed_ticks_are_not_replayed_after_a_stall)
{
    struct world w = renewing();
    struct mono due = w.out.wake_at;
    world_tick(&w, mono_add(due, 35 * NS_PER_SEC));
    expect_action(&w, RENEWER_PUT_RENEWAL);
    expect_note(&w, RENEWER_NOTE_LATE, "35s late");
    play(&w, "+0.001 ok>none");
    assert_int_equal(w.out.wake_at.ns, mono_add(due, 40 * NS_PER_SEC).ns); /* same cadence */
}

static struct world with_a_short_interval(void)
{
    struct world w = starting();
    w.r.config.interval_ns = NS_PER_SEC;
    return w;
}

SCRIPT(slow_answer_is_not_taken_for_a_stall_of_ours, with_a_short_interval,
       "healthy @0.01 ok @4 ok>put -!late") /* the slots in between are gone */

TEST(cadence_at_the_end_of_time_does_not_wrap)
{
    struct world w = starting();
    w.now.ns = INT64_MAX - 5;
    play(&w, "healthy>get ok>put ok asleep");
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
        struct world w = starting();
        w.r.config.interval_ns = (int64_t)(rows[i].interval_s * 1e9);
        w.r.config.duration_ns = (int64_t)(rows[i].configured_s * 1e9);
        w.r.lease_duration_s = rows[i].lease_s;
        int64_t slow = lease_pace_slow_deadline_ns(w.r.config.interval_ns);
        int64_t first = renewer_deadline_ns(&w.r);
        w.r.failures = 1;
        int64_t next = renewer_deadline_ns(&w.r);
        int64_t waits = renewer_backoff_ns(&w.r, 1) + renewer_backoff_ns(&w.r, 2);
        int64_t all = first + 2 * next + waits;
        assert_int_equal(renewer_budget_ns(&w.r), (int64_t)(rows[i].budget_s * 1e9));
        assert_true(all <= renewer_budget_ns(&w.r) && first <= next);
        assert_true(first == lease_pace_deadline_ns(w.r.config.interval_ns) ||
                    3 * first + waits > renewer_budget_ns(&w.r) - 3);
        assert_true(next == slow || all > renewer_budget_ns(&w.r) - 3); /* none is wasted */
        assert_between(first, 40 * NS_PER_MS, 5 * NS_PER_SEC);
        w.r.failures = 3;
        assert_int_equal(renewer_deadline_ns(&w.r), slow);
    }
}

/* A renewal after failures: told once, and back in step. */
static void expect_recovery(struct world *w)
{
    play(w, "ok renewed !again_after");
    assert_true(mono_since(w->out.wake_at, w->now) <= 10 * NS_PER_SEC);
    play(w, "wake ok -!again_after");
}

/* The wait grows, cut by chance. A server that takes nothing is soon left alone for as long as may
 * be: half of what the lease lasts, and then an interval. */
TEST(failed_renewal_is_retried_after_a_wait_on_a_fresh_connection)
{
    static const int64_t bound_ms[] = {200, 400, 800, 1600, 3200, 5000, 5000, 5000};
    for (int row = 0; row < 4; row++) {
        int status = row == 2 ? 429 : 0;
        struct world w = renewing();
        w.is_unreachable = row % 2 == 1;
        w.r.config.interval_ns = (row == 3 ? 1 : 10) * NS_PER_SEC;
        play(&w, "wake>put");
        for (size_t i = 0; i < ARRAY_LEN(bound_ms); i++) {
            bool is_long = row == 2 || (row > 0 && i > 0);
            struct mono then = mono_add(w.now, w.out.deadline_ms * NS_PER_MS);
            int64_t left_ns = is_long ? 40 * NS_PER_SEC - mono_since(then, w.r.renewed_at) : 0;
            int64_t most_ns = mono_ns_max(left_ns / 2, bound_ms[is_long ? 7 : i] * NS_PER_MS);
            most_ns = is_long && left_ns <= 0 ? NS_PER_SEC * 10 : most_ns;
            most_ns = mono_ns_min(most_ns, w.r.config.interval_ns);
            world_fail(&w, then, ERR_RETRY, status, is_long && row == 2 ? 60000 : -1);
            assert_between(mono_since(w.out.wake_at, w.now), is_long ? most_ns : 0, most_ns);
            if (w.out.action == RENEWER_NONE) {
                play(&w, "wake");
            }
            expect_action(&w, RENEWER_PUT_RENEWAL);
            assert_true(w.out.fresh == (status == 0));
        }
        expect_recovery(&w);
    }
}

TEST(failures_are_logged_at_once_then_each_minute_then_the_recovery)
{
    struct world w = renewing();
    int notes = 0;
    struct mono first = w.out.wake_at;
    while (mono_before(w.now, mono_add(first, 150 * NS_PER_SEC))) {
        await_request(&w);
        play(&w, "503");
        const char *note = world_note(&w, RENEWER_NOTE_FAILED);
        bool counts = note && strstr(note, " not shown)");
        assert_int_equal(counts, note && notes > 0); /* nothing was held back before the first */
        notes += note != NULL;
    }
    assert_int_equal(notes, 3);
    await_request(&w);
    world_ok(&w, mono_add(first, 155 * NS_PER_SEC));
    expect_note(&w, RENEWER_NOTE_RECOVERED, "155s");
    play(&w, "wake 503");
    expect_note(&w, RENEWER_NOTE_FAILED, "the server said no"); /* a new failure is news again */
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
        {ERR_AUTH, 401, -1, 0, 0.2, RENEWER_PUT_RENEWAL, "renew the token"},
        {ERR_AUTH, 403, -1, 0, 0.2, RENEWER_PUT_RENEWAL, "verb 'update' on leases"},
        {ERR_RETRY, 429, -1, 0, 0.2, RENEWER_PUT_RENEWAL, "the server said no"},
        {ERR_RETRY, 429, 1000, 10, 10, RENEWER_PUT_RENEWAL, "the server said no"},
        {ERR_RETRY, 429, 60000, 10, 10, RENEWER_PUT_RENEWAL, "the server said no"},
        {ERR_RETRY, 503, 3000, 3, 3.2, RENEWER_PUT_RENEWAL, "the server said no"},
        {ERR_RETRY, 500, -1, 0, 0.2, RENEWER_PUT_RENEWAL, "the server said no"},
        {ERR_PARSE, 422, -1, 10, 10, RENEWER_GET, "rejects the lease as invalid"},
        {ERR_PARSE, 400, -1, 10, 10, RENEWER_GET, "rejects the lease as invalid"},
        {ERR_GONE, 410, -1, 0, 0.2, RENEWER_GET, "the server said no"},
        {ERR_PARSE, 200, -1, 0, 0.2, RENEWER_GET, "the server said no"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w = renewing();
        play(&w, "wake");
        world_fail(&w, w.now, rows[i].code, rows[i].status, rows[i].retry_after_ms);
        expect_note(&w, RENEWER_NOTE_FAILED, rows[i].words);
        expect_note(&w, RENEWER_NOTE_FAILED, "updating lease 'ovn-kubernetes/ovn-dpu-w1'");
        const char *last = strstr(world_note(&w, RENEWER_NOTE_FAILED), "last renewed ");
        assert_null(strchr(last, 'm')); /* seconds ago */
        double wait_s = (double)mono_since(w.out.wake_at, w.now) / 1e9;
        if (wait_s < rows[i].least_s || wait_s > rows[i].most_s) {
            fail_msg("row %zu waits %f s", i, wait_s);
        }
        play(&w, "wake");
        expect_action(&w, rows[i].next);
    }
}

/* Who does not say until when may not be the only one. */
TEST(a_server_that_has_too_much_to_do_is_soon_asked_thrice_if_it_does_not_say_until_when)
{
    struct world w = renewing();
    play(&w, "wake");
    for (int failures = 1; failures <= RENEWER_TRIES + 1; failures++) {
        world_fail(&w, w.now, ERR_RETRY, 429, -1);
        int64_t wait_ns = mono_since(w.out.wake_at, w.now);
        if (failures <= RENEWER_TRIES) {
            assert_between(wait_ns, 0, renewer_backoff_ns(&w.r, (uint32_t)failures));
        } else {
            assert_between(wait_ns, 9 * NS_PER_SEC, 10 * NS_PER_SEC);
        }
        play(&w, "wake");
    }
}

SCRIPT(a_failed_read_names_its_verb, starting,
       "tick +0.1 403 !verb_'get'_on_leases !last_renewed_never")
SCRIPT(a_failure_names_the_last_renewal, renewing, "@25 tick @30 503 !29.9")

/* Also where the lease outlasts the interval by little, so that the tries that have to fit are
 * close to each other. */
TEST(request_rate_stays_bounded_under_any_refusal)
{
    static const char *const answers[] = {"409", "500", "403", "404", "422", "200", "429", "gone"};
    for (size_t row = 0; row < 2 * ARRAY_LEN(answers); row++) {
        const char *answer = answers[row / 2];
        bool is_closed = text_equal(answer, "gone");
        struct world w = renewing();
        unsigned requests = 0;
        struct mono end = mono_add(w.out.wake_at, 1000 * NS_PER_SEC);
        w.is_unreachable = is_closed;
        w.lease.duration_s = row % 2 == 0 ? 40 : 11;
        w.r.lease_duration_s = w.lease.duration_s;
        w.r.config.duration_ns = w.lease.duration_s * NS_PER_SEC;
        for (; mono_before(w.now, end); requests++) {
            await_request(&w);
            bool is_read = w.r.under_way == RENEWER_GET && !text_equal(answer, "404");
            play(&w, is_closed ? "lost" : is_read ? "ok" : answer);
        }
        assert_between(requests, 100, 1000); /* below one per second, two per round at worst */
    }
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
        struct world w = renewing();
        play(&w, "wake>put -fresh");
        world_fail(&w, w.now, rows[i].code, rows[i].http_status, -1);
        play(&w, "wake>put");
        assert_int_equal(w.out.fresh, rows[i].is_fresh);
        play(&w, "ok wake>put -fresh");
    }
}

/* A read that comes before a write proves nothing about the write; one that is all there is, does.
 */
SCRIPT(a_read_ends_the_trouble_only_where_nothing_is_to_be_written, starting,
       "tick +0.1 503 wake ok !again_after " /* starting: nobody has judged yet */
       "@20 sick @20.1 200 wake>get ok>report -!again_after ok !again_after")
SCRIPT(a_companions_read_ends_its_trouble, accompanying, "wake 503 wake ok !again_after")

TEST(waits_never_start_over_by_themselves)
{
    struct world w = renewing();
    play(&w, "wake");
    w.r.failures = UINT32_MAX;
    play(&w, "lost");
    assert_int_equal(w.r.failures, UINT32_MAX);
}

/* ---- conflicts ------------------------------------------------------------------------------ */

/* A read that fails in between is no second conflict. */
SCRIPT(conflict_costs_one_read_and_then_the_put, renewing,
       "wake 409>get ok>put ok>none renewed silent waits=10 wake 409>get 500 wake ok>put 409>get")

SCRIPT(second_conflict_in_a_row_backs_off, renewing,
       "wake 409>get ok>put 409>none !the_server_said_no wake>get")

TEST(conflicts_in_a_row_back_off_like_failures)
{
    static const int64_t bound_ms[] = {200, 400, 800};
    int64_t longest_ns[ARRAY_LEN(bound_ms)] = {0};
    for (uint64_t seed = 1; seed < 200; seed++) {
        struct world w = renewing();
        w.r.random = seed * UINT64_C(0x9e3779b97f4a7c15);
        play(&w, "wake 409"); /* the first is read and tried at once */
        for (size_t i = 0; i < ARRAY_LEN(bound_ms); i++) {
            play(&w, "ok 409");
            int64_t wait_ns = mono_since(w.out.wake_at, w.now);
            longest_ns[i] = wait_ns > longest_ns[i] ? wait_ns : longest_ns[i];
            play(&w, "wake");
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(bound_ms); i++) {
        assert_between(longest_ns[i], bound_ms[i] * NS_PER_MS * 9 / 10, bound_ms[i] * NS_PER_MS);
    }
}

TEST(annotation_by_a_controller_is_no_second_agent)
{
    struct world w = renewing();
    for (int i = 0; i < 5; i++) {
        play(&w, "wake 409 ok silent ok"); /* renewTime is the one we wrote */
    }
}

TEST(second_agent_is_reported_once_and_we_go_on_renewing)
{
    struct world w = renewing();
    unsigned notes = 0;
    for (int i = 0; i < 13; i++) { /* 130 s */
        play(&w, "wake");
        world_show_theirs(&w, (unsigned)i);
        play(&w, "409 ok>put");
        const char *note = world_note(&w, RENEWER_NOTE_SECOND_AGENT);
        notes += note != NULL;
        assert_int_equal(note != NULL, i == 1); /* once may be our own former process */
        play(&w, "ok");
        assert_true(w.out.renewed);
    }
    assert_int_equal(notes, 1);
}

/* Sees a renewTime that is not ours, and says whether it was told of. */
static bool meet_a_stranger(struct world *w)
{
    play(w, "wake");
    world_show_theirs(w, w->puts);
    play(w, "409 ok");
    bool is_told = world_note(w, RENEWER_NOTE_SECOND_AGENT) != NULL;
    play(w, "ok");
    return is_told;
}

TEST(one_sighting_is_forgotten_after_ten_rounds_of_our_own)
{
    for (int rounds = 8; rounds < 11; rounds++) {
        struct world w = renewing();
        for (int i = 0; i < 20; i++) {
            play(&w, "wake ok");
        }
        assert_false(meet_a_stranger(&w));
        for (int i = 0; i < rounds; i++) {
            play(&w, "wake ok");
        }
        assert_int_equal(meet_a_stranger(&w), rounds < 10);
    }
}

TEST(the_last_stamps_whose_answers_were_lost_are_our_own)
{
    for (int applied = 0; applied < RENEWER_SENT_STAMPS; applied++) {
        struct world w = renewing();
        struct wall stamp = {0};
        for (int i = 0; i < RENEWER_SENT_STAMPS; i++) {
            play(&w, "wake>put");
            stamp = i == applied ? w.stamp : stamp;
            play(&w, "lost");
        }
        play(&w, "wake");
        world_show(&w, stamp);
        world_step(&w, (struct renewer_event){.kind = RENEWER_ANSWER,
                                              .now = w.now,
                                              .code = ERR_CONFLICT,
                                              .http_status = 409,
                                              .retry_after_ms = -1,
                                              .message = "written in between"});
        play(&w, "ok");
        assert_int_equal(w.r.foreign_renewals, 0);
    }
}

/* ---- answers that were lost ------------------------------------------------------------------ */

/* A renewal at the slot, which the server commits; but its answer is lost, and the next PUT meets a
 * conflict. Leaves the read that follows under way. */
static void lose_an_answer(struct world *w, int http_status, int64_t lost_ns)
{
    world_tick(w, w->r.slot);
    expect_action(w, RENEWER_PUT_RENEWAL);
    world_show(w, w->stamp);
    world_fail(w, mono_add(w->now, lost_ns), ERR_RETRY, http_status, -1);
    play(w, "wake>put +0.001 409>get");
}

TEST(a_renewal_whose_answer_was_lost_is_not_made_again)
{
    static const int statuses[] = {0, 504};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        struct world w = renewing();
        struct mono sent = w.r.slot;
        lose_an_answer(&w, statuses[i], NS_PER_SEC);
        play(&w, "ok>none renewed -!somebody_else !again_after");
        assert_int_equal(w.r.renewed_at.ns, sent.ns);
        assert_int_equal(w.out.wake_at.ns, mono_add(sent, 10 * NS_PER_SEC).ns);
        play(&w, "wake>put");
    }
}

TEST(a_lost_renewal_of_before_is_none_of_this_interval)
{
    struct world w = renewing();
    lose_an_answer(&w, 504, NS_PER_SEC);
    world_ok(&w, mono_add(w.r.slot, NS_PER_SEC)); /* a slow read: the next is due */
    expect_action(&w, RENEWER_PUT_RENEWAL);
    w = renewing();
    lose_an_answer(&w, 504, 11 * NS_PER_SEC); /* the next was due before it was tried again */
    play(&w, "ok>put");
}

/* A server that lags behind a lease that was deleted shows now this, now that renewal of before. */
TEST(an_older_renewal_that_is_shown_again_is_no_recovery)
{
    struct world w = renewing();
    struct wall shown[2];
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        play(&w, "wake>put");
        shown[i] = w.stamp;
        play(&w, "+0.001 ok");
    }
    play(&w, "wake>put +0.001 404");
    for (uint32_t failures = 1; failures < 5; failures++) {
        play(&w, "wake>get");
        world_show(&w, shown[failures % 2]);
        play(&w, "+0.001 ok>put -renewed -!succeed_again +0.001 404");
        assert_int_equal(w.r.failures, failures + 1);
    }
}

TEST(what_the_lease_shows_beside_a_lost_renewal_is_mended)
{
    struct world w = renewing();
    lose_an_answer(&w, 504, NS_PER_SEC);
    play(&w, "health=unhealthy ok>put");
    w = renewing(); /* somebody else's write, beside a renewal that was refused */
    play(&w, "wake +0.001 409 +0.001 ok>put");
}

/* ---- the lease ------------------------------------------------------------------------------ */

TEST(missing_lease_is_waited_for_and_said_at_once_and_each_minute)
{
    struct world w = starting();
    int notes = 0;
    w.r.config.duration_ns = 3600 * NS_PER_SEC; /* not for us to make yet */
    play(&w, "tick>get healthy");
    while (mono_before(w.now, SEC(130))) {
        await_request(&w);
        assert_int_equal(w.r.under_way, RENEWER_GET);
        play(&w, "404");
        assert_false(w.out.fresh); /* an answer came: the connection is well */
        notes += world_note(&w, RENEWER_NOTE_MISSING) != NULL;
        assert_true(notes > 0);
    }
    assert_int_equal(notes, 3);
    await_request(&w);
    play(&w, "ok>put"); /* at once */
}

SCRIPT(put_that_creates_is_no_renewal, renewing,
       "wake created>get -renewed ok>put created>none -renewed !recreated_it")

SCRIPT(answer_that_shows_another_lease_is_no_success, renewing,
       "name=ovn-dpu-w2 wake ok -renewed !another_lease wake>get")

SCRIPT(deleted_and_recreated_lease_is_found_and_renewed, renewing,
       "wake 404 !does_not_exist uid=uid-2 stamp= wake>get ok>put !uid_'uid-2'")

TEST(foreign_holder_is_left_alone_and_reported_each_minute)
{
    struct world w = renewing();
    int notes = 0;
    struct mono start = w.out.wake_at;
    play(&w, "holder=somebody wake 409>get");
    while (mono_before(w.now, mono_add(start, 125 * NS_PER_SEC))) {
        play(&w, "ok>none");
        const char *note = world_note(&w, RENEWER_NOTE_FOREIGN);
        assert_true(!note || strstr(note, "is held by 'somebody'"));
        notes += note != NULL;
        assert_int_equal(mono_since(w.out.wake_at, w.now), 10 * NS_PER_SEC);
        play(&w, "wake>get");
    }
    assert_int_equal(notes, 3);
    w.lease.holder[0] = '\0';
    play(&w, "ok>put !no_longer_held");
}

/* The lease is ours again before anybody has judged: there is nothing more to read. */
SCRIPT(a_lease_that_is_ours_again_waits_for_the_verdict, starting,
       "holder=somebody tick +0.1 ok wake holder=ovnkube-dpu-node ok asleep @30 healthy>put")

TEST(lease_that_ends_before_the_next_renewal_is_a_configuration_mismatch)
{
    static const uint32_t durations_s[] = {10, 10, 10, 11, 9, 0};
    struct world w = renewing();
    for (size_t i = 0; i < ARRAY_LEN(durations_s); i++) {
        w.lease.duration_s = durations_s[i];
        play(&w, "wake ok");
        assert_int_equal(world_note(&w, RENEWER_NOTE_MISMATCH) != NULL, i == 0 || i == 4);
        play(&w, i == 0 ? "" : "ok");
    }
}

/* A host that is rolled out with our duration is about to write it. */
TEST(a_renewal_reads_first_while_the_duration_is_not_ours)
{
    struct world w = renewing();
    w.r.config.duration_ns = 60 * NS_PER_SEC;
    play(&w, "wake>get +0.1 ok>put +0.1 500 wake>get +0.1 ok>put +0.1 ok>none renewed");
    w.lease.duration_s = 60;
    play(&w, "wake>get +0.1 ok>put +0.1 ok>none renewed wake>put +0.1 ok>none renewed");
}

/* ---- a lease that is gone, and that nobody makes anew ---------------------------------------- */

/* Answers every request with a 404 until `until`; stops early where it creates. */
static void miss_until(struct world *w, struct mono until)
{
    while (mono_before(w->now, until) && w->r.under_way != RENEWER_CREATE) {
        play(w, w->r.under_way != RENEWER_NONE ? "404" : "wake");
    }
}

/* Deleted while it renews every 10 s; the first 404 comes at 10 s. Creates it now. */
static struct world deleted(void)
{
    struct world w = renewing();
    miss_until(&w, SEC(120));
    expect_action(&w, RENEWER_CREATE);
    return w;
}

TEST(lease_that_stays_missing_for_its_duration_is_made_anew)
{
    struct world w = deleted();
    assert_between(w.now.ns, SEC(49).ns, SEC(56).ns);
    assert_true(w.out.deadline_ms > 0);
    play(&w, "uid=uid-2 +1 created>none renewed !created_lease -!created_anew");
    assert_true(mono_since(w.out.wake_at, w.now) <= 10 * NS_PER_SEC); /* the cadence goes on */
    play(&w, "wake>put");
}

/* A fleet that waits for its hosts asks no more often than one that renews. */
TEST(lease_that_is_missing_is_looked_for_with_each_renewal)
{
    struct world w = renewing();
    play(&w, "wake>put 404");
    for (int i = 0; i < 6; i++) {
        if (i < 3) {
            assert_between(mono_since(w.out.wake_at, w.now), 1, (200 << i) * NS_PER_MS);
        } else {
            assert_true(w.out.wake_at.ns == w.r.slot.ns);
        }
        play(&w, "wake>get 404");
    }
    w = renewing();
    w.r.lease_duration_s = 16; /* it would not last for the next renewal */
    play(&w, "wake>get 404 wake>get 404 wake>get 404 wake>get 404");
    assert_between(mono_since(w.out.wake_at, w.now), 2 * NS_PER_SEC, 5 * NS_PER_SEC);
}

TEST(lease_that_comes_back_before_that_is_renewed_only)
{
    struct world w = renewing();
    miss_until(&w, SEC(40));
    await_request(&w);
    play(&w, "ok>put ok");
    struct mono back = w.now;
    miss_until(&w, SEC(300)); /* gone again: the time counts anew */
    expect_action(&w, RENEWER_CREATE);
    assert_true(mono_since(w.now, back) > 40 * NS_PER_SEC);
}

TEST(lease_never_seen_is_made_too)
{
    struct world w = starting();
    play(&w, "tick healthy");
    miss_until(&w, SEC(120));
    play(&w, "created !renewing_lease");
}

TEST(unhealthy_or_unjudged_dpu_makes_no_lease)
{
    struct world w = starting();
    play(&w, "tick");
    miss_until(&w, SEC(200));
    assert_int_not_equal(w.r.under_way, RENEWER_CREATE);
    w = renewing();
    play(&w, "@5 sick");
    miss_until(&w, SEC(200));
    assert_int_not_equal(w.r.under_way, RENEWER_CREATE);
    play(&w, "healthy"); /* missing for long enough */
    miss_until(&w, SEC(300));
    expect_action(&w, RENEWER_CREATE);
    assert_true(mono_before(w.now, SEC(212)));
}

/* It may make the lease, waits out the flip, and is unhealthy by then, or stopping. */
TEST(dpu_that_fails_before_its_turn_makes_no_lease)
{
    static const char *const ends[] = {"+0.1 sick +0.8 tick>get", "+0.1 stop>get"};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        struct world w = announcing();
        miss_until(&w, SEC(35));
        play(&w, "404 sick");
        await_request(&w);
        w.now = mono_max(w.now, w.r.create_at);
        play(&w, "healthy +0.1 404>none");
        play(&w, ends[i]);
    }
}

TEST(outage_is_no_proof_that_the_lease_is_missing)
{
    struct world w = renewing();
    miss_until(&w, SEC(20));
    while (mono_before(w.now, SEC(200))) {
        assert_int_not_equal(w.r.under_way, RENEWER_CREATE);
        play(&w, w.r.under_way != RENEWER_NONE ? "503" : "wake");
    }
}

/* What the API server does not take from us is not for the host's admin to mend. */
TEST(lease_that_could_not_be_made_is_not_blamed_on_the_host)
{
    static const struct {
        const char *answer; /* to our POST */
        bool is_ours;       /* then the next 404 speaks of that */
    } rows[] = {{"500", true}, {"503", true},  {"429", true},  {"lost", true},
                {"422", true}, {"409", false}, {"404", false}, {"403", false}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w = deleted();
        const char *said = NULL;
        play(&w, rows[i].answer);
        w.r.repeats[RENEWER_NOTE_MISSING] = (struct log_repeat){0}; /* it is due again */
        while (!said) {
            await_request(&w);
            expect_action(&w, RENEWER_GET);
            play(&w, "404");
            said = w.out.note_count > 0 ? w.out.notes[0].text : NULL;
        }
        assert_true(strstr(said, "check that dpu-host-agent runs") ? !rows[i].is_ours
                                                                   : rows[i].is_ours);
        assert_true(!rows[i].is_ours || strstr(said, "did not take the one that this agent sent"));
    }
}

/* An API server that lags beside one that has it, say. */
TEST(lease_that_is_there_already_and_not_shown_is_not_made_again_and_again)
{
    struct world w = deleted();
    for (int i = 0; i < 5; i++) {
        struct mono last = w.now;
        play(&w, "409>get 404");
        miss_until(&w, mono_add(w.now, 700 * NS_PER_SEC));
        expect_action(&w, RENEWER_CREATE);
        assert_true(mono_since(w.now, last) >= 40 * NS_PER_SEC);
    }
}

TEST(missing_right_is_said_once_and_tried_again_ever_more_rarely)
{
    struct world w = deleted();
    unsigned tries = 0;
    struct mono last = {0};
    int64_t bound_ns = 10 * NS_PER_SEC;
    for (; mono_before(w.now, SEC(7200)); miss_until(&w, SEC(7200))) {
        if (tries++ > 0) {
            int64_t wait_ns = mono_since(w.now, last);
            assert_between(wait_ns, bound_ns, bound_ns + 20 * NS_PER_SEC);
            bound_ns = bound_ns * 2 < 600 * NS_PER_SEC ? bound_ns * 2 : 600 * NS_PER_SEC;
        }
        last = w.now;
        play(&w, "403");
        const char *note = world_note(&w, RENEWER_NOTE_NOT_CREATED);
        assert_true((note != NULL) == (tries == 2)); /* one alone may be a server's start */
        assert_true(!note || strstr(note, "the server said no"));
        assert_null(world_note(&w, RENEWER_NOTE_FAILED));
    }
    assert_between(tries, 15, 19);
}

/* A server that does not answer may be followed by one that has read its rules. */
TEST(missing_right_is_asked_for_soon_behind_an_outage)
{
    static const char *const answers[] = {"lost", "500", "404"};
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        struct world w = deleted();
        for (int denials = 0; denials < 8; denials++) {
            play(&w, "403");
            miss_until(&w, mono_add(w.now, 700 * NS_PER_SEC));
            expect_action(&w, RENEWER_CREATE);
        }
        play(&w, "403");
        struct mono denied = w.now;
        await_request(&w);
        expect_action(&w, RENEWER_GET);
        play(&w, answers[i]);
        miss_until(&w, mono_add(w.now, 700 * NS_PER_SEC));
        expect_action(&w, RENEWER_CREATE);
        assert_true((mono_since(w.now, denied) < 60 * NS_PER_SEC) == (i < 2));
    }
}

SCRIPT(lease_that_another_made_first_is_read_and_renewed, deleted, "409>get ok>put")

/* Its Node is gone, too, or it is swept away again and again. */
TEST(failing_creations_are_a_lease_duration_apart)
{
    static const struct {
        const char *answer;
        enum renewer_note_kind told;
        unsigned most_notes;
    } rows[] = {{"404", RENEWER_NOTE_NOT_CREATED, 1},
                {"500", RENEWER_NOTE_FAILED, 17}, /* one a minute */
                {"lost", RENEWER_NOTE_FAILED, 17},
                {"422", RENEWER_NOTE_FAILED, 17}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w = deleted();
        unsigned tries = 0;
        unsigned notes = 0;
        for (; mono_before(w.now, SEC(1000)); miss_until(&w, SEC(1000))) {
            tries++;
            play(&w, rows[i].answer);
            notes += world_note(&w, rows[i].told) != NULL;
        }
        assert_between(tries, 18, 25);
        assert_between(notes, 1, rows[i].most_notes);
    }
}

/* ---- health --------------------------------------------------------------------------------- */

TEST(report_is_renewed_once_per_interval_and_the_lease_is_not)
{
    struct world w = renewing();
    unsigned renewals = w.puts;
    play(&w, "@5 sick");
    expect_note(&w, RENEWER_NOTE_UNHEALTHY, "not renewing its lease: down");
    for (int i = 0; i < 100; i++) {
        expect_action(&w, RENEWER_PUT_HEALTH);
        assert_int_equal(w.out.health, LEASE_HEALTH_UNHEALTHY);
        assert_string_equal(w.out.message, "down");
        play(&w, "+0.1 ok");
        assert_int_equal(w.out.note_count, 0);
        assert_int_equal(w.out.wake_at.ns, SEC(15 + 10 * i).ns);
        play(&w, "+1 sick>none");
        assert_null(world_note(&w, RENEWER_NOTE_UNHEALTHY));
        play(&w, "wake");
    }
    assert_int_equal(w.puts, renewals);
}

/* As upstream's own DPU side does, which knows nothing of our report. */
TEST(report_is_written_again_beside_another_that_renews_the_lease)
{
    struct world w = renewing();
    unsigned notes = 0;
    play(&w, "@5 sick @5.1 ok");
    for (int i = 1; i < 60; i++) {
        world_show_theirs(&w, (unsigned)i);
        play(&w, "wake>report 409>get ok>report");
        for (size_t n = 0; n < w.out.note_count; n++) {
            assert_int_equal(w.out.notes[n].kind, RENEWER_NOTE_SECOND_AGENT);
            assert_int_equal(w.out.notes[n].level, LOG_WARN);
            notes++;
        }
        play(&w, "ok");
        assert_int_equal(w.out.note_count, 0);
    }
    assert_int_equal(notes, 1);
}

SCRIPT(reporting_dpu_reports_on_a_lease_that_was_made_anew, reporting,
       "@15 tick @15.1 409 uid=uid-2 @15.2 ok>report !uid_'uid-2'")

SCRIPT(a_late_report_is_no_late_renewal, reporting, "@200 tick>report -!late")

TEST(recovery_renews_at_once_and_keeps_the_cadence)
{
    struct world w = renewing();
    struct mono slot = w.out.wake_at;
    play(&w, "@1 sick @1.1 ok @3 healthy>put !renewing_the_lease_again @3.1 ok");
    assert_int_equal(w.out.wake_at.ns, slot.ns);
}

TEST(changed_message_is_written_at_most_once_per_interval)
{
    struct world w = reporting();
    world_health(&w, SEC(2), PROBE_UNHEALTHY, "b");
    play(&w, "tick>none wakes=11");
    world_health(&w, SEC(3), PROBE_UNHEALTHY, "c");
    play(&w, "@11 tick>report says=c @11.1 ok wakes=21");
}

TEST(report_that_fails_or_meets_a_conflict_is_written_again)
{
    struct world w = reporting();
    world_health(&w, SEC(2), PROBE_UNHEALTHY, "b");
    play(&w, "@11 tick @11.1 409>get @11.2 ok>report @11.3 lost wake>report says=b @12 ok");
    assert_true(mono_before(SEC(21), w.out.wake_at));
}

SCRIPT(
    verdict_that_flips_during_a_put_is_acted_on_right_after_it, renewing,
    "wake sick>none ok>report healthy ok>none waits=1 wake>put") /* a second flip waits a second */

TEST(probe_that_flips_all_the_time_is_written_once_a_second)
{
    struct world w = renewing();
    unsigned writes = 0;
    unsigned notes = 0;
    for (int i = 0; i < 1430; i++) { /* 100 s */
        w.now = mono_add(SEC(20), i * 70 * NS_PER_MS);
        play(&w, i % 2 == 0 ? "sick" : "healthy");
        for (;; writes++) {
            notes += world_note(&w, RENEWER_NOTE_UNHEALTHY) != NULL;
            notes += world_note(&w, RENEWER_NOTE_HEALTHY) != NULL;
            if (w.r.under_way == RENEWER_NONE) {
                break;
            }
            play(&w, "ok");
        }
    }
    assert_between(writes, 90, 120);
    assert_between(notes, 90, 100);
}

SCRIPT(flip_and_back_between_two_writes_changes_nothing, renewing,
       "@2 sick @2.1 ok @2.2 healthy wakes=3 @2.3 sick wake>report -!all_probes_pass")

TEST(restart_on_a_dead_dataplane_reports_and_never_renews)
{
    struct world w = starting();
    play(&w, "tick @0.1 ok @2 sick>report @2.1 ok");
    assert_int_equal(w.puts, 0);
}

TEST(a_verdict_that_nobody_has_yet_changes_nothing)
{
    struct world w = starting();
    play(&w, "tick @0.05 ok @1 healthy>put -!unhealthy @1.1 ok");
    world_health(&w, SEC(3), PROBE_HEALTH_UNKNOWN, "");
    play(&w, "wake>put");
}

/* ---- stopping ------------------------------------------------------------------------------- */

TEST(stop_leaves_the_lease_alone)
{
    struct world w = renewing();
    play(&w, "wake @11 stop>stopped cancel");
    expect_action(&w, RENEWER_NONE);
    world_step(&w, (struct renewer_event){.kind = RENEWER_ANSWER, /* what was cancelled */
                                          .now = SEC(11),
                                          .http_status = 200,
                                          .retry_after_ms = -1,
                                          .lease = &w.lease});
    play(&w, "-renewed @100 tick>none -stopped -cancel"); /* that was said */
}

TEST(announced_stop_writes_shutdown_first)
{
    struct world w = announcing();
    play(&w, "@5 stop>report reports=shutdown");
    assert_true(w.out.deadline_ms <= 1000);
    play(&w, "@5.1 ok>stopped !announced -!again_after"); /* from nothing */
}

SCRIPT(announcement_survives_a_conflict_with_our_own_last_put, announcing,
       "wake stop>report cancel 409>get ok>report ok>stopped")

/* Its answer comes while the second try is under way. */
SCRIPT(announcement_that_lands_late_is_one, announcing,
       "@5 stop @6 lost health=shutdown @6.5 late>stopped !announced -!unannounced")

TEST(announcement_gives_up_after_two_seconds)
{
    struct world w = announcing();
    play(&w, "@5 stop");
    while (!w.out.stopped) {
        if (w.out.action != RENEWER_NONE && mono_before(w.now, SEC(6.9))) {
            world_fail(&w, mono_add(w.now, w.out.deadline_ms * NS_PER_MS), ERR_RETRY, 0, -1);
        } else {
            play(&w, "wake");
        }
    }
    assert_int_equal(w.now.ns, SEC(7).ns);
    expect_note(&w, RENEWER_NOTE_UNANNOUNCED, "stopping without announcement");
}

/* Whatever has gone wrong until then. */
TEST(an_announcement_has_tries_of_its_own)
{
    struct world w = announcing();
    for (int i = 0; i < 8; i++) {
        play(&w, "wake 503");
    }
    play(&w, "stop");
    assert_int_equal(w.out.deadline_ms, 1000); /* half the time there is */
    assert_int_equal(mono_since(w.out.wake_at, w.now), RENEWER_STOP_NS);
    assert_non_null(strstr(w.out.message, "stopped on purpose"));
    play(&w, "503");
    assert_true(mono_since(w.r.retry_at, w.now) <= NS_PER_SEC);
    w = announcing();
    play(&w, "wake 409 ok 409 stop ok 409>get"); /* the announcement's first */
}

SCRIPT(nothing_is_announced_on_a_foreign_lease, announcing,
       "holder=somebody wake 409 ok @12 stop>stopped")
SCRIPT(nothing_is_announced_on_a_missing_lease, announcing,
       "@5 stop @5.1 404>stopped !stopping_without_announcement")

/* ---- beside another that renews -------------------------------------------------------------- */

TEST(a_companion_reads_once_an_interval_and_never_renews)
{
    struct world w = accompanying();
    for (int i = 0; i < 1000; i++) {
        assert_between(w.out.wake_at.ns, SEC(19 + 10 * i).ns, SEC(21 + 10 * i).ns);
        upstream_renews(&w);
        play(&w, "wake>get +0.005 ok>none renewed silent"); /* two writers are meant to be */
    }
}

TEST(a_companion_reads_right_before_it_writes)
{
    struct world w = accompanying();
    play(&w, "@12 sick");
    for (int i = 0; i < 5; i++) {
        upstream_renews(&w);
        expect_action(&w, RENEWER_GET);
        play(&w, "+0.1 ok>report reports=unhealthy says=down");
        if (i == 2) { /* upstream was between the two */
            play(&w, "+0.05 409>get +0.02 ok>report silent");
        }
        play(&w, "health=unhealthy +0.05 ok>none +10.8 tick");
    }
}

/* A report of a former life, which a webhook puts back: not before the next look. */
TEST(a_companion_takes_back_what_is_not_true_any_more)
{
    struct world w = accompanying();
    play(&w, "health=unhealthy @20.2 tick @20.3 ok>report reports=none @20.4 ok>none");
    assert_false(mono_before(w.out.wake_at, SEC(29)));
    play(&w, "@30.2 tick @30.3 ok>report @30.4 500 @31 tick>get @31.1 ok>report "
             "health=none @31.2 ok>none !again_after");
}

/* Its next look would be at 20. */
SCRIPT(a_companion_that_is_well_again_says_so_at_once, accompanying,
       "@12 sick @12.1 ok health=unhealthy @12.2 ok @14 healthy>get @14.1 ok>report reports=none")

/* Its boot, its version, whether it asks anybody, and that the renewals are not its own. */
TEST(a_companion_says_what_it_is_once)
{
    for (int i = 0; i < 5; i++) {
        struct world w = starting();
        w.r.config.is_companion = true;
        (void)text_copy(w.lease.boot_id, sizeof(w.lease.boot_id), "boot-1");
        (void)text_copy(w.r.config.boot_id, sizeof(w.r.config.boot_id), i == 0 ? "boot-2" : "");
        (void)text_copy(w.lease.agent_version, sizeof(w.lease.agent_version), "1");
        (void)text_copy(w.r.config.version, sizeof(w.r.config.version), i == 1 ? "2" : "");
        w.r.config.has_no_probe = i == 2;
        w.lease.has_no_probe = i == 3;
        (void)text_copy(w.lease.sign, sizeof(w.lease.sign), i == 4 ? "2026" : "");
        play(&w, "healthy @0.1 ok>report");
        assert_int_equal(w.out.health, LEASE_HEALTH_NONE);
        (void)text_copy(w.lease.boot_id, sizeof(w.lease.boot_id), "boot-2");
        (void)text_copy(w.lease.agent_version, sizeof(w.lease.agent_version), "2");
        w.lease.has_no_probe = i == 2;
        w.lease.sign[0] = '\0';
        play(&w, "@0.2 ok>none @10.3 tick>get @10.4 ok>none");
    }
}

TEST(a_companion_says_that_nobody_renews)
{
    struct world w = accompanying();
    for (int i = 2; i < 5; i++) {
        world_tick(&w, SEC(i * 10 + 0.2));
        play(&w, "+0.05 ok silent");
    }
    play(&w, "@50.4 tick @50.5 ok !nobody_has_renewed_lease");
    play(&w, "@60.4 tick @60.5 404"); /* nor does it make a lease that is gone */
    for (int i = 0; i < 100; i++) {
        play(&w, "wake>get +0.001 404");
    }
}

SCRIPT(a_companion_announces_a_shutdown, accompanying,
       "@15 stop>get @15.1 ok>report reports=shutdown @15.2 ok>stopped")
