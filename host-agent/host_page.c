/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/host_page.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "host-agent/condition.h"
#include "host-agent/lease_keeper.h"
#include "host-agent/outputs/events.h"
#include "loop/agent_page.h"

#include <stdlib.h>

struct host_page {
    struct host_page_config config;
    struct agent_page *page; /* NULL: no address */
};

static struct host_snapshot snapshot(const struct host_page *p)
{
    const struct host_page_config *c = &p->config;
    const struct monitor_parts *parts = monitor_parts(c->monitor);
    struct host_snapshot s = {.now = clock_mono_now(),
                              .verdict = *monitor_verdict(c->monitor),
                              .record = record_writer_stats(parts->record),
                              .has_lease = parts->watch != NULL,
                              .has_dra = c->dra != NULL,
                              .has_events = parts->events != NULL,
                              .has_condition = parts->condition != NULL,
                              .has_pods = c->pods != NULL};
    s.monitor = monitor_stats(c->monitor, s.now);
    if (s.has_lease) {
        s.watch = lease_watch_stats(parts->watch);
        s.lease_writes = lease_keeper_writes(parts->keeper);
    }
    if (s.has_dra) {
        s.dra = dra_service_stats(c->dra);
    }
    if (s.has_pods) {
        s.pods = podnet_stats(c->pods);
    }
    if (s.has_events) {
        s.events = events_stats(parts->events);
    }
    if (s.has_condition) {
        s.condition = condition_stats(parts->condition);
    }
    return s;
}

static void write_metrics(void *user, struct metrics_page *out)
{
    const struct host_page *p = user;
    const struct host_snapshot s = snapshot(p);
    host_metrics_write(&s, out);
    if (p->config.api) {
        kube_metrics_write(p->config.api, out);
    }
    metrics_common(out, "dpu_heartbeat_build_info");
}

static void say_verdict(const struct readiness *v, char words[static AGENT_PAGE_WORDS_BYTES])
{
    text_format(words, AGENT_PAGE_WORDS_BYTES, "the DPU is %s (%s): %.300s",
                readiness_state_name(v->state), readiness_reason_name(v->reason),
                v->message); /* for people: may be cut */
}

static bool is_live(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct host_page *p = user;
    bool works = monitor_makes_progress(p->config.monitor, clock_mono_now());
    if (!works) {
        text_format(words, AGENT_PAGE_WORDS_BYTES,
                    "the readiness is no longer judged: a wake-up or an answer is overdue");
    }
    return works;
}

static bool is_ready(void *user, char words[static AGENT_PAGE_WORDS_BYTES])
{
    const struct host_page *p = user;
    bool is_written = record_writer_stats(monitor_parts(p->config.monitor)->record).is_current;
    if (is_written) {
        say_verdict(monitor_verdict(p->config.monitor), words);
    } else {
        text_format(words, AGENT_PAGE_WORDS_BYTES,
                    "the readiness record cannot be written; the log says why");
    }
    return is_written;
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

static json_t *describe(const struct host_page *p, const struct host_snapshot *s)
{
    const struct readiness *v = &s->verdict;
    bool was_seen = v->observed.ns > 0;
    return json_pack(
        "{s:s, s:s, s:s, s:b, s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:b, s:o, s:o}", "version",
        DPU_VERSION, "node", p->config.agent->node_name, "state", readiness_state_name(v->state),
        "admit", v->admit, "reason", readiness_reason_name(v->reason), "message", v->message,
        "transitionTime", wall_text(v->transition), "lastRenewalAgeSeconds",
        was_seen ? seconds(mono_since(s->now, v->observed)) : json_null(), "validSeconds",
        v->lease_until.ns > 0 ? seconds(mono_since(v->lease_until, s->now)) : json_null(), "lease",
        describe_lease(&v->lease), "apiReachable", s->monitor.api_reachable, "dpuClockSkewSeconds",
        s->monitor.has_skew ? seconds(s->monitor.skew_ns) : json_null(), "recordWritten",
        s->record.is_current, "dra", describe_dra(s), "sources",
        agent_options_sources(p->config.agent));
}

static int write_status(void *user, struct buf *out)
{
    const struct host_page *p = user;
    const struct host_snapshot s = snapshot(p);
    CLEANUP(json) json_t *status = describe(p, &s);
    CLEANUP(free) char *text = status ? json_text_dump(status) : NULL;
    return text ? buf_appendf(out, NULL, "%s\n", text) : ERR_NOMEM;
}

int host_page_start(struct ev_loop *loop, const struct host_page_config *config,
                    struct host_page **out, struct err *e)
{
    CLEANUP(free) struct host_page *p = calloc(1, sizeof(*p));
    if (!p) {
        return err_no_memory(e);
    }
    p->config = *config;
    const struct agent_page_config page = {.address = config->agent->http_bind_address,
                                           .program = "dpu-host-agent",
                                           .is_live = is_live,
                                           .is_ready = is_ready,
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

void host_page_stop(struct host_page *page)
{
    if (page) {
        agent_page_stop(page->page);
        free(page);
    }
}
