/* SPDX-License-Identifier: Apache-2.0 */
/* What each target has, and tells. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The replay's (replay.c); libFuzzer's own main has none. */
__attribute__((weak)) void fuzz_count_accepted(void);

/* Whether this input got past what refuses most: a corpus of which nothing does tests little. Once
 * for each input at most. */
static inline void fuzz_tell(bool is_accepted)
{
    if (is_accepted && fuzz_count_accepted) {
        fuzz_count_accepted();
    }
}

static inline void check(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* Is a text one line without control characters, as text_sanitize leaves it? */
static inline void check_clean(const char *text)
{
    char again[4096];
    text_sanitize(again, sizeof(again), text, strlen(text));
    check(text_equal(again, text));
}

#endif
