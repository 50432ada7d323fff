/* SPDX-License-Identifier: Apache-2.0 */
/* A small file, whole. */
#ifndef BASE_FILE_READ_H
#define BASE_FILE_READ_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

/* A regular file, through a link too, and of /proc too; never blocks; `out` bounds it.
 * Errors: ERR_NOTFOUND, ERR_AUTH, ERR_LIMIT, ERR_IO, naming the file. */
NODISCARD int file_read(const char *path, struct buf *out, struct err *e);

/* The rest of an open file or pipe; `path` is for what is said of it. Leaves nothing of it on the
 * stack. Errors: ERR_LIMIT, ERR_IO. */
NODISCARD int file_read_fd(int fd, const char *path, struct buf *out, struct err *e);

#endif
