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

static void attributes_are_typed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *name;
        enum attribute_type type;
        const char *value;
        int64_t number;
    } rows[] = {
        {"model=bf3", "model", ATTRIBUTE_STRING, "bf3", 0},
        {"model:string=", "model", ATTRIBUTE_STRING, "", 0},
        {"x=a=b", "x", ATTRIBUTE_STRING, "a=b", 0},
        {"_a1:int=-5", "_a1", ATTRIBUTE_INT, "", -5},
        {"ok:bool=true", "ok", ATTRIBUTE_BOOL, "", 1},
        {"ok:bool=false", "ok", ATTRIBUTE_BOOL, "", 0},
        {"fw:version=32.41.1000", "fw", ATTRIBUTE_VERSION, "32.41.1000", 0},
        {"fw:version=1.0.0-rc.1+build.007", "fw", ATTRIBUTE_VERSION, "1.0.0-rc.1+build.007", 0},
        {"dpu.example.com/slot:int=3", "dpu.example.com/slot", ATTRIBUTE_INT, "", 3},
        {"s=" A64, "s", ATTRIBUTE_STRING, A64, 0},
        {A16 A16 "=x", A16 A16, ATTRIBUTE_STRING, "x", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct attribute a;
        assert_int_equal(attribute_parse(rows[i].text, &a, NULL), 0);
        assert_string_equal(a.name, rows[i].name);
        assert_int_equal(a.type, rows[i].type);
        assert_string_equal(a.text, rows[i].value);
        assert_int_equal(a.number, rows[i].number);
    }
}

static void what_the_api_server_would_refuse_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "x",
        "=x",
        "1a=x",
        "a-b=x",
        A16 A16 "a=x",
        "a/b/c=x",
        "/b=x",
        "Dom.com/b=x",
        A64 "/b=x",
        "a:float=1",
        "a:=1",
        "a:int=x",
        "a:int=",
        "a:int=99999999999999999999",
        "a:bool=yes",
        "s=" A64 "a",
        "v:version=1.2",
        "v:version=01.2.3",
        "v:version=1.2.3-",
        "v:version=1.2.3-01",
        "v:version=1.2.3+",
        "v:version=1.2.3.4",
        "v:version=v1.2.3",
        A64 A64 "=x",
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
    char name[8];
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
        cmocka_unit_test(attributes_are_typed),
        cmocka_unit_test(what_the_api_server_would_refuse_is_refused),
        cmocka_unit_test(later_attribute_replaces_an_earlier_one),
        cmocka_unit_test(list_is_bounded),
    };
    return cmocka_run_group_tests_name("dra_attribute", tests, NULL, NULL);
}
