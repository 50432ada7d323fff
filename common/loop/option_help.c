/* SPDX-License-Identifier: Apache-2.0 */
/* --help and the configuration reference, from the same rows that parse. */
#include "base/text.h"
#include "loop/option_internal.h"

#include <stdio.h>
#include <string.h>

enum { HELP_INDENT = 8, HELP_COLUMNS = 88 };

/* Printing to stdout or a file the caller opened: results are checked by whoever closes it. */

static const char *placeholder(const struct option_row *row)
{
    if (row->placeholder) {
        return row->placeholder;
    }
    switch (row->type) {
    case OPTION_TEXT:
    case OPTION_LIST:
        return "TEXT";
    case OPTION_BOOL:
        return "true|false";
    case OPTION_INT:
        return "NUMBER";
    case OPTION_DURATION:
        return "DURATION";
    case OPTION_CHOICE:
        return row->choices;
    }
    return "VALUE";
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

/* "A, B, C": all environment names of a row; "" for a list, which has none. */
static void env_names(const struct option_program *program, const struct option_row *row, char *out,
                      size_t out_bytes)
{
    char derived[OPTION_ENV_BYTES];
    out[0] = '\0';
    if (row->type == OPTION_LIST) {
        return;
    }
    option_env_name(program, row->name, derived);
    size_t used = (size_t)snprintf(out, out_bytes, "%s", derived);
    for (size_t i = 0; i < ARRAY_LEN(row->env) && row->env[i]; i++) {
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%s", used > 0 ? ", " : "",
                                 row->env[i]); /* three short names of ours fit */
    }
}

static void print_row(const struct option_program *program, const struct option_row *row, FILE *out)
{
    char range[OPTION_RANGE_BYTES];
    char env[256];
    char facts[512];
    bool is_number = row->type == OPTION_INT || row->type == OPTION_DURATION;
    env_names(program, row, env, sizeof(env));
    text_format(facts, sizeof(facts), "Default: %s.%s%s%s%s%s%s",
                row->default_text ? row->default_text : "none", is_number ? " Allowed: " : "",
                is_number ? option_range(row, range) : "", is_number ? "." : "",
                env[0] ? " Environment: " : "", env, env[0] ? "." : "");
    (void)fprintf(out, "\n  --%s=%s%s\n", row->name, placeholder(row),
                  row->type == OPTION_LIST ? " (repeatable)" : "");
    print_wrapped(row->help, HELP_INDENT, out);
    print_wrapped(facts, HELP_INDENT, out);
}

void option_print_help(const struct option_program *program, FILE *out)
{
    char env[OPTION_ENV_BYTES];
    char text[512];
    option_env_name(program, "config", env);
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

/* Text inside a Markdown table: '|' would end the cell. */
static void print_cell(const char *text, FILE *out)
{
    for (const char *c = text; *c; c++) {
        (void)fputs(*c == '|' ? "\\|" : (char[]){*c, '\0'}, out);
    }
}

void option_print_markdown(const struct option_program *program, FILE *out)
{
    (void)fprintf(out, "## %s\n\n%s\n\n", program->name, program->summary);
    (void)fprintf(out, "| option | default | allowed | environment | meaning |\n"
                       "|---|---|---|---|---|\n");
    for (size_t i = 0; i < program->row_count; i++) {
        const struct option_row *row = &program->rows[i];
        char range[OPTION_RANGE_BYTES];
        char env[256];
        env_names(program, row, env, sizeof(env));
        (void)fprintf(out, "| `%s` | ", row->name);
        if (row->default_text) {
            (void)fprintf(out, "`%s`", row->default_text);
        }
        (void)fputs(" | ", out);
        print_cell(option_range(row, range), out);
        (void)fprintf(out, " | %s | ", env);
        print_cell(row->help, out);
        (void)fputs(row->type == OPTION_LIST ? " Repeatable. |\n" : " |\n", out);
    }
}
