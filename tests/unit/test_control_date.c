/* SPDX-License-Identifier: Apache-2.0 */
#include "base/attr.h"
#include "host-agent/control_date.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BOOT_NS (INT64_C(1790000000) * NS_PER_SEC) /* the wall clock when the machine booted */

struct row {
    int64_t now_s;
    int64_t set_s;     /* the wall clock is ahead of what it was at first */
    int64_t stamped_s; /* as that clock was at first */
    int64_t written_s; /* expected; 0: nobody can say */
};

static void check(const struct row *rows, size_t count)
{
    struct control_date d;
    control_date_init(&d, (struct mono){100 * NS_PER_SEC},
                      (struct wall){BOOT_NS + 100 * NS_PER_SEC});
    for (size_t i = 0; i < count; i++) {
        struct mono now = {rows[i].now_s * NS_PER_SEC};
        struct wall wall = {BOOT_NS + (rows[i].now_s + rows[i].set_s) * NS_PER_SEC};
        const struct lease_view control = {
            .renew_time_valid = true, .renew_time = {BOOT_NS + rows[i].stamped_s * NS_PER_SEC}};
        assert_int_equal(control_date_tell(&d, now, wall, &control).ns,
                         rows[i].written_s * NS_PER_SEC);
    }
}

static void a_clock_that_nobody_sets_dates_all_that_was_written_since_the_start(void **state)
{
    static const struct row rows[] = {
        {150, 0, 149, 149}, {150, 0, 100, 100}, {150, 0, 99, 0},
        {150, 0, 150, 150}, {150, 0, 151, 0}, /* of the future */
    };
    (void)state;
    check(rows, ARRAY_LEN(rows));
}

static void a_clock_set_forward_dates_what_was_written_after_that_was_noticed(void **state)
{
    static const struct row rows[] = {
        {150, 0, 140, 140},
        {160, 3600, 155, 0},  /* an hour old by that clock */
        {160, 3600, 3750, 0}, /* or it was stamped after the step, and before we knew */
        {170, 3600, 3765, 165},
    };
    (void)state;
    check(rows, ARRAY_LEN(rows));
}

/* Else a control that died before the step would look alive when the clock shows its time again. */
static void a_clock_set_back_dates_nothing_until_it_shows_a_time_never_shown_before(void **state)
{
    static const struct row rows[] = {
        {160, -30, 120, 0},   {185, -30, 155, 0}, {191, -30, 160, 0},
        {192, -30, 161, 191}, {200, -20, 179, 0}, {212, -20, 191, 211},
    };
    (void)state;
    check(rows, ARRAY_LEN(rows));
}

static void what_is_no_time_has_no_date(void **state)
{
    struct control_date d;
    const struct lease_view control = {.renew_time = {BOOT_NS + 110 * NS_PER_SEC}};
    (void)state;
    control_date_init(&d, (struct mono){100 * NS_PER_SEC},
                      (struct wall){BOOT_NS + 100 * NS_PER_SEC});
    assert_int_equal(control_date_tell(&d, (struct mono){120 * NS_PER_SEC},
                                       (struct wall){BOOT_NS + 120 * NS_PER_SEC}, &control)
                         .ns,
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_that_nobody_sets_dates_all_that_was_written_since_the_start),
        cmocka_unit_test(a_clock_set_forward_dates_what_was_written_after_that_was_noticed),
        cmocka_unit_test(a_clock_set_back_dates_nothing_until_it_shows_a_time_never_shown_before),
        cmocka_unit_test(what_is_no_time_has_no_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
