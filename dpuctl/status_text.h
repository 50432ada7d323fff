/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of dpuctl status: what status_tree knows, for a person. */
#ifndef DPUCTL_STATUS_TEXT_H
#define DPUCTL_STATUS_TEXT_H

#include "dpuctl/node_look.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Only what the node itself knows; also the head of dpuctl watch. */
void status_text_node(const struct node_look *look, bool has_color, FILE *out);
/* All of it. */
void status_text_print(const struct node_look *look, const json_t *tree, bool has_color, FILE *out);

#endif
