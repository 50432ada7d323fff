/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/managed.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "standin/store.h"

#include <ctype.h>
#include <string.h>

/*
 * A set of fields is a tree, in the form that the API shows (FieldsV1):
 * {"f:spec":{"f:renewTime":{}}} holds spec.renewTime. An empty object is a field of the set. A
 * field that has others below it says by "." that it is in the set itself. NULL is the empty set.
 * All sets are owned.
 */

static bool has_itself(const json_t *set)
{
    return set && (json_object_size(set) == 0 || json_object_get(set, "."));
}

/* Takes `below`, which has no ".". */
static json_t *new_set(bool itself, json_t *below)
{
    bool is_leaf = json_object_size(below) == 0;
    if (is_leaf && !itself) {
        json_decref(below);
        return NULL;
    }
    if (!is_leaf && itself) {
        (void)json_object_set_new(below, ".", json_object());
    }
    return below;
}

/* Takes `set`, which may be NULL. */
static void add_below(json_t *below, const char *key, json_t *set)
{
    if (set) {
        (void)json_object_set_new(below, key, set);
    }
}

static json_t *set_union(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;
    json_t *below = need(json_object());
    json_object_foreach((json_t *)a, key, value)
    {
        if (strcmp(key, ".") != 0) {
            add_below(below, key, set_union(value, json_object_get(b, key)));
        }
    }
    json_object_foreach((json_t *)b, key, value)
    {
        if (strcmp(key, ".") != 0 && !json_object_get(below, key)) {
            add_below(below, key, need(json_deep_copy(value)));
        }
    }
    return new_set(has_itself(a) || has_itself(b), below);
}

static json_t *set_without(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;
    json_t *below = need(json_object());
    json_object_foreach((json_t *)a, key, value)
    {
        if (strcmp(key, ".") != 0) {
            add_below(below, key, set_without(value, json_object_get(b, key)));
        }
    }
    return new_set(has_itself(a) && !has_itself(b), below);
}

/* ---- what a write changed -------------------------------------------------------------------- */

struct difference {
    json_t *set;     /* added, or of another value */
    json_t *removed; /* not there any more */
};

/* Objects and lists that the API's types declare to be one value. Lists without a key are, too. */
static bool is_one_value(const char *key)
{
    static const char *const KEYS[] = {"regarding", "related", "involvedObject", "roleRef"};
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        if (strcmp(KEYS[i], key) == 0) {
            return true;
        }
    }
    return false;
}

/* By which member the items of a list are told apart; NULL: it is one value. */
static const char *key_of_items(const char *list)
{
    return strcmp(list, "ownerReferences") == 0 ? "uid"
           : strcmp(list, "conditions") == 0    ? "type"
                                                : NULL;
}

/* Objects that an API type always has, if empty: nobody adds them. */
static bool is_always_there(const char *key)
{
    return strcmp(key, "metadata") == 0 || strcmp(key, "spec") == 0 || strcmp(key, "status") == 0 ||
           strcmp(key, "pool") == 0;
}

static struct difference compare(const char *key, const json_t *before, const json_t *after);

static void compare_below(struct difference *below, const char *name, const char *key,
                          const json_t *before, const json_t *after)
{
    struct difference d = compare(key, before, after);
    add_below(below->set, name, d.set);
    add_below(below->removed, name, d.removed);
}

static void compare_members(struct difference *below, const json_t *before, const json_t *after)
{
    const char *key;
    json_t *value;
    json_t *both = before ? need(json_copy((json_t *)before)) : need(json_object());
    (void)json_object_update_missing(both, (json_t *)after); /* NULL: nothing */
    json_object_foreach(both, key, value)
    {
        char name[API_NAME_BYTES];
        (void)snprintf(name, sizeof(name), "f:%s", key);
        compare_below(below, name, key, json_object_get(before, key), json_object_get(after, key));
    }
    json_decref(both);
}

static json_t *find_item(const json_t *list, const char *member, const json_t *wanted)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (json_equal(json_object_get(item, member), wanted)) {
            return item;
        }
    }
    return NULL;
}

/* One way: the items of `list` beside those of `other`, which come before or after it. */
static void compare_items(struct difference *below, const char *key, const json_t *list,
                          const json_t *other, bool is_before)
{
    const char *member = key_of_items(key);
    const char *inside = strcmp(key, "ownerReferences") == 0 ? "roleRef" : ""; /* one value */
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        const json_t *value = json_object_get(item, member);
        const json_t *match = find_item(other, member, value);
        char name[API_NAME_BYTES];
        (void)snprintf(name, sizeof(name), "k:{\"%s\":\"%s\"}", member, json_string_value(value));
        if (is_before && !match) {
            compare_below(below, name, inside, item, NULL);
        } else if (!is_before) {
            compare_below(below, name, inside, match, item);
        }
    }
}

/* `key` is the field's name; NULL values are absent. */
static struct difference compare(const char *key, const json_t *before, const json_t *after)
{
    const json_t *some = after ? after : before;
    bool is_map = json_is_object(some) && !is_one_value(key);
    bool is_list = json_is_array(some) && key_of_items(key);
    bool is_added = !before && after && !(is_map && is_always_there(key));
    bool is_removed = before && !after;
    struct difference below = {need(json_object()), need(json_object())};
    if (is_map) {
        compare_members(&below, before, after);
    } else if (is_list) {
        compare_items(&below, key, before, after, true);
        compare_items(&below, key, after, before, false);
    } else {
        is_added |= before && after && !json_equal(before, after);
    }
    return (struct difference){.set = new_set(is_added, below.set),
                               .removed = new_set(is_removed, below.removed)};
}

/* What the API server sets itself belongs to no client. */
static json_t *without_server_fields(const json_t *object)
{
    static const char *const KEYS[] = {"name",       "namespace",     "creationTimestamp", "uid",
                                       "generation", "managedFields", "resourceVersion"};
    json_t *copy = need(json_copy((json_t *)object));
    json_t *metadata = json_object_get(object, "metadata");
    metadata = metadata ? need(json_copy(metadata)) : need(json_object());
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        (void)json_object_del(metadata, KEYS[i]); /* absent: as well */
    }
    (void)json_object_del(copy, "kind");
    (void)json_object_del(copy, "apiVersion");
    (void)json_object_set_new(copy, "metadata", metadata);
    return copy;
}

static struct difference compare_objects(const json_t *before, const json_t *after)
{
    json_t *old = before ? without_server_fields(before) : need(json_object());
    json_t *new = without_server_fields(after);
    struct difference d = compare("", old, new);
    json_decref(old);
    json_decref(new);
    return d;
}

/* ---- the entries ----------------------------------------------------------------------------- */

static const char *text_of(const json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));
    return text ? text : "";
}

static json_t *new_entry(const json_t *object, const struct managed_write *write)
{
    json_t *entry =
        need(json_pack("{s:s, s:O, s:s}", "operation", "Update", "apiVersion",
                       json_object_get(object, "apiVersion"), "fieldsType", "FieldsV1"));
    (void)json_object_set_new(entry, "manager", json_string(write->manager));
    if (write->subresource[0] != '\0') {
        (void)json_object_set_new(entry, "subresource", json_string(write->subresource));
    }
    return entry;
}

static bool is_same_client(const json_t *a, const json_t *b)
{
    static const char *const KEYS[] = {"manager", "operation", "apiVersion", "subresource"};
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        if (strcmp(text_of(a, KEYS[i]), text_of(b, KEYS[i])) != 0) {
            return false;
        }
    }
    return true;
}

/* The oldest first; of one second by their names. */
static int by_age(const json_t *a, const json_t *b)
{
    static const char *const KEYS[] = {"operation", "time", "manager", "apiVersion", "subresource"};
    int order = 0;
    for (size_t i = 0; i < ARRAY_LEN(KEYS) && order == 0; i++) {
        order = strcmp(text_of(a, KEYS[i]), text_of(b, KEYS[i]));
    }
    return order;
}

static void insert_by_age(json_t *entries, json_t *entry)
{
    size_t i = 0;
    while (i < json_array_size(entries) && by_age(json_array_get(entries, i), entry) < 0) {
        i++;
    }
    (void)json_array_insert_new(entries, i, entry);
}

/* Takes `fields`. An entry without fields is none. */
static void keep_entry(json_t *entries, json_t *entry, json_t *fields)
{
    if (fields) {
        (void)json_object_set_new(entry, "fieldsV1", fields);
        insert_by_age(entries, entry);
    } else {
        json_decref(entry);
    }
}

/* The entries of before, and what the write makes of them. */
static json_t *count_write(const json_t *before, const json_t *own, const struct difference *d)
{
    json_t *entries = need(json_array());
    CLEANUP(json) json_t *set = d->set ? need(json_deep_copy(d->set)) : NULL;
    CLEANUP(json) json_t *lost = set_union(d->set, d->removed);
    size_t i;
    json_t *entry;
    json_array_foreach(before, i, entry)
    {
        const json_t *fields = json_object_get(entry, "fieldsV1");
        if (is_same_client(entry, own)) {
            CLEANUP(json) json_t *left = set_without(fields, d->removed);
            json_t *all = set_union(left, set);
            json_decref(set);
            set = all;
        } else {
            keep_entry(entries, need(json_copy(entry)), set_without(fields, lost));
        }
    }
    keep_entry(entries, need(json_deep_copy(own)), set ? need(json_deep_copy(set)) : NULL);
    return entries;
}

static json_t *metadata_of(const json_t *object)
{
    return json_object_get(object, "metadata");
}

static void write_entries(const json_t *before, json_t *after, const struct managed_write *write)
{
    struct difference d = compare_objects(before, after);
    CLEANUP(json) json_t *own = new_entry(after, write);
    (void)json_object_set_new(own, "time", json_string(rfc3339_text(write->at, false).text));
    json_t *old = json_object_get(metadata_of(after), "managedFields");
    json_t *entries = count_write(old, own, &d);
    if (json_array_size(entries) > 0) {
        (void)json_object_set(metadata_of(after), "managedFields", entries);
    } else {
        (void)json_object_del(metadata_of(after), "managedFields");
    }
    json_decref(entries);
    json_decref(d.set);
    json_decref(d.removed);
}

void managed_name(const char *user_agent, char out[static MANAGED_NAME_BYTES])
{
    size_t len = 0;
    for (const char *c = user_agent ? user_agent : ""; *c != '\0' && *c != '/'; c++) {
        if (isprint((unsigned char)*c) && len + 1 < MANAGED_NAME_BYTES) {
            out[len++] = *c;
        }
    }
    out[len] = '\0';
    if (len == 0) {
        text_format(out, MANAGED_NAME_BYTES, "unknown");
    }
}

void managed_create(json_t *after, const struct managed_write *write)
{
    if (write->manager) {
        write_entries(NULL, after, write);
    }
}

void managed_inherit(const json_t *before, json_t *after)
{
    json_t *metadata = metadata_of(after);
    const json_t *sent = json_object_get(metadata, "managedFields");
    json_t *old = json_object_get(metadata_of(before), "managedFields");
    if (json_array_size(sent) == 1 && json_object_size(json_array_get(sent, 0)) == 0) {
        (void)json_object_del(metadata, "managedFields");
    } else if (json_array_size(sent) == 0 && old) {
        (void)json_object_set(metadata, "managedFields", old);
    }
}

void managed_update(const json_t *before, json_t *after, const struct managed_write *write)
{
    if (write->manager && json_object_get(metadata_of(after), "managedFields")) {
        write_entries(before, after, write);
    }
}
