/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts dpu-gate in front of a node's CNI plugin, keeps it there, and takes it away again.
 * docs/cni.md is what an administrator reads.
 */
#ifndef INSTALL_CNI_WIRING_H
#define INSTALL_CNI_WIRING_H

#include "base/attr.h"
#include "base/err.h"
#include "host-agent/install/cni_options.h"

#include <stdbool.h>

enum { CNI_WIRING_NAME_BYTES = 256 };

/* What became of it. */
struct cni_wiring {
    bool changed;                       /* a file was written or removed */
    bool has_source;                    /* the source is there */
    char bypass[CNI_WIRING_NAME_BYTES]; /* a configuration that sorts before ours; "": none */
    bool bypass_is_multus;
};

/* Copies the program `gate` to DIR/dpu-gate. Errors: ERR_NOTFOUND, ERR_IO, ERR_PARSE if `gate` is
 * no program. */
NODISCARD int cni_wiring_put_gate(const char *gate, const char *bin_dir, bool *changed,
                                  struct err *e);

/* Writes the conflist by the source as it is now. A source that cannot be understood leaves an
 * older conflist as it is. Errors: ERR_PARSE naming what is wrong with the source, ERR_IO. */
NODISCARD int cni_wiring_put_conflist(const struct cni_options *o, const char *readiness_file,
                                      struct cni_wiring *out, struct err *e);

/* Logs who comes before the gate, if anybody does. */
void cni_wiring_warn(const struct cni_options *o, const struct cni_wiring *wiring);

/* Removes the conflist if it is one of dpu-gate. Errors: ERR_PARSE if it is somebody else's,
 * ERR_IO. */
NODISCARD int cni_wiring_remove_conflist(const struct cni_options *o, bool *removed, struct err *e);

/* A configuration in the directory whose first plugin is dpu-gate, whatever its name is. */
bool cni_wiring_find_gated(const struct cni_options *o,
                           char out_name[static CNI_WIRING_NAME_BYTES]);

#endif
