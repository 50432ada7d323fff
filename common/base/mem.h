/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of all programs: it allocates or ends the process. A readiness record outlives its
 * writer for a bounded time, so a restart rejects no Pod, and code that goes on without memory is
 * the code that nobody can test. Callers never check for NULL.
 *
 * What comes from here is freed with free(). A size from outside is bounded before it gets here.
 * The first functions have the signatures that jansson, curl and nghttp2 ask of an allocator.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/attr.h"

#include <stddef.h>

#define MEM_RETURNS __attribute__((returns_nonnull, warn_unused_result))

void *mem_alloc(size_t bytes) MEM_RETURNS;
/* Zeroed. The product may overflow: that ends the process, too. */
void *mem_calloc(size_t count, size_t bytes_each) MEM_RETURNS;
/* As realloc(); `p` may be NULL. Zero bytes are one. */
void *mem_realloc(void *p, size_t bytes) MEM_RETURNS;
/* Copies `text`. */
char *mem_strdup(const char *text) MEM_RETURNS;
/* The formatted text. */
char *mem_format(const char *fmt, ...) PRINTF_LIKE(1, 2) MEM_RETURNS;

/* A zeroed `struct x`: struct x *x = MEM_NEW(struct x); */
#define MEM_NEW(type) ((type *)mem_calloc(1, sizeof(type)))

/* Called where no memory is left; `bytes` were asked for. Writes one sentence to stderr and exits
 * with 1. A program with another last word defines this function itself. */
_Noreturn void mem_exhausted(size_t bytes);

#endif
