/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: an allocator that allocates or ends the process, locals that are freed with their scope,
 * and a buffer that grows up to its maximum.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- allocating ------------------------------------------------------------------------------ */

#define MEM_RETURNS __attribute__((returns_nonnull, warn_unused_result))

/* Each returns owned (free). */
void *mem_alloc(size_t bytes) MEM_RETURNS;
/* Zeroed. The product may overflow: that ends the process, too. */
void *mem_calloc(size_t count, size_t bytes_each) MEM_RETURNS;
/* As realloc(); `p` may be NULL. Zero bytes are one. */
void *mem_realloc(void *p, size_t bytes) MEM_RETURNS;
char *mem_strdup(const char *text) MEM_RETURNS;
char *mem_format(const char *fmt, ...) PRINTF_LIKE(1, 2) MEM_RETURNS;

/* A zeroed `struct x`: struct x *x = MEM_NEW(struct x); */
#define MEM_NEW(type) ((type *)mem_calloc(1, sizeof(type)))

/* Where no memory is left: writes the last word, and exits with its status. */
_Noreturn void mem_exhausted(void);

/* By default one sentence to stderr, and 1. A program may define another one (the symbol is weak).
 */
extern const struct mem_last_word {
    int fd;
    int status;
    const char *text;
} mem_last_word;

/* ---- scopes ---------------------------------------------------------------------------------- */

/*
 * Scope-bound ownership for locals (GNU cleanup attribute).
 *
 *     CLEANUP(free) char *text = strdup(s);
 *     CLEANUP(fd) int fd = open(...);
 *     return TAKE(text);         -- leaves with the pointer, the local forgets it
 *
 * A module adds its own kind by defining `static inline void cleanup_KIND(T *p)`.
 */
#define CLEANUP(kind) __attribute__((cleanup(cleanup_##kind)))

/* Takes the pointer out of a CLEANUP local. */
#define TAKE(p)                                                                                    \
    ({                                                                                             \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })

/* Takes the descriptor out of a CLEANUP local. */
static inline int take_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

static inline void cleanup_free(void *pointer_to_pointer)
{
    free(*(void **)pointer_to_pointer);
}

static inline void cleanup_fd(const int *fd)
{
    if (*fd >= 0) {
        int saved = errno;
        (void)close(*fd); /* scope exit: nobody is left to tell */
        errno = saved;
    }
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* A growing byte buffer with a maximum: len <= capacity <= max_bytes. It begins as {.max_bytes =
 * N}. `data` is NUL-terminated unless it is NULL; the terminator is not counted. */
struct buf {
    char *data; /* owned; NULL until something was appended */
    size_t len;
    size_t capacity;
    size_t max_bytes;
};

void buf_fini(struct buf *b); /* accepts a zeroed or finished buffer */

/* Appending leaves the buffer as it was on failure. Errors: ERR_LIMIT. */
NODISCARD int buf_append(struct buf *b, const void *bytes, size_t len, struct err *e);
NODISCARD int buf_appendf(struct buf *b, struct err *e, const char *fmt, ...) PRINTF_LIKE(3, 4);
NODISCARD int buf_vappendf(struct buf *b, struct err *e, const char *fmt, va_list ap)
    PRINTF_LIKE(3, 0);

/* Takes the first `len` bytes out, at most all; keeps the memory. */
void buf_consume(struct buf *b, size_t len);

/* The content as text; "" if empty. Borrowed until the next change. */
const char *buf_text(const struct buf *b);

static inline void cleanup_buf(struct buf *b)
{
    buf_fini(b);
}

#endif
