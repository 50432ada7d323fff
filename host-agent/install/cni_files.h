/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in directories that others read at any moment: each is whole or not there. A file is
 * replaced by a temporary one in the same directory (flushed) and rename, and not at all if nothing
 * would change: runtimes load their configuration anew at every write.
 */
#ifndef INSTALL_CNI_FILES_H
#define INSTALL_CNI_FILES_H

#include "base/attr.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <sys/types.h>

/* A regular file that nobody else owns or may write. */
bool cni_file_is_ours(const char *path);

/* Puts `bytes` under `path`; `*changed` tells whether the file was written, which it also is if
 * the same bytes stand there under another owner or mode. What stands there must be a regular file,
 * or nothing. What killed attempts left beside it a minute ago or more is
 * removed. Errors: ERR_IO, naming what failed. */
NODISCARD int cni_file_put(const char *path, const struct buf *bytes, mode_t mode, bool *changed,
                           struct err *e);

/* Removes a file; it not being there is fine. Errors: ERR_IO. */
NODISCARD int cni_file_remove(const char *path, bool *removed, struct err *e);

#endif
