/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/print.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "dpuctl/options.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JSON_FLAGS = JSON_REAL_PRECISION(12) };

bool print_has_color(int wanted)
{
    if (wanted != ADMIN_COLOR_AUTO) {
        return wanted == ADMIN_COLOR_ALWAYS;
    }
    return isatty(STDOUT_FILENO) && text_is_empty(getenv("NO_COLOR"));
}

const char *print_on(bool has_color, enum print_color color)
{
    static const char *const codes[] = {
        [PRINT_PLAIN] = "",         [PRINT_GOOD] = "\033[32m", [PRINT_BAD] = "\033[31m",
        [PRINT_DOUBT] = "\033[33m", [PRINT_FAINT] = "\033[2m", [PRINT_HEAD] = "\033[1m"};
    return has_color ? codes[color] : "";
}

const char *print_off(bool has_color)
{
    return has_color ? "\033[0m" : "";
}

void print_clean(char *out, size_t out_bytes, const char *text)
{
    if (text) {
        text_sanitize(out, out_bytes, text, strlen(text));
    }
}

/* ---- spans of time --------------------------------------------------------------------------- */

/* The two units that matter; tenths of a second where `is_word` is false. */
static void put_span(int64_t ns, bool is_word, char out[static PRINT_SPAN_BYTES])
{
    const char *gap = is_word ? "" : " ";
    long long tenths = (ns < 0 ? mono_ns_sub(0, ns) : ns) / (NS_PER_SEC / 10);
    long long s = tenths / 10;
    if (s < 120 && is_word) {
        text_format(out, PRINT_SPAN_BYTES, "%llds", s);
    } else if (s < 120) {
        text_format(out, PRINT_SPAN_BYTES, "%lld.%lld s", s, tenths % 10);
    } else if (s < 7200) {
        text_format(out, PRINT_SPAN_BYTES, "%lld%sm%s%lld%ss", s / 60, gap, gap, s % 60, gap);
    } else if (s < 172800) {
        text_format(out, PRINT_SPAN_BYTES, "%lld%sh%s%lld%sm", s / 3600, gap, gap, s / 60 % 60,
                    gap);
    } else {
        text_format(out, PRINT_SPAN_BYTES, "%lld%sd%s%lld%sh", s / 86400, gap, gap, s / 3600 % 24,
                    gap);
    }
}

const char *print_span(int64_t ns, char out[static PRINT_SPAN_BYTES])
{
    put_span(ns, false, out);
    return out;
}

const char *print_span_word(int64_t ns, char out[static PRINT_SPAN_BYTES])
{
    put_span(ns, true, out);
    return out;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Columns that a word takes: characters of UTF-8, without escape sequences (CSI ... letter). */
static size_t word_columns(const char *word, size_t len)
{
    size_t columns = 0;
    bool is_escaped = false;
    for (size_t i = 0; i < len; i++) {
        is_escaped = is_escaped || word[i] == '\033';
        columns += !is_escaped && ((unsigned char)word[i] & 0xc0) != 0x80;
        is_escaped = is_escaped && (word[i] < '@' || word[i] == '[');
    }
    return columns;
}

struct line {
    size_t columns; /* so far */
    size_t indent;  /* of what follows below */
    bool is_begun;  /* a word is there: it can be broken before the next */
};

/* One word and the blanks before it. Returns their bytes. */
static size_t put_word(struct line *line, const char *at, size_t columns, FILE *out)
{
    size_t blanks = strspn(at, " ");
    size_t len = strcspn(at + blanks, " \t\n");
    size_t wide = word_columns(at + blanks, len);
    if (line->columns == 0) {
        line->indent = blanks;
    }
    if (line->is_begun && wide > 0 && line->columns + blanks + wide > columns) {
        (void)fprintf(out, "\n%*s", (int)line->indent, "");
        line->columns = line->indent;
    } else {
        (void)fprintf(out, "%*s", (int)blanks, "");
        line->columns += blanks;
    }
    (void)fwrite(at + blanks, 1, len, out);
    line->columns += wide;
    line->is_begun = line->is_begun || wide > 0;
    return blanks + len;
}

void print_wrapped(const char *text, size_t columns, FILE *out)
{
    struct line line = {0};
    for (const char *at = text; *at;) {
        if (*at == '\n') {
            (void)fputc('\n', out);
            line = (struct line){0};
            at++;
        } else if (*at == '\t') {
            (void)fprintf(out, "%*s",
                          line.columns < PRINT_TAB ? (int)(PRINT_TAB - line.columns) : 1, "");
            line = (struct line){.columns = PRINT_TAB, .indent = PRINT_TAB};
            at++;
        } else {
            at += put_word(&line, at, columns, out);
        }
    }
}

/* ---- JSON and YAML --------------------------------------------------------------------------- */

/* YAML takes what JSON says of a text, a number or a word as it is. */
static bool put_scalar(const json_t *value, FILE *out)
{
    return fputc(' ', out) != EOF && json_dumpf(value, out, JSON_ENCODE_ANY | JSON_FLAGS) == 0 &&
           fputc('\n', out) != EOF;
}

static bool put_members(const json_t *object, int indent, FILE *out);

static bool put_items(const json_t *array, int indent, FILE *out)
{
    size_t index;
    const json_t *item;
    json_array_foreach(array, index, item)
    {
        bool is_object = json_object_size(item) > 0;
        if (fprintf(out, is_object ? "%*s- " : "%*s-", indent, "") < 0 ||
            !(is_object ? put_members(item, indent + 2, out) : put_scalar(item, out))) {
            return false;
        }
    }
    return true;
}

/* What stands behind "key:". */
static bool put_value(const json_t *value, int indent, FILE *out)
{
    if (json_object_size(value) > 0) {
        return fprintf(out, "\n%*s", indent + 2, "") > 0 && put_members(value, indent + 2, out);
    }
    if (json_array_size(value) > 0) {
        return fputc('\n', out) != EOF && put_items(value, indent, out);
    }
    return put_scalar(value, out);
}

/* The members of an object, the first on the line that was begun. */
static bool put_members(const json_t *object, int indent, FILE *out)
{
    json_t *members = (json_t *)(uintptr_t)object; /* iterated only */
    const char *key;
    const json_t *value;
    int before = 0;
    json_object_foreach(members, key, value)
    {
        if (fprintf(out, "%*s%s:", before, "", key) < 0 || !put_value(value, indent, out)) {
            return false;
        }
        before = indent;
    }
    return true;
}

bool print_json(json_t *json, bool as_yaml, FILE *out)
{
    CLEANUP(json) json_t *whole = json;
    if (!whole) {
        return false;
    }
    bool is_written = as_yaml ? put_members(whole, 0, out)
                              : json_dumpf(whole, out, JSON_INDENT(2) | JSON_FLAGS) == 0 &&
                                    fputc('\n', out) != EOF;
    return is_written && fflush(out) == 0;
}

void print_json_line(json_t *json)
{
    (void)json_dumpf(json, stdout, JSON_COMPACT | JSON_FLAGS);
    (void)putchar('\n');
    json_decref(json);
}

json_t *print_json_seconds(int64_t ns)
{
    int64_t ms = ns / NS_PER_MS;
    return json_real((double)ms / 1000);
}

json_t *print_json_stamp(struct wall at)
{
    char text[RFC3339_BYTES];
    rfc3339_format_seconds(at, text);
    return at.ns > 0 ? json_string(text) : json_null();
}

/* ---- versions -------------------------------------------------------------------------------- */

int64_t version_number(const char *text)
{
    enum { PARTS = 3, PART_DIGITS = 5, PART_LIMIT = 100000 };
    int64_t number = 0;
    if (!text) {
        return 0;
    }
    const char *at = text[0] == 'v' ? text + 1 : text;
    for (int part = 1; part <= PARTS; part++) {
        uint64_t value;
        size_t digits = strspn(at, "0123456789");
        if (digits > PART_DIGITS || text_to_u64(at, digits, &value, NULL) != 0 ||
            (part < PARTS && at[digits] != '.')) {
            return 0;
        }
        number = number * PART_LIMIT + (int64_t)value;
        at += digits + 1; /* past the dot; after the third part nothing is read */
    }
    return number;
}
