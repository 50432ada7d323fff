/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that dpuctl status knows of a node, as one JSON object. docs/dpuctl.md describes it; members
 * are only ever added.
 */
#ifndef DPUCTL_STATUS_TREE_H
#define DPUCTL_STATUS_TREE_H

#include "dpuctl/node_look.h"

#include <jansson.h>

/* Looks at the node and asks the API server. Returns owned, NULL when out of memory. */
json_t *status_tree_make(const struct admin_config *config, const struct node_look *look);

#endif
