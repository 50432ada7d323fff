/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/watch_line.h"

#include <string.h>

void watch_line_init(struct watch_line *w, char *buf, size_t buf_bytes)
{
    *w = (struct watch_line){.buf = buf, .buf_bytes = buf_bytes};
}

void watch_line_reset(struct watch_line *w)
{
    w->used = 0;
}

enum watch_line_result watch_line_next(struct watch_line *w, const char **bytes, size_t *len,
                                       const char **out_line, size_t *out_len)
{
    while (*len > 0) {
        const char *end = memchr(*bytes, '\n', *len);
        size_t take = end ? (size_t)(end - *bytes) : *len;
        if (take > w->buf_bytes - w->used) {
            w->used = 0;
            return WATCH_LINE_TOO_LONG;
        }
        memcpy(w->buf + w->used, *bytes, take);
        w->used += take;
        *bytes += take + (end != NULL);
        *len -= take + (end != NULL);
        if (end && w->used > 0) {
            *out_line = w->buf;
            *out_len = w->used;
            w->used = 0;
            return WATCH_LINE_READY;
        }
    }
    return WATCH_LINE_MORE;
}
