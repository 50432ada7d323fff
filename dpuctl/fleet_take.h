/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of the API server that tell something of a node's DPU, each laid into its row. What
 * cannot be read tells nothing. Borrow the object; no I/O.
 */
#ifndef DPUCTL_FLEET_TAKE_H
#define DPUCTL_FLEET_TAKE_H

#include "dpuctl/fleet.h"

#include <jansson.h>

/* Whose row it is: the node's name, or NULL for an object that is none of ours. Borrowed from the
 * object. */
typedef const char *fleet_node_fn(const json_t *object);

const char *fleet_node_of_lease(const json_t *lease); /* of "ovn-dpu-NODE" */
const char *fleet_node_of_node(const json_t *node);
const char *fleet_node_of_bound(const json_t *slice_or_pod); /* spec.nodeName */

/* Has a Node one of the labels of a DPU's host? */
bool fleet_node_is_marked(const json_t *node);

typedef void fleet_take_fn(struct fleet_row *row, const json_t *object);

void fleet_take_lease(struct fleet_row *row, const json_t *lease);
void fleet_take_node(struct fleet_row *row, const json_t *node);
void fleet_take_slice(struct fleet_row *row, const json_t *slice); /* v1, v1beta2 or v1beta1 */
void fleet_take_pod(struct fleet_row *row, const json_t *pod);     /* of dpu-host-agent */

#endif
