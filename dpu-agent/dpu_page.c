/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/dpu_page.h"

#include "base/clock.h"
#include "base/text.h"

#include <string.h>

#define PREFIX "dpu_heartbeat_"

enum { LABEL_BYTES = 2 * PROBE_NAME_BYTES + 32 };

static const struct lease_writer_stats *lease_stats(const struct dpu_page *p)
{
    return *p->writer ? lease_writer_stats(*p->writer) : NULL;
}

/* ---- /metrics -------------------------------------------------------------------------------- */

static void write_lease(const struct dpu_snapshot *s, struct buf *page)
{
    static const char failures[] = PREFIX "lease_renewal_failures_total";
    const struct lease_writer_stats *l = s->lease;
    int64_t age_ns = mono_since(s->now, l->renewed_at);
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

static void write_runs(const struct dpu_snapshot *s, struct buf *page)
{
    static const char runs[] = PREFIX "probe_runs_total";
    char name[LABEL_BYTES];
    metrics_family(page, runs, "counter",
                   "Runs of a probe, by its text (without settings, cut at 127 bytes), its place "
                   "in the configuration, and the result: passed, refused (nobody listens), "
                   "silent (no answer in time), denied (no permission), missing (no socket) or "
                   "wrong (an unexpected answer).");
    for (size_t i = 0; i < s->verdict->probe_count; i++) {
        metrics_escape(s->verdict->probes[i].name, name, sizeof(name));
        for (enum probe_outcome o = PROBE_PASSED; o < PROBE_OUTCOME_COUNT; o++) {
            metrics_sample(page, runs, (double)s->probes[i].runs[o],
                           "probe=\"%s\",index=\"%zu\",result=\"%s\"", name, i,
                           probe_outcome_name(o));
        }
    }
}

/* Of each probe that ran one value. */
static void write_last(const struct dpu_snapshot *s, bool is_span, struct buf *page)
{
    const char *family = is_span ? PREFIX "probe_duration_seconds" : PREFIX "probe_success";
    char name[LABEL_BYTES];
    metrics_family(page, family, "gauge",
                   is_span ? "Duration of a probe's last run."
                           : "1 if a probe passes, by its thresholds; absent before it ran.");
    for (size_t i = 0; i < s->verdict->probe_count; i++) {
        metrics_escape(s->verdict->probes[i].name, name, sizeof(name));
        if (s->verdict->probes[i].ran) {
            metrics_sample(page, family,
                           is_span ? (double)s->probes[i].last_ns / (double)NS_PER_SEC
                                   : !s->verdict->probes[i].failing,
                           "probe=\"%s\",index=\"%zu\"", name, i);
        }
    }
}

void dpu_metrics_write(const struct dpu_snapshot *s, struct buf *page)
{
    bool is_healthy = s->verdict->state == PROBE_HEALTHY;
    uint64_t probe_count = s->verdict->probe_count;
    const struct metrics_row rows[] = {
        {"dpu_healthy", NULL, METRICS_FLAG,
         s->verdict->state == PROBE_HEALTH_UNKNOWN ? NULL : &is_healthy,
         "1 if all probes on the DPU pass, or there are none."},
        {"probes", NULL, METRICS_COUNT, s->lease ? &probe_count : NULL,
         "Configured probes. With 0, the heartbeat proves only that dpu-agent runs."},
    };
    metrics_rows(page, rows, ARRAY_LEN(rows));
    if (s->verdict->probe_count > 0) {
        write_runs(s, page);
        write_last(s, false, page);
        write_last(s, true, page);
    }
    if (s->lease) {
        write_lease(s, page);
    }
}

static void write_metrics(void *user, struct buf *out)
{
    const struct dpu_page *p = user;
    const struct dpu_snapshot s = {.now = clock_mono_now(),
                                   .verdict = probe_set_state(p->probes),
                                   .probes = probe_set_stats(p->probes),
                                   .lease = lease_stats(p)};
    dpu_metrics_write(&s, out);
    if (p->api) {
        kube_metrics_write(kube_client_metrics(p->api), out);
    }
}

/* ---- /livez, /readyz, /servingz -------------------------------------------------------------- */

static bool is_live(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct dpu_page *p = user;
    const struct lease_writer *writer = *p->writer;
    bool works = !writer || lease_writer_makes_progress(writer, clock_mono_now());
    return agent_page_answer(words, works, "%s",
                             works ? "" : "the lease is no longer renewed: a wake-up is overdue");
}

static bool is_ready(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct dpu_page *p = user;
    const struct lease_writer_stats *lease = lease_stats(p);
    const struct probe_state *v = probe_set_state(p->probes);
    if (p->agent->disabled_by) {
        return agent_page_answer(words, true, "the health check is disabled");
    }
    if (!lease) {
        return agent_page_answer(words, false, "the node's name is not known: %.300s", p->awaited);
    }
    if (v->state == PROBE_UNHEALTHY) {
        return agent_page_answer(words, true, "the DPU is unhealthy, which its lease says: %.300s",
                                 v->message);
    }
    if (lease->renewals == 0) {
        return agent_page_answer(words, false,
                                 "the lease has not been renewed yet; the log says why");
    }
    int64_t age_ns = mono_since(clock_mono_now(), lease->renewed_at);
    return agent_page_answer(words, age_ns < p->agent->lease_duration_ns,
                             "the lease was renewed %.1f s ago",
                             (double)age_ns / (double)NS_PER_SEC);
}

/* The probes' verdict alone: whoever acts on it must not act on an API server that is away. */
static bool is_serving(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct dpu_page *p = user;
    const struct probe_state *v = probe_set_state(p->probes);
    if (p->agent->disabled_by) {
        return agent_page_answer(words, true, "the health check is disabled: nothing is asked");
    }
    if (v->state == PROBE_HEALTH_UNKNOWN) {
        return agent_page_answer(words, false, "not every probe has an answer yet");
    }
    if (v->state == PROBE_UNHEALTHY) {
        return agent_page_answer(words, false, "%s", v->message);
    }
    return agent_page_answer(words, true, "%s",
                             v->probe_count > 0 ? "every probe passes" : p->no_probe);
}

/* ---- /statusz -------------------------------------------------------------------------------- */

static json_t *seconds(int64_t ns)
{
    return json_real((double)ns / (double)NS_PER_SEC);
}

static json_t *describe_probe(const struct probe_history *probe, const struct probe_stats *stats)
{
    const char *state = !probe->ran ? "Unknown" : probe->failing ? "Failing" : "Passing";
    char name[2 * PROBE_NAME_BYTES];
    char reason[2 * PROBE_WORDS_BYTES];
    text_sanitize(name, sizeof(name), probe->name, strlen(probe->name));
    text_sanitize(reason, sizeof(reason), probe->reason, strlen(probe->reason));
    json_t *runs = json_object();
    for (enum probe_outcome o = PROBE_PASSED; o < PROBE_OUTCOME_COUNT; o++) {
        (void)json_object_set_new(runs, probe_outcome_name(o),
                                  json_integer((json_int_t)stats->runs[o]));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "probe", name, "state", state, "outcome",
                     probe_outcome_name(probe->outcome), "reason", reason, "runs", runs,
                     "lastSeconds", seconds(stats->last_ns));
}

static json_t *describe_probes(const struct dpu_page *p)
{
    const struct probe_state *v = probe_set_state(p->probes);
    const struct probe_stats *stats = probe_set_stats(p->probes);
    json_t *probes = json_array();
    for (size_t i = 0; i < v->probe_count; i++) {
        (void)json_array_append_new(probes, describe_probe(&v->probes[i], &stats[i]));
    }
    return probes;
}

static const char *phase(const struct dpu_page *p)
{
    if (p->agent->disabled_by) {
        return "Disabled";
    }
    return *p->writer ? lease_writer_phase(*p->writer) : "AwaitingNodeName";
}

static json_t *describe(const void *user)
{
    const struct dpu_page *p = user;
    static const char *const states[] = {[PROBE_HEALTH_UNKNOWN] = "Unknown",
                                         [PROBE_HEALTHY] = "Healthy",
                                         [PROBE_UNHEALTHY] = "Unhealthy"};
    const struct agent_config *a = p->agent;
    const struct probe_state *v = probe_set_state(p->probes);
    const struct lease_writer_stats *lease = lease_stats(p);
    bool was_renewed = lease && lease->renewals > 0;
    return json_pack("{s:s, s:s*, s:s, s:s, s:o, s:{s:s, s:s*}, s:s, s:o, s:o}", "version",
                     DPU_VERSION, "node", a->node_name, "health", states[v->state], "message",
                     v->probe_count > 0 ? v->message : p->no_probe, "probes", describe_probes(p),
                     "lease", "namespace", a->lease_namespace, "name", a->lease_name, "renewer",
                     phase(p), "lastRenewalAgeSeconds",
                     was_renewed ? seconds(mono_since(clock_mono_now(), lease->renewed_at))
                                 : json_null(),
                     "sources", agent_options_sources(a));
}

int dpu_page_start(struct dpu_page *p, struct ev_loop *loop, struct err *e)
{
    const struct agent_page_config page = {.address = p->agent->http_bind_address,
                                           .program = "dpu-agent",
                                           .is_live = is_live,
                                           .is_ready = is_ready,
                                           .is_serving = is_serving,
                                           .write_metrics = write_metrics,
                                           .describe = describe,
                                           .user = p};
    return agent_page_start(loop, &page, &p->page, e);
}
