/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scope-bound ownership for locals (GNU cleanup attribute).
 *
 *     CLEANUP(free) char *text = strdup(s);
 *     CLEANUP(fd) int fd = open(...);
 *     return TAKE(text);         -- leaves with the pointer, the local forgets it
 *
 * A module adds its own kind by defining `static inline void cleanup_KIND(T *p)`.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(kind) __attribute__((cleanup(cleanup_##kind)))

/* Takes the pointer out of a CLEANUP local. */
#define TAKE(p)                                                                                    \
    ({                                                                                             \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })

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

static inline void cleanup_file(FILE **file)
{
    if (*file) {
        (void)fclose(*file); /* opened for reading: nothing to lose */
    }
}

#endif
