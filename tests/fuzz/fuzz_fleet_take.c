/* SPDX-License-Identifier: Apache-2.0 */
/* Any object of an API server, taken for each of the four kinds: every text of the row stays clean,
 * and the row can be judged and shown. */
#include "base/json_text.h"
#include "base/mem.h"
#include "dpuctl/fleet.c" /* what makes a row is its own */
#include "dpuctl/print.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(json)
    json_t *object = json_text_parse((const char *)data, size, NULL);
    CLEANUP(json) json_t *row = row_new("ns", "n");
    const struct wall now = {1};
    const char *key;
    json_t *member;
    if (!object) {
        return 0;
    }
    fuzz_tell(true);
    (void)node_of_lease(object);
    (void)node_of_bound(object);
    take_pod(row, object, now);
    take_slice(row, object, now);
    take_node(row, object, now);
    take_lease(row, object, now);
    judge_row(row, "holder", now);
    json_object_foreach(row, key, member)
    {
        const char *text = json_string_value(member);
        check_clean(text ? text : "");
    }
    if (json_object_size(row) != 25 || !print_holds(row, "state") ||
        (print_holds(row, "toldBy=lease") && !print_holds(row, "reason message"))) {
        abort(); /* a judgement of our own says why */
    }
    return 0;
}
