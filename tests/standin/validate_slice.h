/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of resource.k8s.io/v1 ResourceSlice that a publisher can break. */
#ifndef STANDIN_VALIDATE_SLICE_H
#define STANDIN_VALIDATE_SLICE_H

#include "standin/api_result.h"

bool validate_slice(const struct api_kind *kind, const json_t *slice, struct api_result *r);
bool validate_slice_change(const struct api_kind *kind, const json_t *before, const json_t *after,
                           struct api_result *r);

#endif
