/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((weak)) const struct mem_last_word mem_last_word = {
    .fd = STDERR_FILENO,
    .status = EXIT_FAILURE,
    .text = "level=error mod=memory msg=\"out of memory: raise the memory limit of this process; "
            "exiting\"\n"};

/* Neither stdio nor the logger: both may ask for memory. */
_Noreturn void mem_exhausted(void)
{
    ssize_t written = write(mem_last_word.fd, mem_last_word.text, strlen(mem_last_word.text));
    (void)written; /* nobody is left to tell */
    _exit(mem_last_word.status);
}

static void *mem_or_end(void *p)
{
    if (!p) {
        mem_exhausted();
    }
    return p;
}

void *mem_alloc(size_t bytes)
{
    return mem_or_end(malloc(bytes > 0 ? bytes : 1));
}

void *mem_calloc(size_t count, size_t bytes_each)
{
    bool is_empty = count == 0 || bytes_each == 0;
    return mem_or_end(is_empty ? calloc(1, 1) : calloc(count, bytes_each));
}

void *mem_realloc(void *p, size_t bytes)
{
    return mem_or_end(realloc(p, bytes > 0 ? bytes : 1));
}

char *mem_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(mem_alloc(bytes), text, bytes);
}

char *mem_format(const char *fmt, ...)
{
    va_list args;
    char *out = NULL;
    va_start(args, fmt);
    int len = vasprintf(&out, fmt, args);
    va_end(args);
    return mem_or_end(len >= 0 ? out : NULL);
}

/* ---- buffers --------------------------------------------------------------------------------- */

void buf_fini(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.max_bytes = b->max_bytes};
}

/* Makes room for `extra` more bytes and the terminator. */
static int buf_reserve(struct buf *b, size_t extra, struct err *e)
{
    size_t need;
    if (__builtin_add_overflow(b->len, extra, &need) || need > b->max_bytes) {
        return err_set(e, ERR_LIMIT, "more than %zu bytes", b->max_bytes);
    }
    if (b->data && need <= b->capacity) {
        return 0;
    }
    size_t capacity = b->capacity < 256 ? 256 : b->capacity;
    while (capacity < need) {
        capacity *= 2;
    }
    if (capacity > b->max_bytes) {
        capacity = b->max_bytes;
    }
    b->data = mem_realloc(b->data, capacity + 1);
    b->capacity = capacity;
    b->data[b->len] = '\0';
    return 0;
}

int buf_append(struct buf *b, const void *bytes, size_t len, struct err *e)
{
    int rc = buf_reserve(b, len, e);
    if (rc != 0) {
        return rc;
    }
    if (len > 0) {
        memcpy(b->data + b->len, bytes, len);
    }
    b->len += len;
    b->data[b->len] = '\0';
    return 0;
}

int buf_vappendf(struct buf *b, struct err *e, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int need = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (need < 0) {
        return err_set(e, ERR_BUG, "bad format '%s'", fmt);
    }
    int rc = buf_reserve(b, (size_t)need, e);
    if (rc != 0) {
        return rc;
    }
    (void)vsnprintf(b->data + b->len, (size_t)need + 1, fmt, ap); /* measured above */
    b->len += (size_t)need;
    return 0;
}

int buf_appendf(struct buf *b, struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = buf_vappendf(b, e, fmt, ap);
    va_end(ap);
    return rc;
}

void buf_consume(struct buf *b, size_t len)
{
    size_t left = len < b->len ? b->len - len : 0;
    if (left > 0) {
        memmove(b->data, b->data + len, left);
    }
    b->len = left;
    if (b->data) {
        b->data[left] = '\0';
    }
}

const char *buf_text(const struct buf *b)
{
    return b->data ? b->data : "";
}
