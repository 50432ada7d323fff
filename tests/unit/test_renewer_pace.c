/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the renewer comes back after an outage. The legend of the scripts is in renewer_world.h.
 */
#include "dpu-agent/renewer.h"

#include "contract/lease.h"
#include "tests/support/case.h"
#include "tests/unit/renewer_world.h"

#define WAY_NS (50 * NS_PER_MS) /* of a request and its answer */

/* ---- an outage ------------------------------------------------------------------------------ */

enum outage_kind {
    OUTAGE_HANGS,   /* no answer; the write is lost */
    OUTAGE_APPLIES, /* no answer; but the write is done, so that the next meets a conflict */
    OUTAGE_REFUSES, /* no connection */
    OUTAGE_THROTTLES,
    OUTAGE_ANSWERS_500,
    OUTAGE_KINDS
};

struct outage {
    enum outage_kind kind;
    struct mono from;
    struct mono until;
    bool edited_after; /* somebody else writes the lease as soon as it is over */
    bool was_slow;     /* the server, before */
    int64_t way_ns;    /* of a request and its answer; 0: a short one */
};

/* A server with an outage, and connections that stay dead after it. */
struct server {
    struct world w;
    struct outage outage;
    struct mono now;
    struct mono connected; /* when the kept-alive connection was made; 0: there is none */
    bool stale;            /* the renewer's tree is behind the server's */
    struct mono accepted;  /* the first renewal after the outage */
};

static bool is_out(const struct server *s, struct mono at)
{
    return !mono_before(at, s->outage.from) && mono_before(at, s->outage.until);
}

/* The connection that the request under way goes out on, was it there before the outage ended? */
static bool on_dead_connection(struct server *s)
{
    if (s->w.out.fresh) {
        return is_out(s, s->now);
    }
    if (s->connected.ns == 0) {
        s->connected = s->now;
    }
    return !mono_before(s->now, s->outage.from) && mono_before(s->connected, s->outage.until);
}

static void fail_during_outage(struct server *s, uint32_t deadline_ms)
{
    bool put = s->w.r.under_way != RENEWER_GET;
    switch (s->outage.kind) {
    case OUTAGE_THROTTLES:
        world_fail(&s->w, s->now, ERR_RETRY, 429, 3600 * 1000);
        return;
    case OUTAGE_ANSWERS_500:
        world_fail(&s->w, s->now, ERR_RETRY, 500, -1);
        return;
    case OUTAGE_REFUSES:
        world_fail(&s->w, s->now, ERR_RETRY, 0, -1);
        return;
    case OUTAGE_APPLIES:
        s->stale = s->stale || put;
        break;
    case OUTAGE_HANGS:
    case OUTAGE_KINDS:
        break;
    }
    s->now = mono_add(s->now, deadline_ms * NS_PER_MS);
    world_fail(&s->w, s->now, ERR_RETRY, 0, -1);
}

static void answer_one(struct server *s)
{
    uint32_t deadline_ms = s->w.out.deadline_ms;
    bool hangs = s->outage.kind == OUTAGE_HANGS || s->outage.kind == OUTAGE_APPLIES;
    bool dead = hangs && on_dead_connection(s);
    if (dead || is_out(s, s->now)) {
        s->connected = s->w.out.fresh ? s->connected : (struct mono){0};
        fail_during_outage(s, deadline_ms);
        return;
    }
    bool put = s->w.r.under_way == RENEWER_PUT_RENEWAL;
    bool over = !mono_before(s->now, s->outage.until);
    s->now = mono_add(s->now, s->outage.way_ns > 0 ? s->outage.way_ns : WAY_NS);
    if (put && (s->stale || (over && s->outage.edited_after))) {
        s->outage.edited_after = s->outage.edited_after && s->stale; /* once more, between both */
        s->stale = false;
        world_conflict(&s->w, s->now);
        return;
    }
    if (put && over) {
        s->accepted = s->now;
    }
    world_ok(&s->w, s->now);
}

/* How long after the outage's end the next renewal was accepted. */
static int64_t time_to_renewal(const struct renewer_config *config, const struct outage *outage)
{
    struct server s = {.outage = *outage, .now = SEC(0)};
    s.w = starting_with(*config);
    s.w.lease.duration_s = (uint32_t)(config->duration_ns / NS_PER_SEC);
    world_tick(&s.w, s.now);
    world_health(&s.w, s.now, PROBE_HEALTHY, "");
    while (s.accepted.ns == 0) {
        s.w.r.is_slow = outage->was_slow;
        if (s.w.r.under_way != RENEWER_NONE) {
            answer_one(&s);
        } else {
            s.now = s.w.out.wake_at;
            world_tick(&s.w, s.now);
        }
    }
    return mono_since(s.accepted, outage->until);
}

static const struct timers {
    double interval_s;
    double duration_s;
} TIMERS[] = {{10, 40}, {1, 2}, {1, 4}, {2, 10}, {1, 40}, {0.1, 1}, {3, 4}, {59, 60}};

/* Outages of many lengths and beginnings against our cadence; the grace counts from `later_ns`
 * after their end. */
static void expect_within_grace(const struct timers *timers, const struct outage *kind, int n,
                                int64_t later_ns)
{
    struct renewer_config config = world_config();
    struct outage outage = *kind;
    config.interval_ns = (int64_t)(timers->interval_s * 1e9);
    config.duration_ns = (int64_t)(timers->duration_s * 1e9);
    config.seed = (uint64_t)n * UINT64_C(0x9e3779b97f4a7c15);
    int64_t grace_ns = lease_pace_grace_ns(config.interval_ns);
    for (int steps = 0; steps < 100; steps++) {
        outage.from = mono_add(SEC(0), config.interval_ns * (100 + n % 20) / 40);
        outage.until = mono_add(outage.from, config.interval_ns * steps / 13);
        int64_t took_ns = time_to_renewal(&config, &outage) - later_ns;
        if (took_ns > grace_ns) {
            fail_msg("every %g s of %g s, kind %d, %d steps: %lld ms instead of %lld",
                     timers->interval_s, timers->duration_s, (int)outage.kind, steps,
                     (long long)(took_ns / NS_PER_MS), (long long)(grace_ns / NS_PER_MS));
        }
    }
}

TEST(next_renewal_after_any_outage_is_accepted_within_the_grace)
{
    for (size_t i = 0; i < ARRAY_LEN(TIMERS); i++) {
        for (int n = 0; n < 40 * OUTAGE_KINDS; n++) {
            const struct outage outage = {.kind = (enum outage_kind)(n % OUTAGE_KINDS),
                                          .edited_after = n % 3 == 0,
                                          .was_slow = n / OUTAGE_KINDS % 2 == 0};
            expect_within_grace(&TIMERS[i], &outage, n, 0);
        }
    }
}

/* The host's requests are fast, and its mark comes between a slow DPU's PUT and the next. The host
 * marks a lease half an interval after the way back to a server that nobody reached. */
TEST(a_slow_dpus_renewal_that_a_mark_overtakes_is_accepted_within_the_grace)
{
    static const enum outage_kind kinds[] = {OUTAGE_REFUSES, OUTAGE_THROTTLES, OUTAGE_ANSWERS_500};
    for (size_t i = 0; i < ARRAY_LEN(TIMERS); i++) {
        int64_t interval_ns = (int64_t)(TIMERS[i].interval_s * 1e9);
        for (int n = 0; n < 30; n++) {
            const struct outage outage = {.kind = kinds[n % 3],
                                          .edited_after = true,
                                          .was_slow = true,
                                          .way_ns = lease_pace_request_ns(interval_ns)};
            int64_t mark_ns = outage.kind == OUTAGE_REFUSES ? interval_ns / 2 : 0;
            expect_within_grace(&TIMERS[i], &outage, n, mark_ns);
        }
    }
}

/* ---- a server that takes its time ----------------------------------------------------------- */

/* The longest time between two renewals that arrive, each of them `took_ns` after it was sent. */
static int64_t longest_gap_ns(const struct renewer_config *config, int64_t took_ns)
{
    struct world w = starting_with(*config);
    struct wall stamp = {0}; /* of the oldest write under way */
    struct mono now = SEC(0.1);
    struct mono arrived = now;
    struct mono arrives = MONO_NEVER;
    struct mono due = MONO_NEVER;
    int64_t longest_ns = 0;
    w.lease.duration_s = (uint32_t)(config->duration_ns / NS_PER_SEC);
    play(&w, "healthy @0.05 ok @0.1 ok");
    for (int count = 0; count < 20;) {
        if (w.out.action != RENEWER_NONE) {
            due = mono_add(now, w.out.deadline_ms * NS_PER_MS);
            expect_action(&w, RENEWER_PUT_RENEWAL);
            if (mono_is_never(arrives)) {
                arrives = mono_add(now, took_ns);
                assert_true(w.out.lasts_ms >= took_ns / NS_PER_MS);
                stamp = w.stamp;
            }
        }
        now = mono_min(mono_min(due, arrives), w.out.wake_at);
        if (mono_reached(now, arrives)) {
            bool is_awaited = !mono_is_never(due) && stamp.ns == w.stamp.ns;
            world_show(&w, stamp);
            longest_ns =
                mono_since(now, arrived) > longest_ns ? mono_since(now, arrived) : longest_ns;
            arrived = now;
            arrives = MONO_NEVER;
            due = MONO_NEVER;
            if (is_awaited) {
                world_ok(&w, now);
            } else {
                world_late(&w, now, 200);
            }
            assert_true(w.out.renewed);
            count++;
        } else if (mono_reached(now, due)) {
            due = MONO_NEVER;
            world_fail(&w, now, ERR_RETRY, 0, -1);
        } else {
            world_tick(&w, now);
        }
    }
    assert_int_equal(w.r.foreign_renewals, 0); /* each stamp is known */
    return longest_ns;
}

TEST(writes_may_take_what_the_duration_leaves)
{
    static const struct {
        double interval_s;
        double duration_s;
        double took_s;
    } rows[] = {{10, 40, 4},   {10, 40, 6},   {10, 40, 9.5}, {10, 40, 15},  {10, 40, 29},
                {2, 10, 4.2},  {2, 10, 6},    {2, 10, 7.5},  {0.2, 2, 1.7}, {1, 4, 2.5},
                {60, 240, 55}, {0.5, 2, 1.4}, {1, 600, 55},  {0.2, 60, 58}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct renewer_config config = world_config();
        config.interval_ns = (int64_t)(rows[i].interval_s * 1e9);
        config.duration_ns = (int64_t)(rows[i].duration_s * 1e9);
        int64_t gap_ns = longest_gap_ns(&config, (int64_t)(rows[i].took_s * 1e9));
        if (gap_ns > config.interval_ns + (int64_t)(rows[i].took_s * 1e9)) {
            fail_msg("every %g s of %g s, writes of %g s: %lld ms without a renewal",
                     rows[i].interval_s, rows[i].duration_s, rows[i].took_s,
                     (long long)(gap_ns / NS_PER_MS));
        }
    }
}

/* Where each takes longer than the first deadline, it is waited for: no second try beside it. */
TEST(a_slow_server_is_given_its_time)
{
    struct world w = renewing();
    play(&w, "@10 tick");
    assert_int_equal(w.out.deadline_ms, 5000);
    play(&w, "@15 lost");
    world_show(&w, w.stamp);
    play(&w, "@16 late");
    for (int i = 2; i < 5; i++) {
        world_tick(&w, SEC(10 * i));
        assert_int_equal(w.out.deadline_ms, 9000);
        play(&w, "+6 ok");
    }
    play(&w, "@50 tick @51 ok @60 tick"); /* no longer */
    assert_int_equal(w.out.deadline_ms, 5000);
}

/* A name server that is asked for each search domain takes longer than a short lease lasts. */
TEST(an_answer_is_welcome_for_longer_after_failures)
{
    struct world w = starting();
    w.r.config.interval_ns = 2 * NS_PER_SEC;
    w.r.config.duration_ns = 10 * NS_PER_SEC;
    for (uint32_t failures = 0; failures < 5; failures++) {
        w.r.failures = failures;
        assert_int_equal(renewer_lasting_ns(&w.r) / NS_PER_SEC, failures < 3 ? 10 : 30);
    }
}

TEST(a_late_answer_that_is_no_renewal_of_ours_is_a_read)
{
    struct world w = renewing();
    play(&w, "@10 tick @15 lost @16 tick>put @17 late>put"); /* the lease as it was */
    assert_true(w.out.cancel);
    assert_false(w.out.renewed);
    world_late(&w, SEC(18), 201); /* it was gone: what we made is not the host's */
    assert_false(w.out.cancel);
    play(&w, "@19 503 wake>get");
}

/* What is written beside it is as old, and a read under way shows the new one. */
TEST(a_late_conflict_is_followed_by_one_read)
{
    struct world w = renewing();
    struct renewer_event conflict = {
        .kind = RENEWER_LATE, .code = ERR_CONFLICT, .http_status = 409, .now = SEC(17)};
    play(&w, "@10 tick @15 lost @16 tick>put");
    world_step(&w, conflict);
    assert_true(w.out.cancel);
    expect_action(&w, RENEWER_GET);
    conflict.now = SEC(17.5);
    world_step(&w, conflict);
    assert_false(w.out.cancel);
    play(&w, "@18 ok>put");
}

TEST(no_wait_is_longer_than_the_pace_of_both_sides_allows)
{
    static const double intervals_s[] = {0.1, 0.2, 1, 2, 10, 60};
    for (size_t i = 0; i < ARRAY_LEN(intervals_s); i++) {
        struct world w = starting();
        int64_t interval_ns = (int64_t)(intervals_s[i] * 1e9);
        w.r.config.interval_ns = interval_ns;
        w.r.config.duration_ns = 3600 * NS_PER_SEC;
        for (uint32_t failures = 0; failures < 100; failures++) {
            w.r.failures = failures;
            assert_true(renewer_deadline_ns(&w.r) <= lease_pace_slow_deadline_ns(interval_ns));
            assert_true(renewer_backoff_ns(&w.r, failures) <= interval_ns);
        }
        assert_int_equal(renewer_deadline_ns(&w.r), lease_pace_slow_deadline_ns(interval_ns));
    }
}
