/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a record: as they are, and with a checksum that holds. What decodes must encode
 * and decode to the same. */
#include "base/crc32c.h"
#include "contract/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const char *text, size_t len)
{
    struct record first;
    struct record second;
    char page[RECORD_PAGE_BYTES];
    if (record_decode(text, len, &first, NULL) != 0 || record_encode(&first, page, NULL) != 0) {
        return;
    }
    if (record_decode(page, sizeof(page), &second, NULL) != 0 ||
        second.verdict.valid_until.ns != first.verdict.valid_until.ns ||
        second.verdict.state != first.verdict.state || strcmp(second.node, first.node) != 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char sealed[8192];
    round_trip((const char *)data, size);
    if (size < sizeof(sealed) - 64) {
        memcpy(sealed, data, size);
        int tail = snprintf(sealed + size, 64, ",\"crc32c\":\"%08x\"}", crc32c_compute(data, size));
        round_trip(sealed, size + (size_t)tail);
    }
    return 0;
}
