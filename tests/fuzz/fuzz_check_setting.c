/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a runtime's configuration or a Node's version holds: texts are terminated and clean. */
#include "base/text.h"
#include "dpuctl/doctor.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static bool is_clean(const char *text)
{
    char again[CHECK_TEXT_BYTES];
    text_sanitize(again, sizeof(again), text, strlen(text));
    return text_equal(again, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char value[64] = "";
    char *text = malloc(size + 1); /* of exactly its size: reading on is seen */
    struct doctor *d = calloc(1, sizeof(*d));
    if (!text || !d) {
        abort();
    }
    memcpy(text, data, size);
    text[size] = '\0';
    bool is_set = check_find_setting(text, "cni_status_grace_period", value, sizeof(value));
    fuzz_tell(is_set);
    check_judge_runtime(d, text, value);
    if ((!is_set && value[0] != '\0') || !is_clean(value) || d->count != 1 ||
        !is_clean(d->results[0].found) || !is_clean(d->results[0].mend)) {
        abort();
    }
    free(d);
    free(text);
    return 0;
}
