/* SPDX-License-Identifier: Apache-2.0 */
/* Any answer of bgpd: it passes, or has words that say why not. The first byte is how many peers
 * must be established; who wants fewer passes as well. */
#include "probe/bgp_probe.c" /* nobody else calls it */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    int64_t least = data[0] % 4 + 1;
    const struct probe_answer answer = bgp_judge((const char *)data + 1, size - 1, least);
    const struct probe_answer one = bgp_judge((const char *)data + 1, size - 1, 1);
    char clean[PROBE_WORDS_BYTES];
    text_sanitize(clean, sizeof(clean), answer.words, strlen(answer.words));
    check(answer.outcome == PROBE_PASSED || answer.outcome == PROBE_WRONG);
    check((answer.outcome == PROBE_PASSED) == (answer.words[0] == '\0'));
    check(text_equal(clean, answer.words));
    check(answer.outcome != PROBE_PASSED || one.outcome == PROBE_PASSED);
    fuzz_tell(answer.outcome == PROBE_PASSED);
    return 0;
}
