/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/dra/plugin.h"
#include "dra-driver/driver.h"
#include "dra-driver/record_reader.h"
#include "kube/kube_client.h"
#include "loop/metrics.h"
#include "outputs/kube_sync.h"

#define PREFIX "dpu_heartbeat_"

/* ---- /metrics -------------------------------------------------------------------------------- */

#define COUNT NULL, METRICS_COUNT
#define FLAG  NULL, METRICS_FLAG

static const char *const healths[] = {
    [HEALTH_UNKNOWN] = "unknown", [HEALTH_HEALTHY] = "healthy", [HEALTH_UNHEALTHY] = "unhealthy"};

void driver_metrics_write(const struct dra_stats *stats, const struct readiness *verdict,
                          struct buf *page)
{
    static const char health[] = PREFIX "dra_health";
    const struct metrics_row rows[] = {
        {"dra_registered", FLAG, &stats->is_registered,
         "1 while the driver is registered with the kubelet."},
        {"dra_leading", FLAG, &stats->is_leading,
         "1 if this instance keeps the ResourceSlice; 0 beside another one in a rolling update."},
        {"dra_registrations_total", COUNT, &stats->registrations,
         "How often the kubelet accepted the driver."},
        {"dra_registration_failures_total", COUNT, &stats->rejections,
         "How often the kubelet rejected the driver."},
        {"dra_health_streams", COUNT, &stats->health_streams,
         "Open health streams of the kubelet."},
        {"dra_health_reports_total", COUNT, &stats->health_reports,
         "Health reports that the driver sent."},
        {"dra_claims_prepared_total", COUNT, &stats->claims_prepared,
         "Claims that the driver prepared for Pods."},
        {"dra_claim_failures_total", COUNT, &stats->claim_failures,
         "Claims that the driver could not prepare."},
        {"dra_claims_unprepared_total", COUNT, &stats->claims_unprepared,
         "Claims that the driver unprepared."},
        {"dra_slice_published", FLAG, &stats->is_slice_published,
         "1 while the published ResourceSlice is up to date; 0 also where another instance leads."},
        {"dra_slice_updates_total", COUNT, &stats->slice->written, "Writes of the ResourceSlice."},
        {"dra_slice_failures_total", COUNT, &stats->slice->failed,
         "Failed requests for the ResourceSlice, including reads."},
    };
    metrics_family(page, health, "gauge",
                   "The DPU's health as the driver reports it to the kubelet: 1 for the current "
                   "health, 0 for the others.");
    const struct health_report report = health_report_of(verdict);
    for (size_t i = 0; i < ARRAY_LEN(healths); i++) {
        metrics_sample(page, health, report.status == (enum health_status)i, "health=\"%s\"",
                       healths[i]);
    }
    metrics_rows(page, rows, ARRAY_LEN(rows));
}

static void write_metrics(void *user, struct buf *out)
{
    const struct driver_page *p = user;
    driver_metrics_write(dra_service_stats(p->service), record_reader_verdict(p->record), out);
    kube_metrics_write(kube_client_metrics(p->api), out);
}

/* ---- /livez, /readyz, /statusz --------------------------------------------------------------- */

static bool is_live(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    return agent_page_answer(words, true, "%s", ""); /* its loop has just answered */
}

static bool is_ready(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct driver_page *p = user;
    const struct dra_stats *stats = dra_service_stats(p->service);
    if (stats->is_registered) {
        return agent_page_answer(words, true, "the kubelet has registered driver '%s'",
                                 stats->driver);
    }
    return agent_page_answer(words, false, "the kubelet has not registered driver '%s' in '%s'%s%s",
                             stats->driver, p->config->dra.names.registry_dir,
                             text_is_empty(stats->refusal) ? "" : ": ", stats->refusal);
}

static json_t *describe(const void *user)
{
    const struct driver_page *p = user;
    const struct dra_stats *stats = dra_service_stats(p->service);
    const struct readiness *v = record_reader_verdict(p->record);
    const struct health_report report = health_report_of(v);
    return json_pack(
        "{s:s, s:s, s:s, s:b, s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:s, s:I, s:b}", "version",
        DPU_VERSION, "node", p->config->agent.node_name, "state", readiness_state_name(v->state),
        "admit", v->admit, "reason", readiness_reason_word(v), "message", v->message,
        "transitionTime", rfc3339_text(v->transition, false).text, "health", healths[report.status],
        "driver", stats->driver, "registered", stats->is_registered, "leading", stats->is_leading,
        "refusal", stats->refusal, "healthStreams", (json_int_t)stats->health_streams,
        "slicePublished", stats->is_slice_published);
}

int driver_page_start(struct driver_page *p, struct ev_loop *loop, struct err *e)
{
    const struct agent_page_config page = {.address = p->config->agent.http_bind_address,
                                           .program = "dpu-dra-driver",
                                           .is_live = is_live,
                                           .is_ready = is_ready,
                                           .write_metrics = write_metrics,
                                           .describe = describe,
                                           .user = p};
    return agent_page_start(loop, &page, &p->page, e);
}
