/* SPDX-License-Identifier: Apache-2.0 */
/* What was read and written reads back as the same microsecond. */
#include "base/time.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wall t;
    struct wall again;
    struct err e = ERR_INIT;
    char text[RFC3339_BYTES];
    if (rfc3339_parse((const char *)data, size, &t, &e) != 0) {
        assert(e.code != 0 && e.msg[0] != '\0');
        return 0;
    }
    fuzz_tell(true);
    rfc3339_format(t, true, text);
    int rc = rfc3339_parse(text, strlen(text), &again, NULL);
    assert(rc == 0 && wall_since(t, again) >= 0 && wall_since(t, again) < 1000);
    return 0;
}
