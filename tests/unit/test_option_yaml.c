/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/option.h"
#include "tests/support/case.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct config {
    char *name;
    bool flag;
    int64_t count;
    struct option_list items;
};

static const struct option_row rows[] = {
    {.name = "name", .type = OPTION_TEXT, .offset = offsetof(struct config, name), .help = ""},
    {.name = "flag", .type = OPTION_BOOL, .offset = offsetof(struct config, flag), .help = ""},
    {.name = "count",
     .type = OPTION_INT,
     .offset = offsetof(struct config, count),
     .min = 0,
     .max = 9,
     .help = ""},
    {.name = "item", .type = OPTION_LIST, .offset = offsetof(struct config, items), .help = ""},
};

static const struct option_program program = {
    .name = "prog", .summary = "", .rows = rows, .row_count = ARRAY_LEN(rows)};

static const struct option_program sharing = {
    .name = "other", .summary = "", .rows = rows, .row_count = ARRAY_LEN(rows), .shared_file = "f"};

static int apply_for(const struct option_program *with, struct config *config, const char *text,
                     size_t len, struct err *e)
{
    return option_apply_yaml(with, config, "f", text, len, e);
}

static int apply(struct config *config, const char *text, size_t len, struct err *e)
{
    return apply_for(&program, config, text, len, e);
}

TEST(a_mapping_of_scalars_and_lists_is_applied)
{
    struct config c = {0};
    const char *text = "# ours\n---\nname: ''\nflag: on\ncount: 7\nitem:\n- a\n- \"b: c\"\n";
    assert_int_equal(apply(&c, text, strlen(text), NULL), 0);
    assert_string_equal(c.name, "");
    assert_true(c.flag);
    assert_int_equal(c.count, 7);
    assert_int_equal(c.items.count, 2);
    assert_string_equal(c.items.items[1], "b: c");
    option_fini(&program, &c);
}

TEST(documents_that_set_nothing_are_fine)
{
    static const char *const texts[] = {"",          "\n", "# nothing\n", "{}", "---\n{}\n...\n",
                                        "item: []\n"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct config c = {0};
        assert_int_equal(apply(&c, texts[i], strlen(texts[i]), NULL), 0);
        assert_null(c.name);
        option_fini(&program, &c);
    }
}

TEST(what_is_not_options_is_refused_with_its_place)
{
    static const struct {
        const char *text;
        int code;
        const char *message;
    } cases[] = {
        {"nam: x\n", ERR_PARSE, "file 'f': unknown key 'nam'"},
        {"config: x\n", ERR_PARSE, "file 'f': unknown key 'config'"},
        {"name: a\nname: b\n", ERR_PARSE, "file 'f' line 2: 'name' is given twice"},
        {"name:\n", ERR_PARSE, "file 'f', key name: needs one value"},
        {"name: ~\n", ERR_PARSE, "file 'f', key name: needs one value"},
        {"name: null\n", ERR_PARSE, "file 'f', key name: needs one value"},
        {"name: [a]\n", ERR_PARSE, "file 'f', key name: needs one value"},
        {"name: {a: b}\n", ERR_PARSE, "file 'f', key name: needs one value"},
        {"item: a\n", ERR_PARSE, "file 'f', key item: needs a list of values"},
        {"item: {a: b}\n", ERR_PARSE, "file 'f', key item: needs a list of values"},
        {"item: [[a]]\n", ERR_PARSE, "file 'f', key item: needs a list of values"},
        {"item:\n- a\n-\n", ERR_PARSE, "file 'f', key item: needs a list of values"},
        {"count: 10\n", ERR_LIMIT, "file 'f', key count: '10' is out of range; allowed: 0 to 9"},
        {"count: x\n", ERR_PARSE,
         "file 'f', key count: 'x' is not a whole number; allowed: 0 to 9"},
        {"name: \"a\\0b\"\n", ERR_PARSE, "file 'f', key name: needs one value"},
        {"flag: 2\n", ERR_PARSE,
         "file 'f', key flag: '2' is not a truth value; allowed: one of true|false|on|off"},
        {"- a\n", ERR_PARSE, "file 'f': expected 'option: value' lines"},
        {"just text\n", ERR_PARSE, "file 'f': expected 'option: value' lines"},
        {"? [a]\n: b\n", ERR_PARSE, "file 'f' line 1: expected 'key: value'"},
        {"\"a\\0b\": c\n", ERR_PARSE, "file 'f' line 1: expected 'key: value'"},
        {"name: &a b\nitem: [*a]\n", ERR_PARSE, "file 'f' line 2: aliases are not supported"},
        {"name: a\n---\nname: b\n", ERR_PARSE, "file 'f' line 2: only one document is allowed"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct config c = {0};
        struct err e = ERR_INIT;
        int rc = apply(&c, cases[i].text, strlen(cases[i].text), &e);
        assert_string_equal(e.msg, cases[i].message);
        assert_int_equal(rc, cases[i].code);
        option_fini(&program, &c);
    }
}

TEST(of_a_shared_file_other_keys_are_passed_over_unless_they_are_deep)
{
    static const struct {
        const char *text;
        const char *message; /* "": it is fine */
    } cases[] = {
        {"x: 1\nname: n\ny: [a, b]\nz:\n- c\n", ""},
        {"x: {a: [1, 2], b: {c: d}}\nname: n\n", ""},
        {"x: [[[[[[[[a]]]]]]]]\nname: n\n", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct config c = {0};
        struct err e = ERR_INIT;
        int rc = apply_for(&sharing, &c, cases[i].text, strlen(cases[i].text), &e);
        assert_string_equal(e.msg, cases[i].message);
        assert_int_equal(rc, cases[i].message[0] ? ERR_PARSE : 0);
        option_fini(&sharing, &c);
    }
    static char deep[OPTION_MAX_FILE_BYTES];
    memset(deep, '[', sizeof(deep));
    memcpy(deep, "x: ", 3);
    struct config c = {0};
    struct err e = ERR_INIT;
    clock_t began = clock();
    assert_int_equal(apply_for(&sharing, &c, deep, sizeof(deep), &e), ERR_LIMIT);
    assert_string_equal(e.msg, "file 'f' line 1: nested deeper than 32 levels");
    assert_true(clock() - began < CLOCKS_PER_SEC);
}

TEST(broken_yaml_is_refused_with_its_line)
{
    static const char *const texts[] = {"item: [a\n",     "name: 'a\n",   "\tname: a\n",
                                        "name: a\n b: c", "name: \xff\n", "name: @a\n",
                                        "name: %\n"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct config c = {0};
        struct err e = ERR_INIT;
        assert_int_equal(apply(&c, texts[i], strlen(texts[i]), &e), ERR_PARSE);
        assert_memory_equal(e.msg, "file 'f' line ", 14);
        assert_non_null(strstr(e.msg, "not valid YAML: "));
        option_fini(&program, &c);
    }
}
