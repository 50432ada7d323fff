/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text in and out: numbers, durations, bounded copies, printable forms. Pure.
 * Parsers take a pointer and a length, accept the whole of it or nothing, and never read past it.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits only (text_to_i64: an optional '-' before). Errors: ERR_PARSE, ERR_LIMIT. */
NODISCARD int text_to_u64(const char *s, size_t len, uint64_t *out, struct err *e);
NODISCARD int text_to_i64(const char *s, size_t len, int64_t *out, struct err *e);

/*
 * A duration: "10", "0.5" (seconds), "500ms", "10s", "1m", "2h", with up to nine fractional digits.
 * Result in ns. Errors: ERR_PARSE, ERR_LIMIT (beyond 100 years).
 */
NODISCARD int text_to_duration_ns(const char *s, size_t len, int64_t *out_ns, struct err *e);

/* Text that text_to_duration_ns reads back: "40s", "500ms", "1.5s"; `ns` is not negative. A value,
 * so that it can stand in an argument: text_span(ns).text lives until the end of its statement. */
struct text_span {
    char text[24];
};
struct text_span text_span(int64_t ns);

/* A field of /proc/PID/stat, counted from 1 and behind the second, the name, which may hold
 * anything (proc_pid_stat(5)). 0: there is no such number. */
uint64_t text_stat_field(const char *stat, size_t field);

/* Copies src, truncated to fit on a UTF-8 boundary; always terminates. Returns false if cut. */
bool text_copy(char *dst, size_t dst_bytes, const char *src);

/* The value of a word in braces. */
struct text_word {
    const char *name; /* "{lease}" */
    const char *text;
};

/* Copies `format` with the values of the words in it, truncated to fit on a UTF-8 boundary; always
 * terminates. So a table of sentences can be read as they will be. */
void text_fill(char *dst, size_t dst_bytes, const char *format, const struct text_word *words,
               size_t count);

/* As snprintf, truncated to fit on a UTF-8 boundary; always terminates. For texts that may be cut:
 * what a bound keeps out is nobody's error. Arguments must not overlap dst. */
void text_format(char *dst, size_t dst_bytes, const char *format, ...) PRINTF_LIKE(3, 4);
void text_vformat(char *dst, size_t dst_bytes, const char *format, va_list args) PRINTF_LIKE(3, 0);
/* The same behind the text that is in dst. */
void text_append(char *dst, size_t dst_bytes, const char *format, ...) PRINTF_LIKE(3, 4);

/* "DDDD:BB:DD.F" in lower case, a domain of four to eight digits: an entry of /sys/bus/pci/devices,
 * which leads nowhere else. */
bool text_is_pci_address(const char *s);
bool text_equal(const char *a, const char *b); /* NULL equals only NULL */

/* NULL or "". Inline, so that an analyzer sees that what is not empty is not NULL. */
static inline bool text_is_empty(const char *s)
{
    return !s || s[0] == '\0';
}

static inline bool text_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Bytes of the UTF-8 sequence at `s`, or 0 if there is no valid one; `len` > 0. */
size_t text_utf8(const char *s, size_t len, uint32_t *out_point);

/*
 * Copies `len` bytes of outside data so that they can stand in a log line or JSON message: control
 * characters (C0, DEL, C1, Unicode's for lines and direction) become blanks, invalid UTF-8 becomes
 * '?', truncated to fit; always terminates.
 */
void text_sanitize(char *dst, size_t dst_bytes, const char *src, size_t len);

/* Kubernetes' DNS-1123 subdomain: lower-case labels, digits, '-', '.', at most 253 bytes. */
bool text_is_dns1123_subdomain(const char *s);

/* ---- base64 ---------------------------------------------------------------------------------- */

#define BASE64_DECODED_BYTES(len) ((len) / 4 * 3 + 3) /* most that `len` characters make */

/* Decodes either alphabet of RFC 4648 into `out` of BASE64_DECODED_BYTES(len), or into `in`. The
 * padding may lack; blanks and ends of lines do not count. Returns false if it is not base64. */
NODISCARD bool base64_decode(const char *in, size_t len, unsigned char *out, size_t *out_len);

/* ---- checksum -------------------------------------------------------------------------------- */

/* CRC-32C (Castagnoli), RFC 3720 appendix B.4: guards the readiness record against torn reads. */
uint32_t crc32c_compute(const void *data, size_t len);

#endif
