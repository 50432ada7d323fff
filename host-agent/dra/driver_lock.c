/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/driver_lock.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
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
    CLEANUP(fd) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_set_errno(e, ERR_IO, errno, "opening '%s'", path);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) {
            return err_set_errno(e, ERR_IO, errno, "locking '%s'", path);
        }
        return err_set(e, ERR_CONFLICT,
                       "driver '%s' is another dpu-host-agent's: each DPU of a node needs a "
                       "--dra-driver-name of its own (lock '%s')",
                       driver, path);
    }
    l->fd = fd;
    fd = -1; /* moved */
    return 0;
}

void driver_lock_release(struct driver_lock *l)
{
    if (l->fd >= 0) {
        (void)close(l->fd); /* which unlocks */
        l->fd = -1;
    }
}
