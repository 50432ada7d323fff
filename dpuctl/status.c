/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/err.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "contract/lease.h"
#include "dpuctl/api.h"
#include "dpuctl/node.h"
#include "dpuctl/options.h"
#include "dpuctl/print.h"

#include <jansson.h>

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

/*
 * All that dpuctl status knows of a node, gathered once and printed as text or as JSON. What comes
 * from outside is kept as it came: printers sanitize it.
 */

/* An object that the API server was asked for. */
struct status_object {
    bool is_asked;
    bool is_found;
    char problem[ERR_MSG_BYTES]; /* why it is not found; "" where nobody said */
};

struct status {
    const struct admin_config *config; /* borrowed */
    struct node_look look;
    char cni_dir[PATH_MAX];
    struct cni_scan cni;
    /* Sockets in the kubelet's directories. */
    bool offers_device;
    bool serves_device;
    struct status_object lease;
    struct lease_view lease_view; /* where it is found */
    struct status_object slice;
    size_t slice_devices;
    bool is_tainted;
    char taint[NAMES_MESSAGE_BYTES]; /* the first: "key=value:effect" */
    bool has_pods;                   /* the runtime was asked: the next two count */
    size_t pods;
    size_t pods_lost;
    size_t pods_unseen;    /* cannot be told */
    char server[PATH_MAX]; /* "" without credentials */
    bool is_reached;
    char api_problem[ERR_MSG_BYTES + 32]; /* and what to do */
    bool has_api_skew;
    int64_t api_skew_ns;
};

/* docs/dpuctl.md describes it; members are only ever added. Returns owned, NULL when out of memory.
 */
json_t *status_json(const struct status *s);

struct status_screen {
    bool has_color;
    size_t columns; /* where lines are wrapped */
};

/* Without `s` only what the node itself knows: the head of dpuctl watch. False when out of memory;
 * whether it could be written is seen by ferror. */
NODISCARD bool status_print(const struct node_look *look, const char *node, const struct status *s,
                            struct status_screen screen, FILE *out);

static const char summary[] =
    "Is the DPU of this node ready, and how is that known? Looks at the readiness record, at what "
    "CNI makes of it and, with a kubeconfig, at the lease. Needs no agent to be alive. 'dpuctl "
    "status NODE' asks the API server about another node. Exit "
    "status: 0 ready, 1 not ready, 2 unknown, 64 wrong usage.";

/* In each version that the host's agent speaks: an older server has not all of them. */
static const char *const slice_versions[] = {"v1", "v1beta2", "v1beta1"};

static bool has_entry(const char *dir, const char *prefix, const char *suffix)
{
    bool found = false;
    size_t tail = strlen(suffix);
    DIR *entries = opendir(dir);
    for (struct dirent *at = entries ? readdir(entries) : NULL; at; at = readdir(entries)) {
        size_t len = strlen(at->d_name);
        found = found || (strncmp(at->d_name, prefix, strlen(prefix)) == 0 && len > tail &&
                          strcmp(at->d_name + len - tail, suffix) == 0);
    }
    if (entries) {
        (void)closedir(entries); /* read-only */
    }
    return found;
}

static void look_for_sockets(struct status *s)
{
    char root[PATH_MAX];
    char registry[PATH_MAX + 320];
    char plugin[PATH_MAX + 320];
    admin_path(s->config, s->config->kubelet_root, root, sizeof(root));
    text_format(registry, sizeof(registry), "%s/plugins_registry", root);
    text_format(plugin, sizeof(plugin), "%s/plugins/%s", root, s->config->driver);
    s->serves_device = has_entry(plugin, "dra", ".sock");
    s->offers_device =
        has_entry(registry, s->config->driver, "-reg.sock") ||
        (s->serves_device && has_entry(registry, "dra-", "-reg.sock")); /* named by a hash */
}

/* Only where the agent looks at them, too. */
static void look_at_pods(struct status *s)
{
    char socket[PATH_MAX];
    struct pods_look look = {.count = 0};
    if (!s->config->asks_runtime || !pods_find_runtime(s->config, socket) ||
        pods_look_take(s->config, socket, &look, NULL) != 0) {
        return;
    }
    s->has_pods = true;
    s->pods = look.count;
    s->pods_lost = look.lost;
    s->pods_unseen = look.unseen;
    pods_look_fini(&look);
}

/* ---- the API server -------------------------------------------------------------------------- */

static void take_object(const struct api_answer *answer, struct status_object *out)
{
    out->is_asked = true;
    out->is_found = answer->body != NULL;
    text_format(out->problem, sizeof(out->problem), "%s",
                answer->http_status == 404 ? "not found"
                : answer->body             ? ""
                                           : answer->message);
}

static void take_lease(struct status *s, const struct api_answer *answer)
{
    struct err e = ERR_INIT;
    take_object(answer, &s->lease);
    if (answer->body && lease_read(answer->body, &s->lease_view, &e) != 0) {
        s->lease.is_found = false;
        text_format(s->lease.problem, sizeof(s->lease.problem), "%s", e.msg);
    }
}

static void take_slice(struct status *s, const struct api_answer *answer)
{
    const json_t *devices = json_object_get(json_object_get(answer->body, "spec"), "devices");
    const json_t *device = json_array_get(devices, 0);
    const json_t *basic = json_object_get(device, "basic"); /* v1beta1 has it in there */
    const json_t *taints = json_object_get(basic ? basic : device, "taints");
    const json_t *taint = json_array_get(taints, 0);
    const char *key = json_text_get(taint, "key");
    const char *value = json_text_get(taint, "value");
    const char *effect = json_text_get(taint, "effect");
    take_object(answer, &s->slice);
    s->slice_devices = json_array_size(devices);
    s->is_tainted = json_array_size(taints) > 0;
    if (taint) {
        text_format(s->taint, sizeof(s->taint), "%.200s%s%.200s:%.60s", key ? key : "",
                    value ? "=" : "", value ? value : "", effect ? effect : "");
    }
}

static void ask_api(struct status *s)
{
    struct api_reader *api = NULL;
    struct err e = ERR_INIT;
    const struct api_answer *slices[ARRAY_LEN(slice_versions)];
    const struct agent_config *a = &s->config->agent;
    int rc = api_reader_open(s->config, &api, &e);
    if (rc != 0) {
        bool is_none = rc == ERR_NOTFOUND && text_is_empty(a->kubeconfig);
        text_format(s->api_problem, sizeof(s->api_problem), "%s%s", e.msg,
                    is_none ? ": give --kubeconfig=FILE" : "");
        return;
    }
    const struct api_answer *lease =
        api_reader_ask(api, NULL, "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s",
                       a->lease_namespace, a->lease_name);
    for (size_t i = 0; i < ARRAY_LEN(slices); i++) {
        slices[i] = api_reader_ask(api, NULL, "/apis/resource.k8s.io/%s/resourceslices/%s-%s",
                                   slice_versions[i], s->config->driver, a->node_name);
    }
    api_reader_wait(api);
    const struct api_answer *slice = slices[0];
    for (size_t i = 1; i < ARRAY_LEN(slices) && !slice->body; i++) {
        slice = slices[i]->body ? slices[i] : slice;
    }
    text_format(s->server, sizeof(s->server), "%s", kube_client_describe(api->client));
    s->is_reached = lease->http_status != 0;
    s->has_api_skew = lease->has_date;
    s->api_skew_ns = lease->skew_ns;
    if (!s->is_reached) {
        text_format(s->api_problem, sizeof(s->api_problem), "%s", lease->message);
    }
    take_lease(s, lease);
    take_slice(s, slice);
    api_reader_close(api);
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool print(const struct status *s)
{
    if (s->config->output != ADMIN_TEXT) {
        return json_print(status_json(s), s->config->output == ADMIN_YAML, stdout);
    }
    const struct status_screen screen = {.has_color =
                                             screen_has_color((enum admin_color)s->config->color),
                                         .columns = SCREEN_COLUMNS};
    return status_print(&s->look, s->config->agent.node_name, s, screen, stdout) &&
           fflush(stdout) == 0;
}

int status_main(int argc, char **argv)
{
    struct admin_config config;
    int status = NODE_UNKNOWN;
    if (argc > 1 && argv[1][0] != '-') {
        return status_of_node(argc, argv);
    }
    (void)signal(SIGPIPE, SIG_IGN); /* seen by the flush */
    if (!admin_options_parse("dpuctl status", summary, argc, argv, &config, &status)) {
        return status;
    }
    struct status *s = calloc(1, sizeof(*s)); /* large */
    log_setup(LOG_ERROR, LOG_TEXT, "");
    if (s) {
        s->config = &config;
        node_look_take(&config, &s->look);
        admin_path(&config, config.cni_conf_dir, s->cni_dir, sizeof(s->cni_dir));
        cni_scan_directory(s->cni_dir, &s->cni);
        look_for_sockets(s);
        config.asks_runtime = !text_is_empty(config.cri_socket);
        ask_api(s);
        look_at_pods(s);
        status = print(s) ? (int)s->look.answer : NODE_UNKNOWN;
    }
    free(s);
    admin_options_fini(&config);
    return status;
}

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

static json_t *stamp_json(struct wall at)
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

static json_t *host_probes_json(const struct readiness_host_probes *w)
{
    json_t *all = json_array();
    for (size_t i = 0; i < w->count; i++) {
        const struct readiness_host_probe *host_probe = &w->each[i];
        (void)json_array_append_new(/* without memory it is not there */
                                    all, json_pack("{s:o, s:s}", "probe",
                                                   text_or_null(host_probe->probe), "says",
                                                   host_probe_state_name(host_probe->says)));
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
                     "transitionTime", stamp_json(v->transition), "lastRenewalAgeSeconds",
                     seconds_if(v->observed.ns > 0, mono_since(look->now, v->observed)),
                     "validSeconds", seconds_until(v->lease_until, look->now), "writerSeconds",
                     seconds_until(r->writer_until, look->now), "holdSeconds",
                     seconds_until(r->hold_until, look->now), "dpuClockSkewSeconds",
                     seconds_if(has_skew, skew_ns), "writtenTime", stamp_json(r->written),
                     "writerPid", (int)r->pid, "writerAlive", look->writer_exists, "dpuBootId",
                     text_or_null(v->dpu_boot_id), "dpuRebootTime",
                     v->dpu_rebooted.ns > 0 ? stamp_json(v->dpu_rebooted) : json_null(),
                     "hostProbes", host_probes_json(&v->host_probes));
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
                     stamp_json(s->look.wall), "answer", node_answer_name(s->look.answer), "gate",
                     gate_json(&s->look), "record", record_json(&s->look), "cni", cni_json(s),
                     "dra", dra, "api", api, "lease", s->lease.is_asked ? lease_json(s) : NULL,
                     "pods", pods);
}

static enum screen_color color_of(enum node_answer answer)
{
    static const enum screen_color colors[] = {
        [NODE_READY] = SCREEN_GOOD, [NODE_NOT_READY] = SCREEN_BAD, [NODE_UNKNOWN] = SCREEN_DOUBT};
    return colors[answer];
}

static void label(FILE *out, bool has_color, const char *name)
{
    (void)fprintf(out, "  %s%s%s\t", screen_on(has_color, SCREEN_FAINT), name,
                  screen_off(has_color));
}

static void put_clean(const char *text, FILE *out)
{
    char shown[PATH_MAX];
    text_sanitize(shown, sizeof(shown), text, strlen(text));
    (void)fputs(shown, out);
}

/* ---- the node itself ------------------------------------------------------------------------- */

static void put_head(const struct node_look *look, bool has_color, FILE *out)
{
    char span[SCREEN_SPAN_BYTES];
    (void)fprintf(out, "%s%s%s", screen_on(has_color, color_of(look->answer)),
                  node_answer_name(look->answer), screen_off(has_color));
    (void)fprintf(out, " (%s)", readiness_reason_name(look->gate.reason));
    if (look->since.ns > 0) {
        (void)fprintf(out, " for %s", screen_span(mono_since(look->now, look->since), span));
    }
    (void)fputs("\n  ", out);
    put_clean(node_look_message(look), out);
    (void)fputs("\n\n", out);
}

static void put_record(const struct node_look *look, bool has_color, FILE *out)
{
    const struct record *r = &look->record;
    char span[SCREEN_SPAN_BYTES];
    label(out, has_color, "record");
    if (!look->has_record) {
        put_clean(look->path, out);
        (void)fputs(": ", out);
        put_clean(look->problem, out);
        (void)fputc('\n', out);
        return;
    }
    int64_t left_ns = mono_since(r->verdict.lease_until, look->now);
    (void)fprintf(out, "%s (", readiness_state_name(r->verdict.state));
    put_clean(look->path, out);
    (void)fputs(")\n\t", out);
    if (r->verdict.observed.ns > 0) {
        (void)fprintf(out, "last renewal %s ago, ",
                      screen_span(mono_since(look->now, r->verdict.observed), span));
    }
    if (r->verdict.reason == REASON_HEALTH_CHECK_DISABLED) {
        (void)fputs("the health check is disabled\n", out);
    } else if (mono_is_never(r->verdict.lease_until)) {
        (void)fputs("valid until told otherwise\n", out);
    } else if (r->verdict.lease_until.ns == 0) {
        (void)fputs("no renewal was seen yet\n", out);
    } else {
        (void)fprintf(out, left_ns > 0 ? "valid for %s\n" : "over for %s\n",
                      screen_span(left_ns, span));
    }
}

static void put_writer(const struct node_look *look, bool has_color, FILE *out)
{
    const struct record *r = &look->record;
    char span[SCREEN_SPAN_BYTES];
    if (!look->has_record) {
        return;
    }
    int64_t left_ns = mono_since(r->writer_until, look->now);
    label(out, has_color, "agent");
    (void)fprintf(out, "pid %d%s, ", (int)r->pid,
                  look->writer_exists ? ""
                  : r->pid == 1       ? " of its pod"
                                      : " (no such dpu-host-agent seen from here)");
    if (left_ns > 0) {
        (void)fprintf(out, "writes again within %s\n", screen_span(left_ns, span));
    } else {
        (void)fprintf(out, "%soverdue for %s%s\n", screen_on(has_color, SCREEN_BAD),
                      screen_span(left_ns, span), screen_off(has_color));
    }
}

static void put_dpu(const struct node_look *look, bool has_color, FILE *out)
{
    const struct readiness *v = &look->record.verdict;
    char span[SCREEN_SPAN_BYTES];
    if (!look->has_record || v->dpu_boot_id[0] == '\0') {
        return;
    }
    label(out, has_color, "DPU");
    (void)fputs("boot ", out);
    put_clean(v->dpu_boot_id, out);
    if (v->dpu_rebooted.ns > 0) {
        (void)fprintf(out, ", %srebooted %s ago%s", screen_on(has_color, SCREEN_DOUBT),
                      screen_span(wall_since(clock_wall_now(), v->dpu_rebooted), span),
                      screen_off(has_color));
    }
    (void)fputc('\n', out);
}

static void put_host_probes(const struct node_look *look, bool has_color, FILE *out)
{
    static const char *const words[] = {
        [HOST_PROBE_NEVER_WELL] = "has not been well since this host was started: proves nothing",
        [HOST_PROBE_WELL] = "well",
        [HOST_PROBE_FAILED] = "failed"};
    static const enum screen_color colors[] = {[HOST_PROBE_NEVER_WELL] = SCREEN_DOUBT,
                                               [HOST_PROBE_WELL] = SCREEN_GOOD,
                                               [HOST_PROBE_FAILED] = SCREEN_BAD};
    const struct readiness_host_probes *w = &look->record.verdict.host_probes;
    for (size_t i = 0; look->has_record && i < w->count; i++) {
        enum host_probe_state says = w->each[i].says;
        label(out, has_color, i == 0 ? "probes" : "");
        put_clean(w->each[i].probe, out);
        (void)fprintf(out, ": %s%s%s\n", screen_on(has_color, colors[says]), words[says],
                      screen_off(has_color));
    }
}

static void put_node(const struct node_look *look, bool has_color, FILE *out)
{
    put_head(look, has_color, out);
    label(out, has_color, "pods");
    (void)fprintf(out, "%s, STATUS answers %d\n",
                  look->gate.admit ? "ADD is let through" : "ADD fails at once",
                  gate_status_code(&look->gate));
    put_record(look, has_color, out);
    put_writer(look, has_color, out);
    put_dpu(look, has_color, out);
    put_host_probes(look, has_color, out);
}

/* ---- what was asked for ---------------------------------------------------------------------- */

static void put_health(const struct lease_view *l, FILE *out)
{
    if (l->health != LEASE_HEALTH_NONE) {
        (void)fprintf(out, "\tthe DPU says: %s%s",
                      l->health == LEASE_HEALTH_SHUTDOWN ? NAMES_HEALTH_SHUTDOWN
                                                         : NAMES_HEALTH_UNHEALTHY,
                      l->health_message[0] != '\0' ? ", " : "");
        put_clean(l->health_message, out);
        (void)fputc('\n', out);
    }
}

static void put_lease(const struct status *s, bool has_color, FILE *out)
{
    const struct agent_config *a = &s->config->agent;
    const struct lease_view *l = &s->lease_view;
    const struct readiness_lease *of_record = &s->look.record.verdict.lease;
    if (!s->lease.is_asked) {
        return;
    }
    label(out, has_color, "lease");
    (void)fprintf(out, "%s/%s: ", a->lease_namespace, a->lease_name);
    if (!s->lease.is_found) {
        put_clean(s->lease.problem[0] != '\0' ? s->lease.problem : "no answer", out);
        (void)fputc('\n', out);
        return;
    }
    bool is_held = l->holder[0] != '\0';
    bool is_renewed = l->renew_stamp[0] != '\0';
    (void)fputs(is_held ? "held by " : "held by nobody", out);
    put_clean(l->holder, out);
    (void)fprintf(out, "%s, %u s\n\t%s ",
                  text_equal(l->holder, a->holder_identity) ? "" : " (not the one expected)",
                  l->duration_s, is_renewed ? "renewed" : "never renewed");
    put_clean(l->renew_stamp, out);
    (void)fprintf(out, "%s\n",
                  s->look.has_record && text_equal(l->uid, of_record->uid)
                      ? ""
                      : ", not the one of the record");
    put_health(l, out);
}

static void put_clock(const char *whose, int64_t skew_ns, FILE *out)
{
    char span[SCREEN_SPAN_BYTES];
    (void)fprintf(out, "%s %c%s", whose, skew_ns < 0 ? '-' : '+', screen_span(skew_ns, span));
}

static void put_clocks(const struct status *s, bool has_color, FILE *out)
{
    int64_t dpu_ns = 0;
    bool has_dpu = node_look_dpu_skew(&s->look, &dpu_ns);
    if (!has_dpu && !s->has_api_skew) {
        return;
    }
    label(out, has_color, "clocks");
    if (has_dpu) {
        put_clock("DPU (at its last renewal)", dpu_ns, out);
    }
    if (s->has_api_skew) {
        (void)fputs(has_dpu ? ", " : "", out);
        put_clock("API server", s->api_skew_ns, out);
    }
    (void)fputs(" against this host\n", out);
}

static void put_api(const struct status *s, bool has_color, FILE *out)
{
    label(out, has_color, "API");
    put_clean(s->server, out);
    (void)fputs(s->server[0] != '\0' && s->api_problem[0] != '\0' ? ": " : "", out);
    put_clean(s->api_problem, out);
    (void)fputc('\n', out);
}

static void put_cni(const struct status *s, bool has_color, FILE *out)
{
    const struct cni_entry *first = cni_scan_first(&s->cni);
    const struct cni_entry *gated = cni_scan_gated(&s->cni);
    label(out, has_color, "CNI");
    if (s->cni.problem[0] != '\0' || !first) {
        put_clean(s->cni.problem[0] != '\0' ? s->cni.problem
                                            : "no configuration that a runtime could use",
                  out);
        (void)fputc('\n', out);
        return;
    }
    (void)fprintf(out, "%s comes first (%s)", first->file, first->types);
    if (first->is_gated) {
        (void)fputs(
            first->speaks_status ? "\n" : ", without cniVersion 1.1.0: STATUS is not asked\n", out);
    } else if (gated) {
        (void)fprintf(out, "; the gate is in %s, see dpuctl doctor\n", gated->file);
    } else {
        (void)fputs(", without dpu-gate\n", out);
    }
}

static void put_dra(const struct status *s, bool has_color, FILE *out)
{
    if (!s->offers_device && !s->slice.is_found) {
        return; /* not in use */
    }
    label(out, has_color, "DRA");
    (void)fprintf(out, "%s: %s", s->config->driver,
                  s->offers_device ? "offered to the kubelet" : "not offered to the kubelet");
    if (s->slice.is_found) {
        (void)fprintf(out, ", slice published%s", s->taint[0] != '\0' ? ", tainted " : "");
        put_clean(s->taint, out);
    } else if (s->slice.is_asked) {
        (void)fputs(", slice: ", out);
        put_clean(s->slice.problem[0] != '\0' ? s->slice.problem : "no answer", out);
    }
    (void)fputc('\n', out);
}

static void put_pods(const struct status *s, bool has_color, FILE *out)
{
    if (s->has_pods) {
        label(out, has_color, "network");
        (void)fprintf(out,
                      s->pods_lost > 0 ? "%zu of %zu pods have lost it: see dpuctl pods"
                                       : "%zu of %zu pods have lost it",
                      s->pods_lost, s->pods);
        if (s->pods_unseen > 0) {
            (void)fprintf(out, "; of %zu it cannot be told", s->pods_unseen);
        }
        (void)fputc('\n', out);
    }
}

static void put_all(const struct status *s, bool has_color, FILE *out)
{
    put_lease(s, has_color, out);
    put_clocks(s, has_color, out);
    put_api(s, has_color, out);
    put_cni(s, has_color, out);
    put_dra(s, has_color, out);
    put_pods(s, has_color, out);
}

/* The columns are made at the end: everything is put into one text first. */
bool status_print(const struct node_look *look, const char *node, const struct status *s,
                  struct status_screen screen, FILE *out)
{
    CLEANUP(free) char *text = NULL;
    size_t len = 0;
    FILE *whole = open_memstream(&text, &len);
    if (!whole) {
        return false;
    }
    (void)fprintf(whole, "%s%s%s: ", screen_on(screen.has_color, SCREEN_HEAD), node,
                  screen_off(screen.has_color));
    put_node(look, screen.has_color, whole);
    if (s) {
        put_all(s, screen.has_color, whole);
    }
    if (fclose(whole) != 0) { /* this makes `text` */
        return false;
    }
    screen_wrap(text, screen.columns, out);
    return true;
}

static const char watch_summary[] =
    "Shows each change of this node's readiness as dpu-gate sees it, at the moment it takes "
    "effect: "
    "a line per change, or on a terminal a live view (q leaves). Needs no agent to be alive.";

enum { HISTORY_MAX = 12, LINE_BYTES = 400 };

/* The file system tells of changes; this finds what it cannot tell of, such as a directory that
 * was not there. */
#define LOOK_AGAIN_NS (1 * NS_PER_SEC)

struct watch {
    struct admin_config config;
    struct node_look *look;
    int inotify_fd;
    int signal_fd;
    bool is_screen;
    bool has_color;
    struct termios before; /* of the terminal */
    /* The last change that was shown. */
    bool has_shown;
    enum node_answer answer;
    enum readiness_reason reason;
    bool admit;
    struct mono since; /* from when on that held */
    char history[HISTORY_MAX][LINE_BYTES];
    size_t history_count;
};

/* ---- one change ------------------------------------------------------------------------------ */

static bool has_changed(const struct watch *w)
{
    return !w->has_shown || w->answer != w->look->answer || w->reason != w->look->gate.reason ||
           w->admit != w->look->gate.admit;
}

/* " after 12.3 s Ready", or nothing for the first. */
static void describe_former(const struct watch *w, char out[static SCREEN_SPAN_BYTES + 24])
{
    char span[SCREEN_SPAN_BYTES];
    out[0] = '\0';
    if (w->has_shown) {
        text_format(out, SCREEN_SPAN_BYTES + 24, " after %s %s",
                    screen_span(mono_since(w->look->now, w->since), span),
                    node_answer_name(w->answer));
    }
}

static void describe(const struct watch *w, char out[static LINE_BYTES])
{
    char time[RFC3339_BYTES];
    char former[SCREEN_SPAN_BYTES + 24];
    char message[200];
    const struct node_look *look = w->look;
    const char *said = node_look_message(look);
    rfc3339_format_micro(look->wall, time);
    time[23] = '\0'; /* milliseconds */
    describe_former(w, former);
    text_sanitize(message, sizeof(message), said, strlen(said));
    text_format(out, LINE_BYTES, "%sZ  %-8s  %s%s: %s", time, node_answer_name(look->answer),
                readiness_reason_name(look->gate.reason), former, message);
}

static void print_json(const struct watch *w)
{
    char time[RFC3339_BYTES];
    char message[NAMES_MESSAGE_BYTES];
    const struct node_look *look = w->look;
    const char *said = node_look_message(look);
    int64_t former_ms = mono_since(look->now, w->since) / NS_PER_MS;
    rfc3339_format_micro(look->wall, time);
    text_sanitize(message, sizeof(message), said, strlen(said));
    json_t *line = json_pack("{s:s, s:s, s:s, s:b, s:s, s:s, s:s?, s:o}", "time", time, "node",
                             w->config.agent.node_name, "answer", node_answer_name(look->answer),
                             "admitsPods", look->gate.admit, "reason",
                             readiness_reason_name(look->gate.reason), "message", message, "former",
                             w->has_shown ? node_answer_name(w->answer) : NULL, "formerSeconds",
                             w->has_shown ? json_real((double)former_ms / 1000) : json_null());
    if (line) { /* whether it was written is seen at the flush */
        (void)json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
        (void)putchar('\n');
        json_decref(line);
    }
}

static void note_change(struct watch *w)
{
    char line[LINE_BYTES];
    describe(w, line);
    if (w->config.output == ADMIN_JSON) {
        print_json(w);
    } else if (!w->is_screen) {
        (void)puts(line);
    }
    size_t kept = w->history_count < HISTORY_MAX ? w->history_count++ : HISTORY_MAX - 1;
    memmove(w->history[1], w->history[0], kept * sizeof(w->history[0]));
    memcpy(w->history[0], line, sizeof(line));
    w->answer = w->look->answer;
    w->reason = w->look->gate.reason;
    w->admit = w->look->gate.admit;
    if (w->has_shown) {
        w->since = w->look->now;
    }
    w->has_shown = true;
}

/* ---- the live view --------------------------------------------------------------------------- */

static struct winsize screen_size(void)
{
    struct winsize size;
    bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
    return is_known && size.ws_col > 0 ? size : (struct winsize){.ws_row = 24, .ws_col = 80};
}

/* What does not fit is left out below; the terminal itself cuts what is too wide. Each line is
 * cleared behind its text, so that nothing flickers. */
static void put_frame(const char *text, size_t rows)
{
    (void)fputs("\033[H", stdout);
    for (size_t row = 1; row < rows && *text != '\0'; row++) {
        size_t len = strcspn(text, "\n");
        (void)fwrite(text, 1, len, stdout);
        (void)fputs("\033[K\n", stdout);
        text += len + (text[len] == '\n');
    }
    (void)fputs("\033[Jq leaves", stdout);
}

static void draw(const struct watch *w)
{
    char *text = NULL;
    size_t len = 0;
    struct winsize size = screen_size();
    const struct status_screen how = {.has_color = w->has_color, .columns = size.ws_col};
    FILE *frame = open_memstream(&text, &len);
    if (!frame) {
        return; /* the next second may have memory */
    }
    bool is_whole = status_print(w->look, w->config.agent.node_name, NULL, how, frame);
    (void)fputc('\n', frame);
    for (size_t i = 0; i < w->history_count; i++) {
        (void)fprintf(frame, "%s\n", w->history[i]);
    }
    if (fclose(frame) == 0 && is_whole) {
        put_frame(text, size.ws_row);
    }
    free(text);
}

static void enter_screen(struct watch *w)
{
    w->is_screen = w->config.output == ADMIN_TEXT && isatty(STDOUT_FILENO) &&
                   isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &w->before) == 0;
    if (w->is_screen) {
        struct termios raw = w->before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw); /* without it q needs a newline: no harm */
        (void)fputs("\033[?1049h\033[?25l\033[?7l", stdout); /* other screen, no cursor, no wrap */
    }
}

static void leave_screen(const struct watch *w)
{
    if (w->is_screen) {
        (void)fputs("\033[?7h\033[?25h\033[?1049l", stdout);
        if (w->history_count > 0) {
            (void)printf("%s\n", w->history[0]);
        }
        (void)fflush(stdout); /* nobody is left to tell */
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &w->before);
    }
}

/* Ctrl-Z: the shell gets its terminal back, and we ours with `fg`. */
static void suspend(struct watch *w)
{
    leave_screen(w);
    (void)raise(SIGSTOP); /* goes on here */
    enter_screen(w);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void watch_directory(const struct watch *w)
{
    char dir[PATH_MAX];
    text_format(dir, sizeof(dir), "%s", w->look->path);
    char *slash = strrchr(dir, '/');
    if (slash && slash != dir) {
        *slash = '\0';
    }
    /* Fails while it is not there: then the clock looks. Adding it again only renews the mask. */
    (void)inotify_add_watch(w->inotify_fd, dir,
                            IN_MODIFY | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE |
                                IN_DELETE_SELF);
}

static int wait_ms(const struct watch *w)
{
    int64_t wait_ns = LOOK_AGAIN_NS;
    if (!mono_is_never(w->look->flips_at)) {
        int64_t flip_ns = mono_since(w->look->flips_at, clock_mono_now());
        wait_ns = flip_ns < wait_ns ? flip_ns : wait_ns;
    }
    return wait_ns <= 0 ? 0 : (int)(wait_ns / NS_PER_MS) + 1; /* never before it */
}

/* False: time to go. */
static bool take_signal(struct watch *w)
{
    struct signalfd_siginfo info;
    ssize_t got = read(w->signal_fd, &info, sizeof(info));
    bool is_stop = got == (ssize_t)sizeof(info) && info.ssi_signo == SIGTSTP;
    if (is_stop) {
        suspend(w);
    }
    return is_stop || (got == (ssize_t)sizeof(info) && info.ssi_signo == SIGWINCH);
}

/* False: time to go. */
static bool wait_for_news(struct watch *w)
{
    char ignored[4096];
    char key;
    struct pollfd fds[] = {{.fd = w->signal_fd, .events = POLLIN},
                           {.fd = w->inotify_fd, .events = POLLIN},
                           {.fd = STDOUT_FILENO}, /* the reader has gone: told without asking */
                           {.fd = w->is_screen ? STDIN_FILENO : -1, .events = POLLIN}};
    if (poll(fds, ARRAY_LEN(fds), wait_ms(w)) < 0 && errno != EINTR) {
        return false;
    }
    if (fds[0].revents != 0) {
        return take_signal(w);
    }
    while (read(w->inotify_fd, ignored, sizeof(ignored)) > 0) {
        /* which file it was does not matter: we look at ours */
    }
    if (fds[3].revents != 0) {
        ssize_t got = read(STDIN_FILENO, &key, 1);
        return got == 1 && key != 'q' && key != 'Q' && key != 3;
    }
    return (fds[2].revents & (POLLERR | POLLHUP)) == 0;
}

static int run_watch(struct watch *w)
{
    bool is_written = true;
    bool goes_on = true;
    while (goes_on) {
        watch_directory(w); /* before looking, so that nothing is missed */
        admin_read_record(&w->config);
        node_look_take(&w->config, w->look);
        if (!w->has_shown) {
            w->since = w->look->since.ns > 0 ? w->look->since : w->look->now;
        }
        if (has_changed(w)) {
            note_change(w);
        }
        if (w->is_screen) {
            draw(w);
        }
        is_written = fflush(stdout) == 0 || errno == EPIPE; /* a reader may go at any moment */
        goes_on = !ferror(stdout) && wait_for_news(w);
    }
    return is_written ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int open_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGQUIT);
    (void)sigaddset(&set, SIGTSTP);
    (void)sigaddset(&set, SIGWINCH);
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* none of these fails with such arguments */
    return signalfd(-1, &set, SFD_CLOEXEC);
}

int watch_main(int argc, char **argv)
{
    int status = EXIT_FAILURE;
    (void)signal(SIGPIPE, SIG_IGN);          /* seen by the flush */
    struct watch *w = calloc(1, sizeof(*w)); /* large */
    struct node_look *look = calloc(1, sizeof(*look));
    if (!w || !look) {
        (void)fputs("dpuctl watch: out of memory\n", stderr);
    } else if (admin_options_parse("dpuctl watch", watch_summary, argc, argv, &w->config,
                                   &status)) {
        w->look = look;
        w->has_color = screen_has_color((enum admin_color)w->config.color);
        w->signal_fd = open_signals();
        w->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (w->config.output == ADMIN_YAML) {
            status = admin_wrong_usage("dpuctl watch", "--output=yaml has no lines; use json");
        } else if (w->signal_fd < 0 || w->inotify_fd < 0) {
            perror("dpuctl watch");
        } else {
            enter_screen(w);
            status = run_watch(w);
            leave_screen(w);
        }
        (void)close(w->signal_fd); /* at the end */
        (void)close(w->inotify_fd);
        admin_options_fini(&w->config);
    }
    free(look);
    free(w);
    return status;
}

/* dpuctl pods: which pods of this node have lost their network, and what follows. */

static const char pods_summary[] =
    "The pods of this node, oldest first: when each was made, whether its network is there or lost "
    "(as when the DPU was reset), and what follows by --on-lost-network. Asks the container "
    "runtime and the kernel, and no agent. Run it as root on the node. Exit status: 0 none has "
    "lost it, 1 some have, 2 unknown (also of one pod only), 64 wrong usage.";

enum pods_answer { NONE_LOST, SOME_LOST, UNCLEAR };

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
    static const char stops[] = "gets a new sandbox, unless its restartPolicy is Never, or "
                                "OnFailure in a Job";
    static const char *const by_mode[] = {"reported", "new pods are refused meanwhile", stops};
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

/* ---- printing -------------------------------------------------------------------------------- */

static void print_pod(const struct admin_config *config, const struct pods_pod *pod, int width)
{
    char made[RFC3339_BYTES];
    char words[POD_NET_WORDS_BYTES];
    char name[2 * CRI_NAME_BYTES];
    bool has_color = screen_has_color((enum admin_color)config->color);
    enum screen_color color = pod->net.evidence == POD_NET_LOST   ? SCREEN_BAD
                              : pod->net.evidence == POD_NET_AWAY ? SCREEN_DOUBT
                                                                  : SCREEN_PLAIN;
    rfc3339_format_seconds(pod->sandbox.made, made);
    text_sanitize(words, sizeof(words), pod->net.words, strlen(pod->net.words));
    text_format(name, sizeof(name), "%s/%s", pod->sandbox.ns, pod->sandbox.name);
    struct wall reboot = reboot_of(config);
    (void)printf("%-*s  %s  %s%-7s%s", width, name, made, screen_on(has_color, color),
                 network_of(pod), screen_off(has_color));
    if (reboot.ns != 0) {
        (void)printf("  made %s the DPU's reboot",
                     pod->sandbox.made.ns < reboot.ns ? "before" : "after");
    }
    const char *follows = what_follows(config, pod);
    (void)printf("%s%s%s%s\n", words[0] ? "  " : "", words, follows[0] ? "; " : "", follows);
}

static void print_pods_text(const struct admin_config *config, const struct pods_look *look)
{
    size_t width = strlen("POD");
    for (size_t i = 0; i < look->count; i++) {
        const struct cri_sandbox *s = &look->pods[i].sandbox;
        size_t len = strlen(s->ns) + 1 + strlen(s->name);
        width = len > width ? len : width;
    }
    (void)printf("%-*s  %-20s  %s\n", (int)width, "POD", "MADE", "NETWORK");
    for (size_t i = 0; i < look->count; i++) {
        print_pod(config, &look->pods[i], (int)width);
    }
}

static json_t *pods_json(const struct admin_config *config, const struct pods_look *look)
{
    static const char *const modes[] = {"report", "status", "restart"};
    struct wall reboot = reboot_of(config);
    CLEANUP(json) json_t *pods = json_array();
    for (size_t i = 0; i < look->count; i++) {
        const struct pods_pod *pod = &look->pods[i];
        const struct cri_sandbox *s = &pod->sandbox;
        char made[RFC3339_BYTES];
        rfc3339_format_seconds(s->made, made);
        json_t *is_older = reboot.ns != 0 ? json_boolean(s->made.ns < reboot.ns) : json_null();
        json_t *tree = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:s}", "namespace", s->ns,
                                 "name", s->name, "uid", s->uid, "sandbox", s->id, "madeTime", made,
                                 "madeBeforeReboot", is_older, "network", network_of(pod), "seen",
                                 pod->net.words);
        if (json_array_append_new(pods, tree) != 0) {
            return NULL;
        }
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:O}", "node", config->agent.node_name, "onLostNetwork",
                     text_is_empty(config->cri_socket) ? "off" : modes[config->on_lost_network],
                     "lost", (int)look->lost, "unseen", (int)look->unseen, "pods", pods);
}

static bool print_pods(const struct admin_config *config, const struct pods_look *look)
{
    switch ((enum admin_output)config->output) {
    case ADMIN_JSON:
    case ADMIN_YAML:
        return json_print(pods_json(config, look), config->output == ADMIN_YAML, stdout);
    case ADMIN_NAME:
        for (size_t i = 0; i < look->count; i++) {
            if (look->pods[i].net.evidence == POD_NET_LOST) {
                (void)printf("%s/%s\n", look->pods[i].sandbox.ns, look->pods[i].sandbox.name);
            }
        }
        break;
    case ADMIN_TEXT:
        print_pods_text(config, look);
        break;
    }
    return fflush(stdout) == 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

static enum pods_answer examine_pods(const struct admin_config *config)
{
    char socket[PATH_MAX];
    struct pods_look look = {.count = 0};
    struct err e = ERR_INIT;
    if (!pods_find_runtime(config, socket)) {
        (void)fputs("dpuctl pods: no container runtime's socket is here: give --cri-socket=FILE\n",
                    stderr);
        return UNCLEAR;
    }
    if (pods_look_take(config, socket, &look, &e) != 0) {
        (void)fprintf(stderr, "dpuctl pods: %s\n", e.msg);
        return UNCLEAR;
    }
    bool is_printed = print_pods(config, &look);
    enum pods_answer answer = look.lost > 0 ? SOME_LOST : look.unseen > 0 ? UNCLEAR : NONE_LOST;
    pods_look_fini(&look);
    return is_printed ? answer : UNCLEAR;
}

int pods_main(int argc, char **argv)
{
    struct admin_config config;
    int status = UNCLEAR;
    (void)signal(SIGPIPE, SIG_IGN); /* seen by the flush */
    if (admin_options_parse("dpuctl pods", pods_summary, argc, argv, &config, &status)) {
        log_setup(LOG_ERROR, LOG_TEXT, "");
        status = (int)examine_pods(&config);
        admin_options_fini(&config);
    }
    return status;
}
