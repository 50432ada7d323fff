/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/api.h"

#include "standin/need.h"

#include <string.h>

/* kube-controller-manager's garbage collector, reduced to owners that are Nodes: it looks the
 * Node up by name; absent or of another UID means that the reference dangles. */
static bool dangles(struct store *s, const json_t *owner)
{
    const char *kind = json_string_value(json_object_get(owner, "kind"));
    const char *name = json_string_value(json_object_get(owner, "name"));
    const char *uid = json_string_value(json_object_get(owner, "uid"));
    if (!kind || !name || !uid || strcmp(kind, "Node") != 0) {
        return false;
    }
    const struct store_object *node = store_find(s, api_kind_find("", "nodes"), "", name);
    return !node || strcmp(store_meta(node->json, "uid"), uid) != 0;
}

/* Returns the owners that still exist; owned. */
static json_t *solid_owners(struct store *s, const json_t *owners)
{
    json_t *solid = need(json_array());
    size_t i;
    json_t *owner;
    json_array_foreach(owners, i, owner)
    {
        if (!dangles(s, owner)) {
            (void)json_array_append(solid, owner);
        }
    }
    return solid;
}

static bool collect_one(struct store *s, struct store_object *object)
{
    json_t *metadata = json_object_get(object->json, "metadata");
    const json_t *owners = json_object_get(metadata, "ownerReferences");
    if (json_array_size(owners) == 0) {
        return false;
    }
    json_t *solid = solid_owners(s, owners);
    bool changed = json_array_size(solid) < json_array_size(owners);
    if (changed && json_array_size(solid) == 0) {
        json_decref(store_remove(s, object));
    } else if (changed) {
        json_t *wanted = need(json_deep_copy(object->json));
        (void)json_object_set(json_object_get(wanted, "metadata"), "ownerReferences", solid);
        (void)store_replace(s, object, wanted);
    }
    json_decref(solid);
    return changed;
}

bool api_collect_garbage(struct store *s)
{
    bool changed = false;
    for (size_t i = s->object_count; i-- > 0;) {
        changed = collect_one(s, &s->objects[i]) || changed;
    }
    return changed;
}
