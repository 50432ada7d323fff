/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instances of one driver during a rolling update, in the directory that they share. Each holds
 * a lock of its own, `instance-UID.lock`, from before its sockets until after: so a free lock
 * proves that whoever had that UID is dead, however it ended. The file says whether the kubelet has
 * registered the instance: then it may be left alone with the driver's work. Loop thread only.
 */
#ifndef DRA_INSTANCE_H
#define DRA_INSTANCE_H

#include "base/err.h"
#include "base/file.h"

#include <stdbool.h>

enum { INSTANCE_UID_MAX = 200 /* bytes, so that its lock has a legal name */ };

struct instance {
    struct file_lock lock; /* its path ends with the name below */
    const char *name;      /* "instance-UID.lock"; borrowed from the path */
};

/* Nothing is locked yet. Without rolling updates the UID is "". Errors: ERR_LIMIT. */
NODISCARD int instance_init(struct instance *i, const char *plugin_dir, const char *uid,
                            struct err *e);
/* Before the sockets. Not registered yet. Errors: ERR_CONFLICT (an instance of that UID lives, or
 * its remains are being removed: try again), ERR_IO. */
NODISCARD int instance_begin(struct instance *i, struct err *e);
/* Errors: ERR_IO. */
NODISCARD int instance_say_registered(const struct instance *i, struct err *e);
/* After the sockets. Accepts one that did not begin. */
void instance_end(struct instance *i);

enum instance_others {
    INSTANCE_ALONE,
    INSTANCE_BESIDE,    /* another one lives, and no kubelet has registered it yet */
    INSTANCE_SUCCEEDED, /* another one lives and is registered */
};
enum instance_others instance_look(const struct instance *i);

/* Calls `remove` with the UID of each other instance that is dead; when that is true, its lock
 * goes, too. The lock is held meanwhile: nobody begins under that UID. */
typedef bool instance_dead_fn(void *user, const char *uid);
void instance_find_dead(const struct instance *i, instance_dead_fn *remove, void *user);

/* True: there is none any more. A socket on which somebody listens stays. */
bool instance_remove_socket(const char *path);

/* A line in a lock file, and whether it is there: what its holder serves. Errors: ERR_IO. */
NODISCARD int instance_note(int lock_fd, const char *text, struct err *e);
bool instance_is_noted(const char *lock_path, const char *text);

#endif
