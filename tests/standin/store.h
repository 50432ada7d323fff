/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of object that the stand-in serves, how a request line names them, and the objects with
 * their history: one resourceVersion counter, a log of changes to resume watches from, compaction,
 * and the way back. No lock and no clock of its own: the caller has both. Stored trees are never
 * changed in place, only replaced. The simulator has the same.
 */
#ifndef STANDIN_STORE_H
#define STANDIN_STORE_H

#include "base/clock.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A test tool: out of memory ends it. Returns `pointer`. */
static inline void *need(void *pointer)
{
    if (!pointer) {
        fputs("standin: out of memory\n", stderr);
        abort();
    }
    return pointer;
}

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

enum {
    API_NAMESPACED = 1 << 0,
    API_CREATE_ON_UPDATE = 1 << 1,     /* PUT to a missing name creates it */
    API_UNCONDITIONAL_UPDATE = 1 << 2, /* PUT without resourceVersion is allowed */
};

struct api_kind {
    const char *group; /* "" for core */
    const char *plural;
    const char *kind;
    unsigned flags;
};

/* What a request line asks for. Texts are copies, "" if absent. */
struct api_target {
    bool group_served; /* the path's group and version exist, whatever the rest means */
    enum api_verb verb;
    const struct api_kind *kind;
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
void api_kind_version(const struct api_kind *kind, char out[static API_NAME_BYTES]);

/* The kind of that plural in a group, or NULL. */
const struct api_kind *api_kind_find(const char *group, const char *plural);

enum store_change { STORE_ADDED, STORE_MODIFIED, STORE_DELETED };

/* "ADDED" ... as a watch says it. */
const char *store_change_name(enum store_change change);

struct store_object {
    const struct api_kind *kind;
    json_t *json; /* owned; complete with metadata */
};

struct store_event {
    uint64_t version;
    struct wall at;
    enum store_change change;
    const struct api_kind *kind;
    json_t *json; /* owned; as it was after the change */
};

struct store {
    struct wall now;    /* set by the caller before he writes */
    uint64_t last_uid;  /* given; never goes back */
    uint64_t version;   /* of the last change */
    uint64_t compacted; /* history up to here is gone */
    struct store_object *objects;
    size_t object_count;
    size_t object_capacity;
    struct store_event *events;
    size_t event_count;
    size_t event_capacity;
};

void store_init(struct store *s, uint64_t first_version);
void store_fini(struct store *s);

/* NULL if absent. Borrowed until the next change. `ns` is "" for cluster-wide kinds. */
struct store_object *store_find(struct store *s, const struct api_kind *kind, const char *ns,
                                const char *name);

/* Stamp a new resourceVersion on `json` (takes it), keep it, and log the change. Return the
 * object as stored, borrowed. */
json_t *store_add(struct store *s, const struct api_kind *kind, json_t *json);
json_t *store_replace(struct store *s, struct store_object *object, json_t *json);
/* Returns the last state with the deletion's resourceVersion; owned. */
json_t *store_remove(struct store *s, struct store_object *object);

/* New watches can no longer start from before now. */
void store_compact(struct store *s);

/* Goes back to what was at that version, as an etcd restored from a backup does. What is older than
 * the log stays. */
void store_restore(struct store *s, uint64_t version);

/* The version at a moment; 0: the log does not go that far back. */
uint64_t store_version_at(const struct store *s, struct wall at);

/* A second store with the same in it. */
void store_copy(const struct store *s, struct store *out);

/* metadata.namespace, metadata.name, metadata.uid; "" if absent. */
const char *store_meta(const json_t *object, const char *key);

#endif
