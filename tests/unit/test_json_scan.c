/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "tests/support/case.h"

static struct json_slice whole(const char *text)
{
    struct json_slice out = {.at = NULL};
    struct err e = ERR_INIT;
    if (json_scan_check(text, strlen(text), &out, &e) != 0) {
        fail_msg("%s: %s", text, e.msg);
    }
    return out;
}

static void assert_slice(struct json_slice slice, const char *expected)
{
    if (!expected) {
        assert_int_equal(json_scan_kind(slice), JSON_KIND_ABSENT);
        return;
    }
    if (slice.len != strlen(expected) || memcmp(slice.at, expected, slice.len) != 0) {
        fail_msg("'%.*s' is not '%s'", (int)slice.len, slice.at ? slice.at : "", expected);
    }
}

TEST(what_go_accepts_is_accepted)
{
    static const char *const texts[] = {"null",
                                        " true ",
                                        "\t\r\n{}\n",
                                        "[]",
                                        "[[],{},\"\"]",
                                        "0",
                                        "-0",
                                        "-0.0e-0",
                                        "1E+9",
                                        "123456789012345678901234567890",
                                        "1e999",
                                        "\"\\u0000\"",
                                        "\"\\ud800\"",
                                        "\"\\udc00\\ud800\"",
                                        "\"\xff\xfe\xc0\x80\"",
                                        "\"\x7f\"",
                                        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00Ff\"",
                                        "{\"\":1,\"\":2}",
                                        "{ \"a\" : [ 1 , { \"b\" : null } ] , \"c\" : \"]}\" }"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        (void)whole(texts[i]);
    }
}

static void assert_refused(const char *text, const char *words)
{
    struct json_slice out = {.len = 99};
    struct err e = ERR_INIT;
    assert_int_equal(json_scan_check(text, strlen(text), &out, &e), ERR_PARSE);
    if (!strstr(e.msg, words)) {
        fail_msg("%s: %s", text, e.msg);
    }
    assert_int_equal(out.len, 99); /* untouched */
}

TEST(what_go_refuses_is_refused)
{
    static const char *const cut[] = {"",    " ",    "{",       "[1",  "[1,", "{\"a\"", "{\"a\":",
                                      "\"a", "\"\\", "\"\\u12", "tru", "-",   "1.",     "1e"};
    static const char *const at[][12] = {
        /* by the byte */
        [0] = {"+1", ".5", "NaN", "'a'", "\xef\xbb\xbf{}"},
        [1] = {"[,1]", "{,}", "{a:1}", "{1:1}", "01", "\"\n\""},
        [2] = {"{}}", "[1}", "1.e1", "\"\\q\"", "{}\v"},
        [3] = {"nul!", "{} {}", "[1,]", "[1 2]"},
        [4] = {"{\"a\",1}"},
        [5] = {"\"\\u00g0\""},
        [6] = {"{\"a\":1]"},
        [7] = {"{\"a\":1,}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cut); i++) {
        assert_refused(cut[i], "unexpected end");
    }
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        char words[] = "at byte 0";
        words[8] = (char)('0' + (char)i);
        for (size_t j = 0; j < ARRAY_LEN(at[i]) && at[i][j]; j++) {
            assert_refused(at[i][j], words);
        }
    }
    struct json_slice out;
    assert_int_equal(json_scan_check("\"a\0b\"", 5, &out, NULL), ERR_PARSE);
    assert_int_equal(json_scan_check("{}\0", 3, &out, NULL), ERR_PARSE);
    assert_int_equal(json_scan_check("\"\\\0\"", 4, &out, NULL), ERR_PARSE);
}

/* {"x":[[...]]} with `levels` brackets in all. Returns owned. */
static char *nested(size_t levels)
{
    char *text = malloc(2 * levels + 16);
    assert_non_null(text);
    size_t used = sizeof("{\"x\":") - 1;
    memcpy(text, "{\"x\":", used);
    memset(text + used, '[', levels - 1);
    memset(text + used + levels - 1, ']', levels - 1);
    memcpy(text + used + 2 * (levels - 1), "}", 2);
    return text;
}

TEST(depth_ends_where_gos_does)
{
    struct json_slice out;
    struct err e = ERR_INIT;
    char *text = nested(JSON_SCAN_MAX_DEPTH);
    assert_int_equal(json_scan_check(text, strlen(text), &out, &e), 0);
    assert_int_equal(json_scan_member(out, "x").len, strlen(text) - 6);
    free(text);
    text = nested(JSON_SCAN_MAX_DEPTH + 1);
    assert_int_equal(json_scan_check(text, strlen(text), &out, &e), ERR_LIMIT);
    assert_non_null(strstr(e.msg, "10000 levels"));
    free(text);
}

TEST(each_cut_text_stays_within_its_bytes)
{
    static const char text[] =
        "{\"a\\\"\":[1,{\"b\":\"\\ud83d\\udcbe \xf0\x9f\x92\xbe\"},null],\"c\":-1.5e3}";
    for (size_t len = 0; len < sizeof(text); len++) {
        char *exact = malloc(len + (len == 0));
        struct json_slice out;
        assert_non_null(exact);
        memcpy(exact, text, len);
        assert_int_equal(json_scan_check(exact, len, &out, NULL) == 0, len == sizeof(text) - 1);
        /* Even a text that nobody checked is not left. */
        struct json_slice unchecked = {.at = exact, .len = len};
        (void)json_scan_count(unchecked);
        (void)json_scan_member(unchecked, "c");
        free(exact);
    }
}

TEST(members_stand_where_they_stand)
{
    struct json_slice object =
        whole(" { \"a\" : 1 ,\"b\":[ 1 ,\t\"]\\\"\" ] , \"c\":{\"d\":{}} ,\"e\": -1.50 } ");
    static const char *const expected[][2] = {{"\"a\"", "1"},
                                              {"\"b\"", "[ 1 ,\t\"]\\\"\" ]"},
                                              {"\"c\"", "{\"d\":{}}"},
                                              {"\"e\"", "-1.50"}};
    struct json_walk w = json_walk_start(object);
    for (size_t i = 0; i < 4; i++) {
        assert_true(json_walk_next(&w));
        assert_slice(w.key, expected[i][0]);
        assert_slice(w.value, expected[i][1]);
        assert_slice(json_scan_item(object, i), expected[i][1]);
    }
    assert_false(json_walk_next(&w));
    assert_false(json_walk_next(&w)); /* and stays there */
    assert_slice(json_scan_item(object, 4), NULL);
    assert_int_equal(json_scan_count(object), 4);
    w = json_walk_start(json_scan_member(object, "b"));
    assert_true(json_walk_next(&w));
    assert_slice(w.key, NULL);
    assert_slice(w.value, "1");
    assert_true(json_walk_next(&w));
    assert_slice(w.value, "\"]\\\"\"");
    assert_false(json_walk_next(&w));
    static const char *const empty[] = {"{}", "[ ]", "1", "null", "\"[1]\""};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(json_scan_count(whole(empty[i])), 0);
    }
    assert_int_equal(json_scan_count((struct json_slice){.at = NULL}), 0);
}

TEST(a_member_is_found_as_go_finds_it)
{
    static const struct {
        const char *object;
        const char *member; /* of name "skin" */
        const char *field;
        bool is_fine;
    } rows[] = {
        {"{}", NULL, NULL, true},
        {"{\"skin\":\"a\"}", "\"a\"", "\"a\"", true},
        {"{\"skin\":\"a\",\"skin\":\"b\"}", "\"b\"", "\"b\"", true},
        {"{\"skin\":\"a\",\"SKIN\":\"b\"}", "\"a\"", "\"b\"", true},
        {"{\"Skin\":\"b\",\"skin\":\"a\"}", "\"a\"", "\"a\"", true},
        {"{\"s\\u006bin\":\"a\"}", "\"a\"", "\"a\"", true},
        {"{\"\xc5\xbf\xe2\x84\xaain\":\"a\"}", NULL, "\"a\"", true}, /* long s, Kelvin sign */
        {"{\"\\u017F\\u212Ain\":\"a\"}", NULL, "\"a\"", true},
        {"{\"skin\":\"a\",\"Skin\":null}", "\"a\"", "\"a\"", true},
        {"{\"skin\":\"a\",\"skin\":null}", "null", "\"a\"", true},
        {"{\"skin\":7,\"skin\":\"a\"}", "\"a\"", "\"a\"", false},
        {"{\"Skin\":[]}", NULL, "[]", false},
        {"{\"skin\\u0000\":\"a\",\"ski\":1,\"skins\":2,\"x\":{\"skin\":3}}", NULL, NULL, true},
        {"[\"skin\",\"a\"]", NULL, NULL, true},
        {"\"skin\"", NULL, NULL, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct json_slice field;
        print_message("%s\n", rows[i].object);
        assert_slice(json_scan_member(whole(rows[i].object), "skin"), rows[i].member);
        assert_int_equal(json_scan_field(whole(rows[i].object), "skin", &field), rows[i].is_fine);
        assert_slice(field, rows[i].field);
    }
}

TEST(text_is_read_as_go_reads_it)
{
    static const struct {
        const char *json;
        const char *text;
        bool is_whole;
    } rows[] = {
        {"\"\"", "", true},
        {"\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", "a\"\\/\b\f\n\r\tz", true},
        {"\"\\u00e9\\u20AC\\ud83d\\udcbe\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x92\xbe", true},
        {"\"\xc3\xa9\x7f\"", "\xc3\xa9\x7f", true},
        {"\"\\ufffd\xef\xbf\xbd\"", "\xef\xbf\xbd\xef\xbf\xbd", true},
        {"\"a\\u0000b\"",
         "a\xef\xbf\xbd"
         "b",
         false},
        {"\"\\ud83dx\"", "\xef\xbf\xbdx", false},
        {"\"\\ud83d\\u0041\"",
         "\xef\xbf\xbd"
         "A",
         false},
        {"\"\\udc00\\ud83d\"", "\xef\xbf\xbd\xef\xbf\xbd", false},
        {"\"\\ud83d\\ud83d\\udcbe\"", "\xef\xbf\xbd\xf0\x9f\x92\xbe", false},
        {"\"\xff|\"", "\xef\xbf\xbd|", false},
        {"\"\xe2\x82|\"", "\xef\xbf\xbd\xef\xbf\xbd|", false},
        {"\"\xed\xa0\x80\"", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", false},
        {"\"0123456789abcdefghijklmnopqrstu\"", "0123456789abcdefghijklmnopqrstu", true},
        {"\"0123456789abcdefghijklmnopqrstuv\"", "0123456789abcdefghijklmnopqrstu", false},
        {"\"0123456789abcdefghijklmnopqrst\\u00e9\"", "0123456789abcdefghijklmnopqrst", false},
        {"7", "", false},
        {"null", "", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[32];
        print_message("%s\n", rows[i].json);
        assert_int_equal(json_scan_text(whole(rows[i].json), out, sizeof(out)), rows[i].is_whole);
        assert_string_equal(out, rows[i].text);
    }
    char out[2];
    assert_false(json_scan_text((struct json_slice){.at = NULL}, out, sizeof(out)));
}

TEST(texts_are_ordered_by_their_characters)
{
    static const char *const sorted[] = {
        "\"\"",         "\"\\u0000\"",      "\"A\"",
        "\"a\"",        "\"ab\"",           "\"b\"",
        "\"\xc3\xa9\"", "\"\xef\xbf\xbd\"", "\"\xf0\x9f\x92\xbe\""};
    for (size_t i = 0; i < 9; i++) {
        for (size_t j = 0; j < 9; j++) {
            int order = json_scan_compare(whole(sorted[i]), whole(sorted[j]));
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
    assert_int_equal(json_scan_compare(whole("\"\\u0061\""), whole("\"a\"")), 0);
    assert_int_equal(json_scan_compare(whole("\"\xff\""), whole("\"\\ud800\"")), 0); /* as in Go */
}
