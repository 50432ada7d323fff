/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin that does the work. It takes our place by exec: the same process, its configuration
 * on stdin as a memfd, so that there is nothing to relay and nothing left behind when the runtime
 * kills us.
 */
#ifndef CNI_DELEGATE_H
#define CNI_DELEGATE_H

#include "base/mem.h"
#include "cni/reply.h"

#include <limits.h>

/*
 * Finds the plugin `type` along `path` (CNI_PATH): the first regular file of that name; empty and
 * relative elements are skipped, and finding ourselves is an error. Returns 0 or the error's code.
 */
int delegate_find(const char *type, const char *path, char out_file[static PATH_MAX],
                  struct cni_error *error);

/* Becomes the plugin. Returns only on failure: the error's code. "Text file busy", which is an
 * installer at work, is retried DELEGATE_BUSY_TRIES times, DELEGATE_BUSY_PAUSE_MS apart. */
enum { DELEGATE_BUSY_TRIES = 20, DELEGATE_BUSY_PAUSE_MS = 100 };
int delegate_exec(const char *file, const struct buf *config, struct cni_error *error);

/* ---- for whoever runs it in another way -------------------------------------------------------
 */

/* The configuration as a file in memory, at its start. Returns an fd, or -1 with errno. */
int delegate_config_fd(const struct buf *config);

/* Returns only on failure: errno of the last try. */
int delegate_exec_patiently(const char *file);
int delegate_fail_to_run(const char *file, int sys_errno, struct cni_error *error);

#endif
