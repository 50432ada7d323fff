/* SPDX-License-Identifier: Apache-2.0 */
/* Any stream, cut anywhere: the first byte says how long each piece is. The lines must be those of
 * the stream in one piece. */
#include "kube/kube_watch.c" /* watch_line_next is its own */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A hash over lines, in order. */
static uint64_t digest(const char *bytes, size_t len, size_t piece)
{
    uint64_t hash = 1469598103934665603u;
    const char *rest = bytes; /* the beginning of a line */
    const char *line;
    size_t line_len;
    for (size_t come = 0; come < len;) {
        come = piece < len - come ? come + piece : len;
        size_t left = (size_t)(bytes + come - rest);
        while ((line = watch_line_next(&rest, &left, &line_len)) != NULL) {
            if (line_len == 0 || memchr(line, '\n', line_len)) {
                abort();
            }
            for (size_t i = 0; i < line_len; i++) {
                hash = (hash ^ (uint8_t)line[i]) * 1099511628211u;
            }
            hash = (hash ^ '\n') * 1099511628211u;
        }
        if (rest + left != bytes + come || memchr(rest, '\n', left)) {
            abort();
        }
    }
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1) {
        const char *stream = (const char *)data + 1;
        size_t piece = data[0] % 97 + 1;
        fuzz_tell(memchr(stream, '\n', size - 1) != NULL);
        check(digest(stream, size - 1, piece) == digest(stream, size - 1, size));
    }
    return 0;
}
