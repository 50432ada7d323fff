/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/http_address.h"

#include "base/text.h"

#include <stdbool.h>
#include <string.h>

enum { SHOWN_BYTES = 100, PORT_MAX = 65535, PORT_DIGITS = 5 };

static int refuse(const char *text, struct err *e)
{
    char shown[SHOWN_BYTES];
    text_sanitize(shown, sizeof(shown), text, strlen(text));
    return err_set(e, ERR_PARSE,
                   "'%s' is not an address (expected HOST:PORT, like 127.0.0.1:9412 or [::1]:9412)",
                   shown);
}

int http_address_parse(const char *text, struct http_address *out, struct err *e)
{
    const char *colon = strrchr(text, ':');
    uint64_t port;
    if (!colon || strlen(colon + 1) > PORT_DIGITS ||
        text_to_u64(colon + 1, strlen(colon + 1), &port, NULL) != 0 || port > PORT_MAX) {
        return refuse(text, e);
    }
    size_t len = (size_t)(colon - text);
    bool has_brackets = len >= 2 && text[0] == '[' && text[len - 1] == ']';
    const char *host = has_brackets ? text + 1 : text;
    len -= has_brackets ? 2 : 0;
    bool has_colon = memchr(host, ':', len) != NULL;
    if (len >= HTTP_HOST_BYTES || has_colon != has_brackets || memchr(host, '[', len) ||
        memchr(host, ']', len)) {
        return refuse(text, e);
    }
    memcpy(out->host, host, len);
    out->host[len] = '\0';
    out->port = (uint16_t)port;
    return 0;
}
