/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of the option table: the state of one option_parse and the one function
 * through which every source sets a value. Not for anybody else.
 */
#ifndef LOOP_OPTION_INTERNAL_H
#define LOOP_OPTION_INTERNAL_H

#include "base/err.h"
#include "loop/option_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPTION_ENV_BYTES = 96, OPTION_RANGE_BYTES = 128 };

/* In the order of precedence. */
enum option_source { OPTION_BY_DEFAULT, OPTION_BY_FILE, OPTION_BY_ENV, OPTION_BY_FLAG };

struct option_origin {
    enum option_source source;
    char env[OPTION_ENV_BYTES]; /* OPTION_BY_ENV: the name */
    size_t line;                /* OPTION_BY_FILE: counted from 1 */
};

struct option_origins {
    const struct option_program *program; /* borrowed */
    const char *file;                     /* of --config, borrowed; NULL: none */
    struct option_origin at[OPTION_MAX_ROWS];
};

struct option_run {
    const struct option_program *program; /* borrowed */
    void *config;                         /* borrowed */
    struct option_origins origins;
};

/* The row, or NULL. `name` need not be terminated. */
const struct option_row *option_find(const struct option_program *program, const char *name,
                                     size_t len);
/* " (did you mean '--x'?)" for the nearest name in the table, or "". Returns `out`. */
const char *option_suggest(const struct option_program *program, const char *name, size_t len,
                           const char *prefix, char *out, size_t out_bytes);

/* "DPU_HEARTBEAT_NODE_NAME" of a name; "" without a prefix. */
void option_env_name(const struct option_program *program, const char *name,
                     char out[static OPTION_ENV_BYTES]);

/* Text of one origin, as option_describe_origin. */
void option_origin_text(const struct option_origin *origin, const char *name, const char *file,
                        char *out, size_t out_bytes);

/*
 * Sets one value, or appends one item to a list: the first item of a source replaces what a weaker
 * source had put there. Errors name source, value and range.
 */
NODISCARD int option_set(struct option_run *run, const struct option_row *row,
                         const struct option_origin *origin, const char *text, size_t len,
                         struct err *e);

/* "0s to 10m", "one of text, json" ...; "" if anything goes. Returns `out`. */
const char *option_range(const struct option_row *row, char out[static OPTION_RANGE_BYTES]);

/* Applies a YAML document: one mapping of option names. `path` is for messages. Errors as
 * option_parse. */
NODISCARD int option_apply_yaml(struct option_run *run, const char *path, const char *text,
                                size_t len, struct err *e);

/* The field of a row in the config struct. */
void *option_field(void *config, const struct option_row *row);

#endif
