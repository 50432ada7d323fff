/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of dpuctl status: what status_tree knows, for a person. */
#ifndef DPUCTL_STATUS_TEXT_H
#define DPUCTL_STATUS_TEXT_H

#include "dpuctl/node_look.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct status_look {
    bool has_color;
    size_t columns; /* where lines are wrapped */
};

/* Both: ERR_NOMEM, or 0; whether it could be written is seen by ferror. */

/* Only what the node itself knows; also the head of dpuctl watch. */
NODISCARD int status_text_node(const struct node_look *look, const char *node,
                               struct status_look how, FILE *out);
/* All of it. */
NODISCARD int status_text_print(const struct node_look *look, const json_t *tree,
                                struct status_look how, FILE *out);

#endif
