/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_read.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int code_of(int error_number)
{
    return error_number == ENOENT || error_number == ENOTDIR ? ERR_NOTFOUND
           : error_number == EACCES || error_number == EPERM ? ERR_AUTH
                                                             : ERR_IO;
}

static int too_large(int fd, const char *path, size_t seen, size_t max_bytes, struct err *e)
{
    struct stat found; /* of a pipe, or in /proc, the size is said to be 0 */
    bool is_known = fstat(fd, &found) == 0 && (size_t)found.st_size > seen;
    return err_set(e, ERR_LIMIT, "'%s' (%zu bytes) is larger than the allowed %zu", path,
                   is_known ? (size_t)found.st_size : seen, max_bytes);
}

int file_read_fd(int fd, const char *path, struct buf *out, struct err *e)
{
    char chunk[8192];
    ssize_t got;
    int rc = 0;
    while (rc == 0 && (got = read(fd, chunk, sizeof(chunk))) != 0) {
        if (got > 0) {
            rc = buf_append(out, chunk, (size_t)got, e);
        } else if (errno != EINTR) {
            rc = err_set_errno(e, ERR_IO, errno, "reading '%s'", path);
        }
    }
    explicit_bzero(chunk, sizeof(chunk));
    return rc == ERR_LIMIT ? too_large(fd, path, out->len + (size_t)got, out->max_bytes, e) : rc;
}

int file_read(const char *path, struct buf *out, struct err *e)
{
    struct stat found;
    CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return err_set_errno(e, code_of(errno), errno, "opening '%s'", path);
    }
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        return err_set(e, ERR_IO, "'%s' is not a regular file", path);
    }
    return file_read_fd(fd, path, out, e);
}
