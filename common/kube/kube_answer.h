/* SPDX-License-Identifier: Apache-2.0 */
/* The API server's answers in our terms, and counters of all requests. */
#ifndef KUBE_KUBE_ANSWER_H
#define KUBE_KUBE_ANSWER_H

#include "kube/kube_client.h"
#include "loop/metrics.h"

/* Fills in reason and message of one that failed; `failure` says why none came, or is NULL. */
void kube_status_fill(struct kube_response *r, enum kube_method method, const char *path,
                      const char *failure);
int kube_status_code(int http_status);
/* Of an answer of which nothing is missing but what is beyond our limit. `is_json` by its content
 * type; `body` is NULL if it cannot be read. */
enum kube_outcome kube_status_outcome(int http_status, bool is_json, size_t body_len,
                                      const json_t *body);
const char *kube_status_verb(enum kube_method method); /* "GET" ... */
enum kube_transport_error kube_status_transport_error(int curl_code);
/* curl's words for a failure, without what may be a secret; borrowed from `said`, or static. */
const char *kube_status_failure(const char *said, int curl_code);

enum { KUBE_UID_BYTES = 64 }; /* a UUID with room to spare */

/* The UID of an object; NULL: it shows none that is usable. Borrowed. */
const char *kube_object_uid(const json_t *object);

/* The resourceVersion of an object or a list as a number, to compare: a hint only. 0: none. */
uint64_t kube_object_version(const json_t *object);

/* An answer that another API server might not give: 5xx, 401, 403, 429 without Retry-After, or what
 * says nothing about the object. */
bool kube_may_be_servers_own(const struct kube_response *response);

/* ---- for the metrics page --------------------------------------------------------------------
 *
 * The series are bounded: verbs and status codes of fixed sets, "other" for a code that is in none,
 * "none" where no answer came. */

enum { KUBE_METRICS_VERBS = 5, KUBE_METRICS_CODES = 20 };

struct kube_metrics {
    uint64_t requests[KUBE_METRICS_VERBS][KUBE_METRICS_CODES];
    struct metrics_histogram durations[KUBE_METRICS_VERBS];
    uint64_t delayed; /* requests that waited for their turn */
    uint64_t left;    /* connections that were given up for their server's errors */
    bool has_skew;
    int64_t skew_ns; /* the API server's clock minus ours, at its last answer; resolution 1 s */
    bool has_expiry;
    struct kube_expiry expiry;   /* of our credential */
    bool is_credential_unusable; /* what is on the disk, while the last good one is in force */
};

/* An answer or failure. `verb` is the HTTP method, or "WATCH" for a watch that was accepted or has
 * failed. */
void kube_metrics_count(struct kube_metrics *metrics, const char *verb,
                        const struct kube_response *response);

/* dpu_heartbeat_api_requests_total, _requests_delayed_total, _connections_left_total,
 * _request_duration_seconds, _api_credential_unusable and, once known,
 * _api_server_clock_skew_seconds and _api_credential_{issued,expiry}_timestamp_seconds. */
void kube_metrics_write(const struct kube_metrics *metrics, struct buf *page);

#endif
