/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/host_metrics.h"

#include "base/text.h"

#define PREFIX "dpu_heartbeat_"

enum { LABELS_BYTES = 96 };

static double seconds(int64_t ns)
{
    return (double)ns / (double)NS_PER_SEC;
}

static void counter(struct metrics_page *page, const char *name, const char *help, uint64_t value)
{
    metrics_family(page, name, "counter", help);
    metrics_sample_u64(page, name, NULL, value);
}

static void write_verdict(const struct host_snapshot *s, struct metrics_page *page)
{
    static const char state[] = PREFIX "readiness";
    static const char changes[] = PREFIX "readiness_changes_total";
    char labels[LABELS_BYTES];
    metrics_family(page, state, "gauge",
                   "The verdict on the DPU: 1 for the pair of state and reason that holds, 0 for "
                   "the others.");
    for (enum readiness_reason r = 0; r < REASON_RECORD_MISSING; r++) { /* the rest is no verdict */
        const struct reason_traits *traits = readiness_reason_traits(r);
        text_format(labels, sizeof(labels), "state=\"%s\",reason=\"%s\"",
                    readiness_state_name(traits->state), traits->name); /* ours: fits */
        metrics_sample_u64(page, state, labels,
                           traits->state == s->verdict.state && r == s->verdict.reason);
    }
    metrics_single(page, PREFIX "readiness_admit", "gauge",
                   "1 while CNI ADD is let through: always if Ready, by the last known state if "
                   "Unknown.",
                   s->verdict.admit);
    metrics_family(page, changes, "counter",
                   "Changes of state, admission or reason since the start, by the new reason. The "
                   "first verdict of an agent without a record to go on counts as one.");
    for (enum readiness_reason r = 0; r < REASON_RECORD_MISSING; r++) {
        text_format(labels, sizeof(labels), "reason=\"%s\"", readiness_reason_name(r));
        metrics_sample_u64(page, changes, labels, s->monitor.changes[r]);
    }
}

static void write_host_probes(const struct readiness_host_probes *w, struct metrics_page *page)
{
    static const char name[] = PREFIX "host_probe";
    char probe[2 * HOST_PROBE_BYTES];
    char labels[sizeof(probe) + LABELS_BYTES];
    metrics_family(page, name, "gauge",
                   "What a probe of the host's own has said since the host started: 1 for the word "
                   "that holds, none (never that all is well), well or failed; 0 for the others.");
    for (size_t i = 0; i < w->count; i++) {
        metrics_escape(w->each[i].probe, probe, sizeof(probe));
        for (enum host_probe_state t = HOST_PROBE_NEVER_WELL; t <= HOST_PROBE_FAILED; t++) {
            text_format(labels, sizeof(labels), "probe=\"%s\",says=\"%s\"", probe,
                        host_probe_state_name(t));
            metrics_sample_u64(page, name, labels, t == w->each[i].says);
        }
    }
}

static void write_reboots(const struct host_snapshot *s, struct metrics_page *page)
{
    counter(page, PREFIX "dpu_reboots_total",
            "Reboots of the DPU that were noticed: its boot id is another one.",
            s->monitor.reboots);
    if (s->verdict.dpu_rebooted.ns > 0) {
        metrics_single(page, PREFIX "dpu_reboot_timestamp_seconds", "gauge",
                       "When the last of them was noticed, by this host's clock; absent if none "
                       "was since the host itself started.",
                       seconds(s->verdict.dpu_rebooted.ns));
    }
}

static void write_marks(const struct lease_watch_stats *w, struct metrics_page *page)
{
    static const char marks[] = PREFIX "lease_marks_total";
    char labels[LABELS_BYTES];
    metrics_family(page, marks, "counter",
                   "Writes to the lease by which the host proves that the DPU has not renewed it, "
                   "by their outcome. A living DPU causes one, at the agent's start.");
    for (int i = 0; i < CHAIN_OUTCOMES; i++) {
        text_format(labels, sizeof(labels), "outcome=\"%s\"",
                    chain_outcome_name((enum chain_outcome)i));
        metrics_sample_u64(page, marks, labels, w->marks[i]);
    }
    metrics_single(page, PREFIX "lease_write_forbidden", "gauge",
                   "1 if the API server forbids these writes: a read alone is then the proof, and "
                   "the host cannot tell a dead DPU from an API server that takes no writes.",
                   w->may_not_write);
}

static void write_lease(const struct host_snapshot *s, struct metrics_page *page)
{
    static const char reads[] = PREFIX "confirming_reads_total";
    if (s->verdict.observed.ns > 0) { /* no sample is better than a made-up age */
        metrics_single(page, PREFIX "last_renewal_age_seconds", "gauge",
                       "Since the DPU's last renewal was observed. Steady up to the renew "
                       "interval, and a little more.",
                       seconds(mono_since(s->now, s->verdict.observed)));
    }
    if (s->verdict.lease_until.ns > 0) { /* the same */
        metrics_single(page, PREFIX "readiness_valid_seconds", "gauge",
                       "Until the lease runs out, unless the DPU renews it; negative after that.",
                       seconds(mono_since(s->verdict.lease_until, s->now)));
    }
    metrics_single(page, PREFIX "lease_duration_seconds", "gauge",
                   "The duration on the lease; 0 while none was seen.",
                   s->verdict.lease.duration_s);
    write_reboots(s, page);
    counter(page, PREFIX "renewals_observed_total", "Renewals of the lease that were observed.",
            s->monitor.renewals);
    metrics_family(page, reads, "counter",
                   "Reads on a fresh connection of a lease that is late, or whose watch is "
                   "broken: answered, whatever the answer is worth, or failed.");
    metrics_sample_u64(page, reads, "result=\"answered\"", s->watch.confirmed);
    metrics_sample_u64(page, reads, "result=\"failed\"", s->watch.confirm_failed);
    write_marks(&s->watch, page);
    counter(page, PREFIX "watches_opened_total",
            "Watches that the API server accepted. Each ends after 5 to 10 minutes; more are a "
            "sign of trouble.",
            s->watch.watches);
    metrics_single(page, PREFIX "lease_polling", "gauge",
                   "1 if the lease is polled because list or watch is forbidden.",
                   s->watch.is_polling);
    counter(page, PREFIX "lease_repairs_total", "Times the lease was created or repaired.",
            s->lease_writes);
    metrics_single(page, PREFIX "api_reachable", "gauge",
                   "1 if the last read of the lease was answered, or its watch brought something.",
                   s->monitor.api_reachable);
    metrics_single(page, PREFIX "api_outage_seconds_total", "counter",
                   "Time without contact with the API server, the present outage included.",
                   seconds(s->monitor.outage_ns));
    if (s->monitor.has_skew) {
        metrics_single(
            page, PREFIX "dpu_clock_skew_seconds", "gauge",
            "The DPU's clock minus ours, by its last renewal's stamp as it was observed: "
            "the way of the renewal is in it, and after an outage or a restart, until the next "
            "one, the time for which nobody looked. Judges nothing.",
            seconds(s->monitor.skew_ns));
    }
}

static void write_dra(const struct dra_stats *d, struct metrics_page *page)
{
    metrics_single(page, PREFIX "dra_registered", "gauge",
                   "1 while the kubelet has accepted the driver.", d->is_registered);
    counter(page, PREFIX "dra_registrations_total", "Times that the kubelet accepted the driver.",
            d->registrations);
    counter(page, PREFIX "dra_registration_failures_total",
            "Times that the kubelet refused the driver.", d->rejections);
    metrics_single(page, PREFIX "dra_health_streams", "gauge",
                   "Open streams over which the kubelet hears of the device's health.",
                   (double)d->health_streams);
    counter(page, PREFIX "dra_health_reports_total", "Health reports sent.", d->health_reports);
    counter(page, PREFIX "dra_claims_prepared_total", "Claims prepared for pods.",
            d->claims_prepared);
    counter(page, PREFIX "dra_claim_failures_total", "Claims that could not be prepared.",
            d->claim_failures);
    counter(page, PREFIX "dra_claims_unprepared_total", "Claims given back.", d->claims_unprepared);
    metrics_single(page, PREFIX "dra_slice_published", "gauge",
                   "1 while the ResourceSlice is as it should be.", d->is_slice_published);
    counter(page, PREFIX "dra_slice_updates_total", "Writes of the ResourceSlice.",
            d->slice_writes);
    counter(page, PREFIX "dra_slice_failures_total",
            "Requests for the ResourceSlice that failed, reads too.", d->slice_failures);
}

static void write_events(const struct event_stats *e, struct metrics_page *page)
{
    static const char name[] = PREFIX "events_total";
    metrics_family(page, name, "counter",
                   "Kubernetes Events: those written, changes left without one (behind a limit, or "
                   "refused), and tries that came to nothing.");
    metrics_sample_u64(page, name, "result=\"created\"", e->created);
    metrics_sample_u64(page, name, "result=\"suppressed\"", e->suppressed);
    metrics_sample_u64(page, name, "result=\"failed\"", e->failed);
}

static void write_condition(const struct kube_sync_stats *c, struct metrics_page *page)
{
    static const char name[] = PREFIX "node_condition_writes_total";
    metrics_family(page, name, "counter",
                   "The Node condition DPUReady: writes, and tries to read or write it that came "
                   "to nothing.");
    metrics_sample_u64(page, name, "result=\"written\"", c->written);
    metrics_sample_u64(page, name, "result=\"failed\"", c->failed);
}

static void write_pods(const struct podnet_stats *p, struct metrics_page *page)
{
    static const char scans[] = PREFIX "pod_network_scans_total";
    static const char stops[] = PREFIX "pod_sandbox_stops_total";
    metrics_single(page, PREFIX "pod_network_lost", "gauge",
                   "Pod sandboxes that have lost their network.", (double)p->lost);
    metrics_single(page, PREFIX "pod_sandboxes", "gauge",
                   "Pod sandboxes that the container runtime listed last.", (double)p->sandboxes);
    metrics_single(page, PREFIX "pod_network_unseen", "gauge",
                   "Pod sandboxes that could not be looked at last: whether they have their "
                   "network is not known.",
                   (double)p->unseen);
    counter(page, PREFIX "pod_network_losses_total",
            "Pod sandboxes that were found to have lost their network.", p->found);
    metrics_family(page, scans, "counter",
                   "Looks at all pod sandboxes: those that were complete, and those that the "
                   "container runtime did not answer.");
    metrics_sample_u64(page, scans, "result=\"done\"", p->scans);
    metrics_sample_u64(page, scans, "result=\"failed\"", p->scan_failures);
    metrics_family(page, stops, "counter",
                   "Pod sandboxes that were stopped, or could not be, because they had lost their "
                   "network.");
    metrics_sample_u64(page, stops, "result=\"stopped\"", p->stops);
    metrics_sample_u64(page, stops, "result=\"failed\"", p->stop_failures);
}

void host_metrics_write(const struct host_snapshot *s, struct metrics_page *page)
{
    write_verdict(s, page);
    if (s->has_lease) {
        write_lease(s, page);
    }
    counter(page, PREFIX "record_writes_total", "Writes of the readiness record that succeeded.",
            s->record.writes);
    counter(page, PREFIX "record_write_failures_total",
            "Writes of the readiness record that failed: CNI does not see the verdict.",
            s->record.failures);
    if (s->has_events) {
        write_events(&s->events, page);
    }
    if (s->has_condition) {
        write_condition(&s->condition, page);
    }
    if (s->has_dra) {
        write_dra(&s->dra, page);
    }
    if (s->verdict.host_probes.count > 0) {
        write_host_probes(&s->verdict.host_probes, page);
    }
    if (s->has_pods) {
        write_pods(&s->pods, page);
    }
}
