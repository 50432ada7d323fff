/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One agent of a node is the driver of one name: an exclusive flock on `driver.lock` in the
 * plugin's directory, for as long as it lives. Two that would serve the same name (two DPUs, one
 * --dra-driver-name) would take each other's sockets and slice away. Never blocks.
 */
#ifndef DRA_DRIVER_LOCK_H
#define DRA_DRIVER_LOCK_H

#include "base/attr.h"
#include "base/err.h"

struct driver_lock {
    int fd; /* -1: not ours */
};

/* Also if it is ours already. Errors: ERR_CONFLICT (another agent's, named with `driver`), ERR_IO,
 * ERR_LIMIT. */
NODISCARD int driver_lock_take(struct driver_lock *l, const char *dir, const char *driver,
                               struct err *e);
void driver_lock_release(struct driver_lock *l); /* accepts one that is not ours */

#endif
