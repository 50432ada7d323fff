/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who writes the readiness record: an exclusive flock on "<record>.lock" beside it, for as long as
 * the process lives. The kernel gives it back when its holder ends, however it ends. Never blocks.
 */
#ifndef HOST_AGENT_WRITER_LOCK_H
#define HOST_AGENT_WRITER_LOCK_H

#include "base/attr.h"
#include "base/err.h"

#include <limits.h>

struct writer_lock {
    char path[PATH_MAX];
    int fd; /* owned; -1: not ours */
};

/* Errors: ERR_LIMIT. */
NODISCARD int writer_lock_init(struct writer_lock *l, const char *readiness_file, struct err *e);
void writer_lock_fini(struct writer_lock *l); /* gives it back */

/* 0: it is ours, now or still (a file that somebody removed under us is made and locked anew).
 * Errors: ERR_CONFLICT (another process holds it), ERR_IO (nobody can tell: the file system). */
NODISCARD int writer_lock_take(struct writer_lock *l, struct err *e);

#endif
