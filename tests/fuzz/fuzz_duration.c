/* SPDX-License-Identifier: Apache-2.0 */
/* A duration that was read, written and read again is the same. */
#include "base/text.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t ns;
    int64_t again;
    char text[64];
    if (text_to_duration_ns((const char *)data, size, &ns, NULL) != 0) {
        return 0;
    }
    fuzz_tell(true);
    text_from_duration(ns, text, sizeof(text));
    int rc = text_to_duration_ns(text, strlen(text), &again, NULL);
    assert(rc == ERR_LIMIT || (rc == 0 && again == ns)); /* a fraction above 100 years */
    return 0;
}
