/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/status.h"

#include "base/rfc3339.h"
#include "base/text.h"

#include <string.h>

/* The members of json_pack are taken over; a NULL one makes the whole NULL. */

static json_t *seconds(int64_t ns)
{
    int64_t ms = ns / NS_PER_MS; /* enough, and read better */
    return json_real((double)ms / 1000);
}

static json_t *seconds_if(bool is_known, int64_t ns)
{
    return is_known ? seconds(ns) : json_null();
}

static json_t *stamp(struct wall at)
{
    char text[RFC3339_BYTES];
    rfc3339_format_seconds(at, text);
    return json_string(text);
}

/* From now until then, negative once it is over; null for never. */
/* null: never, or not known. */
static json_t *seconds_until(struct mono until, struct mono now)
{
    return seconds_if(!mono_is_never(until) && until.ns != 0, mono_since(until, now));
}

static json_t *text_or_null(const char *text)
{
    char shown[NAMES_MESSAGE_BYTES];
    if (text_is_empty(text)) {
        return json_null();
    }
    text_sanitize(shown, sizeof(shown), text, strlen(text));
    return json_string(shown);
}

static json_t *gate_json(const struct node_look *look)
{
    const struct gate_decision *g = &look->gate;
    return json_pack("{s:b, s:i, s:s, s:o, s:o, s:o}", "admitsPods", g->admit, "statusCode",
                     gate_status_code(g), "reason", readiness_reason_name(g->reason), "message",
                     text_or_null(g->message), "note", text_or_null(g->note), "forSeconds",
                     seconds_if(look->since.ns > 0, mono_since(look->now, look->since)));
}

static json_t *witnesses_json(const struct readiness_witnesses *w)
{
    json_t *all = json_array();
    for (size_t i = 0; i < w->count; i++) {
        const struct readiness_witness *witness = &w->each[i];
        (void)json_array_append_new(/* without memory it is not there */
                                    all,
                                    json_pack("{s:o, s:s}", "probe", text_or_null(witness->probe),
                                              "says", readiness_testimony_name(witness->says)));
    }
    return all;
}

static json_t *record_json(const struct node_look *look)
{
    const struct record *r = &look->record;
    const struct readiness *v = &r->verdict;
    int64_t skew_ns = 0;
    if (!look->has_record) {
        return json_pack("{s:o, s:o}", "file", text_or_null(look->path), "problem",
                         text_or_null(look->problem));
    }
    bool has_skew = node_look_dpu_skew(look, &skew_ns);
    return json_pack("{s:o, s:n, s:o, s:s, s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, "
                     "s:b, s:o, s:o, s:o}",
                     "file", text_or_null(look->path), "problem", "node", text_or_null(r->node),
                     "state", readiness_state_name(v->state), "admit", v->admit, "reason",
                     readiness_reason_name(v->reason), "message", text_or_null(v->message),
                     "transitionTime", stamp(v->transition), "lastRenewalAgeSeconds",
                     seconds_if(v->observed.ns > 0, mono_since(look->now, v->observed)),
                     "validSeconds", seconds_until(v->lease_until, look->now), "writerSeconds",
                     seconds_until(r->writer_until, look->now), "holdSeconds",
                     seconds_until(r->hold_until, look->now), "dpuClockSkewSeconds",
                     seconds_if(has_skew, skew_ns), "writtenTime", stamp(r->written), "writerPid",
                     (int)r->pid, "writerAlive", look->writer_exists, "dpuBootId",
                     text_or_null(v->dpu_boot_id), "dpuRebootTime",
                     v->dpu_rebooted.ns > 0 ? stamp(v->dpu_rebooted) : json_null(), "hostProbes",
                     witnesses_json(&v->witnesses));
}

static json_t *cni_json(const struct status *s)
{
    const struct cni_entry *first = cni_scan_first(&s->cni);
    const struct cni_entry *gated = cni_scan_gated(&s->cni);
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b}", "directory", text_or_null(s->cni_dir),
        "problem", text_or_null(s->cni.problem), "first", text_or_null(first ? first->file : NULL),
        "network", text_or_null(first ? first->network : NULL), "plugins",
        text_or_null(first ? first->types : NULL), "gate", text_or_null(gated ? gated->file : NULL),
        "gated", first && first->is_gated, "statusSupported", first && first->speaks_status);
}

static json_t *slice_json(const struct status *s)
{
    if (!s->slice.is_found) {
        return json_pack("{s:b, s:o}", "found", 0, "problem", text_or_null(s->slice.problem));
    }
    return json_pack("{s:b, s:n, s:I, s:b, s:o}", "found", 1, "problem", "devices",
                     (json_int_t)s->slice_devices, "tainted", s->is_tainted, "taint",
                     text_or_null(s->taint));
}

static json_t *lease_json(const struct status *s)
{
    static const char *const health[] = {[LEASE_HEALTH_NONE] = NULL,
                                         [LEASE_HEALTH_UNHEALTHY] = NAMES_HEALTH_UNHEALTHY,
                                         [LEASE_HEALTH_SHUTDOWN] = NAMES_HEALTH_SHUTDOWN};
    const struct agent_config *a = &s->config->agent;
    const struct lease_view *l = &s->lease_view;
    if (!s->lease.is_found) {
        return json_pack("{s:s, s:s, s:b, s:o}", "namespace", a->lease_namespace, "name",
                         a->lease_name, "found", 0, "problem", text_or_null(s->lease.problem));
    }
    return json_pack(
        "{s:s, s:s, s:b, s:n, s:o, s:b, s:o, s:i, s:s?, s:o, s:o, s:o, s:b}", "namespace",
        a->lease_namespace, "name", a->lease_name, "found", 1, "problem", "holder",
        text_or_null(l->holder), "holderExpected", text_equal(l->holder, a->holder_identity),
        "renewTime", text_or_null(l->renew_stamp), "durationSeconds", (int)l->duration_s, "health",
        health[l->health], "healthMessage", text_or_null(l->health_message), "resourceVersion",
        text_or_null(l->resource_version), "uid", text_or_null(l->uid), "uidOfRecord",
        s->look.has_record && text_equal(l->uid, s->look.record.verdict.lease.uid));
}

json_t *status_json(const struct status *s)
{
    json_t *dra = json_pack("{s:o, s:b, s:b, s:o*}", "driver", text_or_null(s->config->driver),
                            "registrationSocket", s->offers_device, "serviceSocket",
                            s->serves_device, "slice", s->slice.is_asked ? slice_json(s) : NULL);
    json_t *api = json_pack("{s:o, s:b, s:o, s:o}", "server", text_or_null(s->server), "reached",
                            s->is_reached, "problem", text_or_null(s->api_problem),
                            "clockSkewSeconds", seconds_if(s->has_api_skew, s->api_skew_ns));
    json_t *pods = s->has_pods ? json_pack("{s:i, s:i, s:i}", "count", (int)s->pods, "lost",
                                           (int)s->pods_lost, "unseen", (int)s->pods_unseen)
                               : NULL;
    return json_pack("{s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o*, s:o*}", "node",
                     s->config->agent.node_name, "version", DPU_VERSION, "time",
                     stamp(s->look.wall), "answer", node_answer_name(s->look.answer), "gate",
                     gate_json(&s->look), "record", record_json(&s->look), "cni", cni_json(s),
                     "dra", dra, "api", api, "lease", s->lease.is_asked ? lease_json(s) : NULL,
                     "pods", pods);
}
