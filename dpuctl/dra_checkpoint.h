/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health cache as a file that survives a restart: JSON, replaced as a whole. Times in it are
 * boot time, so after a reboot everything in it reads Unknown. What does not parse is as good as
 * absent: an empty cache, and a word about it.
 */
#ifndef DPUCTL_DRA_CHECKPOINT_H
#define DPUCTL_DRA_CHECKPOINT_H

#include "base/attr.h"
#include "base/err.h"
#include "dpuctl/dra_cache.h"

enum { DRA_CHECKPOINT_MAX_BYTES = 1 << 20 };

/* Replaces `path` by temporary file and rename. Errors: ERR_IO, ERR_NOMEM, ERR_LIMIT. */
NODISCARD int dra_checkpoint_write(const struct dra_cache *c, const char *boot_id, const char *path,
                                   struct err *e);

/* Fills an empty cache. Errors (the cache is empty then): ERR_NOTFOUND, ERR_IO, ERR_PARSE,
 * ERR_LIMIT. */
NODISCARD int dra_checkpoint_read(struct dra_cache *c, const char *boot_id, const char *path,
                                  struct err *e);

/* The parsing alone; for tests and the fuzzer. Errors: ERR_PARSE, ERR_LIMIT. */
NODISCARD int dra_checkpoint_parse(struct dra_cache *c, const char *boot_id, const char *text,
                                   size_t len, struct err *e);

#endif
