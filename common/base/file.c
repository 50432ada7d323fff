/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- reading --------------------------------------------------------------------------------- */

static int code_of(int error_number)
{
    return error_number == ENOENT || error_number == ENOTDIR ? ERR_NOTFOUND
           : error_number == EACCES || error_number == EPERM ? ERR_AUTH
                                                             : ERR_IO;
}

int file_read_fd(int fd, const char *path, struct buf *out, struct err *e)
{
    char chunk[8192];
    ssize_t got;
    int rc = 0;
    while (rc == 0 && (got = read(fd, chunk, sizeof(chunk))) != 0) {
        if (got > 0 && buf_append(out, chunk, (size_t)got, NULL) != 0) {
            rc = err_set(e, ERR_LIMIT, "'%s' has more than the allowed %zu bytes", path,
                         out->max_bytes);
        } else if (got < 0 && errno != EINTR) {
            rc = err_set_errno(e, ERR_IO, errno, "reading '%s'", path);
        }
    }
    explicit_bzero(chunk, sizeof(chunk));
    return rc;
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

/* ---- replacing ------------------------------------------------------------------------------- */

enum { LEFTOVER_SECONDS = 60 };

/* Between the file's name and what mkostemp makes up: files that others put beside it, like a
 * backup, are not called so. */
#define MARK   ".dpu-new."
#define RANDOM "XXXXXX"

static int write_all(int fd, const char *bytes, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t put = write(fd, bytes + done, len - done);
        if (put < 0 && errno != EINTR) {
            return -1;
        }
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

void file_flush_directory(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    text_format(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
    CLEANUP(fd) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd); /* after a power cut the old file would do as well */
    }
}

static bool is_temporary_of(const char *entry, const char *name)
{
    size_t len = strlen(name);
    return entry[0] == '.' && strncmp(entry + 1, name, len) == 0 &&
           strncmp(entry + 1 + len, MARK, strlen(MARK)) == 0 &&
           strlen(entry + 1 + len) == strlen(MARK RANDOM);
}

/* A fresh one may be somebody's who is at it. */
void file_sweep(const char *path)
{
    char parent[PATH_MAX];
    struct stat found;
    const char *slash = strrchr(path, '/');
    text_format(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
    CLEANUP(dir) DIR *dir = opendir(parent);
    time_t now = time(NULL);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (is_temporary_of(entry->d_name, slash + 1) &&
            fstatat(dirfd(dir), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(found.st_mode) && found.st_mtime < now - LEFTOVER_SECONDS) {
            (void)unlinkat(dirfd(dir), entry->d_name, 0); /* next time, then */
        }
    }
}

int file_replace(const char *path, const void *bytes, size_t len, mode_t mode, struct err *e)
{
    char temporary[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int size = snprintf(temporary, sizeof(temporary), "%.*s/.%s" MARK RANDOM, (int)(slash - path),
                        path, slash + 1);
    if (size >= (int)sizeof(temporary)) {
        return err_set(e, ERR_IO, "the path is too long: '%s'", path);
    }
    file_sweep(path);
    CLEANUP(fd) int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        return err_set_errno(e, ERR_IO, errno, "creating '%s'", temporary);
    }
    int rc = 0;
    if (write_all(fd, bytes, len) != 0 || fchmod(fd, mode) != 0 || fsync(fd) != 0) {
        rc = err_set_errno(e, ERR_IO, errno, "writing '%s'", temporary);
    } else if (rename(temporary, path) != 0) {
        rc = err_set_errno(e, ERR_IO, errno, "moving '%s' to '%s'", temporary, path);
    }
    if (rc != 0) {
        (void)unlink(temporary); /* what is left of the attempt */
        return rc;
    }
    file_flush_directory(path);
    return 0;
}

/* ---- locking --------------------------------------------------------------------------------- */

bool file_is_at(int fd, const char *path)
{
    struct stat held;
    struct stat at_path;
    return fd >= 0 && fstat(fd, &held) == 0 && lstat(path, &at_path) == 0 &&
           held.st_dev == at_path.st_dev && held.st_ino == at_path.st_ino;
}

int file_lock_init(struct file_lock *l, const char *where, const char *name, struct err *e)
{
    l->fd = -1;
    int len = snprintf(l->path, sizeof(l->path), "%s%s", where, name);
    if (len >= (int)sizeof(l->path)) {
        return err_set(e, ERR_LIMIT,
                       "the path of the lock beside '%.64s...' has %d bytes, too many", where, len);
    }
    return 0;
}

bool file_lock_is_held(const struct file_lock *l)
{
    return l->fd >= 0;
}

bool file_lock_is_ours(const struct file_lock *l)
{
    return file_is_at(l->fd, l->path);
}

int file_lock_take(struct file_lock *l, struct err *e)
{
    if (file_lock_is_ours(l)) {
        return 0;
    }
    CLEANUP(fd)
    int fd = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0 && errno == EISDIR) {
        fd = open(l->path, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0) {
        return err_set_errno(e, ERR_IO, errno, "opening '%s'", l->path);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return err_set_errno(e, errno == EWOULDBLOCK ? ERR_CONFLICT : ERR_IO, errno, "locking '%s'",
                             l->path);
    }
    if (!file_is_at(fd, l->path)) {
        return err_set(e, ERR_IO, "somebody replaced '%s' while it was locked", l->path);
    }
    file_lock_release(l);
    l->fd = take_fd(&fd);
    return 0;
}

void file_lock_release(struct file_lock *l)
{
    if (l->fd >= 0) {
        (void)close(l->fd); /* which unlocks */
        l->fd = -1;
    }
}
