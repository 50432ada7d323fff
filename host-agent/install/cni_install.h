/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts dpu-gate in front of a node's CNI plugin, keeps it there, and takes it away again.
 * docs/cni.md is what an administrator reads.
 *
 * Files are in directories that others read at any moment: each is whole or not there, and none is
 * replaced if nothing would change, because runtimes load their configuration anew at every write.
 */
#ifndef INSTALL_CNI_INSTALL_H
#define INSTALL_CNI_INSTALL_H

#include "host-agent/install/cni_options.h"

#include <stdbool.h>

struct cni_sync;
struct ev_loop;

/* Runs the subcommand (install-cni, uninstall-cni) that argv[1] names; false if it names none. */
bool cni_commands_run(int argc, char **argv, char **env, int *exit_status);

/*
 * Keeps the conflist of dpu-gate in step with its source while the agent runs: whoever changes the
 * source, or removes or edits the conflist, is followed within moments (inotify). Only what would
 * differ is written, and what somebody else undoes is done again at most once a second. One agent
 * does so per directory: it locks that (flock), and another one waits for its end. Problems with
 * the files are logged and retried. Loop thread only. Texts are borrowed for its life.
 */
struct cni_sync *cni_sync_start(struct ev_loop *loop, const struct cni_options *options,
                                const char *readiness_file);
void cni_sync_stop(struct cni_sync *s); /* accepts NULL; leaves the files */

#endif
