/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/slice_look.h"

#include "base/json_text.h"
#include "base/text.h"

static const json_t *metadata(const json_t *slice, const char *key)
{
    return json_object_get(json_object_get(slice, "metadata"), key);
}

bool slice_is_ours(const struct slice_spec *spec, const json_t *slice)
{
    const json_t *s = json_object_get(slice, "spec");
    return text_equal(json_text_get(s, "driver"), spec->driver) &&
           text_equal(json_text_get(s, "nodeName"), spec->node_name);
}

bool slice_is_ending(const json_t *slice)
{
    return json_is_string(metadata(slice, "deletionTimestamp"));
}

static bool is_in_pool(const struct slice_spec *spec, const json_t *slice)
{
    const json_t *pool = json_object_get(json_object_get(slice, "spec"), "pool");
    return text_equal(json_text_get(pool, "name"), spec->pool);
}

struct slice_look slice_look(const struct slice_spec *spec, const char *own_name,
                             const json_t *list)
{
    struct slice_look look = {.own = NULL};
    size_t index;
    const json_t *item;
    json_array_foreach(json_object_get(list, "items"), index, item)
    {
        const char *name = json_text_get(json_object_get(item, "metadata"), "name");
        if (text_equal(name, own_name)) {
            look.own = item;
        } else if (name && text_is_dns1123_subdomain(name) && slice_is_ours(spec, item) &&
                   is_in_pool(spec, item) && !slice_is_ending(item)) {
            look.obsolete = name;
        }
    }
    return look;
}

bool slice_says_same(const json_t *a, const json_t *b)
{
    const json_t *owners_a = metadata(a, "ownerReferences");
    const json_t *owners_b = metadata(b, "ownerReferences");
    return json_equal(json_object_get(a, "spec"), json_object_get(b, "spec")) &&
           (owners_a == owners_b || json_equal(owners_a, owners_b));
}

json_t *slice_copy(const json_t *slice, enum slice_version version)
{
    char text[32];
    json_t *copy = slice ? json_deep_copy(slice) : NULL;
    text_format(text, sizeof(text), "resource.k8s.io/%s", slice_version_name(version));
    if (copy && (json_object_set_new(copy, "kind", json_string("ResourceSlice")) != 0 ||
                 json_object_set_new(copy, "apiVersion", json_string(text)) != 0)) {
        json_decref(copy);
        copy = NULL;
    }
    return copy;
}
