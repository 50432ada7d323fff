/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a record: as they are, and with a checksum that holds. What decodes must encode
 * and decode to the same. */
#include "base/text.h"
#include "contract/record.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool round_trip(const char *text, size_t len)
{
    struct record first;
    struct record second;
    char page[RECORD_PAGE_BYTES];
    if (record_decode(text, len, &first, NULL) != 0 || record_encode(&first, page, NULL) != 0) {
        return false;
    }
    if (record_decode(page, sizeof(page), &second, NULL) != 0 ||
        second.readiness.lease_until.ns != first.readiness.lease_until.ns ||
        second.readiness.state != first.readiness.state || strcmp(second.node, first.node) != 0) {
        abort();
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char sealed[8192];
    bool is_accepted = round_trip((const char *)data, size);
    if (size < sizeof(sealed) - 64) {
        memcpy(sealed, data, size);
        int tail = snprintf(sealed + size, 64, ",\"crc32c\":\"%08x\"}", crc32c_compute(data, size));
        is_accepted |= round_trip(sealed, size + (size_t)tail);
    }
    fuzz_tell(is_accepted);
    return 0;
}
