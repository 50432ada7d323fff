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

/* The two units that matter; below two minutes only seconds, and false. */
static bool split_span(int64_t ns, long long out[static 2], const char **out_units)
{
    long long s = (ns < 0 ? mono_ns_sub(0, ns) : ns) / NS_PER_SEC;
    long long minutes = s / 60;
    if (s < 120) {
        return false;
    }
    *out_units = minutes < 120 ? "ms" : minutes < 2880 ? "hm" : "dh";
    out[0] = minutes < 120 ? minutes : minutes < 2880 ? minutes / 60 : minutes / 1440;
    out[1] = minutes < 120 ? s % 60 : minutes < 2880 ? minutes % 60 : minutes / 60 % 24;
    return true;
}

const char *print_span(int64_t ns, char out[static PRINT_SPAN_BYTES])
{
    long long parts[2];
    const char *units;
    if (split_span(ns, parts, &units)) {
        text_format(out, PRINT_SPAN_BYTES, "%lld %c %lld %c", parts[0], units[0], parts[1],
                    units[1]);
    } else {
        long long tenths = (ns < 0 ? -ns : ns) / (NS_PER_SEC / 10);
        text_format(out, PRINT_SPAN_BYTES, "%lld.%lld s", tenths / 10, tenths % 10);
    }
    return out;
}

const char *print_span_word(int64_t ns, char out[static PRINT_SPAN_BYTES])
{
    long long parts[2];
    const char *units;
    if (split_span(ns, parts, &units)) {
        text_format(out, PRINT_SPAN_BYTES, "%lld%c%lld%c", parts[0], units[0], parts[1], units[1]);
    } else {
        text_format(out, PRINT_SPAN_BYTES, "%llds", (long long)(ns < 0 ? -ns : ns) / NS_PER_SEC);
    }
    return out;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Bytes of the escape sequence (CSI ... letter) at `s`; 0 if there is none. */
static size_t escape_len(const char *s, size_t len)
{
    if (len < 2 || s[0] != '\033' || s[1] != '[') {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if (s[i] >= '@' && s[i] <= '~') {
            return i + 1;
        }
    }
    return len;
}

/* Columns that a word takes. */
static size_t word_columns(const char *word, size_t len)
{
    size_t columns = 0;
    for (size_t i = 0; i < len;) {
        size_t escape = escape_len(word + i, len - i);
        bool goes_on = ((unsigned char)word[i] & 0xc0) == 0x80; /* within a UTF-8 sequence */
        columns += escape == 0 && !goes_on;
        i += escape > 0 ? escape : 1;
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

/* ---- versions -------------------------------------------------------------------------------- */

int64_t version_number(const char *text)
{
    enum { PARTS = 3, PART_DIGITS = 5, PART_LIMIT = 100000 };
    int64_t number = 0;
    const char *at = text && text[0] == 'v' ? text + 1 : text;
    for (int part = 1; part <= PARTS; part++) {
        uint64_t value;
        size_t digits = text ? strspn(at, "0123456789") : 0;
        if (digits > PART_DIGITS || text_to_u64(at, digits, &value, NULL) != 0 ||
            (part < PARTS && at[digits] != '.')) {
            return 0;
        }
        number = number * PART_LIMIT + (int64_t)value;
        at += digits + 1; /* past the dot; after the third part nothing is read */
    }
    return number;
}
