/* SPDX-License-Identifier: Apache-2.0 */
/* An answer of the API server in our terms. */
#ifndef KUBE_KUBE_STATUS_H
#define KUBE_KUBE_STATUS_H

#include "kube/kube_client.h"

/* Fills in reason and message of one that failed; `failure` says why none came, or is NULL. */
void kube_status_fill(struct kube_response *r, enum kube_method method, const char *path,
                      const char *failure);
int kube_status_code(int http_status);
/* Of an answer of which nothing is missing but what is beyond our limit. `is_json` by its content
 * type; `body` is NULL if it cannot be read. */
enum kube_outcome kube_status_outcome(int http_status, bool is_json, size_t body_len,
                                      const json_t *body);
const char *kube_status_verb(enum kube_method method); /* "GET" ... */
enum kube_loss kube_status_loss(int curl_code);
/* curl's words for a failure, without what may be a secret; borrowed from `said`, or static. */
const char *kube_status_failure(const char *said, int curl_code);

#endif
