/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc/frame.h"

#include <assert.h>
#include <string.h>

const char *grpc_status_name(int status)
{
    static const char *const names[] = {
        [GRPC_OK] = "OK",
        [GRPC_CANCELLED] = "CANCELLED",
        [GRPC_UNKNOWN] = "UNKNOWN",
        [GRPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
        [GRPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
        [GRPC_NOT_FOUND] = "NOT_FOUND",
        [GRPC_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
        [GRPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
        [GRPC_INTERNAL] = "INTERNAL",
        [GRPC_UNAVAILABLE] = "UNAVAILABLE",
    };
    bool is_known = status >= 0 && status < (int)ARRAY_LEN(names) && names[status];
    return is_known ? names[status] : "CODE";
}

static void take(struct grpc_slice *input, size_t count)
{
    input->bytes += count;
    input->len -= count;
}

static uint32_t read_be32(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | (uint32_t)b[3];
}

/* Collects the prefix; GRPC_PAYLOAD means that it is complete and acceptable. */
static enum grpc_deframed take_prefix(struct grpc_deframer *d, struct grpc_slice *input)
{
    size_t want = (size_t)GRPC_PREFIX_BYTES - d->prefix_len;
    size_t got = input->len < want ? input->len : want;
    if (got > 0) {
        memcpy(d->prefix + d->prefix_len, input->bytes, got);
        d->prefix_len = (uint8_t)(d->prefix_len + got);
        take(input, got);
    }
    if (d->prefix_len < GRPC_PREFIX_BYTES) {
        return GRPC_NEED_MORE;
    }
    if (d->prefix[0] != 0) {
        return d->prefix[0] == 1 ? GRPC_COMPRESSED : GRPC_BAD_FLAG;
    }
    d->to_come = read_be32(d->prefix + 1);
    if (d->to_come > d->max_bytes) {
        return GRPC_TOO_LARGE;
    }
    d->payload_is_due = true;
    return GRPC_PAYLOAD;
}

enum grpc_deframed grpc_deframe(struct grpc_deframer *d, struct grpc_slice *input,
                                struct grpc_slice *out_payload)
{
    if (!d->payload_is_due) {
        enum grpc_deframed got = take_prefix(d, input);
        if (got != GRPC_PAYLOAD) {
            return got;
        }
    }
    if (d->to_come == 0) {
        d->payload_is_due = false;
        d->prefix_len = 0;
        return GRPC_MESSAGE;
    }
    if (input->len == 0) {
        return GRPC_NEED_MORE;
    }
    size_t count = input->len < d->to_come ? input->len : d->to_come;
    *out_payload = (struct grpc_slice){.bytes = input->bytes, .len = count};
    d->to_come -= (uint32_t)count;
    take(input, count);
    return GRPC_PAYLOAD;
}

bool grpc_deframer_is_idle(const struct grpc_deframer *d)
{
    return d->prefix_len == 0 && !d->payload_is_due;
}

void grpc_write_prefix(uint32_t message_len, uint8_t out[static GRPC_PREFIX_BYTES])
{
    out[0] = 0;
    out[1] = (uint8_t)(message_len >> 24);
    out[2] = (uint8_t)(message_len >> 16);
    out[3] = (uint8_t)(message_len >> 8);
    out[4] = (uint8_t)message_len;
}

static bool is_plain(uint8_t byte)
{
    return byte >= 0x20 && byte <= 0x7e && byte != '%';
}

void grpc_percent_encode(const char *text, char *out, size_t out_bytes)
{
    static const char digits[] = "0123456789ABCDEF";
    assert(out_bytes > 0);
    size_t used = 0;
    size_t boundary = 0; /* `used` before the code point under way */
    for (const char *s = text; *s; s++) {
        uint8_t byte = (uint8_t)*s;
        size_t need = is_plain(byte) ? 1 : 3;
        if ((byte & 0xc0) != 0x80) {
            boundary = used;
        }
        if (used + need >= out_bytes) {
            used = boundary;
            break;
        }
        if (need == 1) {
            out[used++] = (char)byte;
        } else {
            out[used++] = '%';
            out[used++] = digits[byte >> 4];
            out[used++] = digits[byte & 15];
        }
    }
    out[used] = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void grpc_percent_decode(const char *text, size_t len, char *out, size_t out_bytes)
{
    assert(out_bytes > 0);
    size_t used = 0;
    for (size_t i = 0; i < len && used + 1 < out_bytes; i++) {
        if (text[i] == '%' && len - i > 2 && hex_value(text[i + 1]) >= 0 &&
            hex_value(text[i + 2]) >= 0) {
            out[used++] = (char)(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
            i += 2;
        } else {
            out[used++] = text[i];
        }
    }
    out[used] = '\0';
}
