/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include <stdint.h>
#include <string.h>

static int sextet(enum base64_kind kind, char c)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const char *at = c ? strchr(letters, c) : NULL;
    if (at) {
        return (int)(at - letters);
    }
    return c == (kind == BASE64_URL ? '-' : '+')   ? 62
           : c == (kind == BASE64_URL ? '_' : '/') ? 63
                                                   : -1;
}

static bool is_padding(enum base64_kind kind, const char *in, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (kind == BASE64_URL || (in[i] != '=' && in[i] != '\n' && in[i] != ' ')) {
            return false;
        }
    }
    return true;
}

bool base64_decode(enum base64_kind kind, const char *in, size_t len, unsigned char *out,
                   size_t *out_len)
{
    size_t used = 0;
    uint32_t bits = 0;
    int count = 0; /* sextets in `bits` */
    size_t i = 0;
    for (; i < len && in[i] != '='; i++) {
        if (kind == BASE64_STANDARD && (in[i] == '\n' || in[i] == ' ')) {
            continue;
        }
        int value = sextet(kind, in[i]);
        if (value < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)value;
        if (++count == 4) {
            out[used++] = (unsigned char)(bits >> 16);
            out[used++] = (unsigned char)(bits >> 8);
            out[used++] = (unsigned char)bits;
            count = 0;
        }
    }
    if (count == 1 || !is_padding(kind, in + i, len - i)) {
        return false;
    }
    bits <<= 6 * (4 - count);
    if (count >= 2) {
        out[used++] = (unsigned char)(bits >> 16);
    }
    if (count == 3) {
        out[used++] = (unsigned char)(bits >> 8);
    }
    *out_len = used;
    return true;
}
