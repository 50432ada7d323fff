/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/time.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ERR_QUOTE_BYTES = 48, DNS1123_MAX_BYTES = 253 };
#define MAX_DURATION_NS (INT64_C(100) * 365 * 24 * 3600 * NS_PER_SEC)

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Outside data for an error message: short and printable. */
static const char *quote(char out[static ERR_QUOTE_BYTES], const char *s, size_t len)
{
    text_sanitize(out, ERR_QUOTE_BYTES, s, len);
    return out;
}

int text_to_u64(const char *s, size_t len, uint64_t *out, struct err *e)
{
    char shown[ERR_QUOTE_BYTES];
    uint64_t value = 0;
    if (len == 0) {
        return err_set(e, ERR_PARSE, "expected a number, got nothing");
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(s[i])) {
            return err_set(e, ERR_PARSE, "'%s' is not a number", quote(shown, s, len));
        }
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(s[i] - '0'), &value)) {
            return err_set(e, ERR_LIMIT, "'%s' is too large", quote(shown, s, len));
        }
    }
    *out = value;
    return 0;
}

int text_to_i64(const char *s, size_t len, int64_t *out, struct err *e)
{
    char shown[ERR_QUOTE_BYTES];
    bool negative = len > 0 && s[0] == '-';
    uint64_t magnitude;
    int rc = text_to_u64(s + negative, len - negative, &magnitude, e);
    if (rc != 0) {
        return rc;
    }
    if (magnitude > (uint64_t)INT64_MAX) {
        return err_set(e, ERR_LIMIT, "'%s' is too large", quote(shown, s, len));
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

/* Value of ".ddd" in units of 1e-9; at most nine digits. */
static int fraction_nanos(const char *digits, size_t len, int64_t *out_nanos)
{
    int64_t nanos = 0;
    if (len == 0 || len > 9) {
        return ERR_PARSE;
    }
    for (size_t i = 0; i < 9; i++) {
        nanos = nanos * 10 + (i < len ? digits[i] - '0' : 0);
    }
    *out_nanos = nanos;
    return 0;
}

static size_t count_digits(const char *s, size_t len)
{
    size_t n = 0;
    while (n < len && is_digit(s[n])) {
        n++;
    }
    return n;
}

int text_to_duration_ns(const char *s, size_t len, int64_t *out_ns, struct err *e)
{
    char shown[ERR_QUOTE_BYTES];
    bool negative = len > 0 && s[0] == '-';
    size_t at = negative;
    size_t whole_len = count_digits(s + at, len - at);
    uint64_t whole = 0;
    int64_t nanos = 0;
    int rc = text_to_u64(s + at, whole_len, &whole, NULL);
    at += whole_len;
    if (rc == 0 && at < len && s[at] == '.') {
        size_t fraction_len = count_digits(s + at + 1, len - at - 1);
        rc = fraction_nanos(s + at + 1, fraction_len, &nanos);
        at += 1 + fraction_len;
    }
    int64_t unit = rc == 0 ? unit_ns(s + at, len - at) : 0;
    if (rc == ERR_LIMIT || (unit != 0 && whole > (uint64_t)(MAX_DURATION_NS / unit))) {
        return err_set(e, ERR_LIMIT, "duration '%s' is too long", quote(shown, s, len));
    }
    if (rc != 0 || unit == 0) {
        return err_set(e, ERR_PARSE,
                       "'%s' is not a duration (expected seconds like 10 or 0.5, or 500ms, 10s, "
                       "1m, 2h)",
                       quote(shown, s, len));
    }
    int64_t fraction_ns =
        unit >= NS_PER_SEC ? nanos * (unit / NS_PER_SEC) : nanos / (NS_PER_SEC / unit);
    int64_t ns = (int64_t)whole * unit + fraction_ns;
    *out_ns = negative ? -ns : ns;
    return 0;
}

void text_from_duration(int64_t ns, char *out, size_t out_bytes)
{
    const char *sign = ns < 0 ? "-" : "";
    uint64_t abs_ns = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    uint64_t per_sec = (uint64_t)NS_PER_SEC;
    if (abs_ns % per_sec == 0) {
        text_format(out, out_bytes, "%s%llus", sign, (unsigned long long)(abs_ns / per_sec));
    } else if (abs_ns % (uint64_t)NS_PER_MS == 0 && abs_ns < per_sec) {
        text_format(out, out_bytes, "%s%llums", sign,
                    (unsigned long long)(abs_ns / (uint64_t)NS_PER_MS));
    } else {
        char fraction[10];
        text_format(fraction, sizeof(fraction), "%09llu", (unsigned long long)(abs_ns % per_sec));
        size_t keep = sizeof(fraction) - 1;
        while (fraction[keep - 1] == '0') {
            keep--;
        }
        text_format(out, out_bytes, "%s%llu.%.*ss", sign, (unsigned long long)(abs_ns / per_sec),
                    (int)keep, fraction);
    }
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

bool text_copy(char *dst, size_t dst_bytes, const char *src)
{
    size_t len = strlen(src);
    if (len < dst_bytes) {
        memcpy(dst, src, len + 1);
        return true;
    }
    size_t keep = dst_bytes - 1;
    while (keep > 0 && ((unsigned char)src[keep] & 0xc0) == 0x80) {
        keep--; /* do not cut a UTF-8 sequence in two */
    }
    memcpy(dst, src, keep);
    dst[keep] = '\0';
    return false;
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
    dst[0] = '\0'; /* what a failing conversion leaves */
    int len = vsnprintf(dst, dst_bytes, format, args);
    if (len < 0 || (size_t)len < dst_bytes) {
        return;
    }
    uint32_t point;
    size_t end = dst_bytes - 1;
    size_t last = end;
    while (last > 0 && ((unsigned char)dst[last - 1] & 0xc0) == 0x80) {
        last--;
    }
    last -= last > 0; /* where the last character begins */
    if (text_utf8(dst + last, end - last, &point) == 0) {
        dst[last] = '\0'; /* it was cut in two */
    }
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
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x61c || point == 0x200e ||
           point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
           (point >= 0x2066 && point <= 0x2069);
}

void text_sanitize(char *dst, size_t dst_bytes, const char *src, size_t len)
{
    size_t used = 0;
    for (size_t i = 0; i < len;) {
        uint32_t point;
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
    if (len == 0 || len > DNS1123_MAX_BYTES) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        bool alphanumeric = is_digit(s[i]) || (s[i] >= 'a' && s[i] <= 'z');
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

static int sextet(enum base64_kind kind, char c)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const char *at = c ? strchr(letters, c) : NULL;
    if (at) {
        return (int)(at - letters);
    }
    return c == (kind == BASE64_URL ? '-' : '+')   ? 62
           : c == (kind == BASE64_URL ? '_' : '/') ? 63
                                                   : -1;
}

static bool is_padding(enum base64_kind kind, const char *in, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (kind == BASE64_URL || (in[i] != '=' && in[i] != '\n' && in[i] != ' ')) {
            return false;
        }
    }
    return true;
}

bool base64_decode(enum base64_kind kind, const char *in, size_t len, unsigned char *out,
                   size_t *out_len)
{
    size_t used = 0;
    uint32_t bits = 0;
    int count = 0; /* sextets in `bits` */
    size_t i = 0;
    for (; i < len && in[i] != '='; i++) {
        if (kind == BASE64_STANDARD && (in[i] == '\n' || in[i] == ' ')) {
            continue;
        }
        int value = sextet(kind, in[i]);
        if (value < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)value;
        if (++count == 4) {
            out[used++] = (unsigned char)(bits >> 16);
            out[used++] = (unsigned char)(bits >> 8);
            out[used++] = (unsigned char)bits;
            count = 0;
        }
    }
    if (count == 1 || !is_padding(kind, in + i, len - i)) {
        return false;
    }
    bits <<= 6 * (4 - count);
    if (count >= 2) {
        out[used++] = (unsigned char)(bits >> 16);
    }
    if (count == 3) {
        out[used++] = (unsigned char)(bits >> 8);
    }
    *out_len = used;
    return true;
}

/* ---- checksum -------------------------------------------------------------------------------- */

uint32_t crc32c_compute(const void *data, size_t len)
{
    const uint8_t *bytes = data;
    uint32_t crc = UINT32_MAX;
    /* Bit by bit: a record is one page, and a table would cost the CNI binary more to load. */
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) ? UINT32_C(0x82f63b78) : 0);
        }
    }
    return ~crc;
}

static int refuse_address(const char *text, struct err *e)
{
    char shown[100];
    text_sanitize(shown, sizeof(shown), text, strlen(text));
    return err_set(e, ERR_PARSE,
                   "'%s' is not an address (expected HOST:PORT, like 127.0.0.1:9412 or [::1]:9412)",
                   shown);
}

int text_to_address(const char *text, struct text_address *out, struct err *e)
{
    const char *colon = strrchr(text, ':');
    uint64_t port = 0;
    if (!colon || strlen(colon + 1) > 5 ||
        text_to_u64(colon + 1, strlen(colon + 1), &port, NULL) != 0 || port > UINT16_MAX) {
        return refuse_address(text, e);
    }
    size_t len = (size_t)(colon - text);
    bool has_brackets = len >= 2 && text[0] == '[' && text[len - 1] == ']';
    const char *host = has_brackets ? text + 1 : text;
    len -= has_brackets ? 2 : 0;
    bool has_colon = memchr(host, ':', len) != NULL;
    if (len >= TEXT_HOST_BYTES || has_colon != has_brackets || memchr(host, '[', len) ||
        memchr(host, ']', len)) {
        return refuse_address(text, e);
    }
    memcpy(out->host, host, len);
    out->host[len] = '\0';
    out->port = (uint16_t)port;
    return 0;
}
