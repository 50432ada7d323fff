/* SPDX-License-Identifier: Apache-2.0 */
/* Any object of an API server, taken for each of the four kinds: every text stays terminated and
 * clean, and the row can be judged. */
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "dpuctl/api.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void check(const char *text, size_t bytes)
{
    char again[NAMES_K8S_NAME_BYTES + FLEET_MESSAGE_BYTES];
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
    CLEANUP(json)
    json_t *object = json_text_parse_stored((const char *)data, size, 1 << 20, NULL);
    struct fleet_row row = {.node = "n"};
    if (!object) {
        return 0;
    }
    fuzz_tell(true);
    (void)fleet_node_of_lease(object);
    (void)fleet_node_of_bound(object);
    fleet_take_pod(&row, object);
    fleet_take_slice(&row, object);
    fleet_take_node(&row, object);
    fleet_take_lease(&row, object);
    fleet_judge(&row, "holder");
    check(row.boot_id, sizeof(row.boot_id));
    check(row.agent_pod, sizeof(row.agent_pod));
    check(row.agent_version, sizeof(row.agent_version));
    check(row.lease.agent_version, sizeof(row.lease.agent_version));
    check(row.word.reason, sizeof(row.word.reason));
    check(row.word.message, sizeof(row.word.message));
    if (row.word.teller == FLEET_NOBODY && (row.reason[0] == '\0' || row.message[0] == '\0')) {
        abort(); /* a judgement of our own says why */
    }
    return 0;
}
