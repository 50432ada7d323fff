/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/dpu_page.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "loop/agent_page.h"

#include <stdlib.h>
#include <string.h>

struct dpu_page {
    struct dpu_page_config config;
    struct agent_page *page; /* NULL: no address */
};

static const struct lease_writer_stats *lease_stats(const struct dpu_page *p)
{
    return *p->config.writer ? lease_writer_stats(*p->config.writer) : NULL;
}

static void write_metrics(void *user, struct metrics_page *out)
{
    const struct dpu_page *p = user;
    const struct dpu_snapshot s = {.now = clock_mono_now(),
                                   .verdict = probe_set_state(p->config.probes),
                                   .probes = probe_set_stats(p->config.probes),
                                   .lease = lease_stats(p)};
    dpu_metrics_write(&s, out);
    if (p->config.api) {
        kube_metrics_write(p->config.api, out);
    }
    metrics_common(out, "dpu_heartbeat_build_info");
}

static bool is_live(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct dpu_page *p = user;
    const struct lease_writer *writer = *p->config.writer;
    bool works = !writer || lease_writer_makes_progress(writer, clock_mono_now());
    if (!works) {
        text_format(words, AGENT_PAGE_WORDS_BYTES,
                    "the lease is no longer renewed: a wake-up is overdue");
    }
    return works;
}

static bool is_ready(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct dpu_page *p = user;
    const struct lease_writer_stats *lease = lease_stats(p);
    const struct probe_state *v = probe_set_state(p->config.probes);
    if (p->config.agent->disabled_by) {
        text_format(words, AGENT_PAGE_WORDS_BYTES, "the health check is disabled");
        return true;
    }
    if (!lease) {
        text_format(words, AGENT_PAGE_WORDS_BYTES, "the node's name is not known: %.300s",
                    p->config.awaited);
        return false;
    }
    if (v->state == PROBE_UNHEALTHY) {
        text_format(words, AGENT_PAGE_WORDS_BYTES,
                    "the DPU is unhealthy, which its lease says: %.300s", v->message);
        return true;
    }
    if (lease->renewals == 0) {
        text_format(words, AGENT_PAGE_WORDS_BYTES,
                    "the lease has not been renewed yet; the log says why");
        return false;
    }
    int64_t age_ns = mono_since(clock_mono_now(), lease->renewed_at);
    bool is_fresh = age_ns < p->config.agent->lease_duration_ns;
    text_format(words, AGENT_PAGE_WORDS_BYTES, "the lease was renewed %.1f s ago",
                (double)age_ns / (double)NS_PER_SEC);
    return is_fresh;
}

/* The probes' verdict alone: whoever acts on it must not act on an API server that is away. */
static bool is_serving(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct dpu_page *p = user;
    const struct probe_state *v = probe_set_state(p->config.probes);
    if (p->config.agent->disabled_by) {
        text_format(words, AGENT_PAGE_WORDS_BYTES,
                    "the health check is disabled: nothing is asked");
        return true;
    }
    switch (v->state) {
    case PROBE_HEALTHY:
        text_format(words, AGENT_PAGE_WORDS_BYTES, "%s",
                    v->probe_count > 0 ? "every probe passes" : p->config.no_probe);
        return true;
    case PROBE_UNHEALTHY:
        text_format(words, AGENT_PAGE_WORDS_BYTES, "%s", v->message);
        return false;
    case PROBE_HEALTH_UNKNOWN:
        break;
    }
    text_format(words, AGENT_PAGE_WORDS_BYTES, "not every probe has an answer yet");
    return false;
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
        if (json_object_set_new(runs, probe_outcome_name(o),
                                json_integer((json_int_t)stats->runs[o])) != 0) {
            json_decref(runs);
            return NULL;
        }
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "probe", name, "state", state, "outcome",
                     probe_outcome_name(probe->outcome), "reason", reason, "runs", runs,
                     "lastSeconds", seconds(stats->last_ns));
}

static json_t *describe_probes(const struct dpu_page *p)
{
    const struct probe_state *v = probe_set_state(p->config.probes);
    const struct probe_stats *stats = probe_set_stats(p->config.probes);
    json_t *probes = json_array();
    for (size_t i = 0; i < v->probe_count; i++) {
        if (json_array_append_new(probes, describe_probe(&v->probes[i], &stats[i])) != 0) {
            json_decref(probes);
            return NULL;
        }
    }
    return probes;
}

static const char *phase(const struct dpu_page *p)
{
    if (p->config.agent->disabled_by) {
        return "Disabled";
    }
    return *p->config.writer ? lease_writer_phase(*p->config.writer) : "AwaitingNodeName";
}

static json_t *describe(const struct dpu_page *p)
{
    static const char *const states[] = {[PROBE_HEALTH_UNKNOWN] = "Unknown",
                                         [PROBE_HEALTHY] = "Healthy",
                                         [PROBE_UNHEALTHY] = "Unhealthy"};
    const struct agent_config *a = p->config.agent;
    const struct probe_state *v = probe_set_state(p->config.probes);
    const struct lease_writer_stats *lease = lease_stats(p);
    bool was_renewed = lease && lease->renewals > 0;
    return json_pack("{s:s, s:s*, s:s, s:s, s:o, s:{s:s, s:s*}, s:s, s:o, s:o}", "version",
                     DPU_VERSION, "node", a->node_name, "health", states[v->state], "message",
                     v->probe_count > 0 ? v->message : p->config.no_probe, "probes",
                     describe_probes(p), "lease", "namespace", a->lease_namespace, "name",
                     a->lease_name, "renewer", phase(p), "lastRenewalAgeSeconds",
                     was_renewed ? seconds(mono_since(clock_mono_now(), lease->renewed_at))
                                 : json_null(),
                     "sources", agent_options_sources(a));
}

static int write_status(void *user, struct buf *out)
{
    const struct dpu_page *p = user;
    CLEANUP(json) json_t *status = describe(p);
    CLEANUP(free) char *text = status ? json_text_dump(status) : NULL;
    return text ? buf_appendf(out, NULL, "%s\n", text) : ERR_NOMEM;
}

int dpu_page_start(struct ev_loop *loop, const struct dpu_page_config *config,
                   struct dpu_page **out, struct err *e)
{
    CLEANUP(free) struct dpu_page *p = calloc(1, sizeof(*p));
    if (!p) {
        return err_no_memory(e);
    }
    p->config = *config;
    const struct agent_page_config page = {.address = config->agent->http_bind_address,
                                           .program = "dpu-agent",
                                           .is_live = is_live,
                                           .is_ready = is_ready,
                                           .is_serving = is_serving,
                                           .write_metrics = write_metrics,
                                           .write_status = write_status,
                                           .user = p};
    int rc = agent_page_start(loop, &page, &p->page, e);
    if (rc != 0) {
        return rc;
    }
    *out = TAKE(p);
    return 0;
}

void dpu_page_stop(struct dpu_page *page)
{
    if (page) {
        agent_page_stop(page->page);
        free(page);
    }
}
