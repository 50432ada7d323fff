/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/version_number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_later_version_is_greater(void **state)
{
    static const char *const rising[] = {
        "0.0.1", "0.4.0",  "1.0.0", "1.1.0",  "1.9.9",  "1.10.0",    "2.0.0",
        "2.0.3", "2.0.10", "2.1.0", "10.0.0", "10.0.1", "99999.0.0", "99999.99999.99999"};
    (void)state;
    for (size_t i = 1; i < sizeof(rising) / sizeof(rising[0]); i++) {
        assert_true(version_number(rising[i - 1]) < version_number(rising[i]));
    }
}

static void what_surrounds_the_three_parts_does_not_count(void **state)
{
    (void)state;
    assert_int_equal(version_number("v1.34.1"), version_number("1.34.1"));
    assert_int_equal(version_number("1.7.27-0ubuntu1"), version_number("1.7.27"));
    assert_int_equal(version_number("1.34.1+k3s.2"), version_number("1.34.1"));
    assert_int_equal(version_number("2.0.3.4"), version_number("2.0.3"));
    assert_int_equal(version_number("01.002.3"), version_number("1.2.3"));
}

static void what_is_no_version_is_nothing(void **state)
{
    static const char *const none[] = {
        "",      "v",      "1",      "1.2",     "1.2.",  ".1.2.3", "1..2",       "a.b.c",
        "1.2.x", "-1.2.3", "1 .2.3", "vv1.2.3", "1-2-3", "1,2,3.", "123456.1.1", "1.1.999999"};
    (void)state;
    assert_int_equal(version_number(NULL), 0);
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(version_number(none[i]), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_later_version_is_greater),
        cmocka_unit_test(what_surrounds_the_three_parts_does_not_count),
        cmocka_unit_test(what_is_no_version_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
