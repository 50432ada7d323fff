/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts what has come of a watch stream into lines, where it lies. CORE.
 *
 *     while (watch_line_next(&bytes, &len, max, &line, &line_len) == WATCH_LINE_READY) ...
 *
 * One JSON object per line, ended by LF (api-machinery's JSON framer). A line longer than the bound
 * is an error, not a truncation: half an event is no event.
 */
#ifndef KUBE_WATCH_LINE_H
#define KUBE_WATCH_LINE_H

#include <stddef.h>

enum watch_line_result {
    WATCH_LINE_MORE,     /* what is left is the beginning of a line: to be kept for the next call */
    WATCH_LINE_READY,    /* a line, without its LF; lies in the bytes */
    WATCH_LINE_TOO_LONG, /* its end is not within `max_bytes`: start over */
};

/* Takes from *bytes, moving it and *len on. Empty lines are skipped. */
enum watch_line_result watch_line_next(const char **bytes, size_t *len, size_t max_bytes,
                                       const char **out_line, size_t *out_len);

#endif
