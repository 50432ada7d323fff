/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_read.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int code_of(int error_number)
{
    return error_number == ENOENT || error_number == ENOTDIR ? ERR_NOTFOUND
           : error_number == EACCES || error_number == EPERM ? ERR_AUTH
                                                             : ERR_IO;
}

int file_read(const char *path, struct buf *out, struct err *e)
{
    struct stat found;
    char chunk[8192];
    ssize_t got;
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return err_set_errno(e, code_of(errno), errno, "opening '%s'", path);
    }
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        return err_set(e, ERR_IO, "'%s' is not a regular file", path);
    }
    while ((got = read(fd, chunk, sizeof(chunk))) != 0) {
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return err_set_errno(e, ERR_IO, errno, "reading '%s'", path);
        }
        int rc = buf_append(out, chunk, (size_t)got, NULL);
        if (rc != 0) {
            size_t seen = out->len + (size_t)got; /* the size of a file in /proc is said to be 0 */
            size_t size = (size_t)found.st_size > seen ? (size_t)found.st_size : seen;
            return err_set(e, rc, "'%s' (%zu bytes) is larger than the allowed %zu", path, size,
                           out->max_bytes);
        }
    }
    return 0;
}
