/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One look at the whole cluster: leases, Nodes, ResourceSlices and the agents' pods, each list in
 * pages, all at once, each page dropped when its rows are filled. Only lists: a reader's rights
 * (rbac/viewer.yaml) are enough, and all but those to the leases may be missing.
 */
#ifndef DPUCTL_FLEET_READER_H
#define DPUCTL_FLEET_READER_H

#include "base/err.h"
#include "dpuctl/fleet.h"
#include "dpuctl/fleet_options.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    FLEET_ROWS_MAX = 50000, /* ten times what a cluster is made for */
    FLEET_NOTES_MAX = 4,    /* one for each list */
    FLEET_NOTE_BYTES = 320,
};

/* Rows of Nodes with a DPU, judged, what is broken first. */
struct fleet {
    struct fleet_row *rows; /* owned */
    size_t count;
    struct wall now;                               /* the API server's clock at the last answer */
    char notes[FLEET_NOTES_MAX][FLEET_NOTE_BYTES]; /* what could not be looked at, and why */
    size_t note_count;
};

/* Errors: no kubeconfig, or one of no use; the leases cannot be listed; ERR_LIMIT; ERR_NOMEM.
 * `out` is filled on success only: free with fleet_fini. */
NODISCARD int fleet_read(const struct fleet_config *config, struct fleet *out, struct err *e);
void fleet_fini(struct fleet *fleet);

#endif
