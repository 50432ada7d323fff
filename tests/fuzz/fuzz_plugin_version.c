/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a plugin's answer to VERSION: it is read alike each time, and not beyond its end. */
#include "cni/delegate.c" /* has_new_version is its own */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct delegate_question question; /* too large for the stack */
    bool is_new[2];
    if (size >= sizeof(question.text)) {
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        memset(question.text, i == 0 ? '\0' : '"', sizeof(question.text)); /* behind its end */
        memcpy(question.text, data, size);
        question.len = size;
        is_new[i] = has_new_version(&question);
    }
    check(is_new[0] == is_new[1]);
    fuzz_tell(is_new[0]);
    return 0;
}
