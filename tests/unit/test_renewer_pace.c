/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/renewer_pace.h"

#include "contract/lease_pace.h"
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
    s->now = mono_add(s->now, WAY_NS);
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
    world_init(&s.w, config);
    s.w.lease.duration_s = (uint32_t)(config->duration_ns / NS_PER_SEC);
    world_tick(&s.w, s.now);
    world_healthy(&s.w, s.now);
    while (s.accepted.ns == 0) {
        if (s.w.r.under_way != RENEWER_NONE) {
            answer_one(&s);
        } else {
            s.now = s.w.out.wake_at;
            world_tick(&s.w, s.now);
        }
    }
    return mono_since(s.accepted, outage->until);
}

static void next_renewal_after_any_outage_is_accepted_within_the_grace(void **state)
{
    static const struct {
        double interval_s;
        double duration_s;
    } timers[] = {{10, 40}, {1, 2}, {1, 4}, {2, 10}, {1, 40}, {0.1, 1}, {3, 4}, {59, 60}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
        struct renewer_config config = world_config();
        config.interval_ns = (int64_t)(timers[i].interval_s * 1e9);
        config.duration_ns = (int64_t)(timers[i].duration_s * 1e9);
        int64_t grace_ns = lease_pace_grace_ns(config.interval_ns);
        for (int n = 0; n < 40 * OUTAGE_KINDS; n++) {
            struct outage outage = {.kind = (enum outage_kind)(n % OUTAGE_KINDS),
                                    .edited_after = n % 3 == 0};
            config.seed = (uint64_t)n * UINT64_C(0x9e3779b97f4a7c15);
            for (int steps = 0; steps < 100; steps++) { /* its end, against our cadence */
                outage.from = mono_add(SEC(0), config.interval_ns * (100 + n % 20) / 40);
                outage.until = mono_add(outage.from, config.interval_ns * steps / 13);
                int64_t took_ns = time_to_renewal(&config, &outage);
                if (took_ns > grace_ns) {
                    fail_msg("every %g s of %g s, kind %d, %d steps: %lld ms instead of %lld",
                             timers[i].interval_s, timers[i].duration_s, (int)outage.kind, steps,
                             (long long)(took_ns / NS_PER_MS), (long long)(grace_ns / NS_PER_MS));
                }
            }
        }
    }
}

static void no_wait_is_longer_than_the_pace_of_both_sides_allows(void **state)
{
    static const double intervals_s[] = {0.1, 0.2, 1, 2, 10, 60};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(intervals_s); i++) {
        struct world w;
        struct renewer_config config = world_config();
        config.interval_ns = (int64_t)(intervals_s[i] * 1e9);
        config.duration_ns = 3600 * NS_PER_SEC;
        world_init(&w, &config);
        for (uint32_t failures = 0; failures < 100; failures++) {
            w.r.failures = failures;
            assert_true(renewer_deadline_ns(&w.r) <= lease_pace_deadline_ns(config.interval_ns));
            assert_true(renewer_backoff_ns(&w.r, failures) <=
                        lease_pace_pause_ns(config.interval_ns));
        }
        assert_int_equal(renewer_deadline_ns(&w.r), lease_pace_deadline_ns(config.interval_ns));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_renewal_after_any_outage_is_accepted_within_the_grace),
        cmocka_unit_test(no_wait_is_longer_than_the_pace_of_both_sides_allows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
