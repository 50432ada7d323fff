/* SPDX-License-Identifier: Apache-2.0 */
/* The sources in the order of precedence: defaults, file, environment, flags. */
#include "loop/option_table.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/version.h"
#include "loop/option_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

static int unknown_flag(const struct option_program *program, const struct flag *flag,
                        struct err *e)
{
    char shown[64];
    char hint[96];
    text_sanitize(shown, sizeof(shown), flag->name, flag->name_len);
    option_suggest(program, flag->name, flag->name_len, "--", hint, sizeof(hint));
    return err_set(e, ERR_PARSE, "unknown flag '--%s'%s; see --help", shown, hint);
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
        char shown[64];
        text_sanitize(shown, sizeof(shown), arg, strlen(arg));
        return err_set(e, ERR_PARSE, "unexpected argument '%s'; see --help", shown);
    }
    *out = (struct flag){.name = arg + 2, .name_len = strcspn(arg + 2, "=")};
    if (out->name[out->name_len] == '=') {
        out->value = out->name + out->name_len + 1;
    }
    out->row = option_find(program, out->name, out->name_len);
    if (flag_is(out, "help") || flag_is(out, "version")) {
        return 0;
    }
    if (!out->row && !flag_is(out, "config")) {
        return unknown_flag(program, out, e);
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

static int apply_flags(struct option_run *run, char **argv, struct err *e)
{
    const struct option_origin origin = {.source = OPTION_BY_FLAG};
    for (int at = 1; argv[at];) {
        struct flag flag;
        int rc = next_flag(run->program, argv, &at, &flag, e);
        if (rc != 0) {
            return rc;
        }
        if (!flag.row || !flag.value) {
            continue;
        }
        rc = option_set(run, flag.row, &origin, flag.value, strlen(flag.value), e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

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

static int apply_env_row(struct option_run *run, char **env, const struct option_row *row,
                         struct err *e)
{
    struct option_origin origin = {.source = OPTION_BY_ENV};
    option_env_name(run->program, row->name, origin.env);
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
    return option_set(run, row, &origin, value, strlen(value), e);
}

static int apply_file(struct option_run *run, const char *path, struct err *e)
{
    CLEANUP(buf) struct buf text;
    buf_init(&text, OPTION_MAX_FILE_BYTES);
    if (file_read(path, &text, e) != 0) {
        return err_wrap(e, "--config");
    }
    return option_apply_yaml(run, path, buf_text(&text), text.len, e);
}

static int apply_defaults(struct option_run *run, struct err *e)
{
    const struct option_origin origin = {.source = OPTION_BY_DEFAULT};
    for (size_t i = 0; i < run->program->row_count; i++) {
        const struct option_row *row = &run->program->rows[i];
        if (row->default_text) {
            int rc = option_set(run, row, &origin, row->default_text, strlen(row->default_text), e);
            if (rc != 0) {
                return rc;
            }
        }
    }
    return 0;
}

static int apply_env(struct option_run *run, char **env, struct err *e)
{
    for (size_t i = 0; i < run->program->row_count; i++) {
        int rc = apply_env_row(run, env, &run->program->rows[i], e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int apply_sources(struct option_run *run, char **argv, char **env, const char *config_path,
                         struct err *e)
{
    const char *shared = run->program->shared_file;
    if (text_is_empty(config_path) && shared && access(shared, R_OK) == 0) {
        config_path = shared;
    }
    int rc = apply_defaults(run, e);
    if (rc != 0) {
        return rc;
    }
    rc = text_is_empty(config_path) ? 0 : apply_file(run, config_path, e);
    if (rc != 0) {
        return rc;
    }
    rc = apply_env(run, env, e);
    if (rc != 0) {
        return rc;
    }
    rc = apply_flags(run, argv, e);
    return rc != 0 || !run->program->check ? rc
                                           : run->program->check(run->config, &run->origins, e);
}

int option_parse(const struct option_program *program, int argc, char **argv, char **env,
                 void *config, enum option_outcome *out, struct err *e)
{
    assert(program->row_count <= OPTION_MAX_ROWS && argc > 0 && !argv[argc]);
    char env_config[OPTION_ENV_BYTES];
    option_env_name(program, "config", env_config);
    const char *config_path = env_value(env, env_config);
    enum option_outcome outcome = OPTION_RUN;
    int rc = scan_flags(program, argv, &config_path, &outcome, e);
    if (rc != 0) {
        return rc;
    }
    if (outcome == OPTION_RUN) {
        struct option_run run = {
            .program = program, .config = config, .origins = {.program = program}};
        rc = apply_sources(&run, argv, env, config_path, e);
        if (rc != 0) {
            return rc;
        }
    }
    *out = outcome;
    return 0;
}
