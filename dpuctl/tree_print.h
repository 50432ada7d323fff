/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON value for programs: as JSON, or as the same thing in YAML. */
#ifndef DPUCTL_TREE_PRINT_H
#define DPUCTL_TREE_PRINT_H

#include "base/attr.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Indented, one newline at the end. Returns false if it could not be written. */
NODISCARD bool tree_print_json(const json_t *tree, FILE *out);
/* Returns false if it could not be written, or when out of memory. */
NODISCARD bool tree_print_yaml(const json_t *tree, FILE *out);

#endif
