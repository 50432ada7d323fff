/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/install/cni_files.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

int cni_file_put(const char *path, const struct buf *bytes, mode_t mode, bool *changed,
                 struct err *e)
{
    *changed = false;
    if (stands_already(path, bytes, mode)) {
        file_sweep(path);
        return 0;
    }
    int rc = file_replace(path, bytes->data, bytes->len, mode, e);
    if (rc != 0) {
        return rc;
    }
    *changed = true;
    return 0;
}

int cni_file_remove(const char *path, bool *removed, struct err *e)
{
    *removed = unlink(path) == 0;
    int why = errno; /* of unlink */
    file_sweep(path);
    errno = why;
    if (!*removed && errno != ENOENT) {
        return err_set_errno(e, ERR_IO, errno, "removing '%s'", path);
    }
    if (*removed) {
        file_flush_directory(path);
    }
    return 0;
}
