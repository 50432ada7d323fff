/* SPDX-License-Identifier: Apache-2.0 */
/* Field and label selectors of LIST and WATCH: "a=b,c=d". */
#ifndef STANDIN_SELECT_H
#define STANDIN_SELECT_H

#include "standin/api_result.h"

/* False with a 400 if a selector has a form or field that this kind does not support. */
bool select_check(const struct api_kind *kind, const char *fields, const char *labels,
                  struct api_result *r);

/* Whether an object of the target's kind and namespace meets the checked selectors (NULL: any). */
bool select_matches(const struct api_target *target, const json_t *object, const char *fields,
                    const char *labels);

/* Copies the value of metadata.name in a field selector: authorisation by name uses it. */
void select_name(const char *fields, char out[static API_NAME_BYTES]);

#endif
