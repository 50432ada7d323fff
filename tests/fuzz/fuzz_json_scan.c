/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes: what the stricter reader with the tree accepts is accepted, members and texts are the
 * same in both, and every part that is found is JSON by itself. */
#include "base/json.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <string.h>

enum { TEXT_BYTES = 64 };

static void check_part(struct json_slice part)
{
    struct json_slice again;
    char text[TEXT_BYTES];
    check(json_scan_check(part.at, part.len, &again, NULL) == 0);
    check(again.at == part.at && again.len == part.len);
    (void)json_scan_text(part, text, sizeof(text));
    check(memchr(text, '\0', sizeof(text)) != NULL);
}

static void check_member(json_t *tree, struct json_slice object, struct json_slice key)
{
    char name[TEXT_BYTES];
    char text[TEXT_BYTES];
    if (!json_scan_text(key, name, sizeof(name))) {
        return;
    }
    struct json_slice last = json_scan_member(object, name);
    json_t *wanted = json_object_get(tree, name);
    check(!tree || wanted);
    if (wanted && json_is_string(wanted) && json_scan_text(last, text, sizeof(text))) {
        check(strcmp(json_string_value(wanted), text) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_slice whole;
    size_t parts = 0;
    if (size > 1 << 16) {
        return 0;
    }
    CLEANUP(json) json_t *tree = json_text_parse((const char *)data, size, NULL);
    struct json_slice unchecked = {.at = (const char *)data, .len = size};
    (void)json_scan_count(unchecked); /* stays within its bytes */
    if (json_scan_check((const char *)data, size, &whole, NULL) != 0) {
        check(!tree || memchr(data, '\0', size)); /* which ends a text for the other reader */
        return 0;
    }
    check(json_scan_kind(whole) != JSON_KIND_ABSENT);
    fuzz_tell(true);
    struct json_walk w = json_walk_start(whole);
    while (json_walk_next(&w) && ++parts < 64) {
        check_part(w.value);
        if (w.is_object) {
            check_part(w.key);
            check_member(tree, whole, w.key);
            check(json_scan_compare(w.key, w.key) == 0);
        }
    }
    check(parts == 64 || !tree || json_is_object(tree) ? 1 : parts == json_array_size(tree));
    return 0;
}
