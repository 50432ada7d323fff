/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what the server says of slices: which one is ours, which is in our way, which is none of
 * our business. No I/O. A server may ignore a selector and a name may be taken, so driver, node
 * and pool of each item are looked at before anybody touches it.
 */
#ifndef DRA_SLICE_LOOK_H
#define DRA_SLICE_LOOK_H

#include "base/attr.h"
#include "host-agent/dra/slice_plan.h"

#include <jansson.h>
#include <stdbool.h>

/* Borrowed from the list. */
struct slice_look {
    const json_t *own;    /* the slice of our name, whoever made it; NULL: there is none */
    const char *obsolete; /* another of our driver, node and pool, to be removed; or NULL */
};

struct slice_look slice_look(const struct slice_spec *spec, const char *own_name,
                             const json_t *list);

/* Its driver and node are ours: a name alone may be another's. */
bool slice_is_ours(const struct slice_spec *spec, const json_t *slice);

/* It is being deleted, and a finalizer holds it. */
bool slice_is_ending(const json_t *slice);

/* Both say the same of devices and owner, whatever else changed. False for NULL. */
bool slice_says_same(const json_t *a, const json_t *b);

/* A copy with kind and version, which an item of a list lacks. Returns owned; NULL for NULL, and
 * when out of memory. */
json_t *slice_copy(const json_t *slice, enum slice_version version);

#endif
