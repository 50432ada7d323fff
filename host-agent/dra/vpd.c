/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/vpd.h"

#include "base/text.h"

#include <string.h>

enum {
    TAG_LARGE = 0x80, /* bit: three header bytes instead of one */
    TAG_READ_ONLY = 0x90,
    TAG_END = 0x78, /* a small tag; its length bits are masked off */
    SMALL_LEN_MASK = 0x07,
    KEYWORD_HEADER = 3, /* two letters and a length */
};

struct span {
    const uint8_t *bytes;
    size_t len;
};

static struct span skip(struct span s, size_t count)
{
    return (struct span){.bytes = s.bytes + count, .len = s.len - count};
}

/* Takes one resource off the front. Returns false at the end or where the data makes no sense. */
static bool next_resource(struct span *rest, uint8_t *out_tag, struct span *out_body)
{
    if (rest->len == 0) {
        return false;
    }
    uint8_t tag = rest->bytes[0];
    size_t header = tag & TAG_LARGE ? 3 : 1;
    if (rest->len < header) {
        return false;
    }
    size_t body = tag & TAG_LARGE ? (size_t)(rest->bytes[1] | rest->bytes[2] << 8)
                                  : (size_t)(tag & SMALL_LEN_MASK);
    *rest = skip(*rest, header);
    if (rest->len < body) {
        return false;
    }
    *out_tag = tag & TAG_LARGE ? tag : (uint8_t)(tag & ~SMALL_LEN_MASK);
    *out_body = (struct span){.bytes = rest->bytes, .len = body};
    *rest = skip(*rest, body);
    return *out_tag != TAG_END;
}

static bool find_keyword(struct span body, const char keyword[static 2], struct span *out)
{
    while (body.len >= KEYWORD_HEADER) {
        size_t len = body.bytes[2];
        if (body.len - KEYWORD_HEADER < len) {
            return false;
        }
        if (memcmp(body.bytes, keyword, 2) == 0) {
            *out = (struct span){.bytes = body.bytes + KEYWORD_HEADER, .len = len};
            return true;
        }
        body = skip(body, KEYWORD_HEADER + len);
    }
    return false;
}

bool vpd_find(const uint8_t *vpd, size_t len, const char keyword[static 2], char *out,
              size_t out_bytes)
{
    struct span rest = {.bytes = vpd, .len = len};
    struct span body;
    struct span value;
    uint8_t tag;
    while (next_resource(&rest, &tag, &body)) {
        if (tag != TAG_READ_ONLY || !find_keyword(body, keyword, &value)) {
            continue;
        }
        while (value.len > 0 && strchr(" ", value.bytes[value.len - 1])) {
            value.len--; /* padded with blanks or zeros */
        }
        if (value.len > 0) {
            text_sanitize(out, out_bytes, (const char *)value.bytes, value.len);
        }
        return value.len > 0;
    }
    return false;
}
