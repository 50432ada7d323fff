/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever lies in the CNI directory: each text is clean; what is gated or has STATUS says so. */
#include "base/json_text.h"
#include "base/mem.h"
#include "dpuctl/node.h"
#include "dpuctl/print.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(json) json_t *entry = cni_entry_json((const char *)data, size);
    char types[PRINT_TEXT_BYTES];
    const char *key;
    json_t *member;
    fuzz_tell(!print_holds(entry, "problem"));
    json_object_foreach(entry, key, member)
    {
        const char *text = json_string_value(member);
        check_clean(text ? text : "");
    }
    print_fill(entry, "{types}", types, sizeof(types));
    check_clean(types);
    check(!print_holds(entry, "speaksStatus !version"));
    check(!print_holds(entry, "isGated") || strncmp(types, "dpu-gate", 8) == 0);
    return 0;
}
