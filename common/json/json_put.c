/* SPDX-License-Identifier: Apache-2.0 */
#include "json/json_put.h"

#include "base/text.h"

#include <string.h>

enum { ESCAPE_BYTES = 7 };

static void put_bytes(struct json_writer *w, const char *bytes, size_t len)
{
    if (w->overflow || len > w->max_bytes - w->used) {
        w->overflow = true;
        return;
    }
    memcpy(w->out + w->used, bytes, len);
    w->used += len;
}

void json_put_raw(struct json_writer *w, const char *text)
{
    put_bytes(w, text, strlen(text));
}

void json_put_text(struct json_writer *w, const char *text)
{
    put_bytes(w, "\"", 1);
    for (const char *c = text; *c && !w->overflow; c++) {
        char escape[ESCAPE_BYTES];
        if (*c == '"' || *c == '\\') {
            escape[0] = '\\';
            escape[1] = *c;
            put_bytes(w, escape, 2);
        } else if ((unsigned char)*c < 0x20) {
            text_format(escape, sizeof(escape), "\\u%04x", (unsigned)(unsigned char)*c);
            put_bytes(w, escape, strlen(escape));
        } else {
            put_bytes(w, c, 1);
        }
    }
    put_bytes(w, "\"", 1);
}

void json_put_i64(struct json_writer *w, int64_t value)
{
    char text[24];
    text_format(text, sizeof(text), "%lld", (long long)value);
    json_put_raw(w, text);
}
