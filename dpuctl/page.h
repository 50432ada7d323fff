/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fits text to the width of a screen. A line that is too long goes on below, as far in as it began,
 * or where its tab was: a tab goes to column PAGE_TAB. Words are never broken, so that a path can
 * be copied; escape sequences take no room.
 */
#ifndef DPUCTL_PAGE_H
#define DPUCTL_PAGE_H

#include <stddef.h>
#include <stdio.h>

enum { PAGE_TAB = 10, PAGE_COLUMNS = 80 };

/* Results of writing are the caller's to check, by ferror. */
void page_wrap(const char *text, size_t columns, FILE *out);

#endif
