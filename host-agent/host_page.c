/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/host_page.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/time.h"

#include <stddef.h>

#define PREFIX "dpu_heartbeat_"

enum { LABELS_BYTES = 96 };

static struct host_snapshot snapshot(const struct host_page *p)
{
    const struct monitor_parts *parts = monitor_parts(p->monitor);
    struct host_snapshot s = {.now = clock_mono_now(),
                              .verdict = *monitor_verdict(p->monitor),
                              .record = record_writer_stats(parts->record),
                              .has_lease = parts->watch != NULL,
                              .has_dra = p->dra != NULL,
                              .has_events = parts->events != NULL,
                              .has_condition = parts->condition != NULL,
                              .has_pods = p->pods != NULL};
    s.monitor = monitor_stats(p->monitor, s.now);
    if (s.has_lease) {
        s.watch = lease_watch_stats(parts->watch);
        s.lease_writes = lease_keeper_writes(parts->keeper);
    }
    if (s.has_dra) {
        s.dra = dra_service_stats(p->dra);
    }
    if (s.has_pods) {
        s.pods = podnet_stats(p->pods);
    }
    if (s.has_events) {
        s.events = events_stats(parts->events);
    }
    if (s.has_condition) {
        s.condition = condition_stats(parts->condition);
    }
    return s;
}

/* ---- /metrics -------------------------------------------------------------------------------- */

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
}

/* What is counted, and what is made of it: no sample is better than a made-up age. */
struct view {
    struct host_snapshot s;
    bool has_age;
    bool has_validity;
    bool has_reboot;
    bool has_skew;
    int64_t age_ns;
    int64_t valid_ns;
    int64_t duration_ns;
    uint64_t lost; /* these three are no counters of 64 bits */
    uint64_t sandboxes;
    uint64_t unseen;
};

#define AT(member) offsetof(struct view, member)
#define COUNT      NULL, METRICS_COUNT
#define FLAG       NULL, METRICS_FLAG
#define SPAN       NULL, METRICS_SPAN
#define RESULT(r)  "result=\"" r "\"", METRICS_COUNT

static const struct metrics_row rows[] = {
    {"readiness_admit", FLAG, AT(s.verdict.admit), METRICS_ALWAYS,
     "1 while CNI ADD is let through: always if Ready, by the last known state if Unknown."},
    {"last_renewal_age_seconds", SPAN, AT(age_ns), AT(has_age),
     "Since the DPU's last renewal was observed. Steady up to the renew interval, and a little "
     "more."},
    {"readiness_valid_seconds", SPAN, AT(valid_ns), AT(has_validity),
     "Until the lease runs out, unless the DPU renews it; negative after that."},
    {"lease_duration_seconds", SPAN, AT(duration_ns), AT(s.has_lease),
     "The duration on the lease; 0 while none was seen."},
    {"dpu_reboots_total", COUNT, AT(s.monitor.reboots), AT(s.has_lease),
     "Reboots of the DPU that were noticed: its boot id is another one."},
    {"dpu_reboot_timestamp_seconds", SPAN, AT(s.verdict.dpu_rebooted.ns), AT(has_reboot),
     "When the last of them was noticed, by this host's clock; absent if none was since the host "
     "itself started."},
    {"renewals_observed_total", COUNT, AT(s.monitor.renewals), AT(s.has_lease),
     "Renewals of the lease that were observed."},
    {"confirming_reads_total", RESULT("answered"), AT(s.watch.confirmed), AT(s.has_lease),
     "Reads on a fresh connection of a lease that is late, or whose watch is broken: answered, "
     "whatever the answer is worth, or failed."},
    {"confirming_reads_total", RESULT("failed"), AT(s.watch.confirm_failed), AT(s.has_lease), NULL},
    {"lease_write_forbidden", FLAG, AT(s.watch.may_not_write), AT(s.has_lease),
     "1 if the API server forbids the host's writes to the lease: a read alone is then the proof, "
     "and the host cannot tell a dead DPU from an API server that takes no writes."},
    {"watches_opened_total", COUNT, AT(s.watch.watches), AT(s.has_lease),
     "Watches that the API server accepted. Each ends after 5 to 10 minutes; more are a sign of "
     "trouble."},
    {"lease_polling", FLAG, AT(s.watch.is_polling), AT(s.has_lease),
     "1 if the lease is polled because list or watch is forbidden."},
    {"lease_repairs_total", COUNT, AT(s.lease_writes), AT(s.has_lease),
     "Times the lease was created or repaired."},
    {"api_reachable", FLAG, AT(s.monitor.api_reachable), AT(s.has_lease),
     "1 if the last read of the lease was answered, or its watch brought something."},
    {"api_outage_seconds_total", SPAN, AT(s.monitor.outage_ns), AT(s.has_lease),
     "Time without contact with the API server, the present outage included."},
    {"dpu_clock_skew_seconds", SPAN, AT(s.monitor.skew_ns), AT(has_skew),
     "The DPU's clock minus ours, by its last renewal's stamp as it was observed: the way of the "
     "renewal is in it, and after an outage or a restart, until the next one, the time for which "
     "nobody looked. Judges nothing."},
    {"record_writes_total", COUNT, AT(s.record.writes), METRICS_ALWAYS,
     "Writes of the readiness record that succeeded."},
    {"record_write_failures_total", COUNT, AT(s.record.failures), METRICS_ALWAYS,
     "Writes of the readiness record that failed: CNI does not see the verdict."},
    {"events_total", RESULT("created"), AT(s.events.created), AT(s.has_events),
     "Kubernetes Events: those written, changes left without one (behind a limit, or refused), and "
     "tries that came to nothing."},
    {"events_total", RESULT("suppressed"), AT(s.events.suppressed), AT(s.has_events), NULL},
    {"events_total", RESULT("failed"), AT(s.events.failed), AT(s.has_events), NULL},
    {"node_condition_writes_total", RESULT("written"), AT(s.condition.written), AT(s.has_condition),
     "The Node condition DPUReady: writes, and tries to read or write it that came to nothing."},
    {"node_condition_writes_total", RESULT("failed"), AT(s.condition.failed), AT(s.has_condition),
     NULL},
    {"dra_registered", FLAG, AT(s.dra.is_registered), AT(s.has_dra),
     "1 while the kubelet has accepted the driver."},
    {"dra_registrations_total", COUNT, AT(s.dra.registrations), AT(s.has_dra),
     "Times that the kubelet accepted the driver."},
    {"dra_registration_failures_total", COUNT, AT(s.dra.rejections), AT(s.has_dra),
     "Times that the kubelet refused the driver."},
    {"dra_health_streams", COUNT, AT(s.dra.health_streams), AT(s.has_dra),
     "Open streams over which the kubelet hears of the device's health."},
    {"dra_health_reports_total", COUNT, AT(s.dra.health_reports), AT(s.has_dra),
     "Health reports sent."},
    {"dra_claims_prepared_total", COUNT, AT(s.dra.claims_prepared), AT(s.has_dra),
     "Claims prepared for pods."},
    {"dra_claim_failures_total", COUNT, AT(s.dra.claim_failures), AT(s.has_dra),
     "Claims that could not be prepared."},
    {"dra_claims_unprepared_total", COUNT, AT(s.dra.claims_unprepared), AT(s.has_dra),
     "Claims given back."},
    {"dra_slice_published", FLAG, AT(s.dra.is_slice_published), AT(s.has_dra),
     "1 while the ResourceSlice is as it should be."},
    {"dra_slice_updates_total", COUNT, AT(s.dra.slice_writes), AT(s.has_dra),
     "Writes of the ResourceSlice."},
    {"dra_slice_failures_total", COUNT, AT(s.dra.slice_failures), AT(s.has_dra),
     "Requests for the ResourceSlice that failed, reads too."},
    {"pod_network_lost", COUNT, AT(lost), AT(s.has_pods),
     "Pod sandboxes that have lost their network."},
    {"pod_sandboxes", COUNT, AT(sandboxes), AT(s.has_pods),
     "Pod sandboxes that the container runtime listed last."},
    {"pod_network_unseen", COUNT, AT(unseen), AT(s.has_pods),
     "Pod sandboxes that could not be looked at last: whether they have their network is not "
     "known."},
    {"pod_network_losses_total", COUNT, AT(s.pods.found), AT(s.has_pods),
     "Pod sandboxes that were found to have lost their network."},
    {"pod_network_scans_total", RESULT("done"), AT(s.pods.scans), AT(s.has_pods),
     "Looks at all pod sandboxes: those that were complete, and those that the container runtime "
     "did not answer."},
    {"pod_network_scans_total", RESULT("failed"), AT(s.pods.scan_failures), AT(s.has_pods), NULL},
    {"pod_sandbox_stops_total", RESULT("stopped"), AT(s.pods.stops), AT(s.has_pods),
     "Pod sandboxes that were stopped, or could not be, because they had lost their network."},
    {"pod_sandbox_stops_total", RESULT("failed"), AT(s.pods.stop_failures), AT(s.has_pods), NULL},
};

void host_metrics_write(const struct host_snapshot *s, struct metrics_page *page)
{
    const struct view view = {
        .s = *s,
        .has_age = s->has_lease && s->verdict.observed.ns > 0,
        .has_validity = s->has_lease && s->verdict.lease_until.ns > 0,
        .has_reboot = s->has_lease && s->verdict.dpu_rebooted.ns > 0,
        .has_skew = s->has_lease && s->monitor.has_skew,
        .age_ns = mono_since(s->now, s->verdict.observed),
        .valid_ns = mono_since(s->verdict.lease_until, s->now),
        .duration_ns = s->verdict.lease.duration_s * NS_PER_SEC,
        .lost = s->pods.lost,
        .sandboxes = s->pods.sandboxes,
        .unseen = s->pods.unseen,
    };
    write_verdict(s, page);
    if (s->has_lease) {
        write_marks(&s->watch, page);
    }
    if (s->verdict.host_probes.count > 0) {
        write_host_probes(&s->verdict.host_probes, page);
    }
    metrics_rows(page, rows, ARRAY_LEN(rows), &view);
}

static void write_metrics(void *user, struct metrics_page *out)
{
    const struct host_page *p = user;
    const struct host_snapshot s = snapshot(p);
    host_metrics_write(&s, out);
    if (p->api) {
        kube_metrics_write(p->api, out);
    }
}

/* ---- /livez, /readyz ------------------------------------------------------------------------- */

static bool is_live(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct host_page *p = user;
    bool works = monitor_makes_progress(p->monitor, clock_mono_now());
    return agent_page_answer(
        words, works, "%s",
        works ? "" : "the readiness is no longer judged: a wake-up or an answer is overdue");
}

static bool is_ready(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct host_page *p = user;
    const struct readiness *v = monitor_verdict(p->monitor);
    if (!record_writer_stats(monitor_parts(p->monitor)->record).is_current) {
        return agent_page_answer(words, false,
                                 "the readiness record cannot be written; the log says why");
    }
    return agent_page_answer(words, true, "the DPU is %s (%s): %.300s",
                             readiness_state_name(v->state), readiness_reason_name(v->reason),
                             v->message);
}

/* ---- /statusz -------------------------------------------------------------------------------- */

static json_t *wall_text(struct wall at)
{
    char text[RFC3339_BYTES];
    rfc3339_format_seconds(at, text);
    return json_string(text);
}

static json_t *seconds(int64_t ns)
{
    return json_real((double)ns / (double)NS_PER_SEC);
}

static json_t *describe_lease(const struct readiness_lease *l)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i}", "namespace", l->ns, "name", l->name, "uid",
                     l->uid, "renewTime", l->renew_stamp, "resourceVersion", l->resource_version,
                     "durationSeconds", (int)l->duration_s);
}

/* Null where there is no DRA. */
static json_t *describe_dra(const struct host_snapshot *s)
{
    if (!s->has_dra) {
        return json_null();
    }
    return json_pack("{s:s, s:b, s:s, s:I, s:b}", "driver", s->dra.driver, "registered",
                     s->dra.is_registered, "refusal", s->dra.refusal, "healthStreams",
                     (json_int_t)s->dra.health_streams, "slicePublished",
                     s->dra.is_slice_published);
}

static json_t *describe(const void *user)
{
    const struct host_page *p = user;
    const struct host_snapshot s = snapshot(p);
    const struct readiness *v = &s.verdict;
    bool was_seen = v->observed.ns > 0;
    return json_pack(
        "{s:s, s:s, s:s, s:b, s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:b, s:o, s:o}", "version",
        DPU_VERSION, "node", p->agent->node_name, "state", readiness_state_name(v->state), "admit",
        v->admit, "reason", readiness_reason_name(v->reason), "message", v->message,
        "transitionTime", wall_text(v->transition), "lastRenewalAgeSeconds",
        was_seen ? seconds(mono_since(s.now, v->observed)) : json_null(), "validSeconds",
        v->lease_until.ns > 0 ? seconds(mono_since(v->lease_until, s.now)) : json_null(), "lease",
        describe_lease(&v->lease), "apiReachable", s.monitor.api_reachable, "dpuClockSkewSeconds",
        s.monitor.has_skew ? seconds(s.monitor.skew_ns) : json_null(), "recordWritten",
        s.record.is_current, "dra", describe_dra(&s), "sources", agent_options_sources(p->agent));
}

int host_page_start(struct host_page *p, struct ev_loop *loop, struct err *e)
{
    const struct agent_page_config page = {.address = p->agent->http_bind_address,
                                           .program = "dpu-host-agent",
                                           .is_live = is_live,
                                           .is_ready = is_ready,
                                           .write_metrics = write_metrics,
                                           .describe = describe,
                                           .user = p};
    return agent_page_start(loop, &page, &p->page, e);
}
