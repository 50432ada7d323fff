/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl status, watch and pods: what is seen on this node. */
#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "contract/lease.h"
#include "dpuctl/api.h"
#include "dpuctl/node.h"
#include "dpuctl/options.h"
#include "dpuctl/print.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* ---- the document: docs/dpuctl.md describes it; members are only ever added ------------------ */

static json_t *seconds_if(bool is_known, int64_t ns)
{
    return is_known ? print_json_seconds(ns) : json_null();
}

/* From now until then, negative once it is over; null: never, or not known. */
static json_t *seconds_until(struct mono until, struct mono now)
{
    return seconds_if(!mono_is_never(until) && until.ns != 0, mono_since(until, now));
}

/* Sanitized, so that whoever prints the document need not. */
static json_t *text_or_null(const char *text)
{
    char shown[NAMES_MESSAGE_BYTES];
    print_clean(shown, sizeof(shown), text);
    return text_is_empty(text) ? json_null() : json_string(shown);
}

static json_t *gate_json(const struct node_snapshot *seen)
{
    const struct gate_decision *g = &seen->gate;
    return json_pack("{s:b, s:i, s:s, s:o, s:o, s:o}", "admitsPods", g->admit, "statusCode",
                     gate_status_code(g), "reason", readiness_reason_name(g->reason), "message",
                     text_or_null(g->message), "note", text_or_null(g->note), "forSeconds",
                     seconds_if(seen->since.ns > 0, mono_since(seen->now, seen->since)));
}

static json_t *host_probes_json(const struct readiness_host_probes *probes)
{
    json_t *all = json_array();
    for (size_t i = 0; i < probes->count; i++) {
        const struct readiness_host_probe *probe = &probes->each[i];
        (void)json_array_append_new(all,
                                    json_pack("{s:o, s:s}", "probe", text_or_null(probe->probe),
                                              "says", host_probe_state_name(probe->says)));
    }
    return all;
}

static json_t *record_json(const struct node_snapshot *seen)
{
    const struct record *r = &seen->record;
    const struct readiness *v = &r->verdict;
    int64_t skew_ns = 0;
    if (!seen->has_record) {
        return json_pack("{s:o, s:o}", "file", text_or_null(seen->path), "problem",
                         text_or_null(seen->problem));
    }
    bool has_skew = node_dpu_skew(seen, &skew_ns);
    return json_pack("{s:o, s:n, s:o, s:s, s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, "
                     "s:b, s:o, s:o, s:o}",
                     "file", text_or_null(seen->path), "problem", "node", text_or_null(r->node),
                     "state", readiness_state_name(v->state), "admit", v->admit, "reason",
                     readiness_reason_name(v->reason), "message", text_or_null(v->message),
                     "transitionTime", print_json_stamp(v->transition), "lastRenewalAgeSeconds",
                     seconds_if(v->observed.ns > 0, mono_since(seen->now, v->observed)),
                     "validSeconds", seconds_until(v->lease_until, seen->now), "writerSeconds",
                     seconds_until(r->writer_until, seen->now), "holdSeconds",
                     seconds_until(r->hold_until, seen->now), "dpuClockSkewSeconds",
                     seconds_if(has_skew, skew_ns), "writtenTime", print_json_stamp(r->written),
                     "writerPid", (int)r->pid, "writerAlive", seen->writer_exists, "dpuBootId",
                     text_or_null(v->dpu_boot_id), "dpuRebootTime",
                     print_json_stamp(v->dpu_rebooted), "hostProbes",
                     host_probes_json(&v->host_probes));
}

static json_t *cni_json(const struct admin_config *config)
{
    char dir[PATH_MAX];
    CLEANUP(free) struct cni_scan *scan = MEM_NEW(struct cni_scan); /* large */
    cni_scan_directory(admin_path(config, config->cni_conf_dir, dir, sizeof(dir)), scan);
    const struct cni_entry *first = cni_scan_first(scan);
    const struct cni_entry *gated = cni_scan_gated(scan);
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b}", "directory", text_or_null(dir), "problem",
        text_or_null(scan->problem), "first", text_or_null(first ? first->file : NULL), "network",
        text_or_null(first ? first->network : NULL), "plugins",
        text_or_null(first ? first->types : NULL), "gate", text_or_null(gated ? gated->file : NULL),
        "gated", first && first->is_gated, "statusSupported", first && first->speaks_status);
}

static json_t *dra_json(const struct admin_config *config)
{
    char dir[PATH_MAX];
    struct dra_sockets found;
    (void)dra_sockets_find(config, dir, &found);
    return json_pack("{s:o, s:b, s:b}", "driver", text_or_null(config->driver),
                     "registrationSocket", found.offered > 0, "serviceSocket", found.serving > 0);
}

static const char *problem_of(const struct api_answer *answer)
{
    return answer->http_status == 404 ? "not found" : answer->message;
}

static json_t *slice_json(const struct api_answer *answer)
{
    const json_t *devices = json_object_get(json_object_get(answer->body, "spec"), "devices");
    const json_t *taints = json_object_get(json_array_get(devices, 0), "taints");
    const json_t *taint = json_array_get(taints, 0);
    const char *key = json_text_get(taint, "key");
    const char *value = json_text_get(taint, "value");
    const char *effect = json_text_get(taint, "effect");
    char shown[NAMES_MESSAGE_BYTES] = "";
    if (!answer->body) {
        return json_pack("{s:b, s:o}", "found", 0, "problem", text_or_null(problem_of(answer)));
    }
    if (taint) {
        text_format(shown, sizeof(shown), "%.200s%s%.200s:%.60s", key ? key : "", value ? "=" : "",
                    value ? value : "", effect ? effect : "");
    }
    return json_pack("{s:b, s:n, s:I, s:b, s:o}", "found", 1, "problem", "devices",
                     (json_int_t)json_array_size(devices), "tainted", taint != NULL, "taint",
                     text_or_null(shown));
}

static json_t *lease_json(const struct api_answer *answer, const struct agent_config *a,
                          const struct node_snapshot *seen)
{
    static const char *const health[] = {[LEASE_HEALTH_NONE] = NULL,
                                         [LEASE_HEALTH_UNHEALTHY] = NAMES_HEALTH_UNHEALTHY,
                                         [LEASE_HEALTH_SHUTDOWN] = NAMES_HEALTH_SHUTDOWN};
    struct lease_view l;
    struct err e = ERR_INIT;
    if (!answer->body || lease_read(answer->body, &l, &e) != 0) {
        return json_pack("{s:s, s:s, s:b, s:o}", "namespace", a->lease_namespace, "name",
                         a->lease_name, "found", 0, "problem",
                         text_or_null(answer->body ? e.msg : problem_of(answer)));
    }
    return json_pack(
        "{s:s, s:s, s:b, s:n, s:o, s:b, s:o, s:i, s:s?, s:o, s:o, s:o, s:b}", "namespace",
        a->lease_namespace, "name", a->lease_name, "found", 1, "problem", "holder",
        text_or_null(l.holder), "holderExpected", text_equal(l.holder, a->holder_identity),
        "renewTime", text_or_null(l.renew_stamp), "durationSeconds", (int)l.duration_s, "health",
        health[l.health], "healthMessage", text_or_null(l.health_message), "resourceVersion",
        text_or_null(l.resource_version), "uid", text_or_null(l.uid), "uidOfRecord",
        seen->has_record && text_equal(l.uid, seen->record.verdict.lease.uid));
}

static void put(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new(object, key, value);
}

static void ask_api(json_t *tree, const struct admin_config *config,
                    const struct node_snapshot *seen)
{
    struct api *api = NULL;
    struct err e = ERR_INIT;
    const struct agent_config *a = &config->agent;
    int rc = api_open(config, &api, &e);
    if (rc != 0) {
        char problem[ERR_MSG_BYTES + 32];
        text_format(problem, sizeof(problem), "%s%s", e.msg, api_hint(config, rc));
        put(tree, "api",
            json_pack("{s:n, s:b, s:o, s:n}", "server", "reached", 0, "problem",
                      text_or_null(problem), "clockSkewSeconds"));
        return;
    }
    const struct api_answer *lease =
        api_ask(api, NULL,
                mem_format("/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s",
                           a->lease_namespace, a->lease_name));
    const struct api_answer *slice = api_ask(
        api, NULL,
        mem_format("/apis/resource.k8s.io/v1/resourceslices/%s-%s", config->driver, a->node_name));
    api_wait(api);
    bool is_reached = lease->http_status != 0;
    put(json_object_get(tree, "dra"), "slice", slice_json(slice));
    put(tree, "api",
        json_pack("{s:o, s:b, s:o, s:o}", "server", text_or_null(kube_client_describe(api->client)),
                  "reached", is_reached, "problem",
                  text_or_null(is_reached ? NULL : lease->message), "clockSkewSeconds",
                  seconds_if(lease->has_date, lease->skew_ns)));
    put(tree, "lease", lease_json(lease, a, seen));
    api_close(api);
}

/* Only where the agent looks at them, too. */
static void look_at_pods(json_t *tree, const struct admin_config *config)
{
    char socket[PATH_MAX];
    struct pods_snapshot pods = {.count = 0};
    if (config->asks_runtime && pods_find_runtime(config, socket) &&
        pods_snapshot_take(config, socket, &pods, NULL) == 0) {
        put(tree, "pods",
            json_pack("{s:i, s:i, s:i}", "count", (int)pods.count, "lost", (int)pods.lost, "unseen",
                      (int)pods.unseen));
        pods_snapshot_fini(&pods);
    }
}

static json_t *status_document(struct admin_config *config, const struct node_snapshot *seen)
{
    json_t *tree =
        json_pack("{s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:o}", "node", config->agent.node_name,
                  "version", DPU_VERSION, "time", print_json_stamp(seen->wall), "answer",
                  node_answer_name(seen->answer), "gate", gate_json(seen), "record",
                  record_json(seen), "cni", cni_json(config), "dra", dra_json(config));
    config->asks_runtime = !text_is_empty(config->cri_socket);
    ask_api(tree, config, seen);
    look_at_pods(tree, config);
    return tree;
}

/* ---- the document as text -------------------------------------------------------------------- */

struct page {
    const json_t *tree;
    const struct node_snapshot *seen; /* for times more exact than the document's */
    bool has_color;
    FILE *out;
};

static const char *word(const json_t *object, const char *key)
{
    const char *text = json_text_get(object, key);
    return text ? text : "";
}

static bool is(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static long long number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void label(const struct page *p, const char *name)
{
    (void)fprintf(p->out, "  %s%s%s\t", print_on(p->has_color, PRINT_FAINT), name,
                  print_off(p->has_color));
}

static void put_head(const struct page *p)
{
    static const enum print_color colors[] = {
        [NODE_READY] = PRINT_GOOD, [NODE_NOT_READY] = PRINT_BAD, [NODE_UNKNOWN] = PRINT_DOUBT};
    const struct node_snapshot *seen = p->seen;
    const char *off = print_off(p->has_color);
    char span[PRINT_SPAN_BYTES];
    char message[NAMES_MESSAGE_BYTES];
    print_clean(message, sizeof(message), node_message(seen));
    (void)fprintf(p->out, "%s%s%s: %s%s%s (%s)", print_on(p->has_color, PRINT_HEAD),
                  word(p->tree, "node"), off, print_on(p->has_color, colors[seen->answer]),
                  node_answer_name(seen->answer), off, readiness_reason_name(seen->gate.reason));
    if (seen->since.ns > 0) {
        (void)fprintf(p->out, " for %s", print_span(mono_since(seen->now, seen->since), span));
    }
    (void)fprintf(p->out, "\n  %s\n\n", message);
    label(p, "pods");
    (void)fprintf(p->out, "%s, STATUS answers %d\n",
                  seen->gate.admit ? "ADD is let through" : "ADD fails at once",
                  gate_status_code(&seen->gate));
}

static void put_record(const struct page *p)
{
    const json_t *record = json_object_get(p->tree, "record");
    const struct readiness *v = &p->seen->record.verdict;
    char span[PRINT_SPAN_BYTES];
    label(p, "record");
    if (!p->seen->has_record) {
        (void)fprintf(p->out, "%s: %s\n", word(record, "file"), word(record, "problem"));
        return;
    }
    int64_t left_ns = mono_since(v->lease_until, p->seen->now);
    (void)fprintf(p->out, "%s (%s)\n\t", word(record, "state"), word(record, "file"));
    if (v->observed.ns > 0) {
        (void)fprintf(p->out, "last renewal %s ago, ",
                      print_span(mono_since(p->seen->now, v->observed), span));
    }
    if (v->reason == REASON_HEALTH_CHECK_DISABLED) {
        (void)fputs("the health check is disabled\n", p->out);
    } else if (mono_is_never(v->lease_until)) {
        (void)fputs("valid until told otherwise\n", p->out);
    } else if (v->lease_until.ns == 0) {
        (void)fputs("no renewal was seen yet\n", p->out);
    } else {
        (void)fprintf(p->out, left_ns > 0 ? "valid for %s\n" : "over for %s\n",
                      print_span(left_ns, span));
    }
}

static void put_agent(const struct page *p)
{
    const struct record *r = &p->seen->record;
    char span[PRINT_SPAN_BYTES];
    int64_t left_ns = mono_since(r->writer_until, p->seen->now);
    label(p, "agent");
    (void)fprintf(p->out, "pid %d%s, ", (int)r->pid,
                  p->seen->writer_exists ? ""
                  : r->pid == 1          ? " of its pod"
                                         : " (no such dpu-host-agent seen from here)");
    (void)print_span(left_ns, span);
    if (left_ns > 0) {
        (void)fprintf(p->out, "writes again within %s\n", span);
    } else {
        (void)fprintf(p->out, "%soverdue for %s%s\n", print_on(p->has_color, PRINT_BAD), span,
                      print_off(p->has_color));
    }
}

static void put_dpu(const struct page *p)
{
    const struct readiness *v = &p->seen->record.verdict;
    char span[PRINT_SPAN_BYTES];
    if (v->dpu_boot_id[0] == '\0') {
        return;
    }
    label(p, "DPU");
    (void)fprintf(p->out, "boot %s", word(json_object_get(p->tree, "record"), "dpuBootId"));
    if (v->dpu_rebooted.ns > 0) {
        (void)fprintf(p->out, ", %srebooted %s ago%s", print_on(p->has_color, PRINT_DOUBT),
                      print_span(wall_since(p->seen->wall, v->dpu_rebooted), span),
                      print_off(p->has_color));
    }
    (void)fputc('\n', p->out);
}

static void put_host_probes(const struct page *p)
{
    static const struct {
        const char *words;
        enum print_color color;
    } rows[] = {[HOST_PROBE_NEVER_WELL] = {"has not been well since this host was started: proves "
                                           "nothing",
                                           PRINT_DOUBT},
                [HOST_PROBE_WELL] = {"well", PRINT_GOOD},
                [HOST_PROBE_FAILED] = {"failed", PRINT_BAD}};
    const json_t *probes = json_object_get(json_object_get(p->tree, "record"), "hostProbes");
    for (size_t i = 0; i < json_array_size(probes); i++) {
        enum host_probe_state says = p->seen->record.verdict.host_probes.each[i].says;
        label(p, i == 0 ? "probes" : "");
        (void)fprintf(p->out, "%s: %s%s%s\n", word(json_array_get(probes, i), "probe"),
                      print_on(p->has_color, rows[says].color), rows[says].words,
                      print_off(p->has_color));
    }
}

static void put_lease(const struct page *p)
{
    const json_t *lease = json_object_get(p->tree, "lease");
    const char *holder = word(lease, "holder");
    const char *renewed = word(lease, "renewTime");
    const char *health = word(lease, "health");
    const char *said = word(lease, "healthMessage");
    if (!lease) {
        return;
    }
    label(p, "lease");
    (void)fprintf(p->out, "%s/%s: ", word(lease, "namespace"), word(lease, "name"));
    if (!is(lease, "found")) {
        const char *problem = word(lease, "problem");
        (void)fprintf(p->out, "%s\n", problem[0] != '\0' ? problem : "no answer");
        return;
    }
    (void)fprintf(
        p->out, "held by %s%s, %lld s\n\t%s %s%s\n", holder[0] != '\0' ? holder : "nobody",
        is(lease, "holderExpected") ? "" : " (not the one expected)",
        number(lease, "durationSeconds"), renewed[0] != '\0' ? "renewed" : "never renewed", renewed,
        is(lease, "uidOfRecord") ? "" : ", not the one of the record");
    if (health[0] != '\0') {
        (void)fprintf(p->out, "\tthe DPU says: %s%s%s\n", health, said[0] != '\0' ? ", " : "",
                      said);
    }
}

static void put_api(const struct page *p)
{
    const json_t *api = json_object_get(p->tree, "api");
    const char *server = word(api, "server");
    const char *problem = word(api, "problem");
    label(p, "API");
    (void)fprintf(p->out, "%s%s%s\n", server, server[0] != '\0' && problem[0] != '\0' ? ": " : "",
                  problem);
}

static void put_cni(const struct page *p)
{
    const json_t *cni = json_object_get(p->tree, "cni");
    const char *problem = word(cni, "problem");
    const char *first = word(cni, "first");
    const char *gate = word(cni, "gate");
    label(p, "CNI");
    if (problem[0] != '\0' || first[0] == '\0') {
        (void)fprintf(p->out, "%s\n",
                      problem[0] != '\0' ? problem : "no configuration that a runtime could use");
        return;
    }
    (void)fprintf(p->out, "%s comes first (%s)", first, word(cni, "plugins"));
    if (is(cni, "gated")) {
        (void)fputs(
            is(cni, "statusSupported") ? "\n" : ", without cniVersion 1.1.0: STATUS is not asked\n",
            p->out);
    } else if (gate[0] != '\0') {
        (void)fprintf(p->out, "; the gate is in %s, see dpuctl doctor\n", gate);
    } else {
        (void)fputs(", without dpu-gate\n", p->out);
    }
}

static void put_dra(const struct page *p)
{
    const json_t *dra = json_object_get(p->tree, "dra");
    const json_t *slice = json_object_get(dra, "slice");
    const char *problem = word(slice, "problem");
    const char *taint = word(slice, "taint");
    bool is_offered = is(dra, "registrationSocket");
    if (!is_offered && !is(slice, "found")) {
        return; /* not in use */
    }
    label(p, "DRA");
    (void)fprintf(p->out, "%s: %s", word(dra, "driver"),
                  is_offered ? "offered to the kubelet" : "not offered to the kubelet");
    if (is(slice, "found")) {
        (void)fprintf(p->out, ", slice published%s%s", taint[0] != '\0' ? ", tainted " : "", taint);
    } else if (slice) {
        (void)fprintf(p->out, ", slice: %s", problem[0] != '\0' ? problem : "no answer");
    }
    (void)fputc('\n', p->out);
}

static void put_pods(const struct page *p)
{
    const json_t *pods = json_object_get(p->tree, "pods");
    if (!pods) {
        return;
    }
    label(p, "network");
    (void)fprintf(p->out, "%lld of %lld pods have lost it%s", number(pods, "lost"),
                  number(pods, "count"), number(pods, "lost") > 0 ? ": see dpuctl pods" : "");
    if (number(pods, "unseen") > 0) {
        (void)fprintf(p->out, "; of %lld it cannot be told", number(pods, "unseen"));
    }
    (void)fputc('\n', p->out);
}

static void put_clocks(const struct page *p)
{
    static const char *const clocks[][3] = {
        {"record", "dpuClockSkewSeconds", "DPU (at its last renewal)"},
        {"api", "clockSkewSeconds", "API server"}};
    char span[PRINT_SPAN_BYTES];
    bool is_begun = false;
    for (size_t i = 0; i < ARRAY_LEN(clocks); i++) {
        const json_t *skew = json_object_get(json_object_get(p->tree, clocks[i][0]), clocks[i][1]);
        double ms = json_real_value(skew) * 1000;
        if (!json_is_real(skew)) {
            continue;
        }
        if (!is_begun) {
            label(p, "clocks");
        }
        (void)fprintf(p->out, "%s%s %c%s", is_begun ? ", " : "", clocks[i][2], ms < 0 ? '-' : '+',
                      print_span((int64_t)(ms < 0 ? ms - 0.5 : ms + 0.5) * NS_PER_MS, span));
        is_begun = true;
    }
    (void)fputs(is_begun ? " against this host\n" : "", p->out);
}

/* The columns are made at the end: everything is put into one text first. */
static bool print_page(struct page *p)
{
    CLEANUP(free) char *text = NULL;
    size_t len = 0;
    p->out = open_memstream(&text, &len);
    if (!p->out) {
        return false;
    }
    put_head(p);
    put_record(p);
    if (p->seen->has_record) {
        put_agent(p);
        put_dpu(p);
        put_host_probes(p);
    }
    put_lease(p);
    put_clocks(p);
    put_api(p);
    put_cni(p);
    put_dra(p);
    put_pods(p);
    if (fclose(p->out) != 0) { /* this makes `text` */
        return false;
    }
    print_wrapped(text, PRINT_COLUMNS, stdout);
    return fflush(stdout) == 0;
}

int status_run(struct admin_config *config)
{
    struct node_snapshot seen;
    node_snapshot_take(config, &seen);
    json_t *tree = status_document(config, &seen);
    struct page page = {.tree = tree, .seen = &seen, .has_color = print_has_color(config->color)};
    bool is_written = config->output == ADMIN_TEXT
                          ? print_page(&page)
                          : print_json(json_incref(tree), config->output == ADMIN_YAML, stdout);
    json_decref(tree);
    return is_written ? (int)seen.answer : NODE_UNKNOWN;
}

/* ---- watch: a line for each change of the readiness ------------------------------------------ */

/* The file system tells of changes; this finds what it cannot tell of, such as a directory that
 * was not there. */
#define LOOK_AGAIN_NS (1 * NS_PER_SEC)

struct watch {
    struct admin_config *config;
    int inotify_fd;
    int signal_fd;
    struct node_snapshot seen;
    /* The last change that was shown. */
    bool has_shown;
    enum node_answer answer;
    enum readiness_reason reason;
    bool admit;
    struct mono since; /* from when on that held */
};

static void print_watch_line(const struct watch *w)
{
    char time[RFC3339_BYTES];
    char message[NAMES_MESSAGE_BYTES];
    char span[PRINT_SPAN_BYTES];
    const struct node_snapshot *seen = &w->seen;
    int64_t former_ns = mono_since(seen->now, w->since);
    const char *answer = node_answer_name(seen->answer);
    const char *reason = readiness_reason_name(seen->gate.reason);
    const char *former = w->has_shown ? node_answer_name(w->answer) : NULL;
    rfc3339_format_micro(seen->wall, time);
    print_clean(message, sizeof(message), node_message(seen));
    if (w->config->output == ADMIN_JSON) {
        print_json_line(json_pack("{s:s, s:s, s:s, s:b, s:s, s:s, s:s?, s:o}", "time", time, "node",
                                  w->config->agent.node_name, "answer", answer, "admitsPods",
                                  seen->gate.admit, "reason", reason, "message", message, "former",
                                  former, "formerSeconds", seconds_if(w->has_shown, former_ns)));
        return;
    }
    (void)printf("%.23sZ  %-8s  %s", time, answer, reason); /* milliseconds */
    if (former) {
        (void)printf(" after %s %s", print_span(former_ns, span), former);
    }
    (void)printf(": %s\n", message);
}

/* Prints what is new. */
static void look_again(struct watch *w)
{
    const struct node_snapshot *seen = &w->seen;
    admin_read_record(w->config);
    node_snapshot_take(w->config, &w->seen);
    if (w->has_shown && w->answer == seen->answer && w->reason == seen->gate.reason &&
        w->admit == seen->gate.admit) {
        return;
    }
    print_watch_line(w);
    w->since = !w->has_shown && seen->since.ns > 0 ? seen->since : seen->now;
    w->has_shown = true;
    w->answer = seen->answer;
    w->reason = seen->gate.reason;
    w->admit = seen->gate.admit;
}

static void watch_directory(const struct watch *w)
{
    char dir[PATH_MAX];
    admin_path(w->config, w->config->readiness_file, dir, sizeof(dir));
    char *slash = strrchr(dir, '/');
    if (slash && slash != dir) {
        *slash = '\0';
    }
    /* Fails while it is not there: then the clock looks. Adding it again only renews the mask. */
    (void)inotify_add_watch(w->inotify_fd, dir,
                            IN_MODIFY | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE |
                                IN_DELETE_SELF);
}

/* False: time to go. */
static bool wait_for_news(const struct watch *w)
{
    char ignored[4096];
    struct pollfd fds[] = {{.fd = w->signal_fd, .events = POLLIN},
                           {.fd = w->inotify_fd, .events = POLLIN},
                           {.fd = STDOUT_FILENO}}; /* the reader has gone: told without asking */
    int64_t wait_ns = LOOK_AGAIN_NS;
    if (!mono_is_never(w->seen.flips_at)) {
        int64_t flip_ns = mono_since(w->seen.flips_at, clock_mono_now());
        wait_ns = flip_ns < wait_ns ? flip_ns : wait_ns;
    }
    int wait_ms = wait_ns <= 0 ? 0 : (int)(wait_ns / NS_PER_MS) + 1; /* never before it */
    if (poll(fds, ARRAY_LEN(fds), wait_ms) < 0) {
        return errno == EINTR;
    }
    while (read(w->inotify_fd, ignored, sizeof(ignored)) > 0) {
        /* which file it was does not matter: we look at ours */
    }
    return fds[0].revents == 0 && (fds[2].revents & (POLLERR | POLLHUP)) == 0;
}

int watch_run(struct admin_config *config)
{
    CLEANUP(fd) int signal_fd = admin_stop_signals();
    CLEANUP(fd) int inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    struct watch w = {.config = config, .signal_fd = signal_fd, .inotify_fd = inotify_fd};
    bool is_written;
    if (inotify_fd < 0) {
        perror("dpuctl watch");
        return EXIT_FAILURE;
    }
    do {
        watch_directory(&w); /* before looking, so that nothing is missed */
        look_again(&w);
        is_written = fflush(stdout) == 0 || errno == EPIPE; /* a reader may go at any moment */
    } while (!ferror(stdout) && wait_for_news(&w));
    return is_written ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- pods: which of this node have lost their network, and what follows ---------------------- */

enum pods_answer { PODS_NONE_LOST, PODS_SOME_LOST, PODS_UNCLEAR };

static const char *network_of(const struct pods_pod *pod)
{
    static const char *const names[] = {[POD_NET_UNSEEN] = "Unknown",
                                        [POD_NET_UNKNOWN] = "Unknown",
                                        [POD_NET_WHOLE] = "There",
                                        [POD_NET_AWAY] = "Away",
                                        [POD_NET_LOST] = "Lost"};
    return pod->has_host_network ? "Host" : names[pod->net.evidence];
}

/* What the agent does, or leaves to people. */
static const char *what_follows(const struct admin_config *config, const struct pods_pod *pod)
{
    static const char *const by_mode[] = {
        "reported", "new pods are refused meanwhile",
        "gets a new sandbox, unless its restartPolicy is Never, or OnFailure in a Job"};
    enum { REPORTED, REFUSED };
    if (pod->net.evidence != POD_NET_LOST) {
        return "";
    }
    if (config->on_lost_network == REFUSED && !pod->net.is_by_device) {
        return by_mode[REPORTED]; /* the pod may have done it */
    }
    return text_is_empty(config->cri_socket) ? "nothing: dpu-host-agent has no --cri-socket"
                                             : by_mode[config->on_lost_network];
}

/* When the DPU's reboot was seen, as the record has it; 0: of none that is known. */
static struct wall reboot_of(const struct admin_config *config)
{
    return config->record_rc == 0 ? config->record.verdict.dpu_rebooted : (struct wall){0};
}

static void print_pod(const struct admin_config *config, const struct pods_pod *pod, int width)
{
    char made[RFC3339_BYTES];
    char words[POD_NET_WORDS_BYTES];
    char name[2 * CRI_NAME_BYTES];
    bool has_color = print_has_color(config->color);
    enum print_color color = pod->net.evidence == POD_NET_LOST   ? PRINT_BAD
                             : pod->net.evidence == POD_NET_AWAY ? PRINT_DOUBT
                                                                 : PRINT_PLAIN;
    struct wall reboot = reboot_of(config);
    const char *follows = what_follows(config, pod);
    rfc3339_format_seconds(pod->sandbox.made, made);
    print_clean(words, sizeof(words), pod->net.words);
    text_format(name, sizeof(name), "%s/%s", pod->sandbox.ns, pod->sandbox.name);
    (void)printf("%-*s  %s  %s%-7s%s", width, name, made, print_on(has_color, color),
                 network_of(pod), print_off(has_color));
    if (reboot.ns != 0) {
        (void)printf("  made %s the DPU's reboot",
                     pod->sandbox.made.ns < reboot.ns ? "before" : "after");
    }
    (void)printf("%s%s%s%s\n", words[0] ? "  " : "", words, follows[0] ? "; " : "", follows);
}

static void print_pods_text(const struct admin_config *config, const struct pods_snapshot *seen)
{
    size_t width = strlen("POD");
    for (size_t i = 0; i < seen->count; i++) {
        const struct cri_sandbox *s = &seen->pods[i].sandbox;
        size_t len = strlen(s->ns) + 1 + strlen(s->name);
        width = len > width ? len : width;
    }
    (void)printf("%-*s  %-20s  %s\n", (int)width, "POD", "MADE", "NETWORK");
    for (size_t i = 0; i < seen->count; i++) {
        print_pod(config, &seen->pods[i], (int)width);
    }
}

static json_t *pods_json(const struct admin_config *config, const struct pods_snapshot *seen)
{
    static const char *const modes[] = {"report", "status", "restart"};
    struct wall reboot = reboot_of(config);
    json_t *pods = json_array();
    for (size_t i = 0; i < seen->count; i++) {
        const struct pods_pod *pod = &seen->pods[i];
        const struct cri_sandbox *s = &pod->sandbox;
        json_t *is_older = reboot.ns != 0 ? json_boolean(s->made.ns < reboot.ns) : json_null();
        json_t *tree = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:s, s:s}", "namespace", s->ns,
                                 "name", s->name, "uid", s->uid, "sandbox", s->id, "madeTime",
                                 print_json_stamp(s->made), "madeBeforeReboot", is_older, "network",
                                 network_of(pod), "seen", pod->net.words);
        if (json_array_append_new(pods, tree) != 0) { /* a text of it is no UTF-8 */
            json_decref(pods);
            return NULL;
        }
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:o}", "node", config->agent.node_name, "onLostNetwork",
                     text_is_empty(config->cri_socket) ? "off" : modes[config->on_lost_network],
                     "lost", (int)seen->lost, "unseen", (int)seen->unseen, "pods", pods);
}

static bool print_pods(const struct admin_config *config, const struct pods_snapshot *seen)
{
    if (config->output == ADMIN_JSON || config->output == ADMIN_YAML) {
        return print_json(pods_json(config, seen), config->output == ADMIN_YAML, stdout);
    }
    if (config->output == ADMIN_TEXT) {
        print_pods_text(config, seen);
    }
    for (size_t i = 0; i < seen->count && config->output == ADMIN_NAME; i++) {
        if (seen->pods[i].net.evidence == POD_NET_LOST) {
            (void)printf("%s/%s\n", seen->pods[i].sandbox.ns, seen->pods[i].sandbox.name);
        }
    }
    return fflush(stdout) == 0;
}

int pods_run(struct admin_config *config)
{
    char socket[PATH_MAX];
    struct pods_snapshot seen = {.count = 0};
    struct err e = ERR_INIT;
    if (!pods_find_runtime(config, socket)) {
        (void)fputs("dpuctl pods: no container runtime's socket is here: give --cri-socket=FILE\n",
                    stderr);
        return PODS_UNCLEAR;
    }
    if (pods_snapshot_take(config, socket, &seen, &e) != 0) {
        (void)fprintf(stderr, "dpuctl pods: %s\n", e.msg);
        return PODS_UNCLEAR;
    }
    enum pods_answer answer = seen.lost > 0     ? PODS_SOME_LOST
                              : seen.unseen > 0 ? PODS_UNCLEAR
                                                : PODS_NONE_LOST;
    bool is_printed = print_pods(config, &seen);
    pods_snapshot_fini(&seen);
    return is_printed ? (int)answer : PODS_UNCLEAR;
}
