/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the conflist of dpu-gate in step with its source while the agent runs: whoever changes the
 * source, or removes or edits the conflist, is followed within moments (inotify). Only what would
 * differ is written, and what somebody else undoes is done again at most once a second. Loop thread
 * only. One agent does so per directory: it locks that (flock), and another one waits for its end.
 */
#ifndef INSTALL_CNI_SYNC_H
#define INSTALL_CNI_SYNC_H

#include "base/attr.h"
#include "base/err.h"
#include "host-agent/install/cni_options.h"

struct ev_loop;
struct cni_sync;

/* Texts are borrowed for its life. Problems with the files are logged and retried. Errors:
 * ERR_NOMEM, ERR_IO (no inotify). */
NODISCARD int cni_sync_start(struct ev_loop *loop, const struct cni_options *options,
                             const char *readiness_file, struct cni_sync **out, struct err *e);
void cni_sync_stop(struct cni_sync *s); /* accepts NULL; leaves the files */

#endif
