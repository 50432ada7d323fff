/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a runtime's configuration or a Node's version holds: texts are terminated and clean. */
#include "dpuctl/doctor.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char value[64] = "";
    char *text = malloc(size + 1); /* of exactly its size: reading on is seen */
    struct doctor *d = calloc(1, sizeof(*d));
    check(text && d);
    d->checks = json_array();
    memcpy(text, data, size);
    text[size] = '\0';
    bool is_set = check_find_setting(text, "cni_status_grace_period", value, sizeof(value));
    fuzz_tell(is_set);
    check_judge_runtime(d, text, value);
    const json_t *first = json_array_get(d->checks, 0);
    const char *found = json_string_value(json_object_get(first, "found"));
    check((is_set || value[0] == '\0') && json_array_size(d->checks) == 1);
    check_clean(value);
    check_clean(found);
    json_decref(d->checks);
    free(d);
    free(text);
    return 0;
}
