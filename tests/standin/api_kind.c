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
    {.group = "events.k8s.io",
     .versions = {"v1"},
     .plural = "events",
     .kind = "Event",
     .namespaced = true,
     .create_on_update = true,
     .unconditional_update = true},
    {.group = "coordination.k8s.io",
     .versions = {"v1"},
     .plural = "leases",
     .kind = "Lease",
     .namespaced = true,
     .create_on_update = true},
    {.group = "rbac.authorization.k8s.io",
     .versions = {"v1"},
     .plural = "rolebindings",
     .kind = "RoleBinding",
     .namespaced = true,
     .unconditional_update = true},
    {.group = "resource.k8s.io",
     .versions = {"v1", "v1beta2", "v1beta1"},
     .plural = "resourceslices",
     .kind = "ResourceSlice",
     .unconditional_update = true},
    {.group = "resource.k8s.io",
     .versions = {"v1", "v1beta2", "v1beta1"},
     .plural = "resourceclaims",
     .kind = "ResourceClaim",
     .namespaced = true,
     .unconditional_update = true},
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
        return one ? API_DELETE : API_NONE;
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

json_t *api_kind_served(const struct api_kind *kind, const char *version, const json_t *object)
{
    json_t *copy = need(json_deep_copy(object));
    char text[API_NAME_BYTES];
    api_kind_version(kind, version, text);
    (void)json_object_set_new(copy, "kind", json_string(kind->kind));
    (void)json_object_set_new(copy, "apiVersion", json_string(text));
    return copy;
}
