/* SPDX-License-Identifier: Apache-2.0 */
/* What client and server put on the wire alike. */
#ifndef GRPC_SEND_H
#define GRPC_SEND_H

#include "base/mem.h"
#include "grpc/frame.h"

#include <nghttp2/nghttp2.h>
#include <string.h>

/* Borrows both; nghttp2 copies them and does not write to them: its type is not const. */
static inline nghttp2_nv grpc_header(const char *name, const char *value)
{
    return (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name,
        .value = (uint8_t *)(uintptr_t)value,
        .namelen = strlen(name),
        .valuelen = strlen(value),
    };
}

/* Appends the message with its prefix. Errors: ERR_LIMIT (of `out`, below 4 GiB), ERR_NOMEM. */
NODISCARD static inline int grpc_put_message(struct buf *out, const void *message, size_t len,
                                             struct err *e)
{
    uint8_t prefix[GRPC_PREFIX_BYTES];
    grpc_write_prefix((uint32_t)len, prefix);
    int rc = buf_append(out, prefix, sizeof(prefix), e);
    if (rc != 0) {
        return rc;
    }
    return buf_append(out, message, len, e);
}

#endif
