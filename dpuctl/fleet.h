/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of DPUs by the API server's objects alone: a row, which is a JSON object, for each DPU.
 * deploy/man/dpuctl.h2m describes its members; members are only ever added.
 *
 * dpuctl cannot observe renewals from outside the node. It compares the stamp of the last renewal,
 * by the DPU's clock, with the Date of the API server's answer. The host's own reports (dpu-gate's
 * rejection in the Node's condition Ready, the condition DPUReady, the taint of the ResourceSlice)
 * count more, but they cannot make a DPU Ready whose lease has expired.
 */
#ifndef DPUCTL_FLEET_H
#define DPUCTL_FLEET_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>

struct api;

/* Lists leases, Nodes, ResourceSlices and the agents' pods in pages, all at once, each page dropped
 * when its rows are filled. A reader's rights (rbac/viewer.yaml) are enough, and all but those to
 * the leases may be missing. Forgets earlier answers. Gives a document with the rows in "nodes",
 * what is broken first. Errors: the leases cannot be listed; ERR_LIMIT. Returns owned. */
NODISCARD int fleet_read(struct api *api, json_t **out, struct err *e);

/* Has a Node one of the labels of a DPU's host? */
bool fleet_node_is_marked(const json_t *node);

#endif
