/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ResourceSlice as it should be, laid over the one that is. Knows JSON, but no API server.
 *
 * One node, one pool, one slice, one device. The wanted content is laid over a copy of what the
 * server has; if that changes nothing, nothing has to be written. So fields that a server adds
 * (taints[].timeAdded, defaults of a newer version) stay as they are and never cause a write, and
 * with one slice in the pool every change is one atomic update that keeps the pool's generation.
 *
 * A server whose feature gates are off drops fields without a word. slice_find_dropped sees that
 * in its answer; the plan then leaves them out. Without taints the only way to keep the scheduler
 * off an unhealthy device is not to offer it, so that is what the plan does then.
 *
 * A server may ignore a selector and a name may be taken, so driver, node and pool of each slice
 * are looked at before anybody touches it.
 */
#ifndef DRA_SLICE_PLAN_H
#define DRA_SLICE_PLAN_H

#include "contract/names.h"
#include "contract/readiness.h"
#include "host-agent/dra/dra_names.h"

#include <jansson.h>
#include <stdbool.h>

enum { SLICE_TAINT_VALUE_BYTES = 64 /* a label value */ };

enum slice_effect {
    SLICE_EFFECT_NO_SCHEDULE, /* not given to new claims */
    SLICE_EFFECT_NO_EXECUTE,  /* and pods that use it are evicted */
    SLICE_EFFECT_NONE,        /* information only */
    SLICE_EFFECT_OFF,         /* no taint at all */
};

struct slice_taint {
    bool is_set;
    char value[SLICE_TAINT_VALUE_BYTES];
};

/* Fields that the server does not keep. */
struct slice_dropped {
    bool taints;
    bool multiple_allocations;
};

/* All borrowed. */
struct slice_spec {
    const char *driver;
    const char *node_name;
    const char *node_uid; /* NULL: unknown; the slice gets no owner */
    const char *pool;
    const char *device;
    const struct attribute_list *attributes;
    enum slice_effect effect;
};

/* The device is tainted exactly while CNI ADD would be refused, so that the scheduler sends no pod
 * where its network cannot come up. The taint's value is the reason: a sentence does not fit. */
struct slice_taint slice_taint_of(const struct readiness *verdict);

/* "<driver>-<node>", hashed at the end where that is no valid name: the same for every instance
 * on this node, so that two of them in a rolling update share one slice. */
void slice_make_name(const char *driver, const char *node_name,
                     char out[static NAMES_K8S_NAME_BYTES]);

/* What the server should have, given what it has (NULL: nothing). Returns owned. */
json_t *slice_plan(const struct slice_spec *spec, const struct slice_taint *taint,
                   struct slice_dropped dropped, const json_t *existing);
/* Both say the same of devices and owner, whatever else changed. */
bool slice_says_same(const json_t *a, const json_t *b);

/* What of `sent` the server left out of its `answer`. */
struct slice_dropped slice_find_dropped(const json_t *sent, const json_t *answer);

/* Its driver and node are ours: a name alone may be another's. */
bool slice_is_ours(const struct slice_spec *spec, const json_t *slice);
/* It is being deleted, and a finalizer holds it. */
bool slice_is_ending(const json_t *slice);

/* Of a list, borrowed from it. */
struct slice_snapshot {
    json_t *own;          /* the slice of our name, whoever made it; NULL: there is none */
    const char *obsolete; /* another of our driver, node and pool, to be removed; or NULL */
};
struct slice_snapshot slice_find(const struct slice_spec *spec, const char *own_name,
                                 const json_t *list);

#endif
