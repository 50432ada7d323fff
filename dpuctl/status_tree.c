/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/status_tree.h"

#include "base/cleanup.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "contract/lease.h"
#include "dpuctl/api_read.h"
#include "dpuctl/cni_scan.h"
#include "json/json_text.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* The members of json_pack are taken over; a NULL one makes the whole NULL. */

static json_t *seconds(int64_t ns)
{
    /* Milliseconds are enough, and read better. */
    int64_t ms = ns / NS_PER_MS;
    return json_real((double)ms / 1000);
}

static json_t *stamp(struct wall at)
{
    char text[RFC3339_BYTES];
    rfc3339_format_seconds(at, text);
    return json_string(text);
}

/* From now until then, negative once it is over; null for never. */
static json_t *seconds_until(struct mono until, struct mono now)
{
    return mono_is_never(until) ? json_null() : seconds(mono_since(until, now));
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

/* ---- the node itself ------------------------------------------------------------------------- */

static json_t *gate_tree(const struct node_look *look)
{
    const struct gate_decision *g = &look->gate;
    return json_pack("{s:b, s:i, s:s, s:o, s:o, s:o}", "admitsPods", g->admit, "statusCode",
                     g->admit ? 0 : 50, "reason", readiness_reason_name(g->reason), "message",
                     text_or_null(g->message), "note", text_or_null(g->note), "forSeconds",
                     look->since.ns > 0 ? seconds(mono_since(look->now, look->since))
                                        : json_null());
}

/* The stamp of the last renewal against our clock when it was observed: the DPU's clock, and the
 * time that the news took, which is well below a second. */
static json_t *dpu_skew(const struct node_look *look)
{
    const struct readiness *v = &look->record.verdict;
    const char *renewed = v->lease.renew_stamp;
    struct wall stamped;
    if (v->observed.ns <= 0 || rfc3339_parse(renewed, strlen(renewed), &stamped, NULL) != 0) {
        return json_null();
    }
    int64_t age_ns = mono_since(look->now, v->observed);
    struct wall observed = {.ns = mono_ns_sub(look->wall.ns, age_ns)};
    return seconds(wall_since(stamped, observed));
}

static json_t *record_tree(const struct node_look *look)
{
    const struct record *r = &look->record;
    const struct readiness *v = &r->verdict;
    if (!look->has_record) {
        return json_pack("{s:o, s:o}", "file", text_or_null(look->path), "problem",
                         text_or_null(look->problem));
    }
    return json_pack(
        "{s:o, s:n, s:o, s:s, s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:b}", "file",
        text_or_null(look->path), "problem", "node", text_or_null(r->node), "state",
        readiness_state_name(v->state), "admit", v->admit, "reason",
        readiness_reason_name(v->reason), "message", text_or_null(v->message), "transitionTime",
        stamp(v->transition), "lastRenewalAgeSeconds",
        v->observed.ns > 0 ? seconds(mono_since(look->now, v->observed)) : json_null(),
        "validSeconds", seconds_until(v->valid_until, look->now), "writerSeconds",
        seconds_until(r->writer_until, look->now), "holdSeconds",
        seconds_until(r->hold_until, look->now), "dpuClockSkewSeconds", dpu_skew(look),
        "writtenTime", stamp(r->written), "writerPid", (int)r->pid, "writerAlive",
        look->writer_exists);
}

static json_t *cni_tree(const struct admin_config *config)
{
    char dir[PATH_MAX];
    struct cni_scan *scan = calloc(1, sizeof(*scan)); /* too large for a stack frame */
    if (!scan) {
        return NULL;
    }
    cni_scan_directory(admin_path(config, config->cni_conf_dir, dir, sizeof(dir)), scan);
    const struct cni_entry *first = cni_scan_first(scan);
    const struct cni_entry *gated = cni_scan_gated(scan);
    json_t *tree = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b}", "directory", text_or_null(dir), "problem",
        text_or_null(scan->problem), "first", text_or_null(first ? first->file : NULL), "network",
        text_or_null(first ? first->network : NULL), "plugins",
        text_or_null(first ? first->types : NULL), "gate", text_or_null(gated ? gated->file : NULL),
        "gated", first && first->is_gated, "statusSupported", first && first->speaks_status);
    free(scan);
    return tree;
}

static bool has_entry(const char *dir, const char *prefix, const char *suffix)
{
    bool found = false;
    DIR *entries = opendir(dir);
    for (struct dirent *at = entries ? readdir(entries) : NULL; at; at = readdir(entries)) {
        size_t len = strlen(at->d_name);
        size_t tail = strlen(suffix);
        found = found || (strncmp(at->d_name, prefix, strlen(prefix)) == 0 && len > tail &&
                          strcmp(at->d_name + len - tail, suffix) == 0);
    }
    if (entries) {
        (void)closedir(entries); /* read-only */
    }
    return found;
}

static json_t *dra_tree(const struct admin_config *config)
{
    char root[PATH_MAX];
    char dir[PATH_MAX + 320];
    admin_path(config, config->kubelet_root, root, sizeof(root));
    (void)snprintf(dir, sizeof(dir), "%s/plugins_registry", root); /* fits */
    bool offers = has_entry(dir, config->driver, "-reg.sock");
    (void)snprintf(dir, sizeof(dir), "%s/plugins/%.253s", root, config->driver); /* fits */
    bool serves = has_entry(dir, "dra", ".sock");
    return json_pack("{s:o, s:b, s:b}", "driver", text_or_null(config->driver),
                     "registrationSocket", offers, "serviceSocket", serves);
}

/* ---- the API server -------------------------------------------------------------------------- */

static json_t *answer_problem(const struct api_answer *answer)
{
    return answer->http_status == 404 ? json_string("not found") : text_or_null(answer->message);
}

static json_t *lease_tree(const struct admin_config *config, const struct node_look *look,
                          const struct api_answer *answer)
{
    static const char *const health[] = {[LEASE_HEALTH_NONE] = NULL,
                                         [LEASE_HEALTH_UNHEALTHY] = NAMES_HEALTH_UNHEALTHY,
                                         [LEASE_HEALTH_SHUTDOWN] = NAMES_HEALTH_SHUTDOWN};
    const struct agent_config *a = &config->agent;
    struct lease_view lease;
    struct err e = ERR_INIT;
    if (!answer->body || lease_read(answer->body, &lease, &e) != 0) {
        return json_pack("{s:s, s:s, s:b, s:o}", "namespace", a->lease_namespace, "name",
                         a->lease_name, "found", 0, "problem",
                         answer->body ? text_or_null(e.msg) : answer_problem(answer));
    }
    return json_pack(
        "{s:s, s:s, s:b, s:n, s:o, s:b, s:o, s:i, s:o, s:o, s:o, s:o, s:b}", "namespace",
        a->lease_namespace, "name", a->lease_name, "found", 1, "problem", "holder",
        text_or_null(lease.holder), "holderExpected", text_equal(lease.holder, a->holder_identity),
        "renewTime", text_or_null(lease.renew_stamp), "durationSeconds", (int)lease.duration_s,
        "health", text_or_null(health[lease.health]), "healthMessage",
        text_or_null(lease.health_message), "resourceVersion", text_or_null(lease.resource_version),
        "uid", text_or_null(lease.uid), "uidOfRecord",
        look->has_record && text_equal(lease.uid, look->record.verdict.lease.uid));
}

/* "key=value:effect", or null. */
static json_t *taint_text(const json_t *taint)
{
    char text[NAMES_MESSAGE_BYTES];
    const char *key = json_text_get(taint, "key");
    const char *value = json_text_get(taint, "value");
    const char *effect = json_text_get(taint, "effect");
    (void)snprintf(text, sizeof(text), "%.200s%s%.200s:%.60s", key ? key : "", value ? "=" : "",
                   value ? value : "", effect ? effect : ""); /* the API server bounds them */
    return taint ? text_or_null(text) : json_null();
}

static json_t *slice_tree(const struct api_answer *answer)
{
    const json_t *spec = json_object_get(answer->body, "spec");
    const json_t *device = json_array_get(json_object_get(spec, "devices"), 0);
    const json_t *basic = json_object_get(device, "basic"); /* v1beta1 has it in there */
    const json_t *taints = json_object_get(basic ? basic : device, "taints");
    if (!answer->body) {
        return json_pack("{s:b, s:o}", "found", 0, "problem", answer_problem(answer));
    }
    return json_pack("{s:b, s:n, s:I, s:b, s:o}", "found", 1, "problem", "devices",
                     (json_int_t)json_array_size(json_object_get(spec, "devices")), "tainted",
                     json_array_size(taints) > 0, "taint", taint_text(json_array_get(taints, 0)));
}

static json_t *api_tree(const struct api_read *api, const struct api_answer *answer)
{
    bool reached = answer->http_status != 0;
    return json_pack("{s:s, s:b, s:o, s:o}", "server", api_read_describe(api), "reached", reached,
                     "problem", reached ? json_null() : text_or_null(answer->message),
                     "clockSkewSeconds", answer->has_date ? seconds(answer->skew_ns) : json_null());
}

/* In each version that the host's agent speaks: an older server has not all of them. */
static const char *const slice_versions[] = {"v1", "v1beta2", "v1beta1"};

static const struct api_answer *slice_answer(const struct api_read *api,
                                             const size_t numbers[ARRAY_LEN(slice_versions)])
{
    for (size_t i = 0; i < ARRAY_LEN(slice_versions); i++) {
        const struct api_answer *answer = api_read_answer(api, numbers[i]);
        if (answer->body) {
            return answer;
        }
    }
    return api_read_answer(api, numbers[0]);
}

static int add_api(json_t *tree, const struct admin_config *config, const struct node_look *look)
{
    struct api_read *api = NULL;
    struct err e = ERR_INIT;
    const struct agent_config *a = &config->agent;
    int rc = api_read_open(config, &api, &e);
    if (rc != 0) {
        bool none = rc == ERR_NOTFOUND && text_is_empty(a->kubeconfig);
        return json_object_set_new(
            tree, "api",
            json_pack("{s:n, s:b, s:o, s:n}", "server", "reached", 0, "problem",
                      none ? json_sprintf("%s: give --kubeconfig=FILE", e.msg)
                           : text_or_null(e.msg),
                      "clockSkewSeconds"));
    }
    size_t lease = api_read_ask(api, NULL, "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s",
                                a->lease_namespace, a->lease_name);
    size_t slices[ARRAY_LEN(slice_versions)];
    for (size_t i = 0; i < ARRAY_LEN(slices); i++) {
        slices[i] = api_read_ask(api, NULL, "/apis/resource.k8s.io/%s/resourceslices/%s-%s",
                                 slice_versions[i], config->driver, a->node_name);
    }
    api_read_wait(api, config->api_timeout_ns);
    const struct api_answer *answer = api_read_answer(api, lease);
    rc = json_object_set_new(tree, "api", api_tree(api, answer));
    rc |= json_object_set_new(tree, "lease", lease_tree(config, look, answer));
    rc |= json_object_set_new(json_object_get(tree, "dra"), "slice",
                              slice_tree(slice_answer(api, slices)));
    api_read_close(api);
    return rc;
}

json_t *status_tree_make(const struct admin_config *config, const struct node_look *look)
{
    CLEANUP(json)
    json_t *tree =
        json_pack("{s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:o}", "node", config->agent.node_name,
                  "version", DPU_VERSION, "time", stamp(look->wall), "answer",
                  node_answer_name(look->answer), "gate", gate_tree(look), "record",
                  record_tree(look), "cni", cni_tree(config), "dra", dra_tree(config));
    return tree && add_api(tree, config, look) == 0 ? TAKE(tree) : NULL;
}
