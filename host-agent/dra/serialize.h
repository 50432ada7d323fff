/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps Prepare and Unprepare of two instances of us apart in a rolling update: an exclusive flock
 * on `serialize.lock` in the plugin's directory, the same file that Kubernetes' own plugin helper
 * takes. Never blocks: who does not get it answers "try again", and the kubelet does. The kernel
 * gives it back when its holder dies.
 */
#ifndef DRA_SERIALIZE_H
#define DRA_SERIALIZE_H

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>

struct serialize {
    int fd;
};

/* Errors: ERR_IO naming the file, ERR_LIMIT. */
NODISCARD int serialize_open(struct serialize *s, const char *dir, struct err *e);
void serialize_close(struct serialize *s);

/* True if we may go on: it is ours until serialize_end, or `s` is NULL (one instance only). */
NODISCARD bool serialize_begin(struct serialize *s);
void serialize_end(struct serialize *s);

#endif
