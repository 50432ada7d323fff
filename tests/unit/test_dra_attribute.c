/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/attribute.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define A16 "aaaaaaaaaaaaaaaa"
#define A64 A16 A16 A16 A16

static void attributes_are_names_with_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *name;
        const char *value;
    } rows[] = {
        {"model=bf3", "model", "bf3"},
        {"model=", "model", ""},
        {"x=a=b", "x", "a=b"},
        {"_a1=-5", "_a1", "-5"},
        {"dpu.example.com/slot=3", "dpu.example.com/slot", "3"},
        {"s=" A64, "s", A64},
        {A16 A16 "=x", A16 A16, "x"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct attribute a;
        assert_int_equal(attribute_parse(rows[i].text, &a, NULL), 0);
        assert_string_equal(a.name, rows[i].name);
        assert_string_equal(a.text, rows[i].value);
    }
}

static void what_the_api_server_would_refuse_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",     "x",           "=x",       "1a=x",    "a-b=x", A16 A16 "a=x", "a/b/c=x",
        "/b=x", "Dom.com/b=x", A64 "/b=x", "a:int=1", "a:=1",  "s=" A64 "a",  A64 A64 "=x",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct attribute a;
        struct err e = ERR_INIT;
        int rc = attribute_parse(rows[i], &a, &e);
        assert_true(rc == ERR_PARSE || rc == ERR_LIMIT);
        assert_non_null(strstr(e.msg, "attribute '"));
    }
}

static void later_attribute_replaces_an_earlier_one(void **state)
{
    (void)state;
    struct attribute_list list = {.count = 0};
    struct attribute a;
    assert_int_equal(attribute_list_set_text(&list, "model", "guess", NULL), 0);
    assert_int_equal(attribute_parse("model=known", &a, NULL), 0);
    assert_int_equal(attribute_list_set(&list, &a, NULL), 0);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0].text, "known");
}

static void list_is_bounded(void **state)
{
    (void)state;
    struct attribute_list list = {.count = 0};
    char name[16];
    for (int i = 0; i < ATTRIBUTES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "a%d", i);
        assert_int_equal(attribute_list_set_text(&list, name, "x", NULL), 0);
    }
    assert_int_equal(attribute_list_set_text(&list, "b", "x", NULL), ERR_LIMIT);
    assert_int_equal(attribute_list_set_text(&list, "no name", "x", NULL), ERR_PARSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_are_names_with_texts),
        cmocka_unit_test(what_the_api_server_would_refuse_is_refused),
        cmocka_unit_test(later_attribute_replaces_an_earlier_one),
        cmocka_unit_test(list_is_bounded),
    };
    return cmocka_run_group_tests_name("dra_attribute", tests, NULL, NULL);
}
