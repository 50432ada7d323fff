/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/option.h"

#include "base/text.h"
#include "base/time.h"
#include "base/version.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"
#include "tests/unit/option_args.h"

#include <time.h>

struct config {
    char *name;
    bool flag;
    int64_t count;
    int64_t span_ns;
    int64_t hold_ns;
    int choice;
    struct option_list items;
    char *socket;
};

/* clang-format off */
#define ROW(type_, name_, field) .name = name_, .type = type_, .offset = offsetof(struct config, field)
static const struct option_row rows[] = {
    {ROW(OPTION_TEXT, "name", name), .env = {"NAME_A", "NAME_B"}, .default_text = "anon",
     .help = "A name."},
    {ROW(OPTION_BOOL, "flag", flag), .help = "On?"},
    {ROW(OPTION_INT, "count", count), .default_text = "3", .min = 1, .max = 100, .help = "How many."},
    {ROW(OPTION_DURATION, "time-span", span_ns), .default_text = "10", .min = 0,
     .max = 60 * NS_PER_SEC, .help = "How long."},
    {ROW(OPTION_DURATION, "hold", hold_ns), .default_text = "unlimited", .choices = "unlimited",
     .min = 0, .max = INT64_MAX, .help = "How long at most."},
    {ROW(OPTION_CHOICE, "colour", choice), .choices = "red|green|blue", .default_text = "green",
     .help = "Which."},
    {ROW(OPTION_TEXT, "socket", socket), .max = OPTION_MAX_SOCKET_BYTES, .help = "Where."},
    {ROW(OPTION_LIST, "item", items), .placeholder = "ITEM", .help = "Things."},
};
/* clang-format on */

static const struct option_program program = {.name = "prog",
                                              .summary = "Does things.",
                                              .env_prefix = "PRE_",
                                              .rows = rows,
                                              .row_count = ARRAY_LEN(rows)};

struct run {
    struct config config;
    enum option_outcome outcome;
    struct err e;
    int rc;
};

/* What it gives stands until the next. */
static struct run run_options(const struct option_program *with, const char *const *args,
                              const char *const *env)
{
    static struct run r;
    option_fini(&program, &r.config);
    r = (struct run){.outcome = OPTION_EXIT};
    r.rc = parse_args(with, args, env, &r.config, &r.outcome, &r.e);
    return r;
}

static char dir[SCRATCH_BYTES]; /* the working directory, where the file "f" is */

static int enter_directory(void **state)
{
    scratch_make(dir);
    return chdir(dir);
}

static int leave_directory(void **state)
{
    (void)run_options(&program, ARGS("--none"), NULL); /* frees the last one */
    scratch_remove(dir);
    return 0;
}

TEST_GROUP(enter_directory, leave_directory)

/* With a file of that text. */
static struct run run_file(const struct option_program *with, const char *text)
{
    scratch_put(dir, "f", text);
    return run_options(with, ARGS("--config=f"), NULL);
}

TEST(defaults_stand_where_nothing_is_said)
{
    struct run r = run_options(&program, NULL, NULL);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.outcome, OPTION_RUN);
    assert_string_equal(r.config.name, "anon");
    assert_false(r.config.flag);
    assert_int_equal(r.config.count, 3);
    assert_true(r.config.span_ns == 10 * NS_PER_SEC);
    assert_true(r.config.hold_ns == INT64_MAX);
    assert_int_equal(r.config.choice, 1);
    assert_int_equal(r.config.items.count, 0);
}

TEST(flags_take_their_value_after_a_blank_or_an_equals_sign)
{
    struct run r = run_options(&program,
                               ARGS("--name", "a=b", "--flag", "--count=7", "--time-span", "0.5m",
                                    "--hold=5", "--colour", "blue", "--item", "x", "--item=y"),
                               NULL);
    assert_int_equal(r.rc, 0);
    assert_string_equal(r.config.name, "a=b");
    assert_true(r.config.flag);
    assert_int_equal(r.config.count, 7);
    assert_true(r.config.span_ns == 30 * NS_PER_SEC);
    assert_true(r.config.hold_ns == 5 * NS_PER_SEC);
    assert_int_equal(r.config.choice, 2);
    assert_int_equal(r.config.items.count, 2);
    assert_string_equal(r.config.items.items[0], "x");
    assert_string_equal(r.config.items.items[1], "y");
}

TEST(the_last_of_a_repeated_flag_counts)
{
    struct run r = run_options(
        &program, ARGS("--name=a", "--flag", "--name=b", "--flag=off", "--item", "--", "--item="),
        NULL);
    /* "--" cannot be a value without '=': it looks like a forgotten one */
    assert_int_equal(r.rc, ERR_PARSE);
    assert_string_equal(r.e.msg, "flag --item needs a value");
    r = run_options(&program, ARGS("--name=a", "--flag", "--name=b", "--flag=off"), NULL);
    assert_int_equal(r.rc, 0);
    assert_string_equal(r.config.name, "b");
    assert_false(r.config.flag);
}

TEST(environment_names_are_tried_in_order_and_empty_means_unset)
{
    static const struct {
        const char *env[4];
        const char *name;
    } cases[] = {
        {{"NAME_B=b"}, "b"},
        {{"NAME_B=b", "NAME_A=a"}, "a"},
        {{"NAME_B=b", "NAME_A=a", "PRE_NAME=p"}, "p"},
        {{"PRE_NAME=", "NAME_A=", "NAME_B=b"}, "b"},
        {{"PRE_NAME="}, "anon"},
        {{"PRE_NAMES=x", "NAME=x"}, "anon"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct run r = run_options(&program, NULL, cases[i].env);
        assert_int_equal(r.rc, 0);
        assert_string_equal(r.config.name, cases[i].name);
    }
}

TEST(flag_beats_environment_beats_file_beats_default)
{
    const char *env[] = {"PRE_COUNT=12", "PRE_TIME_SPAN=30", NULL};
    const char *by_env[] = {"PRE_CONFIG=f", NULL};
    scratch_put(
        dir, "f",
        "# ours\n---\nname: ''\ncount: 11\ntime-span: 20s\nitem:\n- f1\n- \"f: 2\"\nflag: on\n");
    struct run r = run_options(&program, ARGS("--config=f", "--time-span=40"), env);
    assert_int_equal(r.rc, 0);
    assert_string_equal(r.config.name, "");
    assert_true(r.config.flag);
    assert_int_equal(r.config.count, 12);
    assert_true(r.config.span_ns == 40 * NS_PER_SEC);
    assert_int_equal(r.config.items.count, 2);
    assert_string_equal(r.config.items.items[0], "f1");
    assert_string_equal(r.config.items.items[1], "f: 2");

    r = run_options(&program, ARGS("--item=x", "--item=y", "--item=z"), by_env);
    assert_int_equal(r.rc, 0);
    assert_string_equal(r.config.name, "");
    assert_int_equal(r.config.items.count, 3);
    assert_string_equal(r.config.items.items[2], "z");
}

TEST(errors_name_source_value_and_allowed_range)
{
    static const struct {
        const char *arg;
        const char *env;
        int code;
        const char *message;
    } cases[] = {
        {"--count=0", NULL, ERR_LIMIT, "flag --count: '0' is out of range; allowed: 1 to 100"},
        {"--count=101", NULL, ERR_LIMIT, "flag --count: '101' is out of range; allowed: 1 to 100"},
        {"--count=99999999999999999999", NULL, ERR_LIMIT,
         "flag --count: '99999999999999999999' is out of range; allowed: 1 to 100"},
        {"--count=many", NULL, ERR_PARSE,
         "flag --count: 'many' is not a whole number; allowed: 1 to 100"},
        {"--count=", NULL, ERR_PARSE, "flag --count: '' is not a whole number; allowed: 1 to 100"},
        {"--time-span=61", NULL, ERR_LIMIT,
         "flag --time-span: '61' is out of range; allowed: 0s to 60s"},
        {"--time-span=soon", NULL, ERR_PARSE,
         "flag --time-span: 'soon' is not a duration (seconds like 10 or 0.5, or 500ms, 10s, 1m); "
         "allowed: 0s to 60s"},
        {"--hold=-1", NULL, ERR_PARSE,
         "flag --hold: '-1' is not a duration (seconds like 10 or 0.5, or 500ms, 10s, 1m); "
         "allowed: at least 0s, or unlimited"},
        {"--hold=unlimite", NULL, ERR_PARSE,
         "flag --hold: 'unlimite' is not a duration (seconds like 10 or 0.5, or 500ms, 10s, 1m); "
         "allowed: at least 0s, or unlimited"},
        {"--colour=pink", NULL, ERR_PARSE,
         "flag --colour: 'pink' is not known; allowed: one of red|green|blue"},
        {"--colour=re", NULL, ERR_PARSE,
         "flag --colour: 're' is not known; allowed: one of red|green|blue"},
        {"--flag=maybe", NULL, ERR_PARSE,
         "flag --flag: 'maybe' is not true or false; allowed: one of true|false|on|off"},
        {NULL, "PRE_COUNT=x", ERR_PARSE,
         "environment variable PRE_COUNT: 'x' is not a whole number; allowed: 1 to 100"},
        {NULL, "PRE_ITEM=x", ERR_PARSE,
         "environment variable PRE_ITEM: a list cannot come from the environment; set --item once "
         "for each item, or 'item:' in the file of --config"},
        {"--cuont=1", NULL, ERR_PARSE, "unknown flag '--cuont'"},
        {"--time_span=1", NULL, ERR_PARSE, "unknown flag '--time_span'"},
        {"--entirely-different", NULL, ERR_PARSE, "unknown flag '--entirely-different'"},
        {"--name", NULL, ERR_PARSE, "flag --name needs a value"},
        {"--config", NULL, ERR_PARSE, "flag --config needs a value"},
        {"worker", NULL, ERR_PARSE, "unexpected argument 'worker'"},
        {"-n", NULL, ERR_PARSE, "unexpected argument '-n'"},
        {"--", NULL, ERR_PARSE, "unexpected argument '--'"},
        {"", NULL, ERR_PARSE, "unexpected argument ''"},
        {"--config=/nonexistent/x.yaml", NULL, ERR_NOTFOUND,
         "--config: opening '/nonexistent/x.yaml': No such file or directory"},
        {"--config=/tmp", NULL, ERR_IO, "--config: '/tmp' is not a regular file"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *args[] = {cases[i].arg, NULL};
        const char *env[] = {cases[i].env, NULL};
        struct run r = run_options(&program, args, env);
        assert_string_equal(r.e.msg, cases[i].message);
        assert_int_equal(r.rc, cases[i].code);
    }
}

TEST(a_value_and_the_file_are_bounded_and_say_how_large_they_were)
{
    static char value[OPTION_MAX_FILE_BYTES + 2];
    memset(value, 'x', OPTION_MAX_VALUE_BYTES);
    struct run r = run_options(&program, ARGS("--name", value, "--item", value), NULL);
    assert_int_equal(r.rc, 0);
    value[OPTION_MAX_VALUE_BYTES] = 'x';
    static const char *const names[] = {"--name", "--item", "--count"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        r = run_options(&program, ARGS(names[i], value), NULL);
        assert_int_equal(r.rc, ERR_LIMIT);
        assert_non_null(strstr(r.e.msg, " is 4097 bytes long, more than the allowed 4096"));
    }
    value[OPTION_MAX_SOCKET_BYTES + 1] = '\0';
    r = run_options(&program, ARGS("--socket", value), NULL);
    assert_non_null(strstr(r.e.msg, " is 108 bytes long, more than the allowed 107"));
    value[OPTION_MAX_SOCKET_BYTES] = '\0';
    assert_int_equal(run_options(&program, ARGS("--socket", value), NULL).rc, 0);
    memset(value, '\n', OPTION_MAX_FILE_BYTES + 1);
    r = run_file(&program, value);
    assert_string_equal(r.e.msg, "--config: 'f' has more than the allowed 65536 bytes");
    assert_int_equal(r.rc, ERR_LIMIT);
}

TEST(a_list_is_bounded)
{
    const char *args[OPTION_MAX_LIST + 2] = {NULL};
    for (size_t i = 0; i < OPTION_MAX_LIST; i++) {
        args[i] = "--item=x";
    }
    struct run r = run_options(&program, args, NULL);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.config.items.count, OPTION_MAX_LIST);
    args[OPTION_MAX_LIST] = "--item=y";
    r = run_options(&program, args, NULL);
    assert_int_equal(r.rc, ERR_LIMIT);
    assert_string_equal(r.e.msg, "flag --item: 'y' is one more than the allowed 64 items");
}

/* What the program printed to stdout. */
static char *capture(const char *const *args, enum option_outcome *out)
{
    static char text[16384];
    FILE *before = stdout;
    stdout = fmemopen(text, sizeof(text), "w");
    assert_non_null(stdout);
    struct run r = run_options(&program, args, NULL);
    (void)fclose(stdout); /* in memory */
    stdout = before;
    assert_int_equal(r.rc, 0);
    *out = r.outcome;
    return text;
}

TEST(help_and_version_print_and_exit)
{
    enum option_outcome outcome = OPTION_RUN;
    const char *help = capture(ARGS("--count=5", "-h"), &outcome);
    assert_int_equal(outcome, OPTION_EXIT);
    static const char *const parts[] = {
        "prog: Does things.\n",
        "--name=TEXT\n        A name.\n        Default: anon. Environment: PRE_NAME, NAME_A, "
        "NAME_B\n",
        "--flag=true|false\n",
        "--count=NUMBER\n        How many.\n        Default: 3. Allowed: 1 to 100. Environment: "
        "PRE_COUNT\n",
        "--time-span=DURATION\n",
        "--colour=red|green|blue\n",
        "--item=ITEM (repeatable)\n        Things.\n",
        "PRE_CONFIG",
    };
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (!strstr(help, parts[i])) {
            fail_msg("'%s' is not in: %s", parts[i], help);
        }
    }
    assert_null(strstr(help, "none"));
    char version[100];
    text_format(version, sizeof(version), "prog %s\n", VERSION_TEXT);
    assert_string_equal(capture(ARGS("--version"), &outcome), version);
    assert_int_equal(outcome, OPTION_EXIT);
}

static int check_span(void *config, const struct option_origins *origins, struct err *e)
{
    const struct config *c = config;
    return c->span_ns > c->count * NS_PER_SEC
               ? 0
               : err_set(e, ERR_LIMIT, "%s, %s", option_origin(origins, "count"),
                         option_origin(origins, "time-span"));
}

TEST(the_programs_check_sees_where_values_came_from)
{
    struct option_program checked = program;
    checked.check = check_span;
    struct run r = run_options(&checked, NULL, NULL);
    assert_int_equal(r.rc, 0);
    const char *env[] = {"PRE_TIME_SPAN=5", NULL};
    r = run_options(&checked, ARGS("--count=9"), env);
    assert_int_equal(r.rc, ERR_LIMIT);
    assert_string_equal(r.e.msg, "flag --count, environment variable PRE_TIME_SPAN");
    r = run_file(&checked, "\n\ncount: 50\n");
    assert_string_equal(r.e.msg, "file 'f', key count, default of --time-span");
}

/* ---- its file -------------------------------------------------------------------------------- */

static bool is_commands(const char *key)
{
    return text_equal(key, "name-of-command") || text_equal(key, "other");
}

TEST(keys_of_the_programs_commands_are_passed_over)
{
    struct option_program beside = program;
    beside.is_commands = is_commands;
    struct run r = run_file(&beside, "count: 7\nother: [x]\nname-of-command: y\n");
    assert_int_equal(r.rc, 0);
    r = run_file(&beside, "others: x\n");
    assert_string_equal(r.e.msg, "file 'f': unknown key 'others'");
}

TEST(documents_that_set_nothing_are_fine)
{
    static const char *const texts[] = {"",          "\n", "# nothing\n", "{}", "---\n{}\n...\n",
                                        "item: []\n"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct run r = run_file(&program, texts[i]);
        assert_int_equal(r.rc, 0);
        assert_string_equal(r.config.name, "anon");
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
        {"count: 0\n", ERR_LIMIT, "file 'f', key count: '0' is out of range; allowed: 1 to 100"},
        {"count: x\n", ERR_PARSE,
         "file 'f', key count: 'x' is not a whole number; allowed: 1 to 100"},
        {"name: \"a\\0b\"\n", ERR_PARSE, "file 'f', key name: needs one value"},
        {"flag: 2\n", ERR_PARSE,
         "file 'f', key flag: '2' is not true or false; allowed: one of true|false|on|off"},
        {"- a\n", ERR_PARSE, "file 'f': expected 'option: value' lines"},
        {"just text\n", ERR_PARSE, "file 'f': expected 'option: value' lines"},
        {"? [a]\n: b\n", ERR_PARSE, "file 'f' line 1: expected 'key: value'"},
        {"\"a\\0b\": c\n", ERR_PARSE, "file 'f' line 1: expected 'key: value'"},
        {"name: &a b\nitem: [*a]\n", ERR_PARSE, "file 'f' line 2: aliases are not supported"},
        {"name: a\n---\nname: b\n", ERR_PARSE, "file 'f' line 2: only one document is allowed"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct run r = run_file(&program, cases[i].text);
        assert_string_equal(r.e.msg, cases[i].message);
        assert_int_equal(r.rc, cases[i].code);
    }
}

TEST(of_a_shared_file_other_keys_are_passed_over_unless_they_are_deep)
{
    static const char *const texts[] = {"x: 1\nname: n\ny: [a, b]\nz:\n- c\n",
                                        "x: {a: [1, 2], b: {c: d}}\nname: n\n",
                                        "x: [[[[[[[[a]]]]]]]]\nname: n\n"};
    static char deep[OPTION_MAX_FILE_BYTES + 1];
    struct option_program sharing = program;
    sharing.shared_file = "f";
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        scratch_put(dir, "f", texts[i]);
        struct run r = run_options(&sharing, NULL, NULL);
        assert_int_equal(r.rc, 0);
        assert_string_equal(r.config.name, "n");
    }
    memset(deep, '[', OPTION_MAX_FILE_BYTES);
    memcpy(deep, "x: ", 3);
    clock_t began = clock();
    struct run r = run_file(&sharing, deep);
    assert_int_equal(r.rc, ERR_LIMIT);
    assert_string_equal(r.e.msg, "file 'f' line 1: nested deeper than 32 levels");
    assert_true(clock() - began < CLOCKS_PER_SEC);
}

TEST(broken_yaml_is_refused_with_its_line)
{
    static const char *const texts[] = {"item: [a\n",     "name: 'a\n",   "\tname: a\n",
                                        "name: a\n b: c", "name: \xff\n", "name: @a\n",
                                        "name: %\n"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct run r = run_file(&program, texts[i]);
        assert_int_equal(r.rc, ERR_PARSE);
        assert_memory_equal(r.e.msg, "file 'f' line ", 14);
        assert_non_null(strstr(r.e.msg, "not valid YAML: "));
    }
}
