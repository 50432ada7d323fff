/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of Events (pkg/apis/core/validation/events.go). Both groups share the storage; only
 * events.k8s.io/v1 is strict. Objects come in their stored form, that of core. */
#ifndef STANDIN_VALIDATE_EVENT_H
#define STANDIN_VALIDATE_EVENT_H

#include "standin/api_result.h"

bool validate_event(const struct api_kind *kind, const json_t *event, struct api_result *r);
/* Of a new one only. */
bool validate_event_new(const struct api_kind *kind, const json_t *event, struct api_result *r);
bool validate_event_change(const struct api_kind *kind, const json_t *before, const json_t *after,
                           struct api_result *r);

#endif
