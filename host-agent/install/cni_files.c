/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/cni_files.h"

#include "base/cleanup.h"
#include "base/file_read.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LEFTOVER_SECONDS = 60 };

bool cni_file_is_ours(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid() &&
           (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static bool stands_already(const char *path, const struct buf *bytes, mode_t mode)
{
    struct stat found;
    CLEANUP(buf) struct buf old;
    buf_init(&old, bytes->len);
    return cni_file_is_ours(path) && stat(path, &found) == 0 && (found.st_mode & 07777) == mode &&
           (size_t)found.st_size == bytes->len && file_read(path, &old, NULL) == 0 &&
           old.len == bytes->len && memcmp(buf_text(&old), buf_text(bytes), bytes->len) == 0;
}

static int write_all(int fd, const struct buf *bytes)
{
    size_t done = 0;
    while (done < bytes->len) {
        ssize_t put = write(fd, bytes->data + done, bytes->len - done);
        if (put < 0 && errno != EINTR) {
            return -1;
        }
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

static void flush_directory(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    text_format(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
    CLEANUP(fd) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd); /* after a power cut the old file would do as well */
    }
}

static inline void cleanup_dir(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir); /* read-only */
    }
}

static bool is_temporary_of(const char *entry, const char *name)
{
    size_t len = strlen(name);
    return entry[0] == '.' && strncmp(entry + 1, name, len) == 0 && entry[1 + len] == '.' &&
           strlen(entry + 1 + len) == sizeof(".XXXXXX") - 1;
}

/* Removes what killed attempts left beside `path`. A fresh one may be somebody's who is at it. */
static void sweep(const char *path)
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

static int write_temporary(char *temporary, const struct buf *bytes, mode_t mode, struct err *e)
{
    CLEANUP(fd) int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        return err_set_errno(e, ERR_IO, errno, "creating '%s'", temporary);
    }
    if (write_all(fd, bytes) != 0 || fchmod(fd, mode) != 0 || fsync(fd) != 0) {
        int rc = err_set_errno(e, ERR_IO, errno, "writing '%s'", temporary);
        (void)unlink(temporary); /* what is left of the attempt */
        return rc;
    }
    return 0;
}

int cni_file_put(const char *path, const struct buf *bytes, mode_t mode, bool *changed,
                 struct err *e)
{
    char temporary[PATH_MAX];
    const char *slash = strrchr(path, '/');
    *changed = false;
    sweep(path);
    if (stands_already(path, bytes, mode)) {
        return 0;
    }
    /* A name that no runtime takes for a configuration or a plugin. */
    int size = snprintf(temporary, sizeof(temporary), "%.*s/.%s.XXXXXX", (int)(slash - path), path,
                        slash + 1);
    if (size >= (int)sizeof(temporary)) {
        return err_set(e, ERR_IO, "'%s' is too long a path", path);
    }
    int rc = write_temporary(temporary, bytes, mode, e);
    if (rc != 0) {
        return rc;
    }
    if (rename(temporary, path) != 0) {
        rc = err_set_errno(e, ERR_IO, errno, "moving '%s' to '%s'", temporary, path);
        (void)unlink(temporary); /* same */
        return rc;
    }
    flush_directory(path);
    *changed = true;
    return 0;
}

int cni_file_remove(const char *path, bool *removed, struct err *e)
{
    *removed = unlink(path) == 0;
    int why = errno; /* of unlink */
    sweep(path);
    errno = why;
    if (!*removed && errno != ENOENT) {
        return err_set_errno(e, ERR_IO, errno, "removing '%s'", path);
    }
    if (*removed) {
        flush_directory(path);
    }
    return 0;
}
