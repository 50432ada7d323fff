/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of the stand-in and their history: one global resourceVersion counter, a log of
 * changes to resume watches from, compaction, and a snapshot to go back to. No lock of its own:
 * the caller holds struct standin's. Stored trees are never changed in place, only replaced.
 */
#ifndef STANDIN_STORE_H
#define STANDIN_STORE_H

#include "standin/api_kind.h"

enum { STORE_MAX_EVENTS = 100000 }; /* older ones are compacted away */

enum store_change { STORE_ADDED, STORE_MODIFIED, STORE_DELETED };

struct store_object {
    const struct api_kind *kind;
    json_t *json; /* owned; complete with metadata */
};

struct store_event {
    uint64_t version;
    enum store_change change;
    const struct api_kind *kind;
    json_t *json; /* owned; as it was after the change */
};

struct store {
    uint64_t version;   /* of the last change */
    uint64_t compacted; /* history up to here is gone */
    struct store_object *objects;
    size_t object_count;
    size_t object_capacity;
    struct store_event *events;
    size_t event_count;
    size_t event_capacity;
    json_t *snapshot; /* [version, [object...]] or NULL */
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

/* Keeps a copy of all objects and the counter / goes back to it (false if there is none), as an
 * etcd restored from a backup does. */
void store_snapshot(struct store *s);
bool store_restore(struct store *s);

/* metadata.namespace, metadata.name, metadata.uid; "" if absent. */
const char *store_meta(const json_t *object, const char *key);

#endif
