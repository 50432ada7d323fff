/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_core.h"
#include "tests/support/case.h"

static struct mono at_ms(int64_t ms)
{
    return (struct mono){1000 * NS_PER_SEC + ms * NS_PER_MS};
}

/* Tries to take every millisecond. */
static int take_during(struct kube_bucket *b, int64_t from_ms, int64_t to_ms)
{
    int taken = 0;
    for (int64_t ms = from_ms; ms < to_ms; ms++) {
        taken += kube_bucket_try(b, at_ms(ms));
    }
    return taken;
}

TEST(a_burst_passes_then_one_per_second)
{
    struct kube_bucket b;
    kube_bucket_init(&b, at_ms(0));
    assert_int_equal(take_during(&b, 0, 999), KUBE_BUCKET_BURST);
    assert_int_equal(take_during(&b, 999, 1000), 0);
    assert_int_equal(take_during(&b, 1000, 61000), 60);
}

TEST(those_that_wait_get_a_token_each_in_their_order)
{
    struct kube_bucket b;
    kube_bucket_init(&b, at_ms(0));
    for (int i = 1; i <= KUBE_BUCKET_BURST + 3; i++) {
        int64_t wait_ns = i <= KUBE_BUCKET_BURST ? 0 : (i - KUBE_BUCKET_BURST) * NS_PER_SEC;
        assert_int_equal(kube_bucket_take(&b, at_ms(0)), wait_ns);
    }
    assert_int_equal(kube_bucket_take(&b, at_ms(999)), 3001 * NS_PER_MS);
    kube_bucket_return(&b);
    assert_int_equal(take_during(&b, 999, 4000), 0); /* behind them */
    assert_int_equal(take_during(&b, 4000, 5000), 1);
}

TEST(no_more_than_a_burst_is_saved_up)
{
    struct kube_bucket b;
    kube_bucket_init(&b, at_ms(0));
    assert_int_equal(take_during(&b, INT64_C(3600000), 3600999), KUBE_BUCKET_BURST);
    kube_bucket_init(&b, at_ms(0));
    assert_int_equal(kube_bucket_take(&b, (struct mono){INT64_MAX}), 0);
}

TEST(time_that_goes_back_gives_and_takes_nothing)
{
    struct kube_bucket b;
    kube_bucket_init(&b, at_ms(0));
    assert_int_equal(take_during(&b, -5000, 0), KUBE_BUCKET_BURST);
    assert_int_equal(take_during(&b, 0, 2001), 2);
}

TEST(urgent_ones_are_counted_but_leave_a_reserve)
{
    struct kube_bucket b;
    kube_bucket_init(&b, at_ms(0));
    for (int i = 0; i < 100; i++) {
        kube_bucket_take_urgent(&b, at_ms(0));
    }
    for (int i = 0; i < KUBE_BUCKET_RESERVE; i++) {
        assert_true(kube_bucket_try(&b, at_ms(0)));
    }
    assert_false(kube_bucket_try(&b, at_ms(0)));
}

TEST(urgent_ones_without_end_starve_nobody)
{
    struct kube_bucket b;
    int taken = 0;
    kube_bucket_init(&b, at_ms(0));
    for (int64_t ms = 0; ms < 60000; ms++) {
        if (ms % 20 == 0) {
            kube_bucket_take_urgent(&b, at_ms(ms));
        }
        taken += ms >= 10000 && kube_bucket_try(&b, at_ms(ms));
    }
    assert_between(taken, 50, 50 + KUBE_BUCKET_RESERVE + 1);
}

TEST(a_server_that_is_not_found_three_times_is_left_alone_for_a_while)
{
    struct kube_bucket b;
    kube_bucket_init(&b, at_ms(0));
    assert_int_equal(kube_bucket_reached(&b), 0);
    for (int ms = 1; ms <= KUBE_UNREACHED; ms++) {
        assert_int_equal(kube_bucket_pause_ns(&b, at_ms(ms)), 0);
        kube_bucket_unreached(&b, at_ms(ms));
    }
    assert_int_equal(kube_bucket_pause_ns(&b, at_ms(1003)), 14 * NS_PER_SEC);
    assert_int_equal(kube_bucket_pause_ns(&b, at_ms(15003)), 0);
    kube_bucket_unreached(&b, at_ms(15003)); /* again, and again as long */
    assert_int_equal(kube_bucket_pause_ns(&b, at_ms(15003)), 15 * NS_PER_SEC);
    assert_between(kube_bucket_reached(&b), 1, KUBE_RETURN_NS + 1);
    assert_int_equal(kube_bucket_reached(&b), 0);
    assert_int_equal(kube_bucket_pause_ns(&b, at_ms(15003)), 0);
    kube_bucket_unreached(&b, at_ms(15004));
    assert_false(kube_bucket_reached(&b));
}

TEST(patience_doubles_with_each_timeout_until_an_answer_is_fast)
{
    static const struct {
        uint32_t now_ms;
        bool is_answered;
        int64_t took_ms;
        uint32_t next_ms;
    } rows[] = {
        {5, false, 5, 10},   {10, false, 11, 20}, {20, false, 20, 35},
        {35, false, 35, 35}, {10, false, 9, 10}, /* of those that hung together one counts */
        {10, true, 5, 10},   {20, true, 30, 20},  {20, true, 4, 5},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(
            kube_patience_learn(rows[i].now_ms, rows[i].is_answered, rows[i].took_ms, 5, 35),
            rows[i].next_ms);
    }
}

/* So often does a server that is the only one see a new connection, however often it is asked. */
TEST(connections_are_given_up_at_once_and_then_ever_more_rarely)
{
    static const int64_t at[] = {0, 1, 2, 3, 4, 1004, 3004, 7004, 15004, 30004, 45004, 60004};
    struct kube_leave l = {.count = 0};
    size_t left = 0;
    for (int64_t ms = 0; ms <= 70000; ms++) {
        if (kube_leave_try(&l, at_ms(ms))) {
            assert_true(left < sizeof(at) / sizeof(at[0]));
            assert_int_equal(ms, at[left++]);
        }
    }
    assert_int_equal(left, sizeof(at) / sizeof(at[0]));
    kube_leave_settle(&l); /* another server fails later */
    for (int i = 0; i < KUBE_LEAVE_FREE; i++) {
        assert_true(kube_leave_try(&l, at_ms(70000)));
    }
    assert_false(kube_leave_try(&l, at_ms(70000)));
}
