/* SPDX-License-Identifier: Apache-2.0 */
/* What client and server ask of nghttp2 alike. */
#ifndef GRPC_HTTP2_H
#define GRPC_HTTP2_H

#include "base/mem.h"
#include "grpc/frame.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>
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

static inline bool http2_is(const uint8_t *bytes, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(bytes, word, len) == 0;
}

/* Appends the message with its prefix. Errors: ERR_LIMIT (of `out`, below 4 GiB). */
NODISCARD static inline int grpc_put_message(struct buf *out, const void *message, size_t len,
                                             struct err *e)
{
    uint8_t prefix[GRPC_PREFIX_BYTES];
    grpc_write_prefix((uint32_t)len, prefix);
    int rc = buf_append(out, prefix, sizeof(prefix), e);
    return rc == 0 ? buf_append(out, message, len, e) : rc;
}

static inline void *http2_alloc(size_t bytes, void *user)
{
    (void)user;
    return mem_alloc(bytes);
}

static inline void http2_free(void *p, void *user)
{
    (void)user;
    free(p);
}

static inline void *http2_calloc(size_t count, size_t bytes_each, void *user)
{
    (void)user;
    return mem_calloc(count, bytes_each);
}

static inline void *http2_realloc(void *p, size_t bytes, void *user)
{
    (void)user;
    return mem_realloc(p, bytes);
}

/* For nghttp2_session_*_new3. */
static inline nghttp2_mem http2_mem(void)
{
    return (nghttp2_mem){NULL, http2_alloc, http2_free, http2_calloc, http2_realloc};
}

/* For calls that fail for lack of memory only. */
static inline void http2_must(int rc)
{
    if (rc != 0) {
        mem_exhausted(0);
    }
}

#endif
