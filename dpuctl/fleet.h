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
#include "base/time.h"

#include <jansson.h>
#include <stdbool.h>

enum { FLEET_ROWS_MAX = 50000 }; /* ten times what a cluster is made for */

struct api;

/* Lists leases, Nodes, ResourceSlices and the agents' pods in pages, all at once, each page dropped
 * when its rows are filled. A reader's rights (rbac/viewer.yaml) are enough, and all but those to
 * the leases may be missing. Forgets earlier answers. Gives a document with the rows in "nodes",
 * what is broken first. Errors: the leases cannot be listed; ERR_LIMIT. Returns owned. */
NODISCARD int fleet_read(struct api *api, json_t **out, struct err *e);

/* ---- one row; all texts that it takes are sanitized ------------------------------------------ */

/* Of a DPU of whom nothing is known yet. Returns owned. */
json_t *fleet_row_new(const char *ns, const char *node);

/* Lays what an object tells into its row; what cannot be read tells nothing. `now` is the API
 * server's clock when it answered; 0: it gave no Date. */
typedef void fleet_take_fn(json_t *row, const json_t *object, struct wall now);

fleet_take_fn fleet_take_lease;
fleet_take_fn fleet_take_node;
fleet_take_fn fleet_take_slice;
fleet_take_fn fleet_take_pod; /* of dpu-host-agent */

/* Completes the judgement. `holder`: whose renewals count. */
void fleet_judge(json_t *row, const char *holder, struct wall now);

/* NotReady, Unknown, Ready; of the same state by reason, then by name. For qsort of json_t *. */
int fleet_compare(const void *a, const void *b);

/* The node whose row an object belongs to, or NULL for an object that is none of ours.
 * Borrowed from the object. */
const char *fleet_node_of_lease(const json_t *lease); /* of "ovn-dpu-NODE" */
const char *fleet_node_of_bound(const json_t *slice_or_pod);

/* Has a Node one of the labels of a DPU's host? */
bool fleet_node_is_marked(const json_t *node);

/* A member of a list of objects, by its "type"; NULL if there is none. */
const json_t *fleet_find_type(const json_t *list, const char *type);

#endif
