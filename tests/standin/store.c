/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/store.h"

#include "base/text.h"

#include <inttypes.h>
#include <string.h>

/* All of version "v1". */
static const struct api_kind KINDS[] = {
    {"", "nodes", "Node", API_UNCONDITIONAL_UPDATE},
    {"", "namespaces", "Namespace", API_UNCONDITIONAL_UPDATE},
    {"", "pods", "Pod", API_NAMESPACED | API_UNCONDITIONAL_UPDATE},
    {"events.k8s.io", "events", "Event",
     API_NAMESPACED | API_CREATE_ON_UPDATE | API_UNCONDITIONAL_UPDATE},
    {"coordination.k8s.io", "leases", "Lease", API_NAMESPACED | API_CREATE_ON_UPDATE},
    {"", "configmaps", "ConfigMap", API_NAMESPACED | API_UNCONDITIONAL_UPDATE},
    {"apps", "daemonsets", "DaemonSet", API_NAMESPACED | API_UNCONDITIONAL_UPDATE},
    {"rbac.authorization.k8s.io", "roles", "Role", API_NAMESPACED | API_UNCONDITIONAL_UPDATE},
    {"rbac.authorization.k8s.io", "rolebindings", "RoleBinding",
     API_NAMESPACED | API_UNCONDITIONAL_UPDATE},
    {"rbac.authorization.k8s.io", "clusterroles", "ClusterRole", API_UNCONDITIONAL_UPDATE},
    {"rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding",
     API_UNCONDITIONAL_UPDATE},
    {"resource.k8s.io", "resourceslices", "ResourceSlice", API_UNCONDITIONAL_UPDATE},
    {"resource.k8s.io", "devicetaintrules", "DeviceTaintRule", 0},
    {"resource.k8s.io", "resourceclaims", "ResourceClaim",
     API_NAMESPACED | API_UNCONDITIONAL_UPDATE},
};

const char *api_verb_name(enum api_verb verb)
{
    static const char *const NAMES[] = {
        [API_NONE] = "none",   [API_GET] = "get",       [API_LIST] = "list",
        [API_WATCH] = "watch", [API_CREATE] = "create", [API_UPDATE] = "update",
        [API_PATCH] = "patch", [API_DELETE] = "delete",
    };
    return NAMES[verb];
}

const struct api_kind *api_kind_find(const char *group, const char *plural)
{
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++) {
        if (strcmp(KINDS[i].group, group) == 0 && strcmp(KINDS[i].plural, plural) == 0) {
            return &KINDS[i];
        }
    }
    return NULL;
}

/* Copies the next "/segment" of *path and moves on; false at the end or if it does not fit. */
static bool next_segment(const char **path, char *out, size_t out_bytes)
{
    while (**path == '/') {
        (*path)++;
    }
    size_t len = strcspn(*path, "/");
    if (len == 0 || len >= out_bytes) {
        return false;
    }
    memcpy(out, *path, len);
    out[len] = '\0';
    *path += len;
    return true;
}

static bool parse_group(const char **path, char *group, char *version)
{
    char root[API_NAME_BYTES];
    if (!next_segment(path, root, sizeof(root))) {
        return false;
    }
    if (strcmp(root, "api") == 0) {
        group[0] = '\0';
    } else if (strcmp(root, "apis") != 0 || !next_segment(path, group, API_NAME_BYTES)) {
        return false;
    }
    return next_segment(path, version, API_NAME_BYTES);
}

static bool group_serves(const char *group, const char *version)
{
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++) {
        if (strcmp(KINDS[i].group, group) == 0) {
            return strcmp(version, "v1") == 0;
        }
    }
    return false;
}

bool api_target_parse(const char *path, struct api_target *out)
{
    char group[API_NAME_BYTES] = "";
    char version[API_NAME_BYTES];
    char plural[API_NAME_BYTES];

    *out = (struct api_target){.verb = API_NONE};
    if (!parse_group(&path, group, version)) {
        return false;
    }
    out->group_served = group_serves(group, version);
    if (!next_segment(&path, plural, sizeof(plural))) {
        return false;
    }
    if (strcmp(plural, "namespaces") == 0 && next_segment(&path, out->name, sizeof(out->name))) {
        char nested[API_NAME_BYTES];
        if (next_segment(&path, nested, sizeof(nested))) {
            (void)text_copy(out->ns, sizeof(out->ns), out->name); /* same size: fits */
            (void)text_copy(plural, sizeof(plural), nested);
            out->name[0] = '\0';
            (void)next_segment(&path, out->name, sizeof(out->name)); /* absent: a collection */
        }
    } else if (strcmp(plural, "namespaces") != 0) {
        (void)next_segment(&path, out->name, sizeof(out->name)); /* absent: a collection */
    }
    (void)next_segment(&path, out->subresource, sizeof(out->subresource)); /* usually absent */
    out->kind = api_kind_find(group, plural);
    if (!out->kind || !out->group_served || *path != '\0') {
        return false;
    }
    bool names_namespace = out->ns[0] != '\0';
    bool is_namespaced = (out->kind->flags & API_NAMESPACED) != 0;
    return names_namespace == is_namespaced || (is_namespaced && out->name[0] == '\0');
}

enum api_verb api_verb_for(const char *method, const struct api_target *target, bool watch)
{
    static const struct {
        const char *method;
        enum api_verb of_one, of_all;
    } ROWS[] = {{"GET", API_GET, API_LIST},
                {"POST", API_NONE, API_CREATE},
                {"PUT", API_UPDATE, API_NONE},
                {"PATCH", API_PATCH, API_NONE},
                {"DELETE", API_DELETE, API_NONE}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        if (strcmp(ROWS[i].method, method) == 0) {
            enum api_verb verb = target->name[0] != '\0' ? ROWS[i].of_one : ROWS[i].of_all;
            return watch && i == 0 ? API_WATCH : verb;
        }
    }
    return API_NONE;
}

void api_kind_resource(const struct api_kind *kind, char out[static API_NAME_BYTES])
{
    (void)snprintf(out, API_NAME_BYTES, "%s%s%s", kind->plural, kind->group[0] ? "." : "",
                   kind->group);
}

void api_kind_version(const struct api_kind *kind, char out[static API_NAME_BYTES])
{
    (void)snprintf(out, API_NAME_BYTES, "%s%sv1", kind->group, kind->group[0] ? "/" : "");
}

/* ---- the store ------------------------------------------------------------------------------- */

const char *store_change_name(enum store_change change)
{
    static const char *const NAMES[] = {
        [STORE_ADDED] = "ADDED", [STORE_MODIFIED] = "MODIFIED", [STORE_DELETED] = "DELETED"};
    return NAMES[change];
}

void store_init(struct store *s, uint64_t first_version)
{
    *s = (struct store){.version = first_version, .compacted = first_version};
}

void store_fini(struct store *s)
{
    for (size_t i = 0; i < s->object_count; i++) {
        json_decref(s->objects[i].json);
    }
    for (size_t i = 0; i < s->event_count; i++) {
        json_decref(s->events[i].json);
    }
    free(s->objects);
    free(s->events);
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
    if (s->event_count == s->event_capacity) {
        s->event_capacity = s->event_capacity ? s->event_capacity * 2 : 256;
        s->events = need(reallocarray(s->events, s->event_capacity, sizeof(*s->events)));
    }
    s->events[s->event_count++] = (struct store_event){.version = s->version,
                                                       .at = s->now,
                                                       .change = change,
                                                       .kind = kind,
                                                       .json = json_incref(json)};
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

static bool is_of(const struct store_event *event, const struct store_event *other)
{
    return event->kind == other->kind &&
           strcmp(store_meta(event->json, "name"), store_meta(other->json, "name")) == 0 &&
           strcmp(store_meta(event->json, "namespace"), store_meta(other->json, "namespace")) == 0;
}

/* Undoes the last change. */
static void undo(struct store *s)
{
    const struct store_event last = s->events[--s->event_count];
    const struct store_event *before = NULL;
    for (size_t i = s->event_count; i > 0 && !before; i--) {
        before = is_of(&s->events[i - 1], &last) ? &s->events[i - 1] : NULL;
    }
    struct store_object *object =
        store_find(s, last.kind, store_meta(last.json, "namespace"), store_meta(last.json, "name"));
    bool was_there = before && before->change != STORE_DELETED;
    if (object) {
        json_decref(object->json);
        *object = s->objects[--s->object_count];
    }
    if (was_there) {
        keep_object(s, last.kind, json_incref(before->json));
    }
    json_decref(last.json);
}

void store_restore(struct store *s, uint64_t version)
{
    while (s->event_count > 0 && s->events[s->event_count - 1].version > version) {
        undo(s);
    }
    s->version = version;
    if (s->compacted > version) {
        s->compacted = version;
    }
}

uint64_t store_version_at(const struct store *s, struct wall at)
{
    size_t count = s->event_count;
    while (count > 0 && s->events[count - 1].at.ns > at.ns) {
        count--;
    }
    return count > 0 ? s->events[count - 1].version : 0;
}

void store_copy(const struct store *s, struct store *out)
{
    *out = *s;
    out->objects = need(reallocarray(NULL, s->object_capacity, sizeof(*s->objects)));
    out->events = need(reallocarray(NULL, s->event_capacity, sizeof(*s->events)));
    for (size_t i = 0; i < s->object_count; i++) {
        out->objects[i] = s->objects[i];
        json_incref(out->objects[i].json);
    }
    for (size_t i = 0; i < s->event_count; i++) {
        out->events[i] = s->events[i];
        json_incref(out->events[i].json);
    }
}
