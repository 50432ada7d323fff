/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table per program drives its flags, environment variables, YAML file, --help and the
 * configuration reference. Precedence: flag > environment > file > default.
 *
 * An option named "dpu-node-lease-duration" is the flag --dpu-node-lease-duration[=]VALUE and the
 * YAML key dpu-node-lease-duration; its environment names are listed in the row. A wrong type, an
 * unknown flag or key, or a value out of range is an error that names the source ("flag
 * --dpu-node-lease-duration", "environment variable X", "file '/etc/x.yaml' line 3"), the value
 * and the allowed range. An empty environment variable counts as unset.
 */
#ifndef LOOP_OPTION_TABLE_H
#define LOOP_OPTION_TABLE_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_type {
    OPTION_TEXT,     /* char *: owned copy */
    OPTION_BOOL,     /* bool: "true|false|on|off"; a bare flag means true */
    OPTION_INT,      /* int64_t within [min, max] */
    OPTION_DURATION, /* int64_t ns within [min, max]; written as text_to_duration_ns reads */
    OPTION_CHOICE,   /* int: index into the '|'-separated `choices` */
    OPTION_LIST,     /* struct option_list: repeatable flag, YAML sequence */
};

struct option_list {
    char **items; /* owned */
    size_t count;
};

struct option_row {
    const char *name;
    enum option_type type;
    size_t offset;            /* of the field in the program's config struct */
    const char *env[3];       /* names tried in this order; NULL-terminated when fewer */
    const char *default_text; /* parsed like any other source; NULL: none */
    int64_t min;              /* OPTION_INT, OPTION_DURATION (ns) */
    int64_t max;
    const char *choices;     /* OPTION_CHOICE: "text|json" */
    const char *placeholder; /* "FILE" in --help; NULL: from the type */
    const char *help;        /* one or two sentences */
};

struct option_program {
    const char *name;              /* "dpu-agent" */
    const char *summary;           /* one sentence for --help */
    const struct option_row *rows; /* "config", "help" and "version" are built in */
    size_t row_count;
};

enum option_outcome {
    OPTION_RUN,  /* config is filled */
    OPTION_EXIT, /* --help or --version was printed to stdout: exit 0 */
};

/*
 * Fills `config` (zeroed by the caller) from all sources; `env` is an environ-style array.
 * Errors: ERR_PARSE, ERR_LIMIT, ERR_IO, ERR_NOMEM; then option_fini still has to be called.
 */
NODISCARD int option_parse(const struct option_program *program, int argc, char **argv, char **env,
                           void *config, enum option_outcome *out, struct err *e);

void option_fini(const struct option_program *program, void *config);

/* --help text, and the Markdown table of docs/configuration.md. */
void option_print_help(const struct option_program *program, FILE *out);
void option_print_markdown(const struct option_program *program, FILE *out);

#endif
