/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a card's EEPROM says: no read past its end, and a terminated text. */
#include "host-agent/dra/vpd.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char out[16] = "untouched";
    if (vpd_find(data, size, "SN", out, sizeof(out))) {
        assert(strnlen(out, sizeof(out)) < sizeof(out));
        fuzz_tell(true);
    } else {
        assert(strcmp(out, "untouched") == 0);
    }
    return 0;
}
