/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json_scan.h"

#include <stdint.h>
#include <string.h>

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
        static const char digits[] = "0123456789abcdef";
        char c = r->at[i] >= 'A' && r->at[i] <= 'F' ? (char)(r->at[i] + ('a' - 'A')) : r->at[i];
        const char *digit = c ? strchr(digits, c) : NULL;
        if (!digit) {
            return -1;
        }
        unit = unit << 4 | (int32_t)(digit - digits);
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

/* Source: RFC 3629, section 4. An invalid byte counts alone, as in Go. */
static uint32_t read_utf8(struct reader *r)
{
    const unsigned char *u = (const unsigned char *)r->at;
    size_t need = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : u[0] >= 0x80 ? 2 : 1;
    bool is_valid = u[0] < 0x80 || (u[0] >= 0xc2 && u[0] <= 0xf4);
    uint32_t point = need == 1 ? u[0] : u[0] & (0x7fu >> need);
    unsigned char low = u[0] == 0xe0 ? 0xa0 : u[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = u[0] == 0xed ? 0x9f : u[0] == 0xf4 ? 0x8f : 0xbf;
    is_valid = is_valid && need <= (size_t)(r->end - r->at) && u[0] != 0;
    for (size_t i = 1; is_valid && i < need; i++, low = 0x80, high = 0xbf) {
        is_valid = u[i] >= low && u[i] <= high;
        point = point << 6 | (u[i] & 0x3f);
    }
    r->at += is_valid ? need : 1;
    return is_valid ? point : lose(r);
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
        point = point == 0 ? lose(&r) : point;
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
