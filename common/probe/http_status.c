/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/http_status.h"

#include <stdbool.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "HTTP/1.x NNN", then a blank or the end of the line. */
enum http_status_outcome http_status_parse(const char *bytes, size_t len, int *out_status)
{
    static const char form[] = "HTTP/1.d ddd";
    const size_t form_len = sizeof(form) - 1;
    for (size_t i = 0; i < form_len && i < len; i++) {
        bool fits = form[i] == 'd' ? is_digit(bytes[i]) : form[i] == bytes[i];
        if (!fits) {
            return HTTP_STATUS_INVALID;
        }
    }
    if (len <= form_len) {
        return HTTP_STATUS_MORE;
    }
    if (bytes[form_len] != ' ' && bytes[form_len] != '\r' && bytes[form_len] != '\n') {
        return HTTP_STATUS_INVALID;
    }
    bool is_full = len >= HTTP_STATUS_LINE_MAX_BYTES;
    if (!memchr(bytes, '\n', is_full ? HTTP_STATUS_LINE_MAX_BYTES : len)) {
        return is_full ? HTTP_STATUS_INVALID : HTTP_STATUS_MORE;
    }
    int status = (bytes[9] - '0') * 100 + (bytes[10] - '0') * 10 + (bytes[11] - '0');
    if (status < 100 || status > 599) {
        return HTTP_STATUS_INVALID;
    }
    *out_status = status;
    return HTTP_STATUS_DONE;
}
