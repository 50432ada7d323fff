/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/host_page.h"

#include "base/clock.h"
#include "base/time.h"

#define PREFIX "dpu_heartbeat_"

static struct host_snapshot snapshot(const struct host_page *p)
{
    const struct monitor_parts *parts = monitor_parts(p->monitor);
    struct mono now = clock_mono_now();
    return (struct host_snapshot){
        .now = now,
        .verdict = monitor_verdict(p->monitor),
        .monitor = monitor_stats(p->monitor, now),
        .record = record_writer_stats(parts->record),
        .watch = parts->watch ? lease_watch_stats(parts->watch) : NULL,
        .keeper = parts->keeper ? lease_keeper_stats(parts->keeper) : NULL,
        .events = parts->events ? events_stats(parts->events) : NULL,
        .condition = parts->condition ? condition_stats(parts->condition) : NULL,
        .pods = p->pods ? podnet_stats(p->pods) : NULL,
    };
}

/* ---- /metrics -------------------------------------------------------------------------------- */

static void write_verdict(const struct host_snapshot *s, struct buf *page)
{
    static const char state[] = PREFIX "readiness";
    static const char changes[] = PREFIX "readiness_changes_total";
    metrics_family(page, state, "gauge",
                   "The verdict on the DPU: 1 for the current pair of state and reason, 0 for "
                   "the others.");
    for (enum readiness_reason r = 0; r < REASON_RECORD_MISSING; r++) { /* the rest is no verdict */
        const struct reason_traits *traits = readiness_reason_traits(r);
        metrics_sample(page, state, traits->state == s->verdict->state && r == s->verdict->reason,
                       "state=\"%s\",reason=\"%s\"", readiness_state_name(traits->state),
                       traits->name);
    }
    metrics_family(page, changes, "counter",
                   "Changes of state, admission or reason, by the new reason. The first verdict "
                   "of an agent that found no record counts.");
    for (enum readiness_reason r = 0; r < REASON_RECORD_MISSING; r++) {
        metrics_sample(page, changes, (double)s->monitor.changes[r], "reason=\"%s\"",
                       readiness_reason_name(r));
    }
}

static void write_host_probes(const struct readiness_host_probes *w, struct buf *page)
{
    static const char name[] = PREFIX "host_probe";
    char probe[2 * HOST_PROBE_BYTES];
    metrics_family(page, name, "gauge",
                   "The state of a host probe: 1 for the current one of none (never passed since "
                   "the host booted), well and failed; 0 for the others.");
    for (size_t i = 0; i < w->count; i++) {
        metrics_escape(w->each[i].probe, probe, sizeof(probe));
        for (enum host_probe_state t = HOST_PROBE_NEVER_WELL; t <= HOST_PROBE_FAILED; t++) {
            metrics_sample(page, name, t == w->each[i].says, "probe=\"%s\",says=\"%s\"", probe,
                           host_probe_state_name(t));
        }
    }
}

#define COUNT     NULL, METRICS_COUNT
#define FLAG      NULL, METRICS_FLAG
#define SPAN      NULL, METRICS_SPAN
#define RESULT(r) "result=\"" r "\"", METRICS_COUNT

static void write_lease(const struct host_snapshot *s, struct buf *page)
{
    static const char marks[] = PREFIX "lease_marks_total";
    int64_t age_ns = mono_since(s->now, s->verdict->observed);
    int64_t valid_ns = mono_since(s->verdict->lease_until, s->now);
    int64_t duration_ns = s->verdict->lease.duration_s * NS_PER_SEC;
    const struct metrics_row rows[] = {
        {"last_renewal_age_seconds", SPAN, s->verdict->observed.ns > 0 ? &age_ns : NULL,
         "Time since the host observed the last renewal. It normally stays below the renew "
         "interval and a little more."},
        {"readiness_valid_seconds", SPAN, s->verdict->lease_until.ns > 0 ? &valid_ns : NULL,
         "Time until the Lease expires unless the DPU renews it; negative afterwards."},
        {"lease_duration_seconds", SPAN, &duration_ns,
         "The duration on the Lease; 0 before the host saw one."},
        {"dpu_reboots_total", COUNT, &s->monitor.reboots,
         "Reboots of the DPU, by a changed boot ID."},
        {"dpu_reboot_timestamp_seconds", SPAN,
         s->verdict->dpu_rebooted.ns > 0 ? &s->verdict->dpu_rebooted.ns : NULL,
         "When the host noticed the last of them, by its own clock; absent if there was none "
         "since the host booted."},
        {"renewals_observed_total", COUNT, &s->monitor.renewals,
         "Renewals of the Lease that the host observed."},
        {"confirming_reads_total", RESULT("answered"), &s->watch->confirmed,
         "Reads of the Lease on a fresh connection because a renewal is late or the watch is "
         "broken: answered (in any way) or failed."},
        {"confirming_reads_total", RESULT("failed"), &s->watch->confirm_failed, NULL},
        {"lease_write_forbidden", FLAG, &s->watch->may_not_write,
         "1 if the API server forbids the host's writes to the Lease. The host then decides by "
         "reads alone, and reports living DPUs as dead while the API server takes no writes."},
        {"watches_opened_total", COUNT, &s->watch->watches,
         "Watches that the API server accepted. Each lasts 5 to 10 minutes; a higher rate is a "
         "sign of trouble."},
        {"lease_polling", FLAG, &s->watch->is_polling,
         "1 if the host polls the Lease because list or watch is forbidden."},
        {"lease_repairs_total", COUNT, &s->keeper->written,
         "How often the host created or repaired the Lease."},
        {"api_reachable", FLAG, &s->monitor.api_reachable,
         "1 if the API server answered the last read of the Lease, or the watch delivered "
         "something."},
        {"api_outage_seconds_total", SPAN, &s->monitor.outage_ns,
         "Time without contact to the API server, including the current outage."},
        {"dpu_clock_skew_seconds", SPAN, s->monitor.has_skew ? &s->monitor.skew_ns : NULL,
         "The DPU's clock minus the host's, by the stamp of the last renewal. It includes the "
         "renewal's delay and, until the next renewal, an outage or restart. No verdict depends "
         "on it."},
    };
    metrics_rows(page, rows, ARRAY_LEN(rows));
    metrics_family(page, marks, "counter",
                   "Writes to the Lease that prove that the DPU has not renewed it, by outcome. "
                   "One at the agent's start is a trial: it writes nothing.");
    for (int i = 0; i < MARK_OUTCOMES; i++) {
        metrics_sample(page, marks, (double)s->watch->marks[i], "outcome=\"%s\"",
                       mark_outcome_name((enum mark_outcome)i));
    }
}

static void write_outputs(const struct host_snapshot *s, struct buf *page)
{
    const struct metrics_row rows[] = {
        {"readiness_admit", FLAG, &s->verdict->admit,
         "1 while CNI ADD is admitted: always if Ready, by the last known state if Unknown."},
        {"record_writes_total", COUNT, &s->record->writes,
         "Successful writes of the readiness record."},
        {"record_write_failures_total", COUNT, &s->record->failures,
         "Failed writes of the readiness record: CNI uses an old verdict."},
        {"events_total", RESULT("created"), s->events ? &s->events->created : NULL,
         "Kubernetes Events that were written, were dropped (by the limit or a rejection), or "
         "failed and are retried."},
        {"events_total", RESULT("suppressed"), s->events ? &s->events->suppressed : NULL, NULL},
        {"events_total", RESULT("failed"), s->events ? &s->events->failed : NULL, NULL},
        {"node_condition_writes_total", RESULT("written"),
         s->condition ? &s->condition->written : NULL,
         "Writes of the Node condition DPUReady, and failed attempts to read or write it."},
        {"node_condition_writes_total", RESULT("failed"),
         s->condition ? &s->condition->failed : NULL, NULL},
    };
    metrics_rows(page, rows, ARRAY_LEN(rows));
}

static void write_pods(const struct host_snapshot *s, struct buf *page)
{
    const struct metrics_row rows[] = {
        {"pod_network_lost", COUNT, &s->pods->lost, "Pod sandboxes that lost their network."},
        {"pod_sandboxes", COUNT, &s->pods->sandboxes,
         "Pod sandboxes in the container runtime's last list."},
        {"pod_network_unseen", COUNT, &s->pods->unseen,
         "Pod sandboxes that the agent could not inspect last time."},
        {"pod_network_losses_total", COUNT, &s->pods->found,
         "How many Pod sandboxes lost their network so far."},
        {"pod_network_scans_total", RESULT("done"), &s->pods->scans,
         "Scans of all Pod sandboxes: complete, or failed because the container runtime did not "
         "answer."},
        {"pod_network_scans_total", RESULT("failed"), &s->pods->scan_failures, NULL},
        {"pod_sandbox_stops_total", RESULT("stopped"), &s->pods->stops,
         "Pod sandboxes that the agent stopped, or failed to stop, because they lost their "
         "network."},
        {"pod_sandbox_stops_total", RESULT("failed"), &s->pods->stop_failures, NULL},
    };
    metrics_rows(page, rows, ARRAY_LEN(rows));
}

void host_metrics_write(const struct host_snapshot *s, struct buf *page)
{
    write_verdict(s, page);
    if (s->watch) {
        write_lease(s, page);
    }
    if (s->verdict->host_probes.count > 0) {
        write_host_probes(&s->verdict->host_probes, page);
    }
    write_outputs(s, page);
    if (s->pods) {
        write_pods(s, page);
    }
}

static void write_metrics(void *user, struct buf *out)
{
    const struct host_page *p = user;
    const struct host_snapshot s = snapshot(p);
    host_metrics_write(&s, out);
    if (p->api) {
        kube_metrics_write(kube_client_metrics(p->api), out);
    }
}

/* ---- /livez, /readyz ------------------------------------------------------------------------- */

static bool is_live(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct host_page *p = user;
    bool works = monitor_makes_progress(p->monitor, clock_mono_now());
    return agent_page_answer(
        words, works, "%s",
        works ? "" : "the agent no longer judges the readiness: a wake-up or an answer is overdue");
}

static bool is_ready(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct host_page *p = user;
    const struct readiness *v = monitor_verdict(p->monitor);
    if (!record_writer_stats(monitor_parts(p->monitor)->record)->is_current) {
        return agent_page_answer(words, false,
                                 "the agent cannot write the readiness record; its log says why");
    }
    return agent_page_answer(words, true, "the DPU is %s (%s): %.300s",
                             readiness_state_name(v->state), readiness_reason_name(v->reason),
                             v->message);
}

/* ---- /statusz -------------------------------------------------------------------------------- */

static json_t *describe_lease(const struct readiness_lease *l)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i}", "namespace", l->ns, "name", l->name, "uid",
                     l->uid, "renewTime", l->renew_stamp, "resourceVersion", l->resource_version,
                     "durationSeconds", (int)l->duration_s);
}

static json_t *describe(const void *user)
{
    const struct host_page *p = user;
    const struct host_snapshot s = snapshot(p);
    const struct readiness *v = s.verdict;
    bool was_seen = v->observed.ns > 0;
    return json_pack(
        "{s:s, s:s, s:s, s:b, s:s, s:s, s:s, s:o, s:o, s:o, s:b, s:o, s:b, s:o}", "version",
        DPU_VERSION, "node", p->agent->node_name, "state", readiness_state_name(v->state), "admit",
        v->admit, "reason", readiness_reason_name(v->reason), "message", v->message,
        "transitionTime", rfc3339_text(v->transition, false).text, "lastRenewalAgeSeconds",
        was_seen ? agent_page_seconds(mono_since(s.now, v->observed)) : json_null(), "validSeconds",
        v->lease_until.ns > 0 ? agent_page_seconds(mono_since(v->lease_until, s.now)) : json_null(),
        "lease", describe_lease(&v->lease), "apiReachable", s.monitor.api_reachable,
        "dpuClockSkewSeconds",
        s.monitor.has_skew ? agent_page_seconds(s.monitor.skew_ns) : json_null(), "recordWritten",
        s.record->is_current, "sources", agent_options_sources(p->agent));
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
