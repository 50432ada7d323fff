/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/time.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { QUOTE_MAX_BYTES = 47, DNS1123_MAX_BYTES = 253 };
#define MAX_DURATION_NS (INT64_C(100) * 365 * 24 * 3600 * NS_PER_SEC)

static size_t count_digits(const char *s, size_t len)
{
    size_t n = 0;
    while (n < len && text_is_digit(s[n])) {
        n++;
    }
    return n;
}

/* Outside data in an error message is short. */
static int refuse(int code, const char *s, size_t len, const char *what, struct err *e)
{
    int shown = len < QUOTE_MAX_BYTES ? (int)len : QUOTE_MAX_BYTES;
    return err_set(e, code, "'%.*s' is %s", shown, s, what);
}

int text_to_u64(const char *s, size_t len, uint64_t *out, struct err *e)
{
    uint64_t value = 0;
    for (size_t i = 0; i < len && text_is_digit(s[i]); i++) {
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(s[i] - '0'), &value)) {
            return refuse(ERR_LIMIT, s, len, "too large", e);
        }
    }
    if (len == 0 || count_digits(s, len) < len) {
        return refuse(ERR_PARSE, s, len, "not a number", e);
    }
    *out = value;
    return 0;
}

int text_to_i64(const char *s, size_t len, int64_t *out, struct err *e)
{
    bool negative = len > 0 && s[0] == '-';
    uint64_t magnitude;
    int rc = text_to_u64(s + negative, len - negative, &magnitude, e);
    if (rc != 0) {
        return rc;
    }
    if (magnitude > (uint64_t)INT64_MAX) {
        return refuse(ERR_LIMIT, s, len, "too large", e);
    }
    *out = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return 0;
}

/* Nanoseconds of one unit, or 0 for an unknown unit. No unit means seconds, as upstream has it. */
static int64_t unit_ns(const char *unit, size_t len)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {
        {"", NS_PER_SEC},       {"ms", NS_PER_MS},        {"s", NS_PER_SEC},
        {"m", 60 * NS_PER_SEC}, {"h", 3600 * NS_PER_SEC},
    };
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strlen(units[i].name) == len && memcmp(units[i].name, unit, len) == 0) {
            return units[i].ns;
        }
    }
    return 0;
}

int text_to_duration_ns(const char *s, size_t len, int64_t *out_ns, struct err *e)
{
    size_t at = count_digits(s, len);
    uint64_t whole;
    int64_t nanos = 0; /* of one unit */
    int rc = text_to_u64(s, at, &whole, NULL);
    if (rc == 0 && at < len && s[at] == '.') {
        at++;
        size_t digits = count_digits(s + at, len - at);
        rc = digits == 0 || digits > 9 ? ERR_PARSE : 0;
        for (size_t i = 0; rc == 0 && i < 9; i++) {
            nanos = nanos * 10 + (i < digits ? s[at + i] - '0' : 0);
        }
        at += digits;
    }
    int64_t unit = rc == 0 ? unit_ns(s + at, len - at) : 0;
    if (rc == ERR_LIMIT || (unit != 0 && whole > (uint64_t)(MAX_DURATION_NS / unit))) {
        return refuse(ERR_LIMIT, s, len, "too long a duration", e);
    }
    if (unit == 0) {
        return refuse(ERR_PARSE, s, len,
                      "not a duration (expected seconds like 10 or 0.5, or 500ms, 10s, 1m, 2h)", e);
    }
    *out_ns = (int64_t)whole * unit + nanos * (unit / NS_PER_MS) / 1000;
    return 0;
}

struct text_span text_span(int64_t ns)
{
    struct text_span span = {.text = ""};
    int64_t seconds = ns / NS_PER_SEC;
    int64_t rest = ns % NS_PER_SEC;
    int digits = 9;
    if (rest == 0) {
        text_format(span.text, sizeof(span.text), "%" PRId64 "s", seconds);
    } else if (seconds == 0 && rest % NS_PER_MS == 0) {
        text_format(span.text, sizeof(span.text), "%" PRId64 "ms", rest / NS_PER_MS);
    } else {
        for (; rest % 10 == 0; rest /= 10) {
            digits--;
        }
        text_format(span.text, sizeof(span.text), "%" PRId64 ".%0*" PRId64 "s", seconds, digits,
                    rest);
    }
    return span;
}

uint64_t text_stat_field(const char *stat, size_t field)
{
    const char *at = strrchr(stat, ')');
    uint64_t number = 0;
    for (size_t i = 2; at && i < field; i++) {
        at = strchr(at + 1, ' ');
    }
    return at && text_to_u64(at + 1, strcspn(at + 1, " \n"), &number, NULL) == 0 ? number : 0;
}

/* Source: RFC 3629, section 4. */
size_t text_utf8(const char *s, size_t len, uint32_t *out_point)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t need = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : u[0] >= 0x80 ? 2 : 1;
    uint32_t point = need == 1 ? u[0] : u[0] & (0x7fu >> need);
    unsigned char low = u[0] == 0xe0 ? 0xa0 : u[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = u[0] == 0xed ? 0x9f : u[0] == 0xf4 ? 0x8f : 0xbf;
    if (need > len || (need > 1 && (u[0] < 0xc2 || u[0] > 0xf4))) {
        return 0;
    }
    for (size_t i = 1; i < need; i++, low = 0x80, high = 0xbf) {
        if (u[i] < low || u[i] > high) {
            return 0;
        }
        point = point << 6 | (u[i] & 0x3f);
    }
    *out_point = point;
    return need;
}

/* A text that was cut: its last character may be cut in two. */
static void end_at_character(char *dst, size_t dst_bytes)
{
    uint32_t point;
    char *end = dst + dst_bytes - 1;
    char *last = end; /* where the last character begins */
    while (last > dst && ((unsigned char)*--last & 0xc0) == 0x80) {
    }
    if (text_utf8(last, (size_t)(end - last), &point) == 0) {
        *last = '\0';
    }
}

static bool copy(char *dst, size_t dst_bytes, const char *src, size_t len)
{
    bool fits = len < dst_bytes;
    size_t kept = fits ? len : dst_bytes - 1;
    memcpy(dst, src, kept);
    dst[kept] = '\0';
    if (!fits) {
        end_at_character(dst, dst_bytes);
    }
    return fits;
}

bool text_copy(char *dst, size_t dst_bytes, const char *src)
{
    return copy(dst, dst_bytes, src, strlen(src));
}

void text_format(char *dst, size_t dst_bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_vformat(dst, dst_bytes, format, args);
    va_end(args);
}

void text_vformat(char *dst, size_t dst_bytes, const char *format, va_list args)
{
    int len = vsnprintf(dst, dst_bytes, format, args);
    assert(len >= 0); /* no format of ours has wide characters */
    if ((size_t)len >= dst_bytes) {
        end_at_character(dst, dst_bytes);
    }
}

void text_append(char *dst, size_t dst_bytes, const char *format, ...)
{
    size_t used = strlen(dst);
    va_list args;
    va_start(args, format);
    text_vformat(dst + used, dst_bytes - used, format, args);
    va_end(args);
}

bool text_is_pci_address(const char *s)
{
    static const char hex[] = "0123456789abcdef";
    static const char rest[] = ":hh:hh.h";
    size_t domain = strspn(s, hex);
    if (domain < 4 || domain > 8) {
        return false;
    }
    for (size_t i = 0; i < sizeof(rest); i++) {
        char c = s[domain + i];
        if (rest[i] == 'h' ? c == '\0' || !strchr(hex, c) : c != rest[i]) {
            return false;
        }
    }
    return s[domain + sizeof(rest) - 2] < '8'; /* a device has eight functions */
}

bool text_equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* C0, DEL, C1 (U+009B alone begins an escape sequence on some terminals), and what ends lines or
 * turns them round so that a text reads as what it is not. */
static bool is_control(uint32_t point)
{
    return point <= 0x1f || (point >= 0x7f && point < 0xa0) || point == 0x61c || point == 0x200e ||
           point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
           (point >= 0x2066 && point <= 0x2069);
}

/* The length of what comes next: a word in braces, or what stands before one. */
static size_t next_piece(const char *format)
{
    size_t len = format[0] == '{' ? strcspn(format, "}") : strcspn(format, "{");
    return format[0] == '{' && format[len] == '}' ? len + 1 : len;
}

/* The value of the word that a piece is; NULL: it is none. */
static const char *word_value(const char *piece, size_t len, const struct text_word *words,
                              size_t count)
{
    if (piece[0] != '{') {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (strncmp(words[i].name, piece, len) == 0 && words[i].name[len] == '\0') {
            return words[i].text;
        }
    }
    return NULL;
}

void text_fill(char *dst, size_t dst_bytes, const char *format, const struct text_word *words,
               size_t count)
{
    dst[0] = '\0';
    for (size_t len; *format != '\0'; format += len) {
        len = next_piece(format);
        const char *value = word_value(format, len, words, count);
        (void)copy(dst, dst_bytes, value ? value : format, value ? strlen(value) : len);
        size_t used = strlen(dst);
        dst_bytes -= used;
        dst += used;
    }
}

void text_sanitize(char *dst, size_t dst_bytes, const char *src, size_t len)
{
    size_t used = 0;
    for (size_t i = 0; i < len;) {
        uint32_t point;
        if (src[i] >= ' ' && src[i] <= '~' && used + 1 < dst_bytes) { /* most are */
            dst[used++] = src[i++];
            continue;
        }
        size_t sequence = text_utf8(src + i, len - i, &point);
        size_t step = sequence ? sequence : 1;
        if (used + step >= dst_bytes) {
            break;
        }
        if (sequence == 0) {
            dst[used] = '?';
        } else if (is_control(point)) {
            memset(dst + used, ' ', sequence);
        } else {
            memcpy(dst + used, src + i, sequence);
        }
        used += step;
        i += step;
    }
    dst[used] = '\0';
}

bool text_is_dns1123_subdomain(const char *s)
{
    size_t len = strlen(s);
    bool at_label_start = true;
    if (len > DNS1123_MAX_BYTES) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        bool alphanumeric = text_is_digit(s[i]) || (s[i] >= 'a' && s[i] <= 'z');
        bool at_label_end = i + 1 == len || s[i + 1] == '.';
        if (s[i] == '.' ? at_label_start
                        : !(alphanumeric || (s[i] == '-' && !at_label_start && !at_label_end))) {
            return false;
        }
        at_label_start = s[i] == '.';
    }
    return !at_label_start;
}

/* ---- base64 ---------------------------------------------------------------------------------- */

bool base64_decode(const char *in, size_t len, unsigned char *out, size_t *out_len)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0; /* `count` of them are not written yet */
    unsigned count = 0;
    size_t used = 0;
    bool is_padded = false;
    for (size_t i = 0; i < len; i++) {
        char letter = (char)(in[i] == '-' ? '+' : in[i] == '_' ? '/' : in[i]);
        const char *at = letter ? strchr(letters, letter) : NULL;
        if (letter && strchr("\n =", letter)) {
            is_padded = is_padded || in[i] == '=';
        } else if (!at || is_padded) {
            return false;
        } else {
            bits = bits << 6 | (uint32_t)(at - letters);
            count += 6;
            if (count >= 8) {
                count -= 8;
                out[used++] = (unsigned char)(bits >> count);
            }
        }
    }
    *out_len = used;
    return count < 6;
}

/* ---- checksum -------------------------------------------------------------------------------- */

/* Four bits at a time: of a table, one line of the cache is all that the CNI binary has to load. */
uint32_t crc32c_compute(const void *data, size_t len)
{
    static const uint32_t remainders[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                            0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                            0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                            0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const uint8_t *bytes = data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ remainders[crc & 0xf];
        crc = crc >> 4 ^ remainders[crc & 0xf];
    }
    return ~crc;
}
