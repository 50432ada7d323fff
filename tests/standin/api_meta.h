/* SPDX-License-Identifier: Apache-2.0 */
/* What the server itself does to metadata and to the envelope of an object. */
#ifndef STANDIN_API_META_H
#define STANDIN_API_META_H

#include "standin/api_result.h"

/* kind, apiVersion, name and namespace of a body against the request line. */
bool api_meta_check_body(const struct api_target *target, const json_t *body, struct api_result *r);

/* uid, creationTimestamp; `ns` NULL for cluster-wide kinds. */
void api_meta_stamp_new(json_t *object, const char *ns);

/* What an update leaves out and keeps: uid, creationTimestamp, namespace, name. */
void api_meta_inherit(const json_t *existing, json_t *wanted);

/* A field that is null is as good as absent. */
void api_meta_drop_nulls(json_t *object);

/* uid, name and namespace stay: false with a 422. */
bool api_meta_check_change(const struct api_kind *kind, const json_t *before, const json_t *after,
                           struct api_result *r);

/* An update of "status" changes nothing but status; one of the main resource changes everything
 * but that ("" and kinds without status: no limit). */
void api_meta_limit_to_subresource(const char *subresource, const json_t *existing, json_t *wanted);

/* A random UUID as text. */
void api_meta_new_uid(char out[static 37]);

#endif
