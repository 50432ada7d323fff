/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/json_print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Prints `json` in the other form, or again. */
static char *printed(const char *json, bool as_yaml)
{
    char *text = NULL;
    size_t len = 0;
    json_t *tree = json_loads(json, JSON_DECODE_ANY, NULL);
    FILE *out = open_memstream(&text, &len);
    assert_non_null(tree);
    assert_non_null(out);
    assert_true(json_print(tree, as_yaml, out));
    assert_int_equal(fclose(out), 0);
    return text;
}

static void yaml_says_what_the_json_says(void **state)
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
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text = printed(rows[i].json, true);
        assert_string_equal(text, rows[i].yaml);
        free(text);
    }
}

static void json_keeps_its_order_and_ends_its_line(void **state)
{
    char *text = printed("{\"b\":12.345,\"a\":[1]}", false);
    (void)state;
    assert_string_equal(text, "{\n  \"b\": 12.345,\n  \"a\": [\n    1\n  ]\n}\n");
    free(text);
}

static void a_full_disk_is_noticed(void **state)
{
    FILE *full = fopen("/dev/full", "we");
    (void)state;
    assert_non_null(full);
    for (int as_yaml = 0; as_yaml <= 1; as_yaml++) {
        assert_false(json_print(json_pack("{s:s}", "a", "b"), as_yaml, full));
        clearerr(full);
    }
    assert_false(json_print(NULL, false, full));
    (void)fclose(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yaml_says_what_the_json_says),
        cmocka_unit_test(json_keeps_its_order_and_ends_its_line),
        cmocka_unit_test(a_full_disk_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
