/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_text.h"

#include "base/text.h"

#include <string.h>

json_t *json_text_parse(const char *text, size_t len, size_t max_bytes, struct err *e)
{
    json_error_t why;
    if (len > max_bytes) {
        (void)err_set(e, ERR_LIMIT, "JSON of %zu bytes is larger than %zu", len, max_bytes);
        return NULL;
    }
    json_t *json = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    if (!json) {
        char shown[120];
        text_sanitize(shown, sizeof(shown), why.text, strlen(why.text));
        (void)err_set(e, ERR_PARSE, "not valid JSON at byte %d: %s", why.position, shown);
    }
    return json;
}

const char *json_text_get(const json_t *object, const char *key)
{
    const json_t *member = json_object_get(object, key);
    const char *text = json_string_value(member);
    bool has_nul = text && strlen(text) != json_string_length(member);
    return has_nul ? JSON_TEXT_WITH_NUL : text;
}

char *json_text_dump(const json_t *json)
{
    return json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
}
