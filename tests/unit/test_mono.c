/* SPDX-License-Identifier: Apache-2.0 */
#include "base/attr.h"
#include "base/time.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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
        {mono_ns_mul, INT64_MAX, 2, INT64_MAX},
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
