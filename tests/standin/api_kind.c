/* SPDX-License-Identifier: Apache-2.0 */
#include "standin/api_kind.h"

#include "base/attr.h"
#include "base/text.h"
#include "standin/need.h"

#include <stdio.h>
#include <string.h>

static const struct api_kind KINDS[] = {
    {.group = "",
     .versions = {"v1"},
     .plural = "nodes",
     .kind = "Node",
     .unconditional_update = true},
    {.group = "",
     .versions = {"v1"},
     .plural = "namespaces",
     .kind = "Namespace",
     .unconditional_update = true},
    {.group = "",
     .versions = {"v1"},
     .plural = "pods",
     .kind = "Pod",
     .namespaced = true,
     .unconditional_update = true},
    {.group = "",
     .versions = {"v1"},
     .plural = "events",
     .kind = "Event",
     .namespaced = true,
     .create_on_update = true,
     .unconditional_update = true},
    {.group = "events.k8s.io",
     .versions = {"v1"},
     .plural = "events",
     .kind = "Event",
     .namespaced = true,
     .create_on_update = true,
     .unconditional_update = true,
     .stored_as_core_event = true},
    {.group = "coordination.k8s.io",
     .versions = {"v1"},
     .plural = "leases",
     .kind = "Lease",
     .namespaced = true,
     .create_on_update = true},
    {.group = "resource.k8s.io",
     .versions = {"v1", "v1beta2", "v1beta1"},
     .plural = "resourceslices",
     .kind = "ResourceSlice",
     .delete_returns_object = true,
     .unconditional_update = true},
    {.group = "resource.k8s.io",
     .versions = {"v1", "v1beta2", "v1beta1"},
     .plural = "resourceclaims",
     .kind = "ResourceClaim",
     .delete_returns_object = true,
     .namespaced = true,
     .unconditional_update = true},
};

/* core Event field, events.k8s.io Event field (k8s.io/api/events/v1 conversion). */
static const char *const EVENT_FIELDS[][2] = {
    {"involvedObject", "regarding"},
    {"message", "note"},
    {"source", "deprecatedSource"},
    {"firstTimestamp", "deprecatedFirstTimestamp"},
    {"lastTimestamp", "deprecatedLastTimestamp"},
    {"count", "deprecatedCount"},
    {"reportingComponent", "reportingController"},
};

const char *api_verb_name(enum api_verb verb)
{
    switch (verb) {
    case API_GET:
        return "get";
    case API_LIST:
        return "list";
    case API_WATCH:
        return "watch";
    case API_CREATE:
        return "create";
    case API_UPDATE:
        return "update";
    case API_PATCH:
        return "patch";
    case API_DELETE:
        return "delete";
    case API_DELETE_COLLECTION:
        return "deletecollection";
    case API_NONE:
        break;
    }
    return "none";
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

const struct api_kind *api_kind_storage(const struct api_kind *kind)
{
    return kind->stored_as_core_event ? api_kind_find("", "events") : kind;
}

static bool serves_version(const struct api_kind *kind, const char *version)
{
    for (size_t i = 0; i < ARRAY_LEN(kind->versions) && kind->versions[i]; i++) {
        if (strcmp(kind->versions[i], version) == 0) {
            return true;
        }
    }
    return false;
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

static bool parse_group(const char **path, char *group, struct api_target *out)
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
    return next_segment(path, out->version, sizeof(out->version));
}

static bool group_serves(const char *group, const char *version)
{
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++) {
        if (strcmp(KINDS[i].group, group) == 0 && serves_version(&KINDS[i], version)) {
            return true;
        }
    }
    return false;
}

bool api_target_parse(const char *path, struct api_target *out)
{
    char group[API_NAME_BYTES] = "";
    char plural[API_NAME_BYTES];

    *out = (struct api_target){.verb = API_NONE};
    if (!parse_group(&path, group, out)) {
        return false;
    }
    out->group_served = group_serves(group, out->version);
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
    if (!out->kind || !serves_version(out->kind, out->version) || *path != '\0') {
        return false;
    }
    bool names_namespace = out->ns[0] != '\0';
    bool all_namespaces = out->kind->namespaced && !names_namespace && out->name[0] == '\0';
    return names_namespace == out->kind->namespaced || all_namespaces;
}

enum api_verb api_verb_for(const char *method, const struct api_target *target, bool watch)
{
    bool one = target->name[0] != '\0';
    if (strcmp(method, "GET") == 0) {
        return one && !watch ? API_GET : watch ? API_WATCH : API_LIST;
    }
    if (strcmp(method, "POST") == 0) {
        return one ? API_NONE : API_CREATE;
    }
    if (strcmp(method, "PUT") == 0) {
        return one ? API_UPDATE : API_NONE;
    }
    if (strcmp(method, "PATCH") == 0) {
        return one ? API_PATCH : API_NONE;
    }
    if (strcmp(method, "DELETE") == 0) {
        return one ? API_DELETE : API_DELETE_COLLECTION;
    }
    return API_NONE;
}

void api_kind_resource(const struct api_kind *kind, char out[static API_NAME_BYTES])
{
    (void)snprintf(out, API_NAME_BYTES, "%s%s%s", kind->plural, kind->group[0] ? "." : "",
                   kind->group);
}

void api_kind_version(const struct api_kind *kind, const char *version,
                      char out[static API_NAME_BYTES])
{
    (void)snprintf(out, API_NAME_BYTES, "%s%s%s", kind->group, kind->group[0] ? "/" : "", version);
}

static void rename_member(json_t *object, const char *from, const char *to)
{
    json_t *value = json_object_get(object, from);
    if (value) {
        (void)json_object_set(object, to, value); /* a test tool: losing a field shows */
        (void)json_object_del(object, from);
    }
}

static void convert_event(json_t *event, bool to_core)
{
    for (size_t i = 0; i < ARRAY_LEN(EVENT_FIELDS); i++) {
        rename_member(event, EVENT_FIELDS[i][to_core ? 1 : 0], EVENT_FIELDS[i][to_core ? 0 : 1]);
    }
}

/* v1beta1 devices have all but their name under "basic". */
static void convert_slice(json_t *slice, bool to_v1beta1)
{
    json_t *devices = json_object_get(json_object_get(slice, "spec"), "devices");
    size_t i;
    json_t *device;
    json_array_foreach(devices, i, device)
    {
        json_t *basic = json_object_get(device, "basic");
        json_t *flat = need(json_object());
        json_t *name = json_object_get(device, "name");
        if (to_v1beta1) {
            (void)json_object_update(flat, device);
            (void)json_object_del(flat, "name");
            json_t *nested = need(json_pack("{s:o}", "basic", flat));
            flat = nested;
        } else if (basic) {
            (void)json_object_update(flat, basic);
        } else {
            (void)json_object_update(flat, device);
        }
        if (name) {
            (void)json_object_set(flat, "name", name);
        }
        (void)json_array_set_new(devices, i, flat);
    }
}

static json_t *convert(const struct api_kind *kind, const char *version, const json_t *object,
                       bool to_stored)
{
    json_t *copy = need(json_deep_copy(object));
    char text[API_NAME_BYTES];
    const struct api_kind *storage = api_kind_storage(kind);

    api_kind_version(to_stored ? storage : kind, to_stored ? storage->versions[0] : version, text);
    (void)json_object_set_new(copy, "kind", json_string(kind->kind));
    (void)json_object_set_new(copy, "apiVersion", json_string(text));
    if (kind->stored_as_core_event) {
        convert_event(copy, to_stored);
    }
    if (strcmp(kind->plural, "resourceslices") == 0 && strcmp(version, "v1beta1") == 0) {
        convert_slice(copy, !to_stored);
    }
    return copy;
}

json_t *api_kind_to_stored(const struct api_kind *kind, const char *version, const json_t *object)
{
    return convert(kind, version, object, true);
}

json_t *api_kind_to_served(const struct api_kind *kind, const char *version, const json_t *object)
{
    return convert(kind, version, object, false);
}
