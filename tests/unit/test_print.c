/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/print.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "dpuctl/options.h"
#include "tests/support/case.h"

TEST(a_span_has_the_two_units_that_matter)
{
    static const struct {
        double s;
        const char *text;
    } rows[] = {
        {0, "0.0s"},         {0.099, "0.0s"},    {0.0996, "0.1s"},
        {-0.0996, "-0.1s"},  {12.345, "12.3s"},  {-27.7, "-27.7s"},
        {119.999, "119.9s"}, {120, "2m0s"},      {7199, "119m59s"},
        {7200, "2h0m"},      {172799, "47h59m"}, {10740, "2h59m"},
        {180000, "2d2h"},    {172800, "2d0h"},   {-9223372036.854, "-106751d23h"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[32];
        CLEANUP(json) json_t *doc = json_pack("{s:f}", "x", rows[i].s);
        print_fill(doc, "{x-}", out, sizeof(out));
        assert_string_equal(out, rows[i].text);
    }
}

TEST(a_condition_is_of_the_document)
{
    static const struct {
        const char *when;
        bool holds;
    } rows[] = {
        {"", true},           {"text", true},       {"none", false},      {"!none", true},
        {"empty", false},     {"off", false},       {"on", true},         {"zero", false},
        {"one", true},        {"span", true},       {"list", true},       {"o", true},
        {"o.x", true},        {"o.y", false},       {"text.x", false},    {"null", false},
        {"text=abc", true},   {"text=ab", false},   {"text=abcd", false}, {"!text=ab", true},
        {"off=no", true},     {"on=no", false},     {"null=no", false},   {"o.x=y", true},
        {"empty=", true},     {"one>0", true},      {"one>1", false},     {"one<2", true},
        {"one<1", false},     {"span<0", true},     {"span>-3", true},    {"span<-3", false},
        {"text>0", false},    {"none<1", false},    {"!none>0", true},    {"one on", true},
        {"!on", false},       {"!text=abc", false}, {"one off", false},   {"!off !none", true},
        {"one !one>1", true}, {"one>x", false},
    };
    CLEANUP(json)
    json_t *doc = json_pack("{s:s, s:s, s:b, s:b, s:i, s:i, s:f, s:[i], s:{s:s}, s:n}", "text",
                            "abc", "empty", "", "off", 0, "on", 1, "zero", 0, "one", 1, "span",
                            -2.5, "list", 0, "o", "x", "y", "null");
    assert_non_null(doc);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(print_holds(doc, rows[i].when), rows[i].holds);
    }
}

TEST(a_text_is_filled_from_the_document)
{
    static const char *const rows[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"a text that is longer than the place", "a text that is longer th"},
        {"{o.x}", "caf\xc3\xa9"},
        {"<{o.x}> {n} {none}|", "<caf\xc3\xa9> 7 |"},
        {"{span} {span+} {up+}", "2.5s -2.5s +2m0s"},
        {"{span-} {up-}", "-2.5s 2m0s"},
        {"{n", "7"},
        {"{o}{list}{on}", "0yes"},
        {"{long}", "one, two, three, four, f"},
        {"cut here: {o.x}{o.x}{o.x}", "cut here: caf\xc3\xa9"
                                      "caf\xc3\xa9"
                                      "caf"},
    };
    CLEANUP(json)
    json_t *doc = json_pack("{s:i, s:f, s:f, s:[i], s:[s,s,s,s,s], s:{s:s}, s:b}", "n", 7, "span",
                            -2.5, "up", 120., "list", 0, "long", "one", "two", "three", "four",
                            "five", "o", "x", "caf\xc3\xa9", "on", 1);
    assert_non_null(doc);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[25];
        print_fill(doc, rows[i][0], out, sizeof(out));
        assert_string_equal(out, rows[i][1]);
    }
}

static void print_some(const struct admin_config *config, const json_t *doc)
{
    static const struct print_row rows[] = {
        {"a ", "on", "{on}"}, {" b ", "off", "never"}, {"", "", "."}, {" c ", "!off", "{n}\n"}};
    print_rows(doc, rows, ARRAY_LEN(rows), false);
    print_rows(doc, rows, 1, true);
    print_json_line(doc);
}

/* `json` is printed so. */
static void expect_printed(const char *json, enum admin_output output, const char *expected)
{
    const struct admin_config config = {.output = (int)output};
    CLEANUP(json) json_t *doc = json_loads(json, JSON_DECODE_ANY, NULL);
    CLEANUP(free) char *text = NULL;
    size_t len = 0;
    FILE *stdout_before = stdout;
    stdout = open_memstream(&text, &len);
    bool is_written = print_document(&config, doc, print_some, ADMIN_GOOD) == ADMIN_GOOD;
    (void)fclose(stdout);
    stdout = stdout_before;
    assert_int_equal(is_written, doc != NULL);
    assert_string_equal(text, expected);
}

TEST(yaml_says_what_the_json_says_in_its_order)
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
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        expect_printed(rows[i].json, ADMIN_YAML, rows[i].yaml);
    }
    expect_printed("{\"b\":12.345,\"a\":[1]}", ADMIN_JSON,
                   "{\n  \"b\": 12.345,\n  \"a\": [\n    1\n  ]\n}\n");
    expect_printed("no JSON", ADMIN_JSON, "");
}

TEST(rows_that_hold_are_printed)
{
    expect_printed("{\"on\":true,\"n\":7}", ADMIN_TEXT,
                   "a yes. c 7\n\033[2ma \033[0myes{\"on\":true,\"n\":7}\n");
    expect_printed("[{\"on\":true},{}]", ADMIN_TEXT,
                   "a yes. c \n. c \n\033[2ma \033[0myes[{\"on\":true},{}]\n");
    CLEANUP(json) json_t *no_time = print_json_stamp((struct wall){0});
    assert_true(json_is_null(no_time));
    assert_true(print_has_color(ADMIN_COLOR_ALWAYS));
    assert_false(print_has_color(ADMIN_COLOR_NEVER));
}

TEST(a_later_version_is_greater)
{
    static const char *const rising[] = {"0.0.1",           "v0.4.0",       "1.0.0",  "1.1.0",
                                         "1.7.27-0ubuntu1", "1.9.9",        "1.10.0", "2.0.0",
                                         "2.0.3",           "2.0.10+k3s.2", "10.0.0", "99999.0.0"};
    static const char *const none[] = {"", "v", "vv1.2.3", ".1.2.3", "-1.2.3", "a.b.c", NULL};
    for (size_t i = 1; i < ARRAY_LEN(rising); i++) {
        const char *since = rising[i - 1] + (rising[i - 1][0] == 'v');
        assert_true(version_reaches(rising[i], since));
        assert_true(version_reaches(rising[i - 1], since));
        assert_false(version_reaches(rising[i - 1], rising[i] + (rising[i][0] == 'v')));
    }
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        assert_false(version_reaches(none[i], ""));
    }
}
