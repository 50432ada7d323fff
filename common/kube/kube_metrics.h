/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of a client's requests, for the metrics page. The series are bounded: verbs and
 * status codes of fixed sets, "other" for a code that is in none, "none" where no answer came.
 * A plain value; loop thread only.
 */
#ifndef KUBE_KUBE_METRICS_H
#define KUBE_KUBE_METRICS_H

#include "kube/kube_client.h"
#include "loop/metrics.h"

enum { KUBE_METRICS_VERBS = 6, KUBE_METRICS_CODES = 20 };

struct kube_metrics {
    uint64_t requests[KUBE_METRICS_VERBS][KUBE_METRICS_CODES];
    struct metrics_histogram durations[KUBE_METRICS_VERBS];
    bool has_skew;
    int64_t skew_ns; /* the API server's clock minus ours, at its last answer; resolution 1 s */
};

/* For the client: an answer or failure. `verb` is the HTTP method, or "WATCH" for a watch that was
 * accepted or has failed. */
void kube_metrics_count(struct kube_metrics *metrics, const char *verb,
                        const struct kube_response *response);

/* dpu_heartbeat_api_requests_total, _requests_delayed_total, _request_duration_seconds and, once
 * known, _api_server_clock_skew_seconds and _api_credential_{issued,expiry}_timestamp_seconds. */
void kube_metrics_write(const struct kube_client *client, struct metrics_page *page);

#endif
