/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON value for programs: as JSON, or as the same thing in YAML. */
#ifndef DPUCTL_JSON_PRINT_H
#define DPUCTL_JSON_PRINT_H

#include "base/attr.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Takes `json`. Indented, one newline at the end. Its keys are words; an array holds no array.
 * Returns false if `json` is NULL or could not be written, or when out of memory. */
NODISCARD bool json_print(json_t *json, bool as_yaml, FILE *out);

#endif
