/* SPDX-License-Identifier: Apache-2.0 */
/* Small files: read whole, replaced at once, locked. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/err.h"
#include "base/mem.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* ---- reading --------------------------------------------------------------------------------- */

/* A regular file, through a link too, and of /proc too; never blocks; `out` bounds it.
 * Errors: ERR_NOTFOUND, ERR_AUTH, ERR_LIMIT, ERR_IO, naming the file. */
NODISCARD int file_read(const char *path, struct buf *out, struct err *e);

/* The rest of an open file or pipe; `path` is for what is said of it. Leaves nothing of it on the
 * stack. Errors: ERR_LIMIT, ERR_IO. */
NODISCARD int file_read_fd(int fd, const char *path, struct buf *out, struct err *e);

/* ---- replacing ------------------------------------------------------------------------------- */

/*
 * A small file put in the place of another: a reader meets the old one or the new one, also after a
 * power cut. Paths are absolute. It is written beside `path` under a name with a dot in front,
 * which nobody takes for a configuration or a program. Of writers at once the last one wins.
 * Errors: ERR_IO, naming what failed.
 */
NODISCARD int file_replace(const char *path, const void *bytes, size_t len, mode_t mode,
                           struct err *e);

/* Removes what killed attempts left beside `path` a minute ago or more, and nobody else's files.
 * file_replace() does. */
void file_sweep(const char *path);

/* Makes a change of the directory that holds `path` last through a power cut. */
void file_flush_directory(const char *path);

/* ---- locking --------------------------------------------------------------------------------- */

/* Whether `fd` is the file that `path` names. */
bool file_is_at(int fd, const char *path);

/* An exclusive flock on a file of its own, or on a directory ("/."), for as long as its holder
 * lives: the kernel gives it back when that ends, however it ends. */
struct file_lock {
    char path[PATH_MAX];
    int fd; /* owned; -1: not ours */
};

/* The path is `where` and `name` behind it; nothing is locked yet. Errors: ERR_LIMIT. */
NODISCARD int file_lock_init(struct file_lock *l, const char *where, const char *name,
                             struct err *e);
/* We took it, and have not given it back. */
bool file_lock_is_held(const struct file_lock *l);
/* And it is in its place: one that somebody removed under us keeps nobody out. */
bool file_lock_is_ours(const struct file_lock *l);
/* 0: it is ours, now or still. Makes the file if there is none. Never blocks.
 * Errors: ERR_CONFLICT (somebody else holds it), ERR_IO (nobody can tell: the file system). */
NODISCARD int file_lock_take(struct file_lock *l, struct err *e);
void file_lock_release(struct file_lock *l); /* accepts one that is not ours */

static inline void cleanup_dir(DIR **dir)
{
    if (*dir) {
        (void)closedir(*dir); /* read-only */
    }
}

#endif
