/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in is a test tool: out of memory ends it with a message instead of an error path.
 * Nothing that is shipped includes this header.
 */
#ifndef STANDIN_NEED_H
#define STANDIN_NEED_H

#include <stdio.h>
#include <stdlib.h>

/* Returns `pointer`, or ends the process if it is NULL. */
static inline void *need(void *pointer)
{
    if (!pointer) {
        fputs("standin: out of memory\n", stderr);
        abort();
    }
    return pointer;
}

#endif
