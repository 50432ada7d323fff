/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 (RFC 4648), read only. Pure. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

/* Both may lack the padding. */
enum base64_kind {
    BASE64_STANDARD, /* section 4; blanks and ends of lines do not count */
    BASE64_URL,      /* section 5, as JWTs have it: without padding */
};

#define BASE64_DECODED_BYTES(len) ((len) / 4 * 3 + 3) /* most that `len` characters make */

/* Decodes into `out` of BASE64_DECODED_BYTES(len). Returns false if it is not base64. */
NODISCARD bool base64_decode(enum base64_kind kind, const char *in, size_t len, unsigned char *out,
                             size_t *out_len);

#endif
