/* SPDX-License-Identifier: Apache-2.0 */
/* Where a node's CNI configuration is: options that install-cni, uninstall-cni and the agent share.
 */
#ifndef INSTALL_CNI_OPTIONS_H
#define INSTALL_CNI_OPTIONS_H

#include "base/attr.h"
#include "base/err.h"
#include "loop/option.h"

struct cni_options {
    char *conf_dir; /* absolute */
    char *source;   /* a file name in it */
};

enum { CNI_DIR_MAX_BYTES = 2048 };

#define CNI_DEFAULT_CONF_DIR "/etc/cni/net.d"

/* The configuration of dpu-gate, a file name beside the source: it sorts before that, because a
 * runtime takes the first one by name. Static. */
const char *cni_options_conflist(const struct cni_options *o);

/* Errors: ERR_PARSE naming the option. */
NODISCARD int cni_options_check(const struct cni_options *o, const struct option_origins *origins,
                                struct err *e);

/* NOLINTBEGIN(bugprone-macro-parentheses): offsetof takes a member's name as it is */
/* clang-format off */
#define CNI_OPTION_ROWS(owner, cni_member) \
    {.name = "cni-conf-dir", .type = OPTION_TEXT, .offset = offsetof(owner, cni_member.conf_dir), \
     .default_text = CNI_DEFAULT_CONF_DIR, .placeholder = "DIR", \
     .help = "Where the container runtime looks for CNI configuration, by the path it uses itself."}, \
    {.name = "cni-source", .type = OPTION_TEXT, .offset = offsetof(owner, cni_member.source), \
     .default_text = "10-ovn-kubernetes.conf", .placeholder = "FILE", \
     .help = "The configuration there that dpu-gate stands in front of. Its own file there is " \
             "05-dpu-gate.conflist, or 00-dpu-gate.conflist if the source sorts before that."}
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
