/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/dpu_metrics.h"

#define PREFIX "dpu_heartbeat_"

enum { LABEL_BYTES = 2 * PROBE_NAME_BYTES + 32 };

static void write_lease(const struct lease_writer_stats *l, struct mono now, struct buf *page)
{
    static const char failures[] = PREFIX "lease_renewal_failures_total";
    int64_t age_ns = mono_since(now, l->renewed_at);
    const struct metrics_row rows[] = {
        {"lease_renewals_total", NULL, METRICS_COUNT, &l->renewals,
         "Successful renewals of the Lease; with --heartbeat=companion, renewals seen."},
        {"lease_renewal_retries_total", NULL, METRICS_COUNT, &l->retries,
         "Retries: requests for the Lease after a failed one."},
        {"last_renewal_age_seconds", NULL, METRICS_SPAN, l->renewals > 0 ? &age_ns : NULL,
         "Time since the last renewal of the Lease."},
        {"lease_renew_interval_seconds", NULL, METRICS_SPAN, &l->interval_ns,
         "The configured renew interval."},
    };
    metrics_rows(page, rows, ARRAY_LEN(rows));
    metrics_family(page, failures, "counter",
                   "Failed requests for the Lease, by cause. Without a whole answer: timeout, "
                   "resolve (the API server's name), connect, tls (certificate, key) or "
                   "no_answer (the connection broke). By the answer: unauthorized, forbidden, "
                   "not_found (the host has not created it yet), conflict, throttled, "
                   "server_error or other.");
    for (size_t i = 0; i < LEASE_FAILURES; i++) {
        metrics_sample(page, failures, (double)l->failures[i], "cause=\"%s\"",
                       lease_failure_cause(i));
    }
    metrics_family(page, PREFIX "lease_renewal_duration_seconds", "histogram",
                   "Time from sending a renewal to its answer.");
    metrics_histogram_write(page, PREFIX "lease_renewal_duration_seconds", "", &l->durations);
}

static void write_runs(const struct probe_state *v, struct buf *page)
{
    static const char runs[] = PREFIX "probe_runs_total";
    char name[LABEL_BYTES];
    metrics_family(page, runs, "counter",
                   "Runs of a probe, by its text (without settings, cut at 127 bytes), its place "
                   "in the configuration, and the result: passed, refused (nobody listens), "
                   "silent (no answer in time), denied (no permission), missing (no socket) or "
                   "wrong (an unexpected answer).");
    for (size_t i = 0; i < v->probe_count; i++) {
        metrics_escape(v->probes[i].name, name, sizeof(name));
        for (enum probe_outcome o = PROBE_PASSED; o < PROBE_OUTCOME_COUNT; o++) {
            metrics_sample(page, runs, (double)v->probes[i].runs[o],
                           "probe=\"%s\",index=\"%zu\",result=\"%s\"", name, i,
                           probe_outcome_name(o));
        }
    }
}

/* Of each probe that ran one value. */
static void write_last(const struct probe_state *v, bool is_span, struct buf *page)
{
    const char *family = is_span ? PREFIX "probe_duration_seconds" : PREFIX "probe_success";
    char name[LABEL_BYTES];
    metrics_family(page, family, "gauge",
                   is_span ? "Duration of a probe's last run."
                           : "1 if a probe passes, by its thresholds; absent before it ran.");
    for (size_t i = 0; i < v->probe_count; i++) {
        metrics_escape(v->probes[i].name, name, sizeof(name));
        if (v->probes[i].ran) {
            metrics_sample(page, family,
                           is_span ? (double)v->probes[i].last_ns / (double)NS_PER_SEC
                                   : !v->probes[i].failing,
                           "probe=\"%s\",index=\"%zu\"", name, i);
        }
    }
}

void dpu_metrics_write(const struct probe_state *v, const struct lease_writer_stats *lease,
                       struct mono now, struct buf *page)
{
    bool is_healthy = v->state == PROBE_HEALTHY;
    uint64_t probe_count = v->probe_count;
    const struct metrics_row rows[] = {
        {"dpu_healthy", NULL, METRICS_FLAG, v->state == PROBE_HEALTH_UNKNOWN ? NULL : &is_healthy,
         "1 if all probes on the DPU pass, or there are none."},
        {"probes", NULL, METRICS_COUNT, lease ? &probe_count : NULL,
         "Configured probes. With 0, the heartbeat proves only that dpu-agent runs."},
    };
    metrics_rows(page, rows, ARRAY_LEN(rows));
    if (v->probe_count > 0) {
        write_runs(v, page);
        write_last(v, false, page);
        write_last(v, true, page);
    }
    if (lease) {
        write_lease(lease, now, page);
    }
}
