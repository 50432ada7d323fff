/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/slice_pace.h"

#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static const struct slice_taint CLEAN = {.is_set = false};
static const struct slice_taint EXPIRED = {.is_set = true, .value = "LeaseExpired"};

static struct mono at(int64_t ns)
{
    return (struct mono){1000 * NS_PER_SEC + ns};
}

static void pace_of_verdicts_is_the_renewal_interval_within_bounds(void **state)
{
    (void)state;
    static const struct {
        int64_t interval_ns;
        int64_t flip_ns;
    } rows[] = {
        {0, SLICE_FLIP_MIN_NS},
        {NS_PER_SEC / 5, SLICE_FLIP_MIN_NS},
        {2 * NS_PER_SEC, 2 * NS_PER_SEC},
        {10 * NS_PER_SEC, SLICE_FLIP_MAX_NS},
        {3600 * NS_PER_SEC, SLICE_FLIP_MAX_NS},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct slice_pace p;
        slice_pace_init(&p, rows[i].interval_ns, 1);
        assert_true(mono_reached(at(0), slice_pace_next(&p, &EXPIRED, at(0))));
        assert_false(slice_pace_wrote(&p, &EXPIRED, at(0)));
        slice_pace_stands(&p, &EXPIRED);
        /* The first write is no change of verdict: what follows it goes out at once. */
        assert_true(mono_reached(at(1), slice_pace_next(&p, &CLEAN, at(1))));
        assert_false(slice_pace_wrote(&p, &CLEAN, at(1)));
        slice_pace_stands(&p, &CLEAN);
        assert_int_equal(slice_pace_next(&p, &EXPIRED, at(2)).ns, at(1 + rows[i].flip_ns).ns);
    }
}

static void failed_write_is_repeated_later_each_time_up_to_a_bound(void **state)
{
    (void)state;
    struct slice_pace p;
    int64_t now_ns = 0;
    slice_pace_init(&p, 0, 7);
    for (int i = 0; i < 200; i++) {
        (void)slice_pace_wrote(&p, &CLEAN, at(now_ns));
        int64_t wait_ns = mono_since(slice_pace_failed(&p, 0, at(now_ns)), at(now_ns));
        int64_t cap_ns = i < 8 ? SLICE_RETRY_MIN_NS << i : SLICE_RETRY_MAX_NS;
        cap_ns = cap_ns < SLICE_RETRY_MAX_NS ? cap_ns : SLICE_RETRY_MAX_NS;
        assert_in_range(wait_ns, SLICE_RETRY_MIN_NS, SLICE_RETRY_MIN_NS + cap_ns);
        assert_int_equal(slice_pace_next(&p, &CLEAN, at(now_ns)).ns, at(now_ns + wait_ns).ns);
        now_ns += wait_ns;
    }
}

static void what_the_server_asks_for_holds_for_a_new_verdict_within_a_bound(void **state)
{
    (void)state;
    struct slice_pace p;
    slice_pace_init(&p, 0, 7);
    (void)slice_pace_wrote(&p, &CLEAN, at(0));
    (void)slice_pace_failed(&p, 9 * NS_PER_SEC, at(0));
    assert_int_equal(slice_pace_next(&p, &EXPIRED, at(1)).ns, at(9 * NS_PER_SEC).ns);
    (void)slice_pace_failed(&p, INT64_MAX, at(0));
    assert_int_equal(slice_pace_next(&p, &EXPIRED, at(1)).ns, at(SLICE_RETRY_MAX_NS).ns);
    (void)slice_pace_failed(&p, -1, at(0));
    assert_true(mono_reached(at(1), slice_pace_next(&p, &EXPIRED, at(1))));
}

static void undone_write_is_a_repair_once_per_due_time(void **state)
{
    (void)state;
    struct slice_pace p;
    slice_pace_init(&p, 0, 7);
    (void)slice_pace_wrote(&p, &CLEAN, at(0));
    slice_pace_stands(&p, &CLEAN);
    struct mono due = slice_pace_next(&p, &CLEAN, at(5));
    assert_in_range(mono_since(due, at(5)), SLICE_REPAIR_MIN_NS / 4 * 3 - 1, SLICE_REPAIR_MIN_NS);
    /* Asked again, it is not put off. */
    assert_int_equal(slice_pace_next(&p, &CLEAN, at(6)).ns, due.ns);
    assert_true(slice_pace_wrote(&p, &CLEAN, due));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pace_of_verdicts_is_the_renewal_interval_within_bounds),
        cmocka_unit_test(failed_write_is_repeated_later_each_time_up_to_a_bound),
        cmocka_unit_test(what_the_server_asks_for_holds_for_a_new_verdict_within_a_bound),
        cmocka_unit_test(undone_write_is_a_repair_once_per_due_time),
    };
    return cmocka_run_group_tests_name("dra_slice_pace", tests, NULL, NULL);
}
