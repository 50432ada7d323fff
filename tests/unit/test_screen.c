/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/screen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void a_span_has_the_two_units_that_matter(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {
        {0, "0.0 s"},
        {99 * NS_PER_MS, "0.0 s"},
        {12345 * NS_PER_MS, "12.3 s"},
        {-27700 * NS_PER_MS, "27.7 s"},
        {119999 * NS_PER_MS, "119.9 s"},
        {120 * NS_PER_SEC, "2 m 0 s"},
        {7199 * NS_PER_SEC, "119 m 59 s"},
        {7200 * NS_PER_SEC, "2 h 0 m"},
        {172799 * NS_PER_SEC, "47 h 59 m"},
        {172800 * NS_PER_SEC, "2 d 0 h"},
        {INT64_MAX, "106751 d 23 h"},
        {INT64_MIN, "106751 d 23 h"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char out[SCREEN_SPAN_BYTES];
        assert_string_equal(screen_span(rows[i].ns, out), rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_has_the_two_units_that_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
