/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpu-gate's configuration, as text.
 *
 * A source with one plugin is wrapped: dpu-gate reads it itself at each call (delegateConf), so
 * what the runtime has to know of it is in the list, network name and capabilities, and a copy of
 * it (lastDelegate), by which pods are removed once it is gone. A source with several is chained:
 * dpu-gate first, then the source's own plugins and list keys, byte for byte. Either way cniVersion
 * is 1.0.0, which containerd 1.7 can read, and cniVersions goes up to 1.1.0, without which no
 * runtime calls STATUS (docs/cni.md).
 */
#ifndef INSTALL_CONFLIST_H
#define INSTALL_CONFLIST_H

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>

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

#endif
