/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/curl_head.h"

#include "base/text.h"

#include <string.h>
#include <strings.h>

static const char status_line[] = "HTTP/";

bool curl_head_add(struct buf *head, const char *line, size_t len)
{
    head->max_bytes = CURL_HEAD_MAX_BYTES;
    if (len >= strlen(status_line) && memcmp(line, status_line, strlen(status_line)) == 0) {
        buf_consume(head, head->len);
    }
    return buf_append(head, line, len, NULL) == 0;
}

bool curl_head_find(const struct buf *head, const char *name, char *out, size_t out_bytes)
{
    size_t name_len = strlen(name);
    out[0] = '\0';
    for (const char *line = buf_text(head); *line != '\0'; line += strspn(line, "\r\n")) {
        size_t len = strcspn(line, "\r\n");
        if (len > name_len && line[name_len] == ':' && strncasecmp(line, name, name_len) == 0) {
            const char *value = line + name_len + 1;
            const char *end = line + len;
            value += strspn(value, " \t");
            while (end > value && strchr(" \t", end[-1])) {
                end--;
            }
            text_format(out, out_bytes, "%.*s", end > value ? (int)(end - value) : 0, value);
            return true;
        }
        line += len;
    }
    return false;
}
