/* SPDX-License-Identifier: Apache-2.0 */
/* A node's CNI directory: dpu-gate's configuration in it, and what else is there. */
#ifndef INSTALL_WIRING_H
#define INSTALL_WIRING_H

#include "base/err.h"
#include "base/mem.h"
#include "host-agent/install/cni_install.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum { WIRING_NAME_BYTES = 256 };

/* The configuration of dpu-gate, beside the source: it sorts before that, because a runtime takes
 * the first one by name. */
const char *wiring_name(const struct cni_options *o);

/* A file of the directory. */
void wiring_join(const char *dir, const char *name, char out[static PATH_MAX]);

/* Also writes the same bytes under another owner or mode. What killed attempts left beside it a
 * minute ago or more is removed. Errors: ERR_IO. */
NODISCARD int wiring_put_file(const char *path, const struct buf *bytes, mode_t mode, bool *changed,
                              struct err *e);

/* It not being there is fine. Errors: ERR_IO. */
NODISCARD int wiring_remove_file(const char *path, struct err *e);

/* Is this a configuration that calls dpu-gate first? */
bool wiring_is_gated(const char *path);

/* The first configuration by name, which is what runtimes take: of those that sort before ours, or
 * of those whose first plugin is dpu-gate. "": there is none. */
void wiring_find_first(const struct cni_options *o, bool is_gated,
                       char out[static WIRING_NAME_BYTES]);

/* The state of the conflist. */
struct wiring {
    bool changed;                   /* it was written */
    bool has_source;                /* the source is there */
    char bypass[WIRING_NAME_BYTES]; /* a configuration that sorts before ours; "": none */
};

/* By the source as it is now. A source that cannot be understood leaves an older conflist as it is.
 * Errors: ERR_PARSE naming what is wrong with the source, ERR_IO. */
NODISCARD int wiring_put(const struct cni_options *o, const char *readiness_file,
                         struct wiring *out, struct err *e);

void wiring_warn_of_bypass(const struct cni_options *o, const char *bypass);

#endif
