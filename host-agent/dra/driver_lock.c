/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/driver_lock.h"

#include "base/file.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

int driver_lock_take(struct driver_lock *l, const char *dir, const char *driver, struct err *e)
{
    char path[PATH_MAX];
    if (l->fd >= 0) {
        return 0;
    }
    int len = snprintf(path, sizeof(path), "%s/driver.lock", dir);
    if (len < 0 || len >= (int)sizeof(path)) {
        return err_set(e, ERR_LIMIT, "path of the lock in '%s' is too long", dir);
    }
    int rc = file_lock(path, &l->fd, e);
    if (rc == ERR_CONFLICT) {
        return err_set(e, ERR_CONFLICT,
                       "driver '%s' is another dpu-host-agent's: each DPU of a node needs a "
                       "--dra-driver-name of its own (lock '%s')",
                       driver, path);
    }
    return rc;
}

void driver_lock_release(struct driver_lock *l)
{
    if (l->fd >= 0) {
        (void)close(l->fd); /* which unlocks */
        l->fd = -1;
    }
}
