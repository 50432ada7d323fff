/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DPUCTL_PRINT_H
#define DPUCTL_PRINT_H

#include "base/attr.h"
#include "dpuctl/options.h"

#include <jansson.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A person's screen: colours, spans of time, lines that fit. */

enum { SCREEN_SPAN_BYTES = 40, SCREEN_TAB = 10, SCREEN_COLUMNS = 80 };

enum screen_color {
    SCREEN_PLAIN,
    SCREEN_GOOD,
    SCREEN_BAD,
    SCREEN_DOUBT,
    SCREEN_FAINT,
    SCREEN_HEAD
};

/* Are colours wanted on stdout? */
bool screen_has_color(enum admin_color wanted);

/* The escape sequence of a colour, and of its end; "" where none are wanted. */
const char *screen_on(bool has_color, enum screen_color color);
const char *screen_off(bool has_color);

/* "12.3 s", "4 m 10 s", "3 h 2 m", "5 d 1 h"; the sign is dropped. Returns `out`. */
const char *screen_span(int64_t ns, char out[static SCREEN_SPAN_BYTES]);

/* Fits text to the width of a screen. A line that is too long goes on below, as far in as it began,
 * or where its tab was: a tab goes to column SCREEN_TAB. Words are never broken, so that a path can
 * be copied; escape sequences take no room. Results of writing are the caller's to check. */
void screen_wrap(const char *text, size_t columns, FILE *out);

/* A JSON value for programs: as JSON, or as the same thing in YAML. */

/* Takes `json`. Indented, one newline at the end. Its keys are words; an array holds no array.
 * Returns false if `json` is NULL or could not be written, or when out of memory. */
NODISCARD bool json_print(json_t *json, bool as_yaml, FILE *out);

/* Versions of other programs, to be compared. Pure. */

/* Of "2.0.3", "v1.34.1" or "1.7.27-0ubuntu1": greater for a later version; what follows the third
 * part does not count. 0 for NULL and for what has not three parts of one to five digits. */
int64_t version_number(const char *text);

#endif
