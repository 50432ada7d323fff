/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metadata.managedFields: which client wrote which field last, as the real server keeps it for
 * writes that are no server-side apply. Two clients differ by their name, which is their User-Agent
 * up to its '/', and by the subresource that they write. A client owns a field from when it sets or
 * changes its value until another does, or somebody removes it.
 *
 * Not here: apply, defaults that the real server fills in, and the limit of ten clients an object.
 * Which lists have keys and which objects are one value is known for the fields that our programs
 * and tests write; others count as one value.
 */
#ifndef STANDIN_MANAGED_H
#define STANDIN_MANAGED_H

#include "base/time.h"

#include <jansson.h>
#include <stdbool.h>

enum { MANAGED_NAME_BYTES = 129 };

struct managed_write {
    const char *manager; /* NULL: nobody keeps account of this write */
    const char *subresource;
    struct wall at;
};

/* The name of a client, by its User-Agent (NULL: it sends none); without one it is "unknown". */
void managed_name(const char *user_agent, char out[static MANAGED_NAME_BYTES]);

/* Sets what `after`, a new object, begins with. What its client sent of managedFields is kept. */
void managed_create(json_t *after, const struct managed_write *write);

/* Puts in place what `after` goes by: what its client sent of managedFields, else what `before`
 * has. An object without any stays so, and a client that sends [{}] makes it one. */
void managed_inherit(const json_t *before, json_t *after);

/* Counts a write that turned `before` into `after`, for which managed_inherit() was called. */
void managed_update(const json_t *before, json_t *after, const struct managed_write *write);

#endif
