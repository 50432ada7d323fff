/* SPDX-License-Identifier: Apache-2.0 */
/* Patches of an object, in place. Pure. */
#ifndef STANDIN_MERGE_H
#define STANDIN_MERGE_H

#include <jansson.h>
#include <stdbool.h>

/* RFC 7386; strategic: but for "conditions", whose items are merged by their type. */
void merge_patch(json_t *target, const json_t *patch, bool is_strategic);

#endif
