/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/select.h"

#include "base/text.h"
#include "standin/store.h"

#include <string.h>

struct term {
    char key[API_NAME_BYTES];
    char value[API_NAME_BYTES];
};

/* Takes the next "key=value" from *text. 1: got one, 0: at the end, -1: another form. */
static int next_term(const char **text, struct term *out)
{
    if (!*text || **text == '\0') {
        return 0;
    }
    size_t len = strcspn(*text, ",");
    const char *equals = memchr(*text, '=', len);
    if (!equals || equals == *text || equals[-1] == '!') {
        return -1;
    }
    size_t key_len = (size_t)(equals - *text);
    const char *value = equals + (equals[1] == '=' ? 2 : 1);
    size_t value_len = (size_t)(*text + len - value);
    if (key_len >= sizeof(out->key) || value_len >= sizeof(out->value)) {
        return -1;
    }
    memcpy(out->key, *text, key_len);
    out->key[key_len] = '\0';
    memcpy(out->value, value, value_len);
    out->value[value_len] = '\0';
    *text += len + ((*text)[len] == ',' ? 1 : 0);
    return 1;
}

/* The text of a selectable field, or NULL if the kind has none of that name. */
static const char *field_text(const struct api_kind *kind, const json_t *object, const char *key)
{
    if (strcmp(key, "metadata.name") == 0) {
        return store_meta(object, "name");
    }
    if (strcmp(key, "metadata.namespace") == 0 && kind->namespaced) {
        return store_meta(object, "namespace");
    }
    bool is_slice = strcmp(kind->plural, "resourceslices") == 0;
    bool is_bound = is_slice || strcmp(kind->plural, "pods") == 0;
    if ((is_bound && strcmp(key, "spec.nodeName") == 0) ||
        (is_slice && strcmp(key, "spec.driver") == 0)) {
        const json_t *spec = json_object_get(object, "spec");
        const char *text = json_string_value(json_object_get(spec, key + 5));
        return text ? text : "";
    }
    return NULL;
}

bool select_check(const struct api_kind *kind, const char *fields, const char *labels,
                  struct api_result *r)
{
    struct term term;
    int rc;
    while ((rc = next_term(&fields, &term)) > 0) {
        if (!field_text(kind, NULL, term.key)) {
            return api_fail(r, 400, "BadRequest",
                            "\"%s\" is not a known field selector: only \"metadata.name\"%s",
                            term.key, kind->namespaced ? ", \"metadata.namespace\"" : "");
        }
    }
    if (rc < 0) {
        return api_fail(r, 400, "BadRequest", "invalid selector: \"%s\"", fields);
    }
    while ((rc = next_term(&labels, &term)) > 0) {
    }
    if (rc < 0) {
        return api_fail(r, 400, "BadRequest", "label selector \"%s\": only key=value is supported",
                        labels);
    }
    return true;
}

bool select_matches(const struct api_target *target, const json_t *object, const char *fields,
                    const char *labels)
{
    struct term term;
    if (target->ns[0] && strcmp(store_meta(object, "namespace"), target->ns) != 0) {
        return false;
    }
    while (next_term(&fields, &term) > 0) {
        const char *text = field_text(target->kind, object, term.key);
        if (!text || strcmp(text, term.value) != 0) {
            return false;
        }
    }
    const json_t *own = json_object_get(json_object_get(object, "metadata"), "labels");
    while (next_term(&labels, &term) > 0) {
        if (!text_equal(json_string_value(json_object_get(own, term.key)), term.value)) {
            return false;
        }
    }
    return true;
}

void select_name(const char *fields, char out[static API_NAME_BYTES])
{
    struct term term;
    out[0] = '\0';
    while (next_term(&fields, &term) > 0) {
        if (strcmp(term.key, "metadata.name") == 0) {
            (void)text_copy(out, API_NAME_BYTES, term.value);
        }
    }
}
