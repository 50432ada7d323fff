/* SPDX-License-Identifier: Apache-2.0 */
/* What all commands print with: colours, spans of time, lines that fit, JSON and YAML. */
#ifndef DPUCTL_PRINT_H
#define DPUCTL_PRINT_H

#include "base/attr.h"
#include "base/time.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { PRINT_SPAN_BYTES = 40, PRINT_TAB = 10, PRINT_COLUMNS = 80 };

enum print_color {
    PRINT_PLAIN,
    PRINT_GOOD,
    PRINT_BAD,
    PRINT_DOUBT,
    PRINT_FAINT,
    PRINT_HEAD,
};

/* Are colours wanted on stdout? `wanted` is an enum admin_color. */
bool print_has_color(int wanted);

/* The escape sequence of a colour, and of its end; "" where none are wanted. */
const char *print_on(bool has_color, enum print_color color);
const char *print_off(bool has_color);

/* "12.3 s", "4 m 10 s", "3 h 2 m", "5 d 1 h"; the sign is dropped. Returns `out`. */
const char *print_span(int64_t ns, char out[static PRINT_SPAN_BYTES]);
/* The same as one word: "12s", "4m10s", "3h2m", "5d1h". */
const char *print_span_word(int64_t ns, char out[static PRINT_SPAN_BYTES]);

/* Fits text to the width of a screen. A line that is too long goes on below, as far in as it began,
 * or where its tab was: a tab goes to column PRINT_TAB. Words are never broken, so that a path can
 * be copied; escape sequences take no room. Results of writing are the caller's to check. */
void print_wrapped(const char *text, size_t columns, FILE *out);

/* Takes `json`. As JSON or as the same thing in YAML: indented, one newline at the end. Its keys
 * are words; an array holds no array. Returns false if it could not be written, or is NULL: a text
 * of it is no UTF-8. */
NODISCARD bool print_json(json_t *json, bool as_yaml, FILE *out);

/* Takes `json`: on a line of stdout. Whether it was written is seen at the flush. */
void print_json_line(json_t *json);

/* Seconds in JSON: to the millisecond is enough, and reads better. */
json_t *print_json_seconds(int64_t ns);
/* In whole seconds; null for 0. */
json_t *print_json_stamp(struct wall at);

/* A copy that can be shown; NULL leaves `out` as it was. */
void print_clean(char *out, size_t out_bytes, const char *text);

/* Versions of other programs, to be compared: of "2.0.3", "v1.34.1" or "1.7.27-0ubuntu1", greater
 * for a later version; what follows the third part does not count. 0 for NULL and for what has not
 * three parts of one to five digits. */
int64_t version_number(const char *text);

#endif
