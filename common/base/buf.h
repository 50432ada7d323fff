/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer that is created WITH its maximum.
 *
 * Invariants: len <= capacity <= max_bytes; data is NUL-terminated whenever it is not NULL, so
 * that text in it can be passed on (the terminator is not counted). Not thread-safe.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>

struct buf {
    char *data; /* owned; NULL until something was appended */
    size_t len;
    size_t capacity;
    size_t max_bytes;
};

/* `max_bytes` bounds len for ever. Allocates nothing. */
void buf_init(struct buf *b, size_t max_bytes);
void buf_fini(struct buf *b); /* accepts a zeroed or finished buffer */

/* Appending leaves the buffer as it was on failure. Errors: ERR_LIMIT, ERR_NOMEM. */
NODISCARD int buf_append(struct buf *b, const void *bytes, size_t len, struct err *e);
NODISCARD int buf_append_text(struct buf *b, const char *text, struct err *e);
NODISCARD int buf_appendf(struct buf *b, struct err *e, const char *fmt, ...) PRINTF_LIKE(3, 4);

void buf_clear(struct buf *b); /* keeps the memory */
/* Takes the first `len` bytes out, at most all. */
void buf_consume(struct buf *b, size_t len);

/* The content as text; "" if empty. Borrowed until the next change. */
const char *buf_text(const struct buf *b);

static inline void cleanup_buf(struct buf *b)
{
    buf_fini(b);
}

#endif
