/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/watch_line.h"

#include <string.h>

enum watch_line_result watch_line_next(const char **bytes, size_t *len, size_t max_bytes,
                                       const char **out_line, size_t *out_len)
{
    while (*len > 0) {
        const char *line = *bytes;
        const char *end = memchr(line, '\n', *len);
        size_t line_len = end ? (size_t)(end - line) : *len;
        if (line_len > max_bytes) {
            return WATCH_LINE_TOO_LONG;
        }
        if (!end) {
            return WATCH_LINE_MORE;
        }
        *bytes += line_len + 1;
        *len -= line_len + 1;
        if (line_len > 0) {
            *out_line = line;
            *out_len = line_len;
            return WATCH_LINE_READY;
        }
    }
    return WATCH_LINE_MORE;
}
