/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever lies in the CNI directory: each text is terminated and clean, and what is gated or
 * speaks STATUS has said so. */
#include "base/text.h"
#include "dpuctl/node.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void check(const char *text, size_t bytes)
{
    char again[CNI_SCAN_TEXT_BYTES];
    size_t len = strnlen(text, bytes);
    if (len == bytes) {
        abort();
    }
    text_sanitize(again, sizeof(again), text, len);
    if (!text_equal(again, text)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cni_entry entry = {0};
    cni_entry_read((const char *)data, size, &entry);
    fuzz_tell(entry.problem[0] == '\0');
    const char *const texts[] = {entry.problem,         entry.network,       entry.types,
                                 entry.delegate_conf,   entry.delegate_type, entry.readiness_file,
                                 entry.cluster_network, entry.first_delegate};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        check(texts[i], CNI_SCAN_TEXT_BYTES);
    }
    check(entry.version, sizeof(entry.version));
    if ((entry.is_gated && strncmp(entry.types, "dpu-gate", 8) != 0) ||
        (entry.speaks_status && entry.version[0] == '\0')) {
        abort();
    }
    return 0;
}
