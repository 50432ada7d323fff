/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optional CDI specification: what a container that claims the DPU gets (CDI 0.6.0).
 *
 * Environment DPU_DEVICE and DPU_NODE, and the directory of the readiness record, read-only (the
 * directory, because a record that is created anew is another file). The content never depends on
 * a claim, so one file serves all of them and writing it twice changes nothing.
 */
#ifndef DRA_CDI_H
#define DRA_CDI_H

#include "base/attr.h"
#include "base/err.h"

enum { CDI_ID_BYTES = 160 };

struct cdi_spec {
    const char *driver; /* the vendor part */
    const char *device; /* "dpu0" */
    const char *node_name;
    const char *readiness_dir; /* "/run/dpu-heartbeat" */
};

/* "<driver>/dpu=<device>": what Prepare returns. */
void cdi_make_id(const struct cdi_spec *spec, char out[static CDI_ID_BYTES]);

/* Writes `<dir>/<driver>-<device>.json` by temporary file and rename, making `dir` if need be.
 * Errors: ERR_IO, ERR_NOMEM, ERR_LIMIT. */
NODISCARD int cdi_write(const struct cdi_spec *spec, const char *dir, struct err *e);

#endif
