/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/merge.h"

#include "standin/need.h"

#include <string.h>

/* The one list that a strategic merge patch of ours has: its items are merged by their "type", and
 * {"$patch": "delete"} takes one away. Returns owned. */
static json_t *merge_by_type(const json_t *own, const json_t *patch)
{
    json_t *merged = need(json_array());
    size_t i;
    size_t j;
    json_t *item;
    json_t *change;
    json_array_foreach(own, i, item)
    {
        json_t *copy = need(json_deep_copy(item));
        json_array_foreach(patch, j, change)
        {
            if (!json_equal(json_object_get(item, "type"), json_object_get(change, "type"))) {
                continue;
            }
            if (json_object_get(change, "$patch")) {
                json_decref(copy);
                copy = NULL;
                break;
            }
            (void)json_object_update(copy, change);
        }
        if (copy) {
            (void)json_array_append_new(merged, copy);
        }
    }
    json_array_foreach(patch, j, change)
    {
        bool known = json_object_get(change, "$patch") != NULL;
        json_array_foreach(own, i, item)
        {
            known |= json_equal(json_object_get(item, "type"), json_object_get(change, "type"));
        }
        if (!known) {
            (void)json_array_append(merged, change);
        }
    }
    return merged;
}

void merge_patch(json_t *target, const json_t *patch, bool is_strategic)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)patch, key, value)
    {
        json_t *own = json_object_get(target, key);
        if (json_is_null(value)) {
            (void)json_object_del(target, key);
        } else if (json_is_object(value)) {
            if (!json_is_object(own)) {
                own = need(json_object());
                (void)json_object_set_new(target, key, own);
            }
            merge_patch(own, value, is_strategic);
        } else if (is_strategic && strcmp(key, "conditions") == 0) {
            (void)json_object_set_new(target, key, merge_by_type(own, value));
        } else {
            (void)json_object_set_new(target, key, need(json_deep_copy(value)));
        }
    }
}
