/* SPDX-License-Identifier: Apache-2.0 */
/* Names: of options, of their environment variables, of where a value came from. */
#include "base/text.h"
#include "loop/option_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 63 }; /* longer names have no neighbours */

const struct option_row *option_find(const struct option_program *program, const char *name,
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

const char *option_suggest(const struct option_program *program, const char *name, size_t len,
                           const char *prefix, char *out, size_t out_bytes)
{
    const char *nearest = NULL;
    size_t nearest_distance = len / 3 + 1; /* a third of it mistyped is still a typing error */
    out[0] = '\0';
    for (size_t i = 0; len <= NAME_MAX_BYTES && i < program->row_count; i++) {
        const char *candidate = program->rows[i].name;
        size_t candidate_len = strlen(candidate);
        assert(candidate_len <= NAME_MAX_BYTES);
        size_t distance = edit_distance(name, len, candidate, candidate_len);
        if (distance <= nearest_distance && !(nearest && distance == nearest_distance)) {
            nearest = candidate;
            nearest_distance = distance;
        }
    }
    if (nearest) {
        text_format(out, out_bytes, " (did you mean '%s%s'?)", prefix, nearest);
    }
    return out;
}

void option_env_name(const struct option_program *program, const char *name,
                     char out[static OPTION_ENV_BYTES])
{
    out[0] = '\0';
    if (!program->env_prefix) {
        return;
    }
    int len = snprintf(out, OPTION_ENV_BYTES, "%s%s", program->env_prefix, name);
    assert(len > 0 && len < OPTION_ENV_BYTES);
    for (char *c = out; *c; c++) {
        if (*c == '-') {
            *c = '_';
        } else if (*c >= 'a' && *c <= 'z') {
            *c = (char)(*c - 'a' + 'A');
        }
    }
}

void option_origin_text(const struct option_origin *origin, const char *name, const char *file,
                        char *out, size_t out_bytes)
{
    /* Truncation is the documented bound of an origin's text. */
    switch (origin->source) {
    case OPTION_BY_DEFAULT:
        text_format(out, out_bytes, "default of --%s", name);
        break;
    case OPTION_BY_FILE:
        text_format(out, out_bytes, "file '%.60s' line %zu, key %s", file ? file : "", origin->line,
                    name);
        break;
    case OPTION_BY_ENV:
        text_format(out, out_bytes, "environment variable %s", origin->env);
        break;
    case OPTION_BY_FLAG:
        text_format(out, out_bytes, "flag --%s", name);
        break;
    }
}

const char *option_describe_origin(const struct option_origins *origins, const char *name,
                                   char out[static OPTION_ORIGIN_BYTES])
{
    const struct option_row *row = option_find(origins->program, name, strlen(name));
    assert(row);
    option_origin_text(&origins->at[row - origins->program->rows], name, origins->file, out,
                       OPTION_ORIGIN_BYTES);
    return out;
}
