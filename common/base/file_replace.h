/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small file put in the place of another. Who reads it meanwhile meets the old one or the new
 * one, also after a power cut. Paths are absolute.
 */
#ifndef BASE_FILE_REPLACE_H
#define BASE_FILE_REPLACE_H

#include "base/attr.h"
#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

/* Writes `bytes` beside `path` under a name with a dot in front, which nobody takes for a
 * configuration or a program, and moves that there. Of writers at once the last one wins.
 * Errors: ERR_IO, naming what failed. */
NODISCARD int file_replace(const char *path, const void *bytes, size_t len, mode_t mode,
                           struct err *e);

/* Removes what killed attempts left beside `path` a minute ago or more, and nobody else's files.
 * file_replace() does. */
void file_sweep(const char *path);

/* Makes a change of the directory that holds `path` last through a power cut. */
void file_flush_directory(const char *path);

#endif
