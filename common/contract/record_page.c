/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record_page.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 16, ESCAPE_BYTES = 7 };

/* ---- writing --------------------------------------------------------------------------------- */

static void put_bytes(struct record_writer *w, const char *bytes, size_t len)
{
    if (w->overflow || len > w->max_bytes - w->used) {
        w->overflow = true;
        return;
    }
    memcpy(w->page + w->used, bytes, len);
    w->used += len;
}

void record_put_raw(struct record_writer *w, const char *text)
{
    put_bytes(w, text, strlen(text));
}

void record_put_text(struct record_writer *w, const char *text)
{
    put_bytes(w, "\"", 1);
    for (const char *c = text; *c && !w->overflow; c++) {
        char escape[ESCAPE_BYTES];
        if (*c == '"' || *c == '\\') {
            escape[0] = '\\';
            escape[1] = *c;
            put_bytes(w, escape, 2);
        } else if ((unsigned char)*c < 0x20) {
            (void)snprintf(escape, sizeof(escape), "\\u%04x",
                           (unsigned)(unsigned char)*c); /* fits */
            put_bytes(w, escape, strlen(escape));
        } else {
            put_bytes(w, c, 1);
        }
    }
    put_bytes(w, "\"", 1);
}

void record_put_i64(struct record_writer *w, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)value); /* at most 20 digits and a sign */
    record_put_raw(w, text);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void skip_blanks(struct record_reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) {
        r->at++;
    }
}

bool record_take(struct record_reader *r, char c)
{
    skip_blanks(r);
    if (r->failed || r->at == r->end || *r->at != c) {
        return false;
    }
    r->at++;
    return true;
}

void record_expect(struct record_reader *r, char c)
{
    if (!record_take(r, c)) {
        r->failed = true;
    }
}

static uint32_t take_hex4(struct record_reader *r)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        char c = r->at < r->end ? *r->at : '\0';
        const char *digit = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c) : NULL;
        if (!digit) {
            r->failed = true;
            return 0;
        }
        value = value << 4 | (uint32_t)(digit - digits);
        r->at++;
    }
    return value;
}

/* The code point after "\u", a surrogate pair taken as one. 0 (which is refused) if malformed. */
static uint32_t take_code_point(struct record_reader *r)
{
    uint32_t high = take_hex4(r);
    if (high < 0xd800 || high > 0xdfff) {
        return high;
    }
    if (high > 0xdbff || r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u') {
        return 0;
    }
    r->at += 2;
    uint32_t low = take_hex4(r);
    if (low < 0xdc00 || low > 0xdfff) {
        return 0;
    }
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

/* UTF-8 of a code point; returns its length. Source: RFC 3629, section 3. */
static size_t encode_utf8(uint32_t point, char out[static 4])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t len = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(lead[len] | point);
    return len;
}

/* One character of a string, unescaped, into `out`; returns its length, 0 on failure. */
static size_t take_character(struct record_reader *r, char out[static 4])
{
    static const char escapes[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    char c = *r->at++;
    if ((unsigned char)c < 0x20) {
        return 0;
    }
    if (c != '\\') {
        out[0] = c;
        return 1;
    }
    if (r->at == r->end) {
        return 0;
    }
    c = *r->at++;
    if (c == 'u') {
        uint32_t point = take_code_point(r);
        return point == 0 || r->failed ? 0 : encode_utf8(point, out);
    }
    const char *escape = c ? strchr(escapes, c) : NULL;
    if (!escape) {
        return 0;
    }
    out[0] = meanings[escape - escapes];
    return 1;
}

void record_take_text(struct record_reader *r, char *out, size_t out_bytes)
{
    size_t used = 0;
    char character[4];
    record_expect(r, '"');
    while (!r->failed && r->at < r->end && *r->at != '"') {
        size_t len = take_character(r, character);
        if (len == 0 || (out && used + len >= out_bytes)) {
            r->failed = true;
            return;
        }
        if (out) {
            memcpy(out + used, character, len);
        }
        used += len;
    }
    if (r->failed || r->at == r->end) {
        r->failed = true;
        return;
    }
    r->at++;
    if (out) {
        out[used] = '\0';
    }
}

int64_t record_take_i64(struct record_reader *r)
{
    int64_t value = 0;
    skip_blanks(r);
    const char *start = r->at;
    while (r->at < r->end && (*r->at == '-' || (*r->at >= '0' && *r->at <= '9'))) {
        r->at++;
    }
    bool fractional = r->at < r->end && (*r->at == '.' || *r->at == 'e' || *r->at == 'E');
    if (r->failed || fractional || text_to_i64(start, (size_t)(r->at - start), &value, NULL) != 0) {
        r->failed = true;
        return 0;
    }
    return value;
}

static bool take_word(struct record_reader *r, const char *word)
{
    size_t len = strlen(word);
    skip_blanks(r);
    if (r->failed || (size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0) {
        return false;
    }
    r->at += len;
    return true;
}

bool record_take_bool(struct record_reader *r)
{
    if (take_word(r, "true")) {
        return true;
    }
    if (!take_word(r, "false")) {
        r->failed = true;
    }
    return false;
}

static void skip_number(struct record_reader *r)
{
    size_t len = 0;
    skip_blanks(r);
    while (r->at < r->end && *r->at && strchr("+-.0123456789eE", *r->at)) {
        r->at++;
        len++;
    }
    if (len == 0) {
        r->failed = true;
    }
}

static void skip_scalar(struct record_reader *r)
{
    skip_blanks(r);
    if (r->at < r->end && *r->at == '"') {
        record_take_text(r, NULL, 0);
    } else if (!take_word(r, "null") && !take_word(r, "true") && !take_word(r, "false")) {
        skip_number(r);
    }
}

void record_skip_value(struct record_reader *r)
{
    char closers[MAX_DEPTH] = {0};
    size_t depth = 0;
    do {
        if (record_take(r, '{') || record_take(r, '[')) {
            if (depth == MAX_DEPTH) {
                r->failed = true;
                return;
            }
            closers[depth++] = r->at[-1] == '{' ? '}' : ']';
        } else {
            skip_scalar(r);
        }
        /* After a value, or right after an opening bracket: separators and closings. */
        bool opened = !r->failed && depth > 0 && (r->at[-1] == '{' || r->at[-1] == '[');
        while (!r->failed && depth > 0 && record_take(r, closers[depth - 1])) {
            depth--;
            opened = false;
        }
        if (depth > 0 && !opened) {
            record_expect(r, ',');
        }
        if (!r->failed && depth > 0 && closers[depth - 1] == '}') {
            record_take_text(r, NULL, 0);
            record_expect(r, ':');
        }
    } while (!r->failed && depth > 0);
}
