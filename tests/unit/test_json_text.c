/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_text.h"
#include "base/mem.h"
#include "tests/support/case.h"

TEST(one_value_and_nothing_after_it_is_parsed)
{
    struct err e = ERR_INIT;
    CLEANUP(json)
    json_t *object = json_text_parse(" {\"a\":1,\"a\":\"b\",\"n\":1} \n", 24, &e);
    assert_non_null(object);
    assert_string_equal(json_text_get(object, "a"), "b"); /* of duplicates the last */
    assert_null(json_text_get(object, "n"));
    assert_null(json_text_get(object, "missing"));
    CLEANUP(json) json_t *scalar = json_text_parse("7", 1, &e);
    assert_true(json_is_integer(scalar));
    assert_null(json_text_get(scalar, "a"));
    assert_int_equal(e.code, 0);
}

TEST(what_is_refused_says_why)
{
    static const struct {
        const char *text;
        const char *part;
    } rows[] = {
        {"{", "not valid JSON at byte"},
        {"{} x", "not valid JSON at byte"},
        {"", "not valid JSON at byte"},
        {"\"\xff\"", "not valid JSON at byte"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        assert_null(json_text_parse(rows[i].text, strlen(rows[i].text), &e));
        assert_int_equal(e.code, ERR_PARSE);
        assert_non_null(strstr(e.msg, rows[i].part));
    }
    char deep[4096];
    struct err e = ERR_INIT;
    memset(deep, '[', sizeof(deep));
    assert_null(json_text_parse(deep, sizeof(deep), &e));
    assert_int_equal(e.code, ERR_PARSE);
    assert_non_null(strstr(e.msg, "maximum parsing depth reached"));
}

TEST(a_dump_is_compact_and_keeps_the_order_of_keys)
{
    const char *text = "{\"z\":1,\"a\":[true,null,\"x\"]}";
    CLEANUP(json) json_t *object = json_text_parse(text, strlen(text), NULL);
    CLEANUP(free) char *dump = json_text_dump(object);
    assert_string_equal(dump, text);
}

TEST(a_text_with_nul_is_stored_but_never_taken_for_its_start)
{
    const char *text = "{\"a\":\"dpu\\u0000x\",\"b\":\"\\u0000\"}";
    CLEANUP(json) json_t *object = json_text_parse(text, strlen(text), NULL);
    assert_string_equal(json_text_get(object, "a"), JSON_TEXT_WITH_NUL);
    assert_string_equal(json_text_get(object, "b"), JSON_TEXT_WITH_NUL);
    CLEANUP(free) char *dump = json_text_dump(object);
    assert_string_equal(dump, text);
}
