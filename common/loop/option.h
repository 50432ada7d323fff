/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table per program drives its flags, environment variables, YAML file, --help and the
 * configuration reference. Precedence: flag > environment > file > default.
 *
 * An option named "dpu-node-lease-duration" is the flag --dpu-node-lease-duration[=]VALUE, the YAML
 * key dpu-node-lease-duration and the environment variable <env_prefix>DPU_NODE_LEASE_DURATION or
 * one that the row names; an empty one counts as unset. An error names the source, the value and
 * what is allowed. Of a flag given twice the last counts; a list takes all of them. A list is not
 * read from the environment; that of the flags replaces that of the file.
 */
#ifndef LOOP_OPTION_TABLE_H
#define LOOP_OPTION_TABLE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_type {
    OPTION_TEXT,     /* char *: owned copy */
    OPTION_PATH,     /* the same: an absolute path, or "" */
    OPTION_BOOL,     /* bool: "true|false|on|off"; a bare flag means true */
    OPTION_INT,      /* int64_t within [min, max] */
    OPTION_DURATION, /* int64_t ns within [min, max]; written as text_to_duration_ns reads, or
                        the word in `choices` ("unlimited"), which stands for INT64_MAX */
    OPTION_CHOICE,   /* int: index into the '|'-separated `choices` */
    OPTION_LIST,     /* struct option_list: repeatable flag, YAML sequence; no environment */
};

struct option_list {
    char **items; /* owned */
    size_t count;
};

struct option_row {
    const char *name;
    enum option_type type;
    size_t offset;            /* of the field in the program's config struct */
    const char *env[3];       /* tried in this order after the prefixed name; NULL: no more */
    const char *default_text; /* parsed like any other source; NULL: none */
    int64_t min;              /* OPTION_INT, OPTION_DURATION (ns), texts: bytes, 0 or 1 */
    int64_t max;              /* of the same; 0 of a text: OPTION_MAX_VALUE_BYTES */
    const char *choices;      /* OPTION_CHOICE: "text|json"; OPTION_DURATION: see there */
    const char *placeholder;  /* "FILE" in --help; NULL: from the type */
    const char *help;         /* one or two sentences */
};

/* The beginning of a row; `member` is that of the program's config struct `owner`. */
/* NOLINTBEGIN(bugprone-macro-parentheses): offsetof takes a member's name as it is */
#define OPTION_ROW(option, kind, owner, member)                                                    \
    .name = (option), .type = (kind), .offset = offsetof(owner, member)
/* NOLINTEND(bugprone-macro-parentheses) */

/* Says where each option came from; handed to the program's check. */
struct option_origins;

/* Looks at the options together once all sources are applied, and completes those whose default
 * depends on something else. Errors as option_parse. */
typedef int option_check_fn(void *config, const struct option_origins *origins, struct err *e);

struct option_program {
    const char *name;              /* "dpu-agent" */
    const char *summary;           /* one sentence for --help */
    const char *env_prefix;        /* "DPU_HEARTBEAT_"; NULL: only the names in the rows */
    const struct option_row *rows; /* "config", "help" and "version" are built in */
    size_t row_count;              /* at most OPTION_MAX_ROWS */
    option_check_fn *check;        /* NULL: options do not depend on each other */
    /* The file of another program, which this one reads where --config names no other and it can be
     * read: keys that are not in the table are passed over. NULL: none. */
    const char *shared_file;
    char *const *shared_root; /* the option that stands before its path; NULL: none */
    /* Whether a key of its own file is its commands': passed over. NULL: none is. */
    bool (*is_commands)(const char *key);
};

enum {
    EXIT_USAGE = 2, /* of a program whose options are wrong */
    OPTION_MAX_ROWS = 64,
    OPTION_MAX_FILE_BYTES = 65536,
    OPTION_MAX_VALUE_BYTES = 4096, /* the longest path that Linux opens */
    OPTION_MAX_SOCKET_BYTES = 107, /* a path that a sockaddr_un holds */
    OPTION_MAX_LIST = 64,          /* items of one list: more than there are probes */
    OPTION_RANGE_BYTES = 128,
    OPTION_ORIGIN_BYTES = 160, /* text of option_origin, truncated to fit */
};

enum option_outcome {
    OPTION_RUN,  /* config is filled */
    OPTION_EXIT, /* --help or --version was printed to stdout: exit 0 */
};

/*
 * Fills `config` (zeroed by the caller) from all sources; `env` is an environ-style array.
 * Errors: ERR_PARSE, ERR_LIMIT, those of file_read; then option_fini still has to be called.
 */
NODISCARD int option_parse(const struct option_program *program, int argc, char **argv, char **env,
                           void *config, enum option_outcome *out, struct err *e);

/* The same for a program's main, which has nobody to hand an error to: stderr has it. True: run;
 * false: end with *out_status, which is EXIT_SUCCESS or EXIT_USAGE. */
NODISCARD bool option_take(const struct option_program *program, int argc, char **argv, char **env,
                           void *config, int *out_status);

void option_fini(const struct option_program *program, void *config);

/* "flag --x", "environment variable X", "file 'F', key x" or "default of --x"; `name` has to be in
 * the table. Borrowed. */
const char *option_origin(const struct option_origins *origins, const char *name);

/* An error naming where the value came from, and what is allowed. Returns ERR_PARSE. */
NODISCARD int option_refuse(const struct option_origins *origins, const char *name,
                            const char *value, const char *allowed, struct err *e);

void option_print_help(const struct option_program *program, FILE *out);

/* The values that a row allows: "0s to 10m", "one of text|json" ...; "" if anything goes. */
void option_range(const struct option_row *row, char out[static OPTION_RANGE_BYTES]);

#endif
