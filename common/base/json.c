/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/text.h"

#include <stdint.h>
#include <string.h>

/* ---- checking -------------------------------------------------------------------------------- */

struct checker {
    struct json_walk in;
    size_t depth;
    bool is_too_deep;
    char closing[JSON_SCAN_MAX_DEPTH]; /* what closes each open bracket */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* -1: it is none. */
static int hex_value(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static void skip_blanks(struct json_walk *w)
{
    while (w->at < w->end && is_blank(*w->at)) {
        w->at++;
    }
}

static bool take(struct json_walk *w, char wanted)
{
    bool is_there = w->at < w->end && *w->at == wanted;
    w->at += is_there;
    return is_there;
}

static bool take_word(struct json_walk *c, const char *word)
{
    for (; *word; word++) {
        if (!take(c, *word)) {
            return false;
        }
    }
    return true;
}

static bool take_escape(struct json_walk *c)
{
    if (take(c, 'u')) {
        for (int i = 0; i < 4; i++, c->at++) {
            if (c->at == c->end || hex_value(*c->at) < 0) {
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

static bool take_text(struct json_walk *c)
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

static bool take_digits(struct json_walk *c)
{
    const char *start = c->at;
    while (c->at < c->end && text_is_digit(*c->at)) {
        c->at++;
    }
    return c->at > start;
}

static bool take_number(struct json_walk *c)
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

static bool take_scalar(struct json_walk *c)
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

static bool take_closing(struct checker *c)
{
    skip_blanks(&c->in);
    if (!take(&c->in, c->closing[c->depth - 1])) {
        return false;
    }
    c->depth--;
    return true;
}

/* The name and the colon before a member's value. */
static bool take_key(struct checker *c)
{
    if (c->closing[c->depth - 1] == ']') {
        return true;
    }
    skip_blanks(&c->in);
    if (!take_text(&c->in)) {
        return false;
    }
    skip_blanks(&c->in);
    return take(&c->in, ':');
}

static bool open_container(struct checker *c, char closing)
{
    c->is_too_deep = c->depth == JSON_SCAN_MAX_DEPTH;
    if (!c->is_too_deep) {
        c->closing[c->depth++] = closing;
    }
    return !c->is_too_deep;
}

static bool take_document(struct checker *c)
{
    do {
        skip_blanks(&c->in);
        bool is_object = take(&c->in, '{');
        bool is_container = is_object || take(&c->in, '[');
        if (is_container ? !open_container(c, is_object ? '}' : ']') : !take_scalar(&c->in)) {
            return false;
        }
        bool is_whole = !is_container || take_closing(c);
        while (is_whole && c->depth > 0 && take_closing(c)) {
        }
        if (c->depth > 0 && ((is_whole && !take(&c->in, ',')) || !take_key(c))) {
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
    struct checker c = {.in = {.at = text, .end = text + len}};
    skip_blanks(&c.in);
    const char *start = c.in.at;
    bool is_valid = take_document(&c);
    const char *end = c.in.at;
    if (is_valid) {
        skip_blanks(&c.in);
    }
    if (is_valid && c.in.at == c.in.end) {
        *out = (struct json_slice){.at = start, .len = (size_t)(end - start)};
        return 0;
    }
    if (c.is_too_deep) {
        return err_set(e, ERR_LIMIT, "JSON nests deeper than %d levels at byte %zu",
                       (int)JSON_SCAN_MAX_DEPTH, (size_t)(c.in.at - text));
    }
    if (c.in.at == c.in.end) {
        return err_set(e, ERR_PARSE, "unexpected end of JSON input");
    }
    return err_set(e, ERR_PARSE, "not valid JSON at byte %zu", (size_t)(c.in.at - text));
}

enum json_kind json_scan_kind(struct json_slice value)
{
    return value.len > 0 ? (enum json_kind)(unsigned char)value.at[0] : JSON_KIND_ABSENT;
}

/* ---- members --------------------------------------------------------------------------------- */

/* One value, of which json_scan_check has seen that its brackets match. */
static struct json_slice walk_value(struct json_walk *w)
{
    size_t depth = 0;
    skip_blanks(w);
    struct json_slice value = {.at = w->at};
    while (w->at < w->end) {
        char c = *w->at;
        if (depth == 0 && (c == ',' || c == ']' || c == '}' || c == ':' || is_blank(c))) {
            break;
        }
        if (c == '"') {
            (void)take_text(w); /* it was checked */
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

bool json_walk_next(struct json_walk *w)
{
    if (w->is_object) {
        w->key = walk_value(w);
        skip_blanks(w);
        (void)take(w, ':'); /* it was checked */
    }
    w->value = walk_value(w);
    skip_blanks(w);
    (void)take(w, ','); /* none after the last */
    return w->value.len > 0;
}

size_t json_scan_count(struct json_slice container)
{
    size_t count = 0;
    for (struct json_walk w = json_walk_start(container); json_walk_next(&w);) {
        count++;
    }
    return count;
}

struct json_slice json_scan_item(struct json_slice container, size_t index)
{
    struct json_walk w = json_walk_start(container);
    for (size_t i = 0; json_walk_next(&w) && i < index; i++) {
    }
    return w.value;
}

struct json_slice json_scan_member(struct json_slice object, const char *name)
{
    struct json_slice found = {.at = NULL};
    for (struct json_walk w = json_walk_start(object); json_walk_next(&w);) {
        if (json_scan_equals(w.key, name)) {
            found = w.value;
        }
    }
    return found;
}

bool json_scan_field(struct json_slice object, const char *name, struct json_slice *out)
{
    bool all_texts = true;
    *out = (struct json_slice){.at = NULL};
    for (struct json_walk w = json_walk_start(object); json_walk_next(&w);) {
        enum json_kind kind = json_scan_kind(w.value);
        if (kind != JSON_KIND_NULL && json_scan_folds(w.key, name)) {
            *out = w.value;
            all_texts = all_texts && kind == JSON_KIND_TEXT;
        }
    }
    return all_texts;
}

/* ---- texts ----------------------------------------------------------------------------------- */

enum { REPLACEMENT = 0xfffd, KELVIN_SIGN = 0x212a, LONG_S = 0x17f, UTF8_BYTES = 4 };

/* The characters between the quotes. */
struct reader {
    const char *at;
    const char *end;
    bool is_lossy; /* something became U+FFFD that was not */
};

static struct reader read_text(struct json_slice text)
{
    bool is_text = text.len >= 2 && text.at[0] == '"';
    return (struct reader){.at = is_text ? text.at + 1 : NULL,
                           .end = is_text ? text.at + text.len - 1 : NULL};
}

static uint32_t lose(struct reader *r)
{
    r->is_lossy = true;
    return REPLACEMENT;
}

/* What "\uXXXX" at `at` says, or -1. */
static int32_t peek_unit(const struct reader *r)
{
    int32_t unit = 0;
    if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u') {
        return -1;
    }
    for (int i = 2; i < 6; i++) {
        int digit = hex_value(r->at[i]);
        if (digit < 0) {
            return -1;
        }
        unit = unit << 4 | digit;
    }
    return unit;
}

static uint32_t read_escape(struct reader *r)
{
    static const char escapes[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    int32_t unit = peek_unit(r);
    if (unit < 0) {
        const char *escape =
            r->end - r->at < 2 || r->at[1] == '\0' ? NULL : strchr(escapes, r->at[1]);
        r->at += r->end - r->at < 2 ? 1 : 2;
        return escape ? (uint32_t)meanings[escape - escapes] : lose(r);
    }
    r->at += 6;
    if (unit < 0xd800 || unit > 0xdfff) {
        return (uint32_t)unit;
    }
    int32_t low = unit < 0xdc00 ? peek_unit(r) : -1;
    if (low < 0xdc00 || low > 0xdfff) {
        return lose(r); /* half a pair; what follows stands for itself */
    }
    r->at += 6;
    return 0x10000 + ((uint32_t)(unit - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
}

/* An invalid byte counts alone, as in Go. */
static uint32_t read_utf8(struct reader *r)
{
    uint32_t point;
    size_t len = *r->at ? text_utf8(r->at, (size_t)(r->end - r->at), &point) : 0;
    r->at += len > 0 ? len : 1;
    return len > 0 ? point : lose(r);
}

static bool read_next(struct reader *r, uint32_t *out_point)
{
    if (r->at == r->end) {
        return false;
    }
    *out_point = *r->at == '\\' ? read_escape(r) : read_utf8(r);
    return true;
}

/* Source: RFC 3629, section 3. */
static size_t encode_utf8(uint32_t point, char out[static UTF8_BYTES])
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t len = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (char)(lead[len == 1 ? 0 : len] | point);
    return len;
}

bool json_scan_text(struct json_slice text, char *out, size_t out_bytes)
{
    struct reader r = read_text(text);
    char character[UTF8_BYTES];
    uint32_t point;
    size_t used = 0;
    bool fits = r.at != NULL;
    while (fits && read_next(&r, &point)) {
        if (point == 0) {
            point = lose(&r);
        }
        size_t len = encode_utf8(point, character);
        fits = used + len < out_bytes;
        if (fits) {
            memcpy(out + used, character, len);
            used += len;
        }
    }
    out[used] = '\0';
    return fits && !r.is_lossy;
}

/* Go: unicode.SimpleFold, for the letters of ASCII. */
static uint32_t fold(uint32_t point)
{
    if (point >= 'A' && point <= 'Z') {
        return point - 'A' + 'a';
    }
    return point == KELVIN_SIGN ? 'k' : point == LONG_S ? 's' : point;
}

static bool matches(struct json_slice text, const char *word, bool folds)
{
    struct reader r = read_text(text);
    uint32_t point;
    if (!r.at) {
        return false;
    }
    while (read_next(&r, &point)) {
        uint32_t wanted = (unsigned char)*word;
        if (wanted == 0 || (folds ? fold(point) != fold(wanted) : point != wanted)) {
            return false;
        }
        word++;
    }
    return *word == '\0';
}

bool json_scan_equals(struct json_slice text, const char *word)
{
    return matches(text, word, false);
}

bool json_scan_folds(struct json_slice text, const char *word)
{
    return matches(text, word, true);
}

int json_scan_compare(struct json_slice a, struct json_slice b)
{
    struct reader ra = read_text(a);
    struct reader rb = read_text(b);
    for (;;) {
        uint32_t pa = 0;
        uint32_t pb = 0;
        bool more_a = read_next(&ra, &pa);
        bool more_b = read_next(&rb, &pb);
        if (!more_a || !more_b) {
            return (int)more_a - (int)more_b;
        }
        if (pa != pb) {
            return pa < pb ? -1 : 1;
        }
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

enum { ESCAPE_BYTES = 7 };

static void put_bytes(struct json_writer *w, const char *bytes, size_t len)
{
    if (w->overflow || len > w->max_bytes - w->used) {
        w->overflow = true;
        return;
    }
    memcpy(w->out + w->used, bytes, len);
    w->used += len;
}

void json_put_raw(struct json_writer *w, const char *text)
{
    put_bytes(w, text, strlen(text));
}

void json_put_text(struct json_writer *w, const char *text)
{
    put_bytes(w, "\"", 1);
    for (const char *c = text; *c && !w->overflow; c++) {
        char escape[ESCAPE_BYTES];
        if ((unsigned char)*c < 0x20) {
            text_format(escape, sizeof(escape), "\\u%04x", (unsigned)(unsigned char)*c);
            put_bytes(w, escape, strlen(escape));
            continue;
        }
        if (*c == '"' || *c == '\\') {
            put_bytes(w, "\\", 1);
        }
        put_bytes(w, c, 1);
    }
    put_bytes(w, "\"", 1);
}

void json_put_i64(struct json_writer *w, int64_t value)
{
    char text[24];
    text_format(text, sizeof(text), "%lld", (long long)value);
    json_put_raw(w, text);
}
