/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/option.h"

#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/version.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ENV_BYTES = 96,
    SHOWN_BYTES = 64,
    HELP_INDENT = 8,
    HELP_COLUMNS = 88,
};

/* In the order of precedence. */
enum option_source { BY_DEFAULT, BY_FILE, BY_ENV, BY_FLAG };

/* One option_parse. After the defaults the strongest source is applied first. */
struct option_origins {
    const struct option_program *program; /* borrowed, like the next two */
    void *config;
    const char *config_path; /* of --config; NULL: none */
    enum option_source by[OPTION_MAX_ROWS];
    char from[OPTION_MAX_ROWS][OPTION_ORIGIN_BYTES];
};

/* The value that a source gives an option. */
struct given {
    enum option_source source;
    char from[OPTION_ORIGIN_BYTES]; /* "flag --x" */
    const char *text;
};

/* ---- names ----------------------------------------------------------------------------------- */

static const struct option_row *find_row(const struct option_program *program, const char *name)
{
    for (size_t i = 0; i < program->row_count; i++) {
        if (text_equal(program->rows[i].name, name)) {
            return &program->rows[i];
        }
    }
    return NULL;
}

/* "DPU_HEARTBEAT_NODE_NAME" of a name; "" without a prefix. */
static void env_name(const struct option_program *program, const char *name,
                     char out[static ENV_BYTES])
{
    out[0] = '\0';
    if (!program->env_prefix) {
        return;
    }
    int len = snprintf(out, ENV_BYTES, "%s%s", program->env_prefix, name);
    assert(len > 0 && len < ENV_BYTES);
    for (char *c = out; *c; c++) {
        if (*c == '-') {
            *c = '_';
        } else if (*c >= 'a' && *c <= 'z') {
            *c = (char)(*c - 'a' + 'A');
        }
    }
}

const char *option_origin(const struct option_origins *origins, const char *name)
{
    const struct option_row *row = find_row(origins->program, name);
    assert(row);
    return origins->from[row - origins->program->rows];
}

int option_refuse(const struct option_origins *origins, const char *name, const char *value,
                  const char *allowed, struct err *e)
{
    return err_set(e, ERR_PARSE, "%s: '%.63s' is not usable; allowed: %s",
                   option_origin(origins, name), value, allowed);
}

/* ---- one value ------------------------------------------------------------------------------- */

static void *field_of(void *config, const struct option_row *row)
{
    return (char *)config + row->offset;
}

/* Index of the word among the '|'-separated `choices`, or -1. */
static int choice_index(const char *choices, const char *text)
{
    size_t len = strlen(text);
    int i = 0;
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL, i++) {
        if (strcspn(at, "|") == len && memcmp(at, text, len) == 0) {
            return i;
        }
    }
    return -1;
}

static void range_of_numbers(const struct option_row *row, char out[static OPTION_RANGE_BYTES])
{
    struct text_span low = text_span(row->min);
    struct text_span high = text_span(row->max);
    const char *word = row->type == OPTION_DURATION ? row->choices : NULL;
    bool is_open = row->max == INT64_MAX;
    if (row->type == OPTION_INT) {
        text_format(low.text, sizeof(low.text), "%" PRId64, row->min);
        text_format(high.text, sizeof(high.text), "%" PRId64, row->max);
    }
    text_format(out, OPTION_RANGE_BYTES, "%s%s%s%s%s%s", is_open ? "at least " : "", low.text,
                is_open ? "" : " to ", is_open ? "" : high.text, word ? ", or " : "",
                word ? word : "");
}

void option_range(const struct option_row *row, char out[static OPTION_RANGE_BYTES])
{
    out[0] = '\0';
    if (row->type == OPTION_INT || row->type == OPTION_DURATION) {
        range_of_numbers(row, out);
    } else if (row->type == OPTION_CHOICE || row->type == OPTION_BOOL) {
        text_format(out, OPTION_RANGE_BYTES, "one of %s",
                    row->type == OPTION_BOOL ? "true|false|on|off" : row->choices);
    }
}

static int append_item(struct option_list *list, const char *text, struct err *e)
{
    if (list->count == OPTION_MAX_LIST) {
        return err_set(e, ERR_LIMIT, "is one more than the allowed %d items", (int)OPTION_MAX_LIST);
    }
    list->items = mem_realloc(list->items, (list->count + 1) * sizeof(*list->items));
    list->items[list->count++] = mem_strdup(text);
    return 0;
}

static int set_number(int64_t *field, const struct option_row *row, const char *text, struct err *e)
{
    bool is_duration = row->type == OPTION_DURATION;
    size_t len = strlen(text);
    int64_t number;
    if (is_duration && row->choices && choice_index(row->choices, text) == 0) {
        *field = INT64_MAX;
        return 0;
    }
    int rc = is_duration ? text_to_duration_ns(text, len, &number, NULL)
                         : text_to_i64(text, len, &number, NULL);
    if (rc == ERR_PARSE) {
        return err_set(e, ERR_PARSE, "%s",
                       is_duration ? "is not a duration (seconds like 10 or 0.5, or 500ms, 10s, 1m)"
                                   : "is not a whole number");
    }
    if (rc != 0 || number < row->min || number > row->max) {
        return err_set(e, ERR_LIMIT, "is out of range");
    }
    *field = number;
    return 0;
}

static bool is_text(const struct option_row *row)
{
    return row->type == OPTION_TEXT || row->type == OPTION_PATH;
}

static int set_field(void *field, const struct option_row *row, const char *text, struct err *e)
{
    int index;
    int64_t most = is_text(row) && row->max != 0 ? row->max : OPTION_MAX_VALUE_BYTES;
    if (strlen(text) > (size_t)most) {
        return err_set(e, ERR_LIMIT, "is %zu bytes long, more than the allowed %" PRId64,
                       strlen(text), most);
    }
    switch (row->type) {
    case OPTION_TEXT:
    case OPTION_PATH:
        if (text[0] == '\0' && row->min > 0) {
            return err_set(e, ERR_LIMIT, "is empty");
        }
        if (row->type == OPTION_PATH && text[0] != '/' && text[0] != '\0') {
            return err_set(e, ERR_PARSE, "is not an absolute path");
        }
        free(*(char **)field);
        *(char **)field = mem_strdup(text);
        break;
    case OPTION_BOOL:
        index = choice_index("false|true|off|on", text);
        if (index < 0) {
            return err_set(e, ERR_PARSE, "is not true or false");
        }
        *(bool *)field = index % 2 == 1;
        break;
    case OPTION_CHOICE:
        index = choice_index(row->choices, text);
        if (index < 0) {
            return err_set(e, ERR_PARSE, "is not known");
        }
        *(int *)field = index;
        break;
    case OPTION_INT:
    case OPTION_DURATION:
        return set_number(field, row, text, e);
    case OPTION_LIST:
        return append_item(field, text, e);
    }
    return 0;
}

static void fini_field(void *field, const struct option_row *row)
{
    if (row->type == OPTION_LIST) {
        struct option_list *list = field;
        for (size_t i = 0; i < list->count; i++) {
            free(list->items[i]);
        }
        free(list->items);
        *list = (struct option_list){0};
    } else if (is_text(row)) {
        free(*(char **)field);
        *(char **)field = NULL;
    }
}

/* Every source sets a value, or appends an item, through here. One that a stronger source has set
 * is only looked at. Errors name source, value and range. */
static int set_option(struct option_origins *run, const struct option_row *row,
                      const struct given *given, struct err *e)
{
    size_t i = (size_t)(row - run->program->rows);
    union {
        char *text;
        int64_t number;
        struct option_list list;
    } unused = {.list = {0}};
    bool counts = given->source >= run->by[i];
    struct err why = ERR_INIT;
    int rc = set_field(counts ? field_of(run->config, row) : &unused, row, given->text, &why);
    if (!counts) {
        fini_field(&unused, row);
    } else if (rc == 0) {
        run->by[i] = given->source;
        memcpy(run->from[i], given->from, sizeof(run->from[i]));
    }
    if (rc == 0) {
        return 0;
    }
    char range[OPTION_RANGE_BYTES];
    option_range(row, range);
    return err_set(e, rc, "%s: '%.63s' %s%s%s", given->from, given->text, why.msg,
                   range[0] ? "; allowed: " : "", range);
}

void option_fini(const struct option_program *program, void *config)
{
    for (size_t i = 0; i < program->row_count; i++) {
        fini_field(field_of(config, &program->rows[i]), &program->rows[i]);
    }
}

/* ---- the file of --config -------------------------------------------------------------------- */

static int set_member(struct option_origins *run, const struct option_row *row, const char *path,
                      const json_t *value, struct err *e)
{
    struct given given = {.source = BY_FILE, .text = json_string_value(value)};
    text_format(given.from, sizeof(given.from), "file '%.60s', key %s", path, row->name);
    if (!given.text || strlen(given.text) != json_string_length(value)) {
        return err_set(e, ERR_PARSE, "%s: needs %s", given.from,
                       row->type == OPTION_LIST ? "a list of values" : "one value");
    }
    return set_option(run, row, &given, e);
}

static bool passes_over(const struct option_program *program, const char *key)
{
    return program->shared_file || (program->is_commands && program->is_commands(key));
}

/* Nothing, or a mapping from option names to scalars or, for a list, sequences of scalars. */
static int apply_mapping(struct option_origins *run, const char *path, json_t *root, struct err *e)
{
    const char *name;
    const json_t *value;
    if (!json_is_null(root) && !json_is_object(root)) {
        return err_set(e, ERR_PARSE, "file '%s': expected 'option: value' lines", path);
    }
    json_object_foreach(root, name, value)
    {
        const struct option_row *row = find_row(run->program, name);
        bool is_list = row && row->type == OPTION_LIST && json_is_array(value);
        const json_t *item;
        size_t i;
        int rc = 0;
        if (!row && !passes_over(run->program, name)) {
            return err_set(e, ERR_PARSE, "file '%s': unknown key '%.63s'", path, name);
        }
        if (row && !is_list) {
            rc = set_member(run, row, path, row->type == OPTION_LIST ? NULL : value, e);
        }
        json_array_foreach(is_list ? value : NULL, i, item)
        {
            rc = set_member(run, row, path, item, e);
            if (rc != 0) {
                break;
            }
        }
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int apply_file(struct option_origins *run, const char *path, struct err *e)
{
    CLEANUP(buf) struct buf text = {.max_bytes = OPTION_MAX_FILE_BYTES};
    struct err why = ERR_INIT;
    if (file_read(path, &text, e) != 0) {
        return err_wrap(e, "--config");
    }
    CLEANUP(json) json_t *root = json_text_parse_yaml(path, buf_text(&text), text.len, &why);
    return root ? apply_mapping(run, path, root, e) : err_set(e, why.code, "%s", why.msg);
}

/* ---- flags ----------------------------------------------------------------------------------- */

/* The value of the flag at argv[*at - 1]; may take the next argument. Errors: ERR_PARSE. */
static int flag_value(const struct option_row *row, char **argv, int *at, const char **out,
                      struct err *e)
{
    const char *arg = argv[*at - 1];
    const char *equals = strchr(arg, '=');
    if (equals) {
        *out = equals + 1;
    } else if (row && row->type == OPTION_BOOL) {
        *out = "true";
    } else if (argv[*at] && strncmp(argv[*at], "--", 2) != 0) {
        *out = argv[(*at)++];
    } else {
        return err_set(e, ERR_PARSE, "flag %.63s needs a value", arg);
    }
    return 0;
}

/* *out says whether one of them was --help or --version. */
static int apply_flags(struct option_origins *run, char **argv, enum option_outcome *out,
                       struct err *e)
{
    const struct option_program *program = run->program;
    *out = OPTION_EXIT;
    for (int at = 1; argv[at];) {
        struct given given = {.source = BY_FLAG};
        char name[SHOWN_BYTES]; /* longer than any option's */
        const char *arg = argv[at++];
        text_sanitize(name, sizeof(name), arg, strcspn(arg, "="));
        if (text_equal(name, "--help") || text_equal(name, "-h")) { /* what people try first */
            option_print_help(program, stdout);
            return 0;
        }
        if (text_equal(name, "--version")) {
            (void)printf("%s %s\n", program->name, VERSION_TEXT); /* stdout is all there is */
            return 0;
        }
        bool is_flag = strncmp(name, "--", 2) == 0 && name[2] != '\0';
        bool is_config = text_equal(name, "--config");
        const struct option_row *row = is_flag ? find_row(program, name + 2) : NULL;
        if (!row && !is_config) {
            return err_set(e, ERR_PARSE, "%s '%s'",
                           is_flag ? "unknown flag" : "unexpected argument", name);
        }
        text_format(given.from, sizeof(given.from), "flag %s", name);
        int rc = flag_value(row, argv, &at, &given.text, e);
        if (rc == 0 && row) {
            rc = set_option(run, row, &given, e);
        }
        if (rc != 0) {
            return rc;
        }
        run->config_path = is_config ? given.text : run->config_path;
    }
    *out = OPTION_RUN;
    return 0;
}

/* ---- all sources ----------------------------------------------------------------------------- */

static const char *env_value(char **env, const char *name)
{
    size_t len = strlen(name);
    for (char **at = env; len > 0 && at && *at; at++) {
        if (strncmp(*at, name, len) == 0 && (*at)[len] == '=' && (*at)[len + 1] != '\0') {
            return *at + len + 1;
        }
    }
    return NULL;
}

static int apply_env(struct option_origins *run, char **env, const struct option_row *row,
                     struct err *e)
{
    char name[ENV_BYTES];
    struct given given = {.source = BY_ENV};
    env_name(run->program, row->name, name);
    given.text = env_value(env, name);
    for (size_t i = 0; !given.text && i < ARRAY_LEN(row->env) && row->env[i]; i++) {
        text_format(name, sizeof(name), "%s", row->env[i]);
        given.text = env_value(env, name);
    }
    if (!given.text) {
        return 0;
    }
    if (row->type == OPTION_LIST) { /* passed over, it would be missed by whoever set it */
        return err_set(e, ERR_PARSE,
                       "environment variable %s: a list cannot come from the environment; set --%s "
                       "once for each item, or '%s:' in the file of --config",
                       name, row->name, row->name);
    }
    text_format(given.from, sizeof(given.from), "environment variable %s", name);
    return set_option(run, row, &given, e);
}

static void apply_defaults(struct option_origins *run)
{
    for (size_t i = 0; i < run->program->row_count; i++) {
        const struct option_row *row = &run->program->rows[i];
        text_format(run->from[i], sizeof(run->from[i]), "default of --%s", row->name);
        int rc = row->default_text
                     ? set_field(field_of(run->config, row), row, row->default_text, NULL)
                     : 0;
        assert(rc == 0 && (row->type != OPTION_LIST || !row->default_text));
    }
}

/* The flags have been; the next one first. */
static int apply_others(struct option_origins *run, char **env, struct err *e)
{
    const struct option_program *program = run->program;
    CLEANUP(free) char *shared = NULL;
    char config[ENV_BYTES];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < program->row_count; i++) {
        rc = apply_env(run, env, &program->rows[i], e);
    }
    env_name(program, "config", config);
    const char *path = run->config_path ? run->config_path : env_value(env, config);
    if (text_is_empty(path) && program->shared_file) {
        const char *root = program->shared_root ? *program->shared_root : NULL;
        shared = mem_format("%s%s", root ? root : "", program->shared_file);
        path = access(shared, R_OK) == 0 ? shared : NULL;
    }
    if (rc == 0 && !text_is_empty(path)) {
        rc = apply_file(run, path, e);
    }
    return rc == 0 && program->check ? program->check(run->config, run, e) : rc;
}

int option_parse(const struct option_program *program, int argc, char **argv, char **env,
                 void *config, enum option_outcome *out, struct err *e)
{
    assert(program->row_count <= OPTION_MAX_ROWS && argc > 0 && !argv[argc]);
    struct option_origins run = {.program = program, .config = config};
    enum option_outcome outcome;
    apply_defaults(&run);
    int rc = apply_flags(&run, argv, &outcome, e);
    if (rc == 0 && outcome == OPTION_RUN) {
        rc = apply_others(&run, env, e);
    }
    if (rc == 0) {
        *out = outcome;
    }
    return rc;
}

bool option_take(const struct option_program *program, int argc, char **argv, char **env,
                 void *config, int *out_status)
{
    enum option_outcome outcome = OPTION_EXIT;
    struct err e = ERR_INIT;
    *out_status = EXIT_SUCCESS;
    if (option_parse(program, argc, argv, env, config, &outcome, &e) != 0) {
        (void)fprintf(stderr, "%s: %s\nTry '%s --help'.\n", program->name, e.msg, program->name);
        *out_status = EXIT_USAGE;
    }
    return outcome == OPTION_RUN;
}

/* ---- --help ---------------------------------------------------------------------------------- */

/* Printing to stdout or a file the caller opened: results are checked by whoever closes it. */

static const char *placeholder_of(const struct option_row *row)
{
    static const char *const of_type[] = {
        [OPTION_TEXT] = "TEXT",         [OPTION_PATH] = "PATH",  [OPTION_LIST] = "TEXT",
        [OPTION_BOOL] = "true|false",   [OPTION_INT] = "NUMBER", [OPTION_CHOICE] = "",
        [OPTION_DURATION] = "DURATION",
    };
    if (row->placeholder) {
        return row->placeholder;
    }
    return row->type == OPTION_CHOICE ? row->choices : of_type[row->type];
}

/* Words of `text`, wrapped at HELP_COLUMNS, each line indented. */
static void print_wrapped(const char *text, size_t indent, FILE *out)
{
    size_t column = indent;
    (void)fprintf(out, "%*s", (int)indent, "");
    for (const char *word = text; *word;) {
        size_t len = strcspn(word, " ");
        bool starts_line = column == indent;
        if (!starts_line && column + 1 + len > HELP_COLUMNS) {
            (void)fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
            starts_line = true;
        }
        (void)fprintf(out, "%s%.*s", starts_line ? "" : " ", (int)len, word);
        column += len + !starts_line;
        word += len + strspn(word + len, " ");
    }
    (void)fputc('\n', out);
}

static void print_row(const struct option_program *program, const struct option_row *row, FILE *out)
{
    char env[ENV_BYTES];
    char range[OPTION_RANGE_BYTES];
    char text[512];
    bool is_number = row->type == OPTION_INT || row->type == OPTION_DURATION;
    env_name(program, row->name, env);
    option_range(row, range);
    text_format(text, sizeof(text), "%s%s%s%s%s%s", row->default_text ? "Default: " : "",
                row->default_text ? row->default_text : "", row->default_text ? ". " : "",
                is_number ? "Allowed: " : "", is_number ? range : "", is_number ? ". " : "");
    const char *const names[] = {env, row->env[0], row->env[1], row->env[2]};
    const char *before = "Environment: ";
    for (size_t i = 0; row->type != OPTION_LIST && i < ARRAY_LEN(names); i++) {
        if (!text_is_empty(names[i])) {
            text_append(text, sizeof(text), "%s%s", before, names[i]);
            before = ", ";
        }
    }
    (void)fprintf(out, "\n  --%s=%s%s\n", row->name, placeholder_of(row),
                  row->type == OPTION_LIST ? " (repeatable)" : "");
    print_wrapped(row->help, HELP_INDENT, out);
    if (text[0] != '\0') {
        print_wrapped(text, HELP_INDENT, out);
    }
}

void option_print_help(const struct option_program *program, FILE *out)
{
    char env[ENV_BYTES];
    char text[512];
    env_name(program, "config", env);
    text_format(text, sizeof(text), "%s: %s", program->name, program->summary);
    print_wrapped(text, 0, out);
    (void)fprintf(
        out,
        "\nUsage: %s [--OPTION=VALUE]...\n\n"
        "Precedence: flag, environment, file of --config, default. The file is YAML with\n"
        "the same names ('node-name: worker-1'). Durations are seconds (10, 0.5) or have\n"
        "a unit (500ms, 10s, 1m, 2h).\n\n"
        "  --config=FILE\n"
        "        Read options from this YAML file.%s%s%s\n",
        program->name, env[0] ? " Environment: " : "", env, env[0] ? "." : "");
    if (program->shared_file) {
        text_format(text, sizeof(text),
                    "Defaults to '%s' if that file is readable. It may hold options that are not "
                    "listed here.",
                    program->shared_file);
        print_wrapped(text, HELP_INDENT, out);
    }
    (void)fputs("\n  --help, --version\n        Print and exit.\n", out);
    for (size_t i = 0; i < program->row_count; i++) {
        print_row(program, &program->rows[i], out);
    }
}
