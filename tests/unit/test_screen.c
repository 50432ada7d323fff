/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/screen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

#define RED   "\033[31m"
#define PLAIN "\033[0m"

static void text_fits_its_columns(void **state)
{
    static const struct {
        const char *in;
        const char *out;
    } rows[] = {
        {"", ""},
        {"\n\n", "\n\n"},
        {"exactly twenty chars\n", "exactly twenty chars\n"},
        {"one more than twenty1\n", "one more than\ntwenty1\n"},
        {"  begins two columns in\n", "  begins two columns\n  in\n"},
        {"  tab\tis ten in now\n", "  tab     is ten in\n          now\n"},
        {"\tten in and more\n", "          ten in and\n          more\n"},
        {"longerthanten\tx y z\n", "longerthanten x y z\n"},
        {"/a/path/that/is/never/broken ok\n", "/a/path/that/is/never/broken\nok\n"},
        {RED "exactly" PLAIN " twenty chars\n", RED "exactly" PLAIN " twenty chars\n"},
        {"caf\xc3\xa9 caf\xc3\xa9 caf\xc3\xa9 caf\xc3\xa9!\n",
         "caf\xc3\xa9 caf\xc3\xa9 caf\xc3\xa9 caf\xc3\xa9!\n"},
        {"kept  blanks   inside\n", "kept  blanks\ninside\n"},
        {"no newline at the end of it", "no newline at the\nend of it"},
        {"unfinished \033[3", "unfinished \033[3"},
        {"unfinished \033", "unfinished \033"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);
        assert_non_null(out);
        screen_wrap(rows[i].in, 20, out);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, rows[i].out);
        free(text);
    }
}

static void a_width_of_nothing_gives_a_word_a_line(void **state)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    (void)state;
    assert_non_null(out);
    screen_wrap("a b  c\n", 0, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "a\nb\nc\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_has_the_two_units_that_matter),
        cmocka_unit_test(text_fits_its_columns),
        cmocka_unit_test(a_width_of_nothing_gives_a_word_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
