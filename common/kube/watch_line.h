/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a watch stream into lines, wherever the network cut it. CORE: the caller owns the memory.
 *
 *     while (watch_line_next(&w, &bytes, &len, &line, &line_len) == WATCH_LINE_READY) ...
 *
 * One JSON object per line, ended by LF (api-machinery's JSON framer). Lines longer than the
 * buffer are an error, not a truncation: half an event is no event.
 */
#ifndef KUBE_WATCH_LINE_H
#define KUBE_WATCH_LINE_H

#include <stddef.h>

enum watch_line_result {
    WATCH_LINE_MORE,     /* all bytes are taken, no line is complete */
    WATCH_LINE_READY,    /* a line, without its LF; valid until the next call */
    WATCH_LINE_TOO_LONG, /* start over: the splitter is empty again */
};

struct watch_line {
    char *buf;
    size_t buf_bytes;
    size_t used;
};

/* Borrows `buf` for its life. */
void watch_line_init(struct watch_line *w, char *buf, size_t buf_bytes);
void watch_line_reset(struct watch_line *w);

/* Takes from *bytes, moving it and *len on. Empty lines are skipped. */
enum watch_line_result watch_line_next(struct watch_line *w, const char **bytes, size_t *len,
                                       const char **out_line, size_t *out_len);

#endif
