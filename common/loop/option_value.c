/* SPDX-License-Identifier: Apache-2.0 */
/* One value: its text, its type, its range, its place in the config struct. */
#include "base/text.h"
#include "loop/option_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 64 };

void *option_field(void *config, const struct option_row *row)
{
    return (char *)config + row->offset;
}

static void list_fini(struct option_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i]);
    }
    free(list->items);
    *list = (struct option_list){0};
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

static void range_of_choices(const char *choices, char *out, size_t out_bytes)
{
    size_t used = (size_t)snprintf(out, out_bytes, "one of ");
    for (const char *c = choices; *c && used + 3 < out_bytes; c++) {
        out[used++] = *c == '|' ? ',' : *c;
        if (*c == '|') {
            out[used++] = ' ';
        }
    }
    out[used] = '\0';
}

static void bound_text(const struct option_row *row, int64_t bound, char *out, size_t out_bytes)
{
    if (row->type == OPTION_DURATION) {
        text_from_duration(bound, out, out_bytes);
    } else {
        text_format(out, out_bytes, "%" PRId64, bound);
    }
}

static void range_of_numbers(const struct option_row *row, char *out, size_t out_bytes)
{
    char low[32];
    char high[32];
    bound_text(row, row->min, low, sizeof(low));
    bound_text(row, row->max, high, sizeof(high));
    const char *word = row->type == OPTION_DURATION ? row->choices : NULL;
    bool is_open = row->max == INT64_MAX;
    text_format(out, out_bytes, "%s%s%s%s%s%s", is_open ? "at least " : "", low,
                is_open ? "" : " to ", is_open ? "" : high, word ? ", or " : "", word ? word : "");
}

const char *option_range(const struct option_row *row, char out[static OPTION_RANGE_BYTES])
{
    out[0] = '\0';
    switch (row->type) {
    case OPTION_TEXT:
    case OPTION_LIST:
        break;
    case OPTION_BOOL:
        range_of_choices("true|false|on|off", out, OPTION_RANGE_BYTES);
        break;
    case OPTION_CHOICE:
        range_of_choices(row->choices, out, OPTION_RANGE_BYTES);
        break;
    case OPTION_INT:
    case OPTION_DURATION:
        range_of_numbers(row, out, OPTION_RANGE_BYTES);
        break;
    }
    return out;
}

static int set_text(char **field, const char *text, size_t len, struct err *e)
{
    char *copy = strndup(text, len);
    if (!copy) {
        return err_set(e, ERR_NOMEM, "out of memory for %zu bytes", len);
    }
    free(*field);
    *field = copy;
    return 0;
}

static int append_item(struct option_list *list, const char *text, size_t len, struct err *e)
{
    if (list->count == OPTION_MAX_LIST) {
        return err_set(e, ERR_LIMIT, "is one more than the allowed %d items", (int)OPTION_MAX_LIST);
    }
    char **items = realloc(list->items, (list->count + 1) * sizeof(*items));
    if (!items) {
        return err_no_memory(e);
    }
    list->items = items;
    items[list->count] = NULL;
    int rc = set_text(&items[list->count], text, len, e);
    list->count += rc == 0;
    return rc;
}

static int set_bool(bool *field, const char *text, size_t len, struct err *e)
{
    int index = choice_index("false|true|off|on", text, len);
    if (index < 0) {
        return err_set(e, ERR_PARSE, "is not a truth value");
    }
    *field = index % 2 == 1;
    return 0;
}

static int set_choice(int *field, const struct option_row *row, const char *text, size_t len,
                      struct err *e)
{
    int index = choice_index(row->choices, text, len);
    if (index < 0) {
        return err_set(e, ERR_PARSE, "is not known");
    }
    *field = index;
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

static int set_field(struct option_run *run, const struct option_row *row, const char *text,
                     size_t len, struct err *e)
{
    void *field = option_field(run->config, row);
    if (len > OPTION_MAX_VALUE_BYTES) {
        return err_set(e, ERR_LIMIT, "is %zu bytes long, more than the allowed %d", len,
                       (int)OPTION_MAX_VALUE_BYTES);
    }
    if (memchr(text, '\0', len)) {
        return err_set(e, ERR_PARSE, "contains a NUL byte");
    }
    switch (row->type) {
    case OPTION_TEXT:
        return set_text(field, text, len, e);
    case OPTION_BOOL:
        return set_bool(field, text, len, e);
    case OPTION_INT:
    case OPTION_DURATION:
        return set_number(field, row, text, len, e);
    case OPTION_CHOICE:
        return set_choice(field, row, text, len, e);
    case OPTION_LIST:
        return append_item(field, text, len, e);
    }
    return err_set(e, ERR_BUG, "option '%s' has no type", row->name);
}

int option_set(struct option_run *run, const struct option_row *row,
               const struct option_origin *origin, const char *text, size_t len, struct err *e)
{
    struct option_origin *had = &run->origins.at[row - run->program->rows];
    struct err why = ERR_INIT;
    if (row->type == OPTION_LIST && had->source != origin->source) {
        list_fini(option_field(run->config, row));
    }
    *had = *origin;
    int rc = set_field(run, row, text, len, &why);
    if (rc == 0) {
        return 0;
    }
    if (rc == ERR_NOMEM) {
        return err_set(e, rc, "%s", why.msg);
    }
    char from[OPTION_ORIGIN_BYTES];
    char shown[SHOWN_BYTES];
    char range[OPTION_RANGE_BYTES];
    option_origin_text(origin, row->name, run->origins.file, from, sizeof(from));
    text_sanitize(shown, sizeof(shown), text, len);
    option_range(row, range);
    return err_set(e, rc, "%s: '%s' %s%s%s", from, shown, why.msg, range[0] ? "; allowed: " : "",
                   range);
}

void option_fini(const struct option_program *program, void *config)
{
    for (size_t i = 0; i < program->row_count; i++) {
        void *field = option_field(config, &program->rows[i]);
        if (program->rows[i].type == OPTION_LIST) {
            list_fini(field);
        } else if (program->rows[i].type == OPTION_TEXT) {
            free(*(char **)field);
            *(char **)field = NULL;
        }
    }
}
