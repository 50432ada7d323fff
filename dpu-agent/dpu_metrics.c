/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/dpu_metrics.h"

#include "base/text.h"

#define PREFIX "dpu_heartbeat_"

enum { LABEL_BYTES = 2 * PROBE_NAME_BYTES + 32 };

static const char *const causes[LEASE_FAILURE_COUNT] = {
    [LEASE_FAILURE_NO_ANSWER] = "no_answer",
    [LEASE_FAILURE_TIMEOUT] = "timeout",
    [LEASE_FAILURE_RESOLVE] = "resolve",
    [LEASE_FAILURE_CONNECT] = "connect",
    [LEASE_FAILURE_TLS] = "tls",
    [LEASE_FAILURE_UNAUTHORIZED] = "unauthorized",
    [LEASE_FAILURE_FORBIDDEN] = "forbidden",
    [LEASE_FAILURE_NOT_FOUND] = "not_found",
    [LEASE_FAILURE_CONFLICT] = "conflict",
    [LEASE_FAILURE_THROTTLED] = "throttled",
    [LEASE_FAILURE_SERVER_ERROR] = "server_error",
    [LEASE_FAILURE_OTHER] = "other",
};

static double seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_SEC;
}

static void write_lease(const struct lease_writer_stats *l, struct mono now,
                        struct metrics_page *page)
{
    static const char failures[] = PREFIX "lease_renewal_failures_total";
    char labels[64];
    metrics_family(page, PREFIX "lease_renewals_total", "counter",
                   "Renewals of the lease that succeeded; as companion those that were seen.");
    metrics_sample_u64(page, PREFIX "lease_renewals_total", NULL, l->renewals);
    metrics_family(page, failures, "counter",
                   "Requests for the lease that failed. Without a whole answer: timeout, resolve "
                   "(the API server's name), connect, tls (a certificate, a key) or no_answer (the "
                   "connection broke off). By the answer: unauthorized, forbidden, not_found (the "
                   "host has not made it yet), conflict, throttled, server_error or other.");
    for (size_t i = 0; i < LEASE_FAILURE_COUNT; i++) {
        text_format(labels, sizeof(labels), "cause=\"%s\"", causes[i]);
        metrics_sample_u64(page, failures, labels, l->failures[i]);
    }
    metrics_family(page, PREFIX "lease_renewal_retries_total", "counter",
                   "Requests for the lease that followed a failed one.");
    metrics_sample_u64(page, PREFIX "lease_renewal_retries_total", NULL, l->retries);
    if (l->renewals > 0) { /* no sample is better than a made-up age */
        metrics_single(page, PREFIX "last_renewal_age_seconds", "gauge",
                       "Since the lease was last renewed.",
                       seconds(mono_since(now, l->renewed_at)));
    }
    metrics_single(page, PREFIX "lease_renew_interval_seconds", "gauge",
                   "How often the lease is to be renewed.", seconds(l->interval_ns));
    metrics_family(page, PREFIX "lease_renewal_duration_seconds", "histogram",
                   "From sending a renewal to its answer.");
    metrics_histogram_write(page, PREFIX "lease_renewal_duration_seconds", NULL, &l->durations);
}

static void write_probes(const struct dpu_snapshot *s, struct metrics_page *page)
{
    static const char runs[] = PREFIX "probe_runs_total";
    static const char success[] = PREFIX "probe_success";
    static const char spans[] = PREFIX "probe_duration_seconds";
    char name[LABEL_BYTES];
    char labels[LABEL_BYTES + 64];
    metrics_family(page, runs, "counter",
                   "Runs of a probe: its text as configured, without its settings and cut at 127 "
                   "bytes, its place there, and the result: passed, refused (nobody listens), "
                   "silent (no answer in time), denied (no right to ask), missing (no socket) or "
                   "wrong (another answer than the one expected).");
    for (size_t i = 0; i < s->verdict->probe_count; i++) {
        metrics_escape(s->verdict->probes[i].name, name, sizeof(name));
        for (enum probe_outcome o = PROBE_PASSED; o < PROBE_OUTCOME_COUNT; o++) {
            text_format(labels, sizeof(labels), "probe=\"%s\",index=\"%zu\",result=\"%s\"", name, i,
                        probe_outcome_name(o));
            metrics_sample_u64(page, runs, labels, s->probes[i].runs[o]);
        }
    }
    metrics_family(page, success, "gauge",
                   "1 if a probe counts as passing, its thresholds applied; absent before it ran.");
    for (size_t i = 0; i < s->verdict->probe_count; i++) {
        metrics_escape(s->verdict->probes[i].name, name, sizeof(name));
        text_format(labels, sizeof(labels), "probe=\"%s\",index=\"%zu\"", name, i);
        if (s->verdict->probes[i].ran) {
            metrics_sample_u64(page, success, labels, !s->verdict->probes[i].failing);
        }
    }
    metrics_family(page, spans, "gauge", "How long the last run of a probe took.");
    for (size_t i = 0; i < s->verdict->probe_count; i++) {
        metrics_escape(s->verdict->probes[i].name, name, sizeof(name));
        text_format(labels, sizeof(labels), "probe=\"%s\",index=\"%zu\"", name, i);
        if (s->verdict->probes[i].ran) {
            metrics_sample(page, spans, labels, seconds(s->probes[i].last_ns));
        }
    }
}

void dpu_metrics_write(const struct dpu_snapshot *s, struct metrics_page *page)
{
    if (s->verdict->state != PROBE_HEALTH_UNKNOWN) {
        metrics_single(page, PREFIX "dpu_healthy", "gauge",
                       "1 if the DPU's own probes say that it is healthy, or if there are none.",
                       s->verdict->state == PROBE_HEALTHY);
    }
    if (s->lease) {
        metrics_single(page, PREFIX "probes", "gauge",
                       "How many probes there are; with 0 the heartbeat proves only that dpu-agent "
                       "runs.",
                       (double)s->verdict->probe_count);
    }
    if (s->verdict->probe_count > 0) {
        write_probes(s, page);
    }
    if (s->lease) {
        write_lease(s->lease, s->now, page);
    }
}
