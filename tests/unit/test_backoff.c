/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

TEST(waits_double_up_to_the_cap)
{
    static const int64_t bounds_ms[] = {500, 1000, 2000, 4000, 8000, 15000, 15000, 15000};
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct backoff b;
        backoff_init(&b, 500 * NS_PER_MS, 15 * NS_PER_SEC, seed);
        for (size_t i = 0; i < sizeof(bounds_ms) / sizeof(bounds_ms[0]); i++) {
            int64_t wait_ns = backoff_next_ns(&b, 0);
            assert_true(wait_ns >= bounds_ms[i] * NS_PER_MS / 10);
            assert_true(wait_ns <= bounds_ms[i] * NS_PER_MS);
        }
    }
}

TEST(waits_of_a_fleet_spread_over_the_whole_span)
{
    bool early = false;
    bool late = false;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct backoff b;
        backoff_init(&b, NS_PER_SEC, NS_PER_SEC, seed);
        int64_t wait_ns = backoff_next_ns(&b, 0);
        early |= wait_ns < 300 * NS_PER_MS;
        late |= wait_ns > 800 * NS_PER_MS;
    }
    assert_true(early && late);
}

TEST(retry_after_raises_a_wait_up_to_the_cap)
{
    struct backoff b;
    backoff_init(&b, 500 * NS_PER_MS, 15 * NS_PER_SEC, 1);
    assert_int_equal(backoff_next_ns(&b, 7 * NS_PER_SEC), 7 * NS_PER_SEC);
    assert_int_equal(backoff_next_ns(&b, 3600 * NS_PER_SEC), 15 * NS_PER_SEC);
}

TEST(reset_starts_small_again)
{
    struct backoff b;
    backoff_init(&b, 500 * NS_PER_MS, 15 * NS_PER_SEC, 1);
    for (int i = 0; i < 100; i++) {
        (void)backoff_next_ns(&b, 0);
    }
    backoff_reset(&b);
    assert_true(backoff_next_ns(&b, 0) <= 500 * NS_PER_MS);
    for (int i = 0; i < 100; i++) { /* the first of all, each time */
        backoff_reset(&b);
        assert_true(backoff_next_ns(&b, 0) <= 500 * NS_PER_MS);
    }
}

TEST(waits_never_start_over_by_themselves)
{
    struct backoff b;
    backoff_init(&b, 500 * NS_PER_MS, 15 * NS_PER_SEC, 1);
    b.failures = UINT32_MAX;
    for (int i = 0; i < 3; i++) {
        assert_true(backoff_next_ns(&b, 0) >= 15 * NS_PER_SEC / 10);
    }
}

TEST(a_number_drawn_may_be_each_of_its_range)
{
    uint64_t random = 7;
    unsigned seen = 0;
    for (int i = 0; i < 100; i++) {
        int64_t drawn = prng_next(&random, 2);
        assert_in_range(drawn, 0, 2);
        seen |= 1u << drawn;
    }
    assert_int_equal(seen, 7);
}
