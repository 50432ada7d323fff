/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_lock.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

int file_lock(const char *path, int *out_fd, struct err *e)
{
    CLEANUP(fd) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) {
        return err_set_errno(e, ERR_IO, errno, "opening '%s'", path);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return err_set_errno(e, errno == EWOULDBLOCK ? ERR_CONFLICT : ERR_IO, errno, "locking '%s'",
                             path);
    }
    *out_fd = fd;
    fd = -1; /* moved */
    return 0;
}
