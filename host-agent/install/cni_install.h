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

#include "base/err.h"
#include "base/mem.h"
#include "loop/option.h"

#include <stdbool.h>
#include <stddef.h>

struct cni_sync;
struct ev_loop;

/* ---- the configuration, as text ---------------------------------------------------------------
 *
 * A source with one plugin is wrapped: dpu-gate reads it itself at each call (delegateConf), so
 * what the runtime has to know of it is in the list, network name and capabilities, and a copy of
 * it (lastDelegate), by which pods are removed once it is gone. A source with several is chained:
 * dpu-gate first, then the source's own plugins and list keys, byte for byte. Either way cniVersion
 * is 1.0.0, which containerd 1.7 can read, and cniVersions goes up to 1.1.0, without which no
 * runtime calls STATUS (docs/cni.md).
 */

/* Of a source: many times what any plugin's configuration has. */
enum { CONFLIST_MAX_BYTES = 1 << 20 };

struct conflist_request {
    const char *source_path; /* absolute, as the runtime sees it */
    const char *standing;    /* the conflist to be replaced; NULL for none, or not believed */
    size_t standing_len;
    const char *readiness_file; /* absolute */
};

/* `source` NULL: it does not exist (yet); the gate then answers STATUS with 50, and all that came
 * from the source is what stands. Appends to `out`. Errors: ERR_PARSE if the source is no network
 * configuration, or holds dpu-gate itself; ERR_LIMIT. */
NODISCARD int conflist_plan(const char *source, size_t len, const struct conflist_request *request,
                            struct buf *out, struct err *e);

/* Does this configuration have dpu-gate as its first plugin? False for what cannot be parsed. */
bool conflist_is_gated(const char *text, size_t len);

/* ---- options and commands -------------------------------------------------------------------- */

enum { CNI_DIR_MAX_BYTES = 2048, CNI_NAME_MAX_BYTES = 199 };

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
#define CNI_OPTION_ROWS(owner, at) \
    {OPTION_ROW("cni-conf-dir", OPTION_PATH, owner, at.conf_dir), \
     .default_text = "/etc/cni/net.d", .min = 1, .max = CNI_DIR_MAX_BYTES, .placeholder = "DIR", \
     .help = "The container runtime's directory of CNI configuration, by the path that the " \
             "runtime uses."}, \
    {OPTION_ROW("cni-source", OPTION_TEXT, owner, at.source), \
     .default_text = "10-ovn-kubernetes.conf", .min = 1, .max = CNI_NAME_MAX_BYTES, \
     .placeholder = "FILE", \
     .help = "The file there that configures the plugin behind dpu-gate. dpu-gate's own file " \
             "is 05-dpu-gate.conflist, or 00-dpu-gate.conflist if the source sorts before " \
             "that."}
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
