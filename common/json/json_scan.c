/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json_scan.h"

#include <stdint.h>
#include <string.h>

/* ---- checking -------------------------------------------------------------------------------- */

struct checker {
    const char *at;
    const char *end;
    size_t depth;
    bool is_too_deep;
    uint8_t is_object[(JSON_SCAN_MAX_DEPTH + 7) / 8]; /* a bit for each open bracket */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static void skip_blanks(struct checker *c)
{
    while (c->at < c->end && is_blank(*c->at)) {
        c->at++;
    }
}

static bool take(struct checker *c, char wanted)
{
    if (c->at == c->end || *c->at != wanted) {
        return false;
    }
    c->at++;
    return true;
}

static bool take_word(struct checker *c, const char *word)
{
    for (; *word; word++) {
        if (!take(c, *word)) {
            return false;
        }
    }
    return true;
}

static bool take_escape(struct checker *c)
{
    if (take(c, 'u')) {
        for (int i = 0; i < 4; i++, c->at++) {
            if (c->at == c->end || !is_hex(*c->at)) {
                return false;
            }
        }
        return true;
    }
    if (c->at == c->end || *c->at == '\0' || !strchr("\"\\/bfnrt", *c->at)) {
        return false;
    }
    c->at++;
    return true;
}

static bool take_text(struct checker *c)
{
    if (!take(c, '"')) {
        return false;
    }
    while (c->at < c->end && (unsigned char)*c->at >= 0x20) {
        if (take(c, '"')) {
            return true;
        }
        if (take(c, '\\')) {
            if (!take_escape(c)) {
                return false;
            }
        } else {
            c->at++;
        }
    }
    return false;
}

static bool take_digits(struct checker *c)
{
    const char *start = c->at;
    while (c->at < c->end && is_digit(*c->at)) {
        c->at++;
    }
    return c->at > start;
}

static bool take_number(struct checker *c)
{
    (void)take(c, '-'); /* may be there */
    if (!take(c, '0') && !take_digits(c)) {
        return false;
    }
    if (take(c, '.') && !take_digits(c)) {
        return false;
    }
    if (take(c, 'e') || take(c, 'E')) {
        if (!take(c, '+')) {
            (void)take(c, '-'); /* either, or none */
        }
        return take_digits(c);
    }
    return true;
}

static bool take_scalar(struct checker *c)
{
    switch (c->at < c->end ? *c->at : '\0') {
    case '"':
        return take_text(c);
    case 't':
        return take_word(c, "true");
    case 'f':
        return take_word(c, "false");
    case 'n':
        return take_word(c, "null");
    default:
        return take_number(c);
    }
}

static bool in_object(const struct checker *c)
{
    size_t level = c->depth - 1;
    return c->is_object[level / 8] >> (level % 8) & 1;
}

static bool take_closing(struct checker *c)
{
    skip_blanks(c);
    if (!take(c, in_object(c) ? '}' : ']')) {
        return false;
    }
    c->depth--;
    return true;
}

/* What stands before a member's value. */
static bool take_key(struct checker *c)
{
    if (!in_object(c)) {
        return true;
    }
    skip_blanks(c);
    if (!take_text(c)) {
        return false;
    }
    skip_blanks(c);
    return take(c, ':');
}

/* An opening bracket was taken. */
static bool enter(struct checker *c, bool is_object)
{
    if (c->depth == JSON_SCAN_MAX_DEPTH) {
        c->is_too_deep = true;
        return false;
    }
    uint8_t bit = (uint8_t)(1u << (c->depth % 8));
    uint8_t *bits = &c->is_object[c->depth / 8];
    *bits = (uint8_t)(is_object ? *bits | bit : *bits & ~bit);
    c->depth++;
    return true;
}

/* After a value: what it closes, then a comma unless it was the last. */
static bool take_separator(struct checker *c)
{
    while (c->depth > 0 && take_closing(c)) {
    }
    return c->depth == 0 || (take(c, ',') && take_key(c));
}

/* A value, or the beginning of one that is not empty: then what stands before its first part. */
static bool take_value(struct checker *c, bool *out_is_inside)
{
    skip_blanks(c);
    bool is_object = take(c, '{');
    *out_is_inside = false;
    if (!is_object && !take(c, '[')) {
        return take_scalar(c);
    }
    if (!enter(c, is_object)) {
        return false;
    }
    *out_is_inside = !take_closing(c);
    return !*out_is_inside || take_key(c);
}

static bool take_document(struct checker *c)
{
    bool is_inside = false;
    do {
        if (!take_value(c, &is_inside) || (!is_inside && !take_separator(c))) {
            return false;
        }
    } while (c->depth > 0);
    return true;
}

int json_scan_check(const char *text, size_t len, struct json_slice *out, struct err *e)
{
    if (len == 0) {
        return err_set(e, ERR_PARSE, "unexpected end of JSON input");
    }
    struct checker c = {.at = text, .end = text + len};
    skip_blanks(&c);
    const char *start = c.at;
    bool is_valid = take_document(&c);
    const char *end = c.at;
    if (is_valid) {
        skip_blanks(&c);
    }
    if (is_valid && c.at == c.end) {
        *out = (struct json_slice){.at = start, .len = (size_t)(end - start)};
        return 0;
    }
    if (c.is_too_deep) {
        return err_set(e, ERR_LIMIT, "JSON nests deeper than %d levels at byte %zu",
                       (int)JSON_SCAN_MAX_DEPTH, (size_t)(c.at - text));
    }
    if (c.at == c.end) {
        return err_set(e, ERR_PARSE, "unexpected end of JSON input");
    }
    return err_set(e, ERR_PARSE, "not valid JSON at byte %zu", (size_t)(c.at - text));
}

enum json_kind json_scan_kind(struct json_slice value)
{
    switch (value.len > 0 ? value.at[0] : '\0') {
    case '\0':
        return JSON_KIND_ABSENT;
    case '{':
        return JSON_KIND_OBJECT;
    case '[':
        return JSON_KIND_ARRAY;
    case '"':
        return JSON_KIND_TEXT;
    case 'n':
        return JSON_KIND_NULL;
    case 't':
    case 'f':
        return JSON_KIND_BOOL;
    default:
        return JSON_KIND_NUMBER;
    }
}

/* ---- members --------------------------------------------------------------------------------- */

static void walk_blanks(struct json_walk *w)
{
    while (w->at < w->end && is_blank(*w->at)) {
        w->at++;
    }
}

static void walk_text(struct json_walk *w)
{
    w->at++; /* the opening quote */
    while (w->at < w->end && *w->at != '"') {
        w->at += *w->at == '\\' && w->end - w->at > 1 ? 2 : 1;
    }
    w->at += w->at < w->end;
}

/* One value, of which json_scan_check has seen that its brackets match. */
static struct json_slice walk_value(struct json_walk *w)
{
    size_t depth = 0;
    walk_blanks(w);
    struct json_slice value = {.at = w->at};
    while (w->at < w->end) {
        char c = *w->at;
        if (depth == 0 && (c == ',' || c == ']' || c == '}' || c == ':' || is_blank(c))) {
            break;
        }
        if (c == '"') {
            walk_text(w);
        } else {
            depth += c == '{' || c == '[';
            depth -= c == '}' || c == ']';
            w->at++;
        }
        if (depth == 0 && (c == '"' || c == '}' || c == ']')) {
            break;
        }
    }
    value.len = (size_t)(w->at - value.at);
    return value;
}

struct json_walk json_walk_start(struct json_slice container)
{
    static const char nothing[] = "";
    enum json_kind kind = json_scan_kind(container);
    if (kind != JSON_KIND_OBJECT && kind != JSON_KIND_ARRAY) {
        return (struct json_walk){.at = nothing, .end = nothing};
    }
    return (struct json_walk){.at = container.at + 1,
                              .end = container.at + container.len,
                              .is_object = kind == JSON_KIND_OBJECT};
}

/* Takes `c` after blanks, if it is there. */
static void walk_past(struct json_walk *w, char c)
{
    walk_blanks(w);
    w->at += w->at < w->end && *w->at == c;
}

bool json_walk_next(struct json_walk *w, struct json_slice *out_key, struct json_slice *out_value)
{
    *out_key = (struct json_slice){.at = NULL};
    if (w->is_object) {
        *out_key = walk_value(w);
        walk_past(w, ':');
    }
    *out_value = walk_value(w);
    walk_past(w, ',');
    return out_value->len > 0;
}

size_t json_scan_count(struct json_slice container)
{
    struct json_walk w = json_walk_start(container);
    struct json_slice key;
    struct json_slice value;
    size_t count = 0;
    while (json_walk_next(&w, &key, &value)) {
        count++;
    }
    return count;
}

struct json_slice json_scan_member(struct json_slice object, const char *name)
{
    struct json_walk w = json_walk_start(object);
    struct json_slice key;
    struct json_slice value;
    struct json_slice found = {.at = NULL};
    while (json_walk_next(&w, &key, &value)) {
        if (json_scan_equals(key, name)) {
            found = value;
        }
    }
    return found;
}

bool json_scan_field(struct json_slice object, const char *name, struct json_slice *out)
{
    struct json_walk w = json_walk_start(object);
    struct json_slice key;
    struct json_slice value;
    bool all_texts = true;
    *out = (struct json_slice){.at = NULL};
    while (json_walk_next(&w, &key, &value)) {
        enum json_kind kind = json_scan_kind(value);
        if (kind != JSON_KIND_NULL && json_scan_folds(key, name)) {
            *out = value;
            all_texts = all_texts && kind == JSON_KIND_TEXT;
        }
    }
    return all_texts;
}
