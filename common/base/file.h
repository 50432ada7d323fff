/* SPDX-License-Identifier: Apache-2.0 */
/* Small files: read whole, replaced at once, locked. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/attr.h"
#include "base/err.h"
#include "base/mem.h"

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
 * A small file put in the place of another. Who reads it meanwhile meets the old one or the new
 * one, also after a power cut. Paths are absolute.
 *
 * Writes `bytes` beside `path` under a name with a dot in front, which nobody takes for a
 * configuration or a program, and moves that there. Of writers at once the last one wins.
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

/* An exclusive flock on a file, as long as it is open: the kernel gives it back when its holder
 * ends, however it ends. Makes the file if there is none. Never blocks. `*out_fd` is the caller's
 * to close, which unlocks. Errors: ERR_CONFLICT (somebody else holds it), ERR_IO. */
NODISCARD int file_lock(const char *path, int *out_fd, struct err *e);

#endif
