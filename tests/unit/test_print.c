/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/print.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

TEST(a_span_has_the_two_units_that_matter)
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
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char out[PRINT_SPAN_BYTES];
        assert_string_equal(print_span(rows[i].ns, out), rows[i].text);
    }
}

#define RED   "\033[31m"
#define PLAIN "\033[0m"

TEST(text_fits_its_columns)
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
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);
        assert_non_null(out);
        print_wrapped(rows[i].in, 20, out);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, rows[i].out);
        free(text);
    }
}

TEST(a_width_of_nothing_gives_a_word_a_line)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    print_wrapped("a b  c\n", 0, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "a\nb\nc\n");
    free(text);
}

/* Prints `json` in the other form, or again. */
static char *printed(const char *json, bool as_yaml)
{
    char *text = NULL;
    size_t len = 0;
    json_t *tree = json_loads(json, JSON_DECODE_ANY, NULL);
    FILE *out = open_memstream(&text, &len);
    assert_non_null(tree);
    assert_non_null(out);
    assert_true(print_json(tree, as_yaml, out));
    assert_int_equal(fclose(out), 0);
    return text;
}

TEST(yaml_says_what_the_json_says)
{
    static const struct {
        const char *json;
        const char *yaml;
    } rows[] = {
        {"{\"a\":{}}", "a: {}\n"},
        {"{\"a\":[],\"b\":null}", "a: []\nb: null\n"},
        {"{\"b\":1,\"a\":true,\"c\":-0.5}", "b: 1\na: true\nc: -0.5\n"},
        {"{\"a\":[1,{\"x\":2,\"y\":3}]}", "a:\n- 1\n- x: 2\n  y: 3\n"},
        {"{\"a\":{\"b\":{\"x\":1,\"y\":2},\"c\":3}}", "a:\n  b:\n    x: 1\n    y: 2\n  c: 3\n"},
        /* Texts stay texts. */
        {"{\"a\":\"true\",\"b\":\"1\",\"c\":\"\"}", "a: \"true\"\nb: \"1\"\nc: \"\"\n"},
        {"{\"a\":\"x: y # \\\"z\\\"\"}", "a: \"x: y # \\\"z\\\"\"\n"},
        {"{\"a\":\"line\\nfeed\\u001b[31m\"}", "a: \"line\\nfeed\\u001B[31m\"\n"},
        {"{\"a\":\"caf\\u00e9\"}", "a: \"caf\xc3\xa9\"\n"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text = printed(rows[i].json, true);
        assert_string_equal(text, rows[i].yaml);
        free(text);
    }
}

TEST(json_keeps_its_order_and_ends_its_line)
{
    char *text = printed("{\"b\":12.345,\"a\":[1]}", false);
    assert_string_equal(text, "{\n  \"b\": 12.345,\n  \"a\": [\n    1\n  ]\n}\n");
    free(text);
}

TEST(a_full_disk_is_noticed)
{
    FILE *full = fopen("/dev/full", "we");
    assert_non_null(full);
    for (int as_yaml = 0; as_yaml <= 1; as_yaml++) {
        assert_false(print_json(json_pack("{s:s}", "a", "b"), as_yaml, full));
        clearerr(full);
    }
    assert_false(print_json(NULL, false, full));
    (void)fclose(full);
}

TEST(a_later_version_is_greater)
{
    static const char *const rising[] = {
        "0.0.1", "0.4.0",  "1.0.0", "1.1.0",  "1.9.9",  "1.10.0",    "2.0.0",
        "2.0.3", "2.0.10", "2.1.0", "10.0.0", "10.0.1", "99999.0.0", "99999.99999.99999"};
    for (size_t i = 1; i < sizeof(rising) / sizeof(rising[0]); i++) {
        assert_true(version_number(rising[i - 1]) < version_number(rising[i]));
    }
}

TEST(what_surrounds_the_three_parts_does_not_count)
{
    assert_int_equal(version_number("v1.34.1"), version_number("1.34.1"));
    assert_int_equal(version_number("1.7.27-0ubuntu1"), version_number("1.7.27"));
    assert_int_equal(version_number("1.34.1+k3s.2"), version_number("1.34.1"));
    assert_int_equal(version_number("2.0.3.4"), version_number("2.0.3"));
    assert_int_equal(version_number("01.002.3"), version_number("1.2.3"));
}

TEST(what_is_no_version_is_nothing)
{
    static const char *const none[] = {
        "",      "v",      "1",      "1.2",     "1.2.",  ".1.2.3", "1..2",       "a.b.c",
        "1.2.x", "-1.2.3", "1 .2.3", "vv1.2.3", "1-2-3", "1,2,3.", "123456.1.1", "1.1.999999"};
    assert_int_equal(version_number(NULL), 0);
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(version_number(none[i]), 0);
    }
}
