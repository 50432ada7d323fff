/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Neither stdio nor the logger: both may ask for memory. */
__attribute__((weak)) _Noreturn void mem_exhausted(size_t bytes)
{
    static const char sentence[] =
        "level=error mod=memory msg=\"out of memory: raise the memory limit of this process; "
        "exiting\"\n";
    (void)bytes;
    ssize_t written = write(STDERR_FILENO, sentence, sizeof(sentence) - 1);
    (void)written; /* nobody is left to tell */
    _exit(EXIT_FAILURE);
}

static void *mem_or_end(void *p, size_t bytes)
{
    if (!p) {
        mem_exhausted(bytes);
    }
    return p;
}

void *mem_alloc(size_t bytes)
{
    return mem_or_end(malloc(bytes > 0 ? bytes : 1), bytes);
}

void *mem_calloc(size_t count, size_t bytes_each)
{
    bool is_empty = count == 0 || bytes_each == 0;
    return mem_or_end(is_empty ? calloc(1, 1) : calloc(count, bytes_each), bytes_each);
}

void *mem_realloc(void *p, size_t bytes)
{
    return mem_or_end(realloc(p, bytes > 0 ? bytes : 1), bytes);
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
    return mem_or_end(len >= 0 ? out : NULL, 0);
}
