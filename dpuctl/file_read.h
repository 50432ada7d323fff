/* SPDX-License-Identifier: Apache-2.0 */
/* A small file of the node, whole. */
#ifndef DPUCTL_FILE_READ_H
#define DPUCTL_FILE_READ_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

/* Never blocks; `out` bounds it. Files of /proc, too. Errors: ERR_NOTFOUND, ERR_AUTH, ERR_LIMIT,
 * ERR_IO, naming the file. */
NODISCARD int file_read(const char *path, struct buf *out, struct err *e);

#endif
