/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/option.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/version.h"
#include "loop/yaml_tree.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ENV_BYTES = 96,
    RANGE_BYTES = OPTION_RANGE_BYTES,
    SHOWN_BYTES = 64,
    UNKNOWN_BYTES = 160,
    NAME_MAX_BYTES = 63, /* longer names have no neighbours */
    HELP_INDENT = 8,
    HELP_COLUMNS = 88,
};

/* In the order of precedence. */
enum option_source { BY_DEFAULT, BY_FILE, BY_ENV, BY_FLAG };

struct option_origin {
    enum option_source source;
    char env[ENV_BYTES]; /* BY_ENV: the name */
    size_t line;         /* BY_FILE: counted from 1 */
};

/* One option_parse. */
struct option_origins {
    const struct option_program *program; /* borrowed, like the next two */
    void *config;
    const char *file; /* of --config; NULL: none */
    struct option_origin at[OPTION_MAX_ROWS];
};

/* ---- names ----------------------------------------------------------------------------------- */

/* The row, or NULL. `name` need not be terminated. */
static const struct option_row *find_row(const struct option_program *program, const char *name,
                                         size_t len)
{
    for (size_t i = 0; i < program->row_count; i++) {
        const struct option_row *row = &program->rows[i];
        if (strlen(row->name) == len && memcmp(row->name, name, len) == 0) {
            return row;
        }
    }
    return NULL;
}

/* Levenshtein distance of two short names. */
static size_t edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t row[NAME_MAX_BYTES + 1];
    for (size_t j = 0; j <= b_len; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[b_len];
}

/* "'--nam' (did you mean '--name'?)", with the nearest name in the table, if one is near. Returns
 * `out`. */
static const char *show_unknown(const struct option_program *program, const char *name, size_t len,
                                const char *prefix, char out[static UNKNOWN_BYTES])
{
    const char *nearest = NULL;
    size_t nearest_distance = len / 3 + 1; /* a third of it mistyped is still a typing error */
    char shown[SHOWN_BYTES];
    text_sanitize(shown, sizeof(shown), name, len);
    for (size_t i = 0; len <= NAME_MAX_BYTES && i < program->row_count; i++) {
        const char *candidate = program->rows[i].name;
        size_t candidate_len = strlen(candidate);
        assert(candidate_len <= NAME_MAX_BYTES);
        size_t distance = edit_distance(name, len, candidate, candidate_len);
        if (distance < nearest_distance || (!nearest && distance == nearest_distance)) {
            nearest = candidate;
            nearest_distance = distance;
        }
    }
    text_format(out, UNKNOWN_BYTES, "'%s%s'%s%s%s%s", prefix, shown,
                nearest ? " (did you mean '" : "", nearest ? prefix : "", nearest ? nearest : "",
                nearest ? "'?)" : "");
    return out;
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

const char *option_describe_origin(const struct option_origins *origins, const char *name,
                                   char out[static OPTION_ORIGIN_BYTES])
{
    const struct option_row *row = find_row(origins->program, name, strlen(name));
    assert(row);
    const struct option_origin *origin = &origins->at[row - origins->program->rows];
    switch (origin->source) {
    case BY_DEFAULT:
        text_format(out, OPTION_ORIGIN_BYTES, "default of --%s", name);
        break;
    case BY_FILE:
        text_format(out, OPTION_ORIGIN_BYTES, "file '%.60s' line %zu, key %s", origins->file,
                    origin->line, name);
        break;
    case BY_ENV:
        text_format(out, OPTION_ORIGIN_BYTES, "environment variable %s", origin->env);
        break;
    case BY_FLAG:
        text_format(out, OPTION_ORIGIN_BYTES, "flag --%s", name);
        break;
    }
    return out;
}

int option_refuse(const struct option_origins *origins, const char *name, const char *value,
                  const char *allowed, struct err *e)
{
    char from[OPTION_ORIGIN_BYTES];
    char shown[SHOWN_BYTES];
    text_sanitize(shown, sizeof(shown), value, strlen(value));
    return err_set(e, ERR_PARSE, "%s: '%s' is not usable; allowed: %s",
                   option_describe_origin(origins, name, from), shown, allowed);
}

/* ---- one value ------------------------------------------------------------------------------- */

static void *field_of(void *config, const struct option_row *row)
{
    return (char *)config + row->offset;
}

/* Index of the word among the '|'-separated `choices`, or -1. */
static int choice_index(const char *choices, const char *text, size_t len)
{
    const char *at = choices;
    for (int i = 0;; i++) {
        size_t word_len = strcspn(at, "|");
        if (word_len == len && memcmp(at, text, len) == 0) {
            return i;
        }
        if (at[word_len] == '\0') {
            return -1;
        }
        at += word_len + 1;
    }
}

static void range_of_numbers(const struct option_row *row, char out[static RANGE_BYTES])
{
    char low[32];
    char high[32];
    const char *word = row->type == OPTION_DURATION ? row->choices : NULL;
    bool is_open = row->max == INT64_MAX;
    if (row->type == OPTION_DURATION) {
        text_from_duration(row->min, low, sizeof(low));
        text_from_duration(row->max, high, sizeof(high));
    } else {
        text_format(low, sizeof(low), "%" PRId64, row->min);
        text_format(high, sizeof(high), "%" PRId64, row->max);
    }
    text_format(out, RANGE_BYTES, "%s%s%s%s%s%s", is_open ? "at least " : "", low,
                is_open ? "" : " to ", is_open ? "" : high, word ? ", or " : "", word ? word : "");
}

/* "0s to 10m", "one of text, json" ...; "" if anything goes. Returns `out`. */
static const char *range_of(const struct option_row *row, char out[static RANGE_BYTES])
{
    bool has_choices = row->type == OPTION_CHOICE || row->type == OPTION_BOOL;
    const char *choices = row->type == OPTION_CHOICE ? row->choices : "true|false|on|off";
    size_t used = 0;
    out[0] = '\0';
    if (row->type == OPTION_INT || row->type == OPTION_DURATION) {
        range_of_numbers(row, out);
    }
    while (has_choices && *choices && used + 16 < RANGE_BYTES) {
        size_t len = strcspn(choices, "|");
        used += (size_t)snprintf(out + used, RANGE_BYTES - used, "%s%.*s",
                                 used > 0 ? ", " : "one of ", (int)len, choices);
        choices += len + (choices[len] == '|');
    }
    return out;
}

static char *copy_value(const char *text, size_t len)
{
    return mem_format("%.*s", (int)len, text);
}

static int append_item(struct option_list *list, const char *text, size_t len, struct err *e)
{
    if (list->count == OPTION_MAX_LIST) {
        return err_set(e, ERR_LIMIT, "is one more than the allowed %d items", (int)OPTION_MAX_LIST);
    }
    list->items = mem_realloc(list->items, (list->count + 1) * sizeof(*list->items));
    list->items[list->count++] = copy_value(text, len);
    return 0;
}

static int set_number(int64_t *field, const struct option_row *row, const char *text, size_t len,
                      struct err *e)
{
    bool is_duration = row->type == OPTION_DURATION;
    int64_t number;
    if (is_duration && row->choices && choice_index(row->choices, text, len) == 0) {
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

static int set_field(void *field, const struct option_row *row, const char *text, size_t len,
                     struct err *e)
{
    int index;
    if (len > OPTION_MAX_VALUE_BYTES) {
        return err_set(e, ERR_LIMIT, "is %zu bytes long, more than the allowed %d", len,
                       (int)OPTION_MAX_VALUE_BYTES);
    }
    if (memchr(text, '\0', len)) {
        return err_set(e, ERR_PARSE, "contains a NUL byte");
    }
    switch (row->type) {
    case OPTION_TEXT:
        free(*(char **)field);
        *(char **)field = copy_value(text, len);
        break;
    case OPTION_BOOL:
        index = choice_index("false|true|off|on", text, len);
        if (index < 0) {
            return err_set(e, ERR_PARSE, "is not a truth value");
        }
        *(bool *)field = index % 2 == 1;
        break;
    case OPTION_CHOICE:
        index = choice_index(row->choices, text, len);
        if (index < 0) {
            return err_set(e, ERR_PARSE, "is not known");
        }
        *(int *)field = index;
        break;
    case OPTION_INT:
    case OPTION_DURATION:
        return set_number(field, row, text, len, e);
    case OPTION_LIST:
        return append_item(field, text, len, e);
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
    } else if (row->type == OPTION_TEXT) {
        free(*(char **)field);
        *(char **)field = NULL;
    }
}

/* Every source sets a value, or appends an item, through here. The first item of a source replaces
 * what a weaker one had put there. Errors name source, value and range. */
static int set_option(struct option_origins *run, const struct option_row *row,
                      const struct option_origin *origin, const char *text, size_t len,
                      struct err *e)
{
    struct option_origin *had = &run->at[row - run->program->rows];
    void *field = field_of(run->config, row);
    struct err why = ERR_INIT;
    if (row->type == OPTION_LIST && had->source != origin->source) {
        fini_field(field, row);
    }
    *had = *origin;
    int rc = set_field(field, row, text, len, &why);
    if (rc == 0) {
        return 0;
    }
    char from[OPTION_ORIGIN_BYTES];
    char shown[SHOWN_BYTES];
    char range[RANGE_BYTES];
    text_sanitize(shown, sizeof(shown), text, len);
    range_of(row, range);
    return err_set(e, rc, "%s: '%s' %s%s%s", option_describe_origin(run, row->name, from), shown,
                   why.msg, range[0] ? "; allowed: " : "", range);
}

void option_fini(const struct option_program *program, void *config)
{
    for (size_t i = 0; i < program->row_count; i++) {
        fini_field(field_of(config, &program->rows[i]), &program->rows[i]);
    }
}

/* ---- the file of --config -------------------------------------------------------------------- */

PRINTF_LIKE(4, 5)
static int refuse_line(const struct option_origins *run, size_t line, struct err *e,
                       const char *fmt, ...)
{
    char what[2 * UNKNOWN_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, args); /* ours: fits */
    va_end(args);
    return err_set(e, ERR_PARSE, "file '%s' line %zu: %s", run->file, line, what);
}

static int set_scalar(struct option_origins *run, const struct option_row *row,
                      const yaml_node_t *node, struct err *e)
{
    const struct option_origin origin = {.source = BY_FILE, .line = yaml_tree_line(node)};
    const char *text = (const char *)node->data.scalar.value;
    size_t len = node->data.scalar.length;
    bool is_plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (is_plain && (len == 0 || text_equal(text, "~") || text_equal(text, "null"))) {
        return refuse_line(run, origin.line, e, "'%s' has no value", row->name);
    }
    return set_option(run, row, &origin, text, len, e);
}

static int set_node(struct option_origins *run, const struct option_row *row,
                    struct yaml_tree *tree, const yaml_node_t *node, struct err *e)
{
    bool is_list = row->type == OPTION_LIST;
    if (!is_list && node->type == YAML_SCALAR_NODE) {
        return set_scalar(run, row, node, e);
    }
    if (!is_list || node->type != YAML_SEQUENCE_NODE) {
        return refuse_line(run, yaml_tree_line(node), e, "'%s' needs %s", row->name,
                           is_list ? "a list ('- value' lines)" : "one plain value");
    }
    for (const yaml_node_item_t *item = node->data.sequence.items.start;
         item < node->data.sequence.items.top; item++) {
        const yaml_node_t *value = yaml_document_get_node(&tree->document, *item);
        int rc = value->type == YAML_SCALAR_NODE
                     ? set_scalar(run, row, value, e)
                     : refuse_line(run, yaml_tree_line(value), e, "a list holds plain values only");
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* `*out` is NULL for a key that is another program's, perhaps a newer one's. */
static int find_key(const struct option_origins *run, const yaml_node_t *key,
                    bool seen[static OPTION_MAX_ROWS], const struct option_row **out, struct err *e)
{
    const struct option_program *program = run->program;
    size_t line = yaml_tree_line(key);
    char unknown[UNKNOWN_BYTES];
    if (key->type != YAML_SCALAR_NODE) {
        return refuse_line(run, line, e, "expected an option name");
    }
    const char *name = (const char *)key->data.scalar.value;
    size_t len = key->data.scalar.length;
    *out = find_row(program, name, len);
    if (!*out) {
        return program->shared_file ? 0
                                    : refuse_line(run, line, e, "unknown key %s",
                                                  show_unknown(program, name, len, "", unknown));
    }
    if (seen[*out - program->rows]) {
        return refuse_line(run, line, e, "'%s' is given twice", (*out)->name);
    }
    seen[*out - program->rows] = true;
    return 0;
}

/* Nothing, or one document of one mapping from option names to scalars or, for a list, sequences of
 * scalars. */
static int apply_tree(struct option_origins *run, struct yaml_tree *tree, struct err *e)
{
    bool seen[OPTION_MAX_ROWS] = {false}; /* a key given twice is a mistake */
    const yaml_node_t *root = yaml_tree_root(tree);
    if (tree->second_line > 0) {
        return refuse_line(run, tree->second_line, e, "only one document is allowed");
    }
    if (root && root->type != YAML_MAPPING_NODE) {
        return refuse_line(run, yaml_tree_line(root), e, "expected 'option: value' lines");
    }
    if (!root) {
        return 0;
    }
    for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
         pair < root->data.mapping.pairs.top; pair++) {
        const struct option_row *row = NULL;
        int rc = find_key(run, yaml_document_get_node(&tree->document, pair->key), seen, &row, e);
        if (rc == 0 && row) {
            rc = set_node(run, row, tree, yaml_document_get_node(&tree->document, pair->value), e);
        }
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int apply_text(struct option_origins *run, const char *path, const char *text, size_t len,
                      struct err *e)
{
    struct yaml_tree tree;
    run->file = path;
    int rc = yaml_tree_init(&tree, "file ", path, text, len, e);
    if (rc != 0) {
        return rc;
    }
    rc = apply_tree(run, &tree, e);
    yaml_tree_fini(&tree);
    return rc;
}

int option_apply_yaml(const struct option_program *program, void *config, const char *path,
                      const char *text, size_t len, struct err *e)
{
    struct option_origins run = {.program = program, .config = config};
    return apply_text(&run, path, text, len, e);
}

static int apply_file(struct option_origins *run, const char *path, struct err *e)
{
    CLEANUP(buf) struct buf text;
    buf_init(&text, OPTION_MAX_FILE_BYTES);
    if (file_read(path, &text, e) != 0) {
        return err_wrap(e, "--config");
    }
    return apply_text(run, path, buf_text(&text), text.len, e);
}

/* ---- flags ----------------------------------------------------------------------------------- */

/* One flag of the command line, whatever it is. */
struct flag {
    const char *name; /* after the "--"; not terminated */
    size_t name_len;
    const char *value; /* NULL: not given */
    const struct option_row *row;
};

static bool flag_is(const struct flag *flag, const char *name)
{
    return flag->name_len == strlen(name) && memcmp(flag->name, name, flag->name_len) == 0;
}

/* Reads the flag at argv[*at] and moves *at past it and its value. */
static int next_flag(const struct option_program *program, char **argv, int *at, struct flag *out,
                     struct err *e)
{
    const char *arg = argv[(*at)++];
    if (text_equal(arg, "-h")) {
        arg = "--help"; /* what people try first */
    }
    if (strncmp(arg, "--", 2) != 0 || arg[2] == '\0') {
        char shown[SHOWN_BYTES];
        text_sanitize(shown, sizeof(shown), arg, strlen(arg));
        return err_set(e, ERR_PARSE, "unexpected argument '%s'; see --help", shown);
    }
    *out = (struct flag){.name = arg + 2, .name_len = strcspn(arg + 2, "=")};
    if (out->name[out->name_len] == '=') {
        out->value = out->name + out->name_len + 1;
    }
    out->row = find_row(program, out->name, out->name_len);
    if (flag_is(out, "help") || flag_is(out, "version")) {
        return 0;
    }
    if (!out->row && !flag_is(out, "config")) {
        char unknown[UNKNOWN_BYTES];
        return err_set(e, ERR_PARSE, "unknown flag %s; see --help",
                       show_unknown(program, out->name, out->name_len, "--", unknown));
    }
    if (!out->value && out->row && out->row->type == OPTION_BOOL) {
        out->value = "true";
    }
    if (!out->value && argv[*at] && strncmp(argv[*at], "--", 2) != 0) {
        out->value = argv[(*at)++];
    }
    if (!out->value) {
        return err_set(e, ERR_PARSE, "flag --%.*s needs a value", (int)out->name_len, out->name);
    }
    return 0;
}

/* First look at the flags: those that are not in the table, and whether all are known. */
static int scan_flags(const struct option_program *program, char **argv, const char **out_config,
                      enum option_outcome *out, struct err *e)
{
    for (int at = 1; argv[at];) {
        struct flag flag;
        int rc = next_flag(program, argv, &at, &flag, e);
        if (rc != 0) {
            return rc;
        }
        if (flag_is(&flag, "help")) {
            option_print_help(program, stdout);
            *out = OPTION_EXIT;
            return 0;
        }
        if (flag_is(&flag, "version")) {
            (void)printf("%s %s\n", program->name, VERSION_TEXT); /* stdout is all there is */
            *out = OPTION_EXIT;
            return 0;
        }
        if (flag_is(&flag, "config")) {
            *out_config = flag.value;
        }
    }
    *out = OPTION_RUN;
    return 0;
}

static int apply_flags(struct option_origins *run, char **argv, struct err *e)
{
    const struct option_origin origin = {.source = BY_FLAG};
    for (int at = 1; argv[at];) {
        struct flag flag;
        int rc = next_flag(run->program, argv, &at, &flag, e);
        if (rc == 0 && flag.row) {
            rc = set_option(run, flag.row, &origin, flag.value, strlen(flag.value), e);
        }
        if (rc != 0) {
            return rc;
        }
    }
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
    struct option_origin origin = {.source = BY_ENV};
    env_name(run->program, row->name, origin.env);
    const char *value = env_value(env, origin.env);
    for (size_t i = 0; !value && i < ARRAY_LEN(row->env) && row->env[i]; i++) {
        text_format(origin.env, sizeof(origin.env), "%s", row->env[i]);
        value = env_value(env, origin.env);
    }
    if (!value) {
        return 0;
    }
    if (row->type == OPTION_LIST) { /* passed over, it would be missed by whoever set it */
        return err_set(e, ERR_PARSE,
                       "environment variable %s: a list is not read from there; give --%s once for "
                       "each item, or '%s:' in the file of --config",
                       origin.env, row->name, row->name);
    }
    return set_option(run, row, &origin, value, strlen(value), e);
}

static int apply_default(struct option_origins *run, const struct option_row *row, struct err *e)
{
    const struct option_origin origin = {.source = BY_DEFAULT};
    const char *text = row->default_text;
    return text ? set_option(run, row, &origin, text, strlen(text), e) : 0;
}

/* In the order of precedence, the weakest first. */
static int apply_sources(struct option_origins *run, char **argv, char **env,
                         const char *config_path, struct err *e)
{
    const struct option_program *program = run->program;
    const char *shared = program->shared_file;
    int rc = 0;
    if (text_is_empty(config_path) && shared && access(shared, R_OK) == 0) {
        config_path = shared;
    }
    for (size_t i = 0; rc == 0 && i < program->row_count; i++) {
        rc = apply_default(run, &program->rows[i], e);
    }
    if (rc == 0 && !text_is_empty(config_path)) {
        rc = apply_file(run, config_path, e);
    }
    for (size_t i = 0; rc == 0 && i < program->row_count; i++) {
        rc = apply_env(run, env, &program->rows[i], e);
    }
    if (rc != 0 || (rc = apply_flags(run, argv, e)) != 0 || !program->check) {
        return rc;
    }
    return program->check(run->config, run, e);
}

int option_parse(const struct option_program *program, int argc, char **argv, char **env,
                 void *config, enum option_outcome *out, struct err *e)
{
    assert(program->row_count <= OPTION_MAX_ROWS && argc > 0 && !argv[argc]);
    char env_config[ENV_BYTES];
    env_name(program, "config", env_config);
    const char *config_path = env_value(env, env_config);
    enum option_outcome outcome;
    int rc = scan_flags(program, argv, &config_path, &outcome, e);
    if (rc == 0 && outcome == OPTION_RUN) {
        struct option_origins run = {.program = program, .config = config};
        rc = apply_sources(&run, argv, env, config_path, e);
    }
    if (rc == 0) {
        *out = outcome;
    }
    return rc;
}

/* ---- --help ---------------------------------------------------------------------------------- */

/* Printing to stdout or a file the caller opened: results are checked by whoever closes it. */

static const char *placeholder_of(const struct option_row *row)
{
    static const char *const of_type[] = {
        [OPTION_TEXT] = "TEXT",  [OPTION_LIST] = "TEXT", [OPTION_BOOL] = "true|false",
        [OPTION_INT] = "NUMBER", [OPTION_CHOICE] = "",   [OPTION_DURATION] = "DURATION",
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

void option_describe(const struct option_program *program, const struct option_row *row,
                     struct option_facts *out)
{
    *out = (struct option_facts){.env = ""};
    range_of(row, out->range);
    if (row->type == OPTION_LIST) {
        return; /* is not read from the environment */
    }
    env_name(program, row->name, out->env);
    size_t used = strlen(out->env);
    for (size_t i = 0; i < ARRAY_LEN(row->env) && row->env[i]; i++) {
        used += (size_t)snprintf(out->env + used, sizeof(out->env) - used, "%s%s",
                                 used > 0 ? ", " : "", row->env[i]); /* three short names fit */
    }
}

static void print_row(const struct option_program *program, const struct option_row *row, FILE *out)
{
    struct option_facts facts;
    char text[512];
    bool is_number = row->type == OPTION_INT || row->type == OPTION_DURATION;
    option_describe(program, row, &facts);
    text_format(text, sizeof(text), "Default: %s.%s%s%s%s%s%s",
                row->default_text ? row->default_text : "none", is_number ? " Allowed: " : "",
                is_number ? facts.range : "", is_number ? "." : "",
                facts.env[0] ? " Environment: " : "", facts.env, facts.env[0] ? "." : "");
    (void)fprintf(out, "\n  --%s=%s%s\n", row->name, placeholder_of(row),
                  row->type == OPTION_LIST ? " (repeatable)" : "");
    print_wrapped(row->help, HELP_INDENT, out);
    print_wrapped(text, HELP_INDENT, out);
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
                    "Without it '%s' is read, where it can be. Options in it that are not listed "
                    "here are passed over.",
                    program->shared_file);
        print_wrapped(text, HELP_INDENT, out);
    }
    (void)fputs("\n  --help, --version\n        Print and exit.\n", out);
    for (size_t i = 0; i < program->row_count; i++) {
        print_row(program, &program->rows[i], out);
    }
}
