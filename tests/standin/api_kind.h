/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of object the stand-in serves, and how a request line names them. Pure.
 *
 * An object is kept as it was written and served under each version's name; nothing is converted.
 */
#ifndef STANDIN_API_KIND_H
#define STANDIN_API_KIND_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { API_NAME_BYTES = 512, API_VERSION_BYTES = 64 };

enum api_verb {
    API_NONE,
    API_GET,
    API_LIST,
    API_WATCH,
    API_CREATE,
    API_UPDATE,
    API_PATCH,
    API_DELETE,
};

struct api_kind {
    const char *group;       /* "" for core */
    const char *versions[4]; /* NULL-terminated */
    const char *plural;
    const char *kind;
    bool namespaced;
    bool create_on_update;     /* PUT to a missing name creates it */
    bool unconditional_update; /* PUT without resourceVersion is allowed */
};

/* What a request line asks for. Texts are copies, "" if absent. */
struct api_target {
    bool group_served; /* the path's group and version exist, whatever the rest means */
    enum api_verb verb;
    const struct api_kind *kind;
    char version[API_VERSION_BYTES];
    char ns[API_NAME_BYTES];
    char name[API_NAME_BYTES];
    char subresource[API_VERSION_BYTES];
};

/* "get", "list" ... as RBAC spells them. */
const char *api_verb_name(enum api_verb verb);

/*
 * Splits a path ("/apis/coordination.k8s.io/v1/namespaces/a/leases/b"). Sets everything but the
 * verb. Returns false if no served resource is meant.
 */
bool api_target_parse(const char *path, struct api_target *out);

/* The verb of an HTTP method on a target; API_NONE if it has none (405). */
enum api_verb api_verb_for(const char *method, const struct api_target *target, bool watch);

/* "leases.coordination.k8s.io", or "nodes" for core: as error messages name it. */
void api_kind_resource(const struct api_kind *kind, char out[static API_NAME_BYTES]);

/* "coordination.k8s.io/v1", or "v1". */
void api_kind_version(const struct api_kind *kind, const char *version,
                      char out[static API_NAME_BYTES]);

/* The kind of that plural in a group, or NULL. */
const struct api_kind *api_kind_find(const char *group, const char *plural);

/* A deep copy of an object under the name of that version. Returns owned (json_decref). */
json_t *api_kind_served(const struct api_kind *kind, const char *version, const json_t *object);

#endif
