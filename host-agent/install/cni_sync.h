/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the conflist of dpu-gate in step with its source while the agent runs: whoever changes the
 * source, or removes or edits the conflist, is followed within moments (inotify). Only what would
 * differ is written, and what somebody else undoes is done again at most once a second. One agent
 * does so per directory: it locks that (flock), and another one waits for its end. Problems with
 * the files are logged and retried. Loop thread only. Texts are borrowed for its life.
 */
#ifndef INSTALL_CNI_SYNC_H
#define INSTALL_CNI_SYNC_H

#include "host-agent/install/cni_install.h"

struct cni_sync;
struct ev_loop;

struct cni_sync *cni_sync_start(struct ev_loop *loop, const struct cni_options *options,
                                const char *readiness_file);
void cni_sync_stop(struct cni_sync *s); /* accepts NULL; leaves the files */

#endif
