/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the configuration of dpu-gate in step with its source while the agent runs: whoever changes
 * the source, or removes or edits the configuration, is followed within moments (inotify). Only
 * what means something else is written. One agent does so per directory: it locks that (flock), and
 * another one waits for its end. Problems with the files are logged and retried. Loop thread only.
 *
 * What somebody else undoes is done again at most once a second, and the same thing three times:
 * from then on once in ten minutes, because two programs that write all the time are worse than one
 * that is wrong. Then whoever listens is told, and a file beside the record
 * (NAMES_CNI_CONTEST) says so for dpuctl: {"message": ...}. All is forgotten once ours has stood
 * for ten minutes.
 */
#ifndef INSTALL_CNI_SYNC_H
#define INSTALL_CNI_SYNC_H

#include "host-agent/install/cni_install.h"

struct cni_sync;
struct ev_loop;

struct cni_sync_config {
    struct ev_loop *loop; /* all of it is borrowed for the sync's life */
    const struct cni_options *options;
    const char *readiness_file;
    void (*on_contested)(void *user, const char *sentence); /* each contest once */
    void *user;
};

struct cni_sync *cni_sync_start(const struct cni_sync_config *config);
void cni_sync_stop(struct cni_sync *s); /* accepts NULL; leaves the files */

/* Of an agent that keeps nothing in sync: removes what one that did has told dpuctl of a contest.
 */
void cni_sync_forget(const char *readiness_file);

#endif
