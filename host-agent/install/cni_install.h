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
#include "loop/option.h"

#include <stdbool.h>
#include <stddef.h>

enum { CNI_DIR_MAX_BYTES = 2048, CNI_NAME_MAX_BYTES = 199 };

/* Where a node's CNI configuration is: options that install-cni, uninstall-cni and the agent share.
 */
struct cni_options {
    char *conf_dir; /* absolute */
    char *bin_dir;  /* absolute */
    char *source;   /* a file name in conf_dir */
    int form;       /* enum cni_form */
};

/* What dpu-gate's own file is. */
enum cni_form { CNI_FORM_AUTO, CNI_FORM_LIST };
#define CNI_FORMS "auto|list"

/* Directory, --cni-source, and what is read in its place. */
#define CNI_SOURCE_MOVED                                                                           \
    "'%s/%s' is not there, but '%s' configures the same network, so dpu-gate calls that; set "     \
    "--cni-source to it if it stays"

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
    {OPTION_ROW("cni-bin-dir", OPTION_PATH, owner, at.bin_dir), .default_text = "/opt/cni/bin", \
     .min = 1, .max = CNI_DIR_MAX_BYTES, .placeholder = "DIR", \
     .help = "The container runtime's directory of CNI plugins."}, \
    {OPTION_ROW("cni-source", OPTION_TEXT, owner, at.source), \
     .default_text = "10-ovn-kubernetes.conf", .min = 1, .max = CNI_NAME_MAX_BYTES, \
     .placeholder = "FILE", \
     .help = "The file there that configures the plugin behind dpu-gate; if it is gone, the " \
             "first one of the same network. dpu-gate's own file is 05-dpu-gate.conf or " \
             ".conflist, or 00-dpu-gate if the source sorts before that."}, \
    {OPTION_ROW("cni-form", OPTION_CHOICE, owner, at.form), \
     .choices = CNI_FORMS, .default_text = "auto", \
     .help = "auto: dpu-gate's file is a .conf if the source is one plugin of cniVersion 1.1.0, " \
             "else a list. list: always a list, which containerd 1.7 can read."}
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

/* Runs the subcommand (install-cni, uninstall-cni) that argv[1] names; false if it names none. */
bool cni_commands_run(int argc, char **argv, char **env, int *exit_status);

/* Whether one of the subcommands has such an option: they read the agent's file. */
bool cni_commands_take(const char *key);

#endif
