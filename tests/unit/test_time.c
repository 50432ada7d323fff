/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"
#include "tests/support/case.h"

TEST(order_and_distance)
{
    struct mono a = {10};
    struct mono b = {30};
    assert_true(mono_before(a, b));
    assert_false(mono_before(b, a));
    assert_false(mono_before(a, a));
    assert_true(mono_min(a, b).ns == 10 && mono_min(b, a).ns == 10);
    assert_true(mono_max(a, b).ns == 30 && mono_max(b, a).ns == 30);
    assert_true(mono_since(b, a) == 20 && mono_since(a, b) == -20);
    assert_true(mono_add(a, 5).ns == 15);
    assert_true(wall_since((struct wall){7}, (struct wall){9}) == -2);
}

TEST(durations_saturate_instead_of_wrapping)
{
    static const struct {
        int64_t (*op)(int64_t a, int64_t b);
        int64_t a;
        int64_t b;
        int64_t result;
    } rows[] = {
        {mono_ns_add, 1, 2, 3},
        {mono_ns_add, INT64_MAX, 1, INT64_MAX},
        {mono_ns_add, INT64_MAX - 1, 1, INT64_MAX},
        {mono_ns_add, INT64_MIN, -1, INT64_MIN},
        {mono_ns_add, INT64_MAX, INT64_MIN, -1},
        {mono_ns_sub, 5, 7, -2},
        {mono_ns_sub, INT64_MIN, 1, INT64_MIN},
        {mono_ns_sub, INT64_MAX, -1, INT64_MAX},
        {mono_ns_sub, 0, INT64_MIN, INT64_MAX},
        {mono_ns_mul, 6, 7, 42},
        {mono_ns_mul, INT64_MAX, INT64_MAX, INT64_MAX},
        {mono_ns_mul, INT64_MIN, 2, INT64_MIN},
        {mono_ns_mul, INT64_MIN, -2, INT64_MAX},
        {mono_ns_mul, INT64_MAX, -2, INT64_MIN},
        {mono_ns_mul, INT64_MIN, -1, INT64_MAX},
        {mono_ns_mul, INT64_MAX, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_true(rows[i].op(rows[i].a, rows[i].b) == rows[i].result);
    }
}

TEST(never_stays_never)
{
    assert_true(mono_is_never(mono_add(MONO_NEVER, -NS_PER_SEC)));
    assert_true(mono_is_never(mono_add((struct mono){INT64_MAX - 1}, NS_PER_SEC)));
    assert_false(mono_is_never((struct mono){0}));
}

TEST(a_deadline_is_reached_at_its_exact_nanosecond)
{
    struct mono deadline = {100};
    assert_false(mono_reached((struct mono){99}, deadline));
    assert_true(mono_reached((struct mono){100}, deadline));
    assert_true(mono_reached((struct mono){101}, deadline));
    assert_false(mono_reached((struct mono){INT64_MAX - 1}, MONO_NEVER));
}

/* ---- waits ---------------------------------------------------------------------------------- */

TEST(waits_double_up_to_the_cap)
{
    static const int64_t bounds_ms[] = {500, 1000, 2000, 4000, 8000, 15000, 15000, 15000};
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct backoff b;
        backoff_init(&b, 500 * NS_PER_MS, 15 * NS_PER_SEC, seed);
        for (size_t i = 0; i < ARRAY_LEN(bounds_ms); i++) {
            int64_t wait_ns = backoff_next_ns(&b, 0);
            assert_true(wait_ns >= bounds_ms[i] * NS_PER_MS / 10);
            assert_true(wait_ns <= bounds_ms[i] * NS_PER_MS);
        }
    }
}

TEST(waits_of_a_fleet_spread_over_the_whole_span)
{
    int64_t least = NS_PER_SEC;
    int64_t most = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct backoff b;
        backoff_init(&b, NS_PER_SEC, NS_PER_SEC, seed);
        int64_t wait_ns = backoff_next_ns(&b, 0);
        least = wait_ns < least ? wait_ns : least;
        most = wait_ns > most ? wait_ns : most;
    }
    assert_true(least < 300 * NS_PER_MS && most > 800 * NS_PER_MS);
}

TEST(retry_after_raises_a_wait_up_to_the_cap)
{
    struct backoff b;
    backoff_init(&b, 500 * NS_PER_MS, 15 * NS_PER_SEC, 1);
    assert_int_equal(backoff_next_ns(&b, 7 * NS_PER_SEC), 7 * NS_PER_SEC);
    assert_int_equal(backoff_next_ns(&b, 3600 * NS_PER_SEC), 15 * NS_PER_SEC);
}

TEST(waits_start_small_again_after_a_reset_only)
{
    struct backoff b;
    backoff_init(&b, 500 * NS_PER_MS, 15 * NS_PER_SEC, 1);
    b.failures = UINT32_MAX;
    for (int i = 0; i < 3; i++) {
        assert_true(backoff_next_ns(&b, 0) >= 15 * NS_PER_SEC / 10);
    }
    for (int i = 0; i < 100; i++) { /* the first of all, each time */
        backoff_reset(&b);
        assert_true(backoff_next_ns(&b, 0) <= 500 * NS_PER_MS);
    }
}

TEST(a_number_drawn_may_be_each_of_its_range)
{
    uint64_t random = 1234567; /* what SplitMix64 is known to make of it, both below 2^63 */
    unsigned seen = 0;
    assert_int_equal(prng_next(&random, INT64_MAX), INT64_C(6457827717110365317));
    assert_int_equal(prng_next(&random, INT64_MAX), INT64_C(3203168211198807973));
    for (int i = 0; i < 100; i++) {
        int64_t drawn = prng_next(&random, 2);
        assert_between(drawn, 0, 2);
        seen |= 1u << drawn;
    }
    assert_int_equal(seen, 7);
}

/* ---- RFC 3339 ------------------------------------------------------------------------------- */

/* 2026-01-02T03:04:05Z */
#define AT_NS (INT64_C(1767323045) * NS_PER_SEC)

static int parse(const char *text, int64_t *out_ns)
{
    struct wall t = {77};
    int rc = rfc3339_parse(text, strlen(text), &t, NULL);
    *out_ns = t.ns;
    return rc;
}

TEST(what_is_not_written_so_is_no_time)
{
    static const char *const rows[] = {
        "",
        "2026",
        "2026-01-02T03:04:05",
        "2026-01-02T05:04:05+02:00",
        "2026-01-02t03:04:05z",
        "2026-01-02T1:00:00.000000Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:60:00Z",
        "2026-01-02T03:04:60Z",
        "2026-00-02T03:04:05Z",
        "2026-13-02T03:04:05Z",
        "2026-01-00T03:04:05Z",
        "2026-01-32T03:04:05Z",
        "2026-04-31T03:04:05Z",
        "2026-02-29T03:04:05Z",
        "1900-02-29T03:04:05Z",
        "12026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05.123Z",
        "2026-01-02T03:04:05,123456Z",
        "2026-01-02T03:04:05.1234567Z",
        "2026-01-02T03:04:05Z ",
        "2026/01/02T03:04:05Z",
        "0000-01-01T00:00:00Z",
        "2262-04-11T23:47:16.854776Z",
        "1677-09-21T00:12:43Z",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t ns;
        if (parse(rows[i], &ns) != ERR_PARSE || ns != 77) {
            fail_msg("'%s' is not refused", rows[i]);
        }
    }
}

TEST(the_error_quotes_the_text_without_control_characters)
{
    struct wall t;
    struct err e = ERR_INIT;
    assert_int_equal(rfc3339_parse("a\nb", 3, &t, &e), ERR_PARSE);
    assert_string_equal(e.msg, "'a b' is not an RFC 3339 time in UTC");
}

TEST(reading_stops_at_the_given_length)
{
    struct wall t;
    const char *text = "2026-01-02T03:04:05Zgarbage";
    assert_int_equal(rfc3339_parse(text, 20, &t, NULL), 0);
    assert_int_equal(rfc3339_parse(text, 19, &t, NULL), ERR_PARSE);
}

TEST(micro_time_has_exactly_six_digits_and_is_read_back)
{
    static const struct {
        int64_t ns;
        const char *micro;
        const char *seconds;
    } rows[] = {
        {AT_NS, "2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:05Z"},
        {AT_NS + 1, "2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:05Z"},
        {AT_NS + 999999999, "2026-01-02T03:04:05.999999Z", "2026-01-02T03:04:05Z"},
        {0, "1970-01-01T00:00:00.000000Z", "1970-01-01T00:00:00Z"},
        {-1, "1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59Z"},
        {-86400 * NS_PER_SEC, "1969-12-31T00:00:00.000000Z", "1969-12-31T00:00:00Z"},
        {INT64_C(951782400) * NS_PER_SEC, "2000-02-29T00:00:00.000000Z", "2000-02-29T00:00:00Z"},
        {INT64_MAX, "2262-04-11T23:47:16.854775Z", "2262-04-11T23:47:16Z"},
        {INT64_C(1709164800) * NS_PER_SEC, "2024-02-29T00:00:00.000000Z", "2024-02-29T00:00:00Z"},
        {INT64_MIN + NS_PER_SEC, "1677-09-21T00:12:44.145224Z", "1677-09-21T00:12:44Z"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t ns;
        const struct wall at = {rows[i].ns};
        assert_string_equal(rfc3339_text(at, true).text, rows[i].micro);
        assert_int_equal(parse(rfc3339_text(at, true).text, &ns), 0);
        assert_between(rows[i].ns - ns, 0, 999);
        assert_string_equal(rfc3339_text(at, false).text, rows[i].seconds);
        assert_int_equal(parse(rfc3339_text(at, false).text, &ns), 0);
        assert_between(rows[i].ns - ns, 0, NS_PER_SEC - 1);
    }
    const struct wall least = {INT64_MIN};
    assert_string_equal(rfc3339_text(least, true).text, "1677-09-21T00:12:43.145224Z");
}

TEST(every_day_of_five_centuries_survives_the_round_trip)
{
    for (int64_t day = -100000; day < 100000; day += 1) {
        int64_t ns;
        int64_t want = (day * 86400 + 12345) * NS_PER_SEC + 678901000;
        assert_int_equal(parse(rfc3339_text((struct wall){want}, true).text, &ns), 0);
        assert_true(ns == want);
    }
}

TEST(the_first_moment_after_now_is_none_of_those_before)
{
    const struct mono moments[] = {{7}, MONO_NEVER, {5}, {9}};
    assert_int_equal(mono_first_after((struct mono){4}, moments, 4).ns, 5);
    assert_int_equal(mono_first_after((struct mono){5}, moments, 4).ns, 7);
    assert_true(mono_is_never(mono_first_after((struct mono){9}, moments, 4)));
}
