/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program: its FAIL_MALLOC_NTH-th allocation fails, once. With FAIL_MALLOC_COUNT
 * it writes how many there were into that file when it ends.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static atomic_long made;
static long nth; /* 0: none fails */

__attribute__((constructor)) static void start(void)
{
    const char *text = getenv("FAIL_MALLOC_NTH");
    nth = text ? atol(text) : 0;
    made = 0;
}

__attribute__((destructor)) static void end(void)
{
    long count = made;
    const char *path = getenv("FAIL_MALLOC_COUNT");
    FILE *file = path ? fopen(path, "we") : NULL;
    if (file) {
        (void)fprintf(file, "%ld\n", count);
        (void)fclose(file);
    }
}

static int fails(void)
{
    if (atomic_fetch_add(&made, 1) + 1 != nth || nth == 0) {
        return 0;
    }
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return fails() ? NULL : __libc_realloc(old, size);
}
