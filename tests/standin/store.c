/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/store.h"

#include "standin/need.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void store_init(struct store *s, uint64_t first_version)
{
    *s = (struct store){.version = first_version, .compacted = first_version};
}

static void drop_objects(struct store *s)
{
    for (size_t i = 0; i < s->object_count; i++) {
        json_decref(s->objects[i].json);
    }
    s->object_count = 0;
}

static void drop_events(struct store *s, size_t count)
{
    if (count == 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        json_decref(s->events[i].json);
    }
    memmove(s->events, s->events + count, (s->event_count - count) * sizeof(*s->events));
    s->event_count -= count;
}

void store_fini(struct store *s)
{
    drop_objects(s);
    drop_events(s, s->event_count);
    free(s->objects);
    free(s->events);
    json_decref(s->snapshot);
    *s = (struct store){0};
}

const char *store_meta(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(json_object_get(object, "metadata"), key));
    return text ? text : "";
}

struct store_object *store_find(struct store *s, const struct api_kind *kind, const char *ns,
                                const char *name)
{
    for (size_t i = 0; i < s->object_count; i++) {
        struct store_object *object = &s->objects[i];
        if (object->kind == kind && strcmp(store_meta(object->json, "name"), name) == 0 &&
            strcmp(store_meta(object->json, "namespace"), ns) == 0) {
            return object;
        }
    }
    return NULL;
}

static void stamp(struct store *s, json_t *json)
{
    char text[24];
    s->version++;
    (void)snprintf(text, sizeof(text), "%" PRIu64, s->version);
    (void)json_object_set_new(json_object_get(json, "metadata"), "resourceVersion",
                              json_string(text));
}

static void log_change(struct store *s, enum store_change change, const struct api_kind *kind,
                       json_t *json)
{
    if (s->event_count == STORE_MAX_EVENTS) {
        s->compacted = s->events[STORE_MAX_EVENTS / 2].version;
        drop_events(s, STORE_MAX_EVENTS / 2 + 1);
    }
    if (s->event_count == s->event_capacity) {
        s->event_capacity = s->event_capacity ? s->event_capacity * 2 : 256;
        s->events = need(reallocarray(s->events, s->event_capacity, sizeof(*s->events)));
    }
    s->events[s->event_count++] = (struct store_event){
        .version = s->version, .change = change, .kind = kind, .json = json_incref(json)};
}

/* Takes `json`. */
static void keep_object(struct store *s, const struct api_kind *kind, json_t *json)
{
    if (s->object_count == s->object_capacity) {
        s->object_capacity = s->object_capacity ? s->object_capacity * 2 : 64;
        s->objects = need(reallocarray(s->objects, s->object_capacity, sizeof(*s->objects)));
    }
    s->objects[s->object_count++] = (struct store_object){.kind = kind, .json = json};
}

json_t *store_add(struct store *s, const struct api_kind *kind, json_t *json)
{
    stamp(s, json);
    keep_object(s, kind, json);
    log_change(s, STORE_ADDED, kind, json);
    return json;
}

json_t *store_replace(struct store *s, struct store_object *object, json_t *json)
{
    stamp(s, json);
    json_decref(object->json);
    object->json = json;
    log_change(s, STORE_MODIFIED, object->kind, json);
    return json;
}

json_t *store_remove(struct store *s, struct store_object *object)
{
    json_t *last = need(json_deep_copy(object->json));
    stamp(s, last);
    log_change(s, STORE_DELETED, object->kind, last);
    json_decref(object->json);
    *object = s->objects[--s->object_count];
    return last;
}

void store_compact(struct store *s)
{
    s->compacted = s->version; /* running watches still get what they have not been sent */
}

void store_snapshot(struct store *s)
{
    json_t *objects = need(json_array());
    for (size_t i = 0; i < s->object_count; i++) {
        json_t *entry =
            need(json_pack("{s:s, s:s, s:O}", "group", s->objects[i].kind->group, "plural",
                           s->objects[i].kind->plural, "json", s->objects[i].json));
        (void)json_array_append_new(objects, entry);
    }
    json_decref(s->snapshot);
    s->snapshot =
        need(json_pack("{s:I, s:o}", "version", (json_int_t)s->version, "objects", objects));
}

bool store_restore(struct store *s)
{
    if (!s->snapshot) {
        return false;
    }
    size_t count = 0;
    uint64_t version = (uint64_t)json_integer_value(json_object_get(s->snapshot, "version"));
    while (count < s->event_count && s->events[s->event_count - count - 1].version > version) {
        json_decref(s->events[s->event_count - count - 1].json);
        count++;
    }
    s->event_count -= count;
    s->version = version;
    if (s->compacted > version) {
        s->compacted = version;
    }
    drop_objects(s);
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(s->snapshot, "objects"), i, entry)
    {
        const char *group = json_string_value(json_object_get(entry, "group"));
        const char *plural = json_string_value(json_object_get(entry, "plural"));
        keep_object(s, api_kind_find(group, plural), json_incref(json_object_get(entry, "json")));
    }
    return true;
}
