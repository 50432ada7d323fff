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

#include "base/attr.h"
#include "base/err.h"
#include "loop/option.h"

#include <stdbool.h>

struct cni_sync;
struct ev_loop;

/* Where a node's CNI configuration is: options that install-cni, uninstall-cni and the agent share.
 */
struct cni_options {
    char *conf_dir; /* absolute */
    char *source;   /* a file name in it */
};

/* Errors: ERR_PARSE naming the option. */
NODISCARD int cni_options_check(const struct cni_options *o, const struct option_origins *origins,
                                struct err *e);

/* NOLINTBEGIN(bugprone-macro-parentheses): offsetof takes a member's name as it is */
/* clang-format off */
#define CNI_OPTION_ROWS(owner, cni_member) \
    {.name = "cni-conf-dir", .type = OPTION_TEXT, .offset = offsetof(owner, cni_member.conf_dir), \
     .default_text = "/etc/cni/net.d", .placeholder = "DIR", \
     .help = "Where the container runtime looks for CNI configuration, by the path it uses itself."}, \
    {.name = "cni-source", .type = OPTION_TEXT, .offset = offsetof(owner, cni_member.source), \
     .default_text = "10-ovn-kubernetes.conf", .placeholder = "FILE", \
     .help = "The configuration there that dpu-gate stands in front of. Its own file there is " \
             "05-dpu-gate.conflist, or 00-dpu-gate.conflist if the source sorts before that."}
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

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
