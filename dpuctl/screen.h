/* SPDX-License-Identifier: Apache-2.0 */
/* A person's screen: colours, spans of time, lines that fit. */
#ifndef DPUCTL_SCREEN_H
#define DPUCTL_SCREEN_H

#include "dpuctl/admin_options.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

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

#endif
