/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/api.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "contract/lease.h"
#include "kube/kube_conf.h"
#include "loop/agent_options.h"

#include <ev.h>

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Nothing is configured, and this is no pod: what kubectl would take, if it is of use here. */
static int load_kubectls(const char *context, struct kube_conf *out, struct err *e)
{
    char path[PATH_MAX];
    const char *home = getenv("HOME");
    struct err own = ERR_INIT;
    text_format(path, sizeof(path), "%s/.kube/config", home ? home : "");
    if (access(path, F_OK) != 0) {
        return err_set(e, ERR_NOTFOUND, "no kubeconfig at hand");
    }
    if (kube_conf_load_context(path, context, out, &own) != 0) {
        return err_set(e, ERR_NOTFOUND, "no kubeconfig at hand; kubectl's is of no use here: %s",
                       own.msg);
    }
    return 0;
}

int api_reader_conf(const char *file, const char *context, struct kube_conf *out,
                    bool *out_is_kubectls, struct err *e)
{
    *out_is_kubectls = false;
    if (!text_is_empty(file)) {
        return kube_conf_load_context(file, context, out, e);
    }
    int rc = text_is_empty(context) ? kube_conf_load_in_cluster(NULL, out, e) : ERR_NOTFOUND;
    if (rc != ERR_NOTFOUND) {
        return rc;
    }
    *out_is_kubectls = true;
    return load_kubectls(context, out, e);
}

int api_reader_open(const struct admin_config *config, struct api_reader **out, struct err *e)
{
    struct kube_conf conf = {0};
    bool is_kubectls;
    int rc = api_reader_conf(config->agent.kubeconfig, config->context, &conf, &is_kubectls, e);
    if (rc != 0) {
        return rc;
    }
    struct api_reader *r = calloc(1, sizeof(*r));
    struct ev_loop *loop = r ? ev_loop_new(EVFLAG_AUTO) : NULL;
    if (!loop) {
        free(r);
        kube_conf_fini(&conf);
        return err_no_memory(e);
    }
    r->config = config;
    r->loop = loop;
    r->is_kubectls = is_kubectls;
    rc = kube_client_new(r->loop, &conf, &r->client, e); /* takes conf */
    if (rc != 0) {
        kube_conf_fini(&conf); /* zeroed, where it was taken */
        api_reader_close(r);
        return rc;
    }
    *out = r;
    return 0;
}

void api_reader_close(struct api_reader *r)
{
    if (!r) {
        return;
    }
    kube_client_free(r->client);
    for (size_t i = 0; i < r->count; i++) {
        json_decref(r->pending[i].answer.body);
    }
    ev_loop_destroy(r->loop);
    free(r);
}

static void end_question(struct api_pending *p)
{
    p->call = NULL;
    p->answer.done = true;
    p->reader->open--;
    if (p->reader->open == 0) {
        ev_break(p->reader->loop, EVBREAK_ALL);
    }
}

static void on_done(void *user, const struct kube_response *response)
{
    struct api_pending *p = user;
    p->answer.http_status = response->http_status;
    p->answer.has_date = response->has_server_date;
    /* A Date has whole seconds, cut off: on average it is half a second old. */
    p->answer.skew_ns = wall_since(response->server_date, response->received_wall) + NS_PER_SEC / 2;
    text_format(p->answer.message, sizeof(p->answer.message), "%s", response->message);
    if (response->code == 0) {
        p->answer.body = json_incref(response->body);
    }
    end_question(p);
}

const struct api_answer *api_reader_ask(struct api_reader *r, const json_t *body,
                                        const char *path_format, ...)
{
    char path[API_READER_PATH_BYTES];
    struct err e = ERR_INIT;
    va_list args;
    assert(r->count < API_READER_MAX);
    struct api_pending *p = &r->pending[r->count++];
    va_start(args, path_format);
    (void)vsnprintf(path, sizeof(path), path_format, args); /* sized for names of 253 bytes */
    va_end(args);
    p->reader = r;
    r->open++;
    const struct kube_request request = {.method = body ? KUBE_POST : KUBE_GET,
                                         .channel = KUBE_CONTROL,
                                         .priority = KUBE_URGENT, /* somebody waits for it */
                                         .path = path,
                                         .body = body,
                                         .deadline_ms = 60000}; /* the wait ends it */
    if (kube_client_start(r->client, &request, on_done, p, &p->call, &e) != 0) {
        text_format(p->answer.message, sizeof(p->answer.message), "%s", e.msg);
        end_question(p);
    }
    return &p->answer;
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)timer;
    (void)events;
    ev_break(loop, EVBREAK_ALL);
}

void api_reader_wait(struct api_reader *r)
{
    ev_timer timer;
    char span[32];
    const struct admin_config *config = r->config;
    int64_t timeout_ns = config->asks_runtime ? config->api_timeout_ns / 2 : config->api_timeout_ns;
    int64_t left_ns = timeout_ns - mono_since(clock_mono_now(), config->started_at);
    if (r->open > 0) {
        ev_timer_init(&timer, on_timeout, left_ns > 0 ? (double)left_ns / 1e9 : 0., 0.);
        ev_now_update(r->loop);
        ev_timer_start(r->loop, &timer);
        (void)ev_run(r->loop, 0); /* whether it was broken off is seen by the answers */
        ev_timer_stop(r->loop, &timer);
    }
    text_from_duration(timeout_ns, span, sizeof(span));
    for (size_t i = 0; i < r->count; i++) {
        struct api_pending *p = &r->pending[i];
        if (p->call) {
            kube_call_cancel(p->call);
            text_format(p->answer.message, sizeof(p->answer.message), "no answer within %s", span);
            end_question(p);
        }
    }
}

#define TAINT_SUFFIX "/unhealthy" /* behind the driver's name */

/* Those of ovn-kubernetes and of OpenShift's network operator. */
static const char *const host_labels[] = {"k8s.ovn.org/dpu-host",
                                          "network.operator.openshift.io/dpu-host"};

static const json_t *meta_of(const json_t *object)
{
    return json_object_get(object, "metadata");
}

static void put(char *out, size_t out_bytes, const char *text)
{
    if (text) {
        text_sanitize(out, out_bytes, text, strlen(text));
    }
}

static struct wall time_of(const json_t *object, const char *key)
{
    const char *text = json_text_get(object, key);
    struct wall at = {0};
    if (text && rfc3339_parse(text, strlen(text), &at, NULL) != 0) {
        return (struct wall){0};
    }
    return at;
}

/* A member of a list of objects, by its "type". */
static const json_t *find_type(const json_t *list, const char *type)
{
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item)
    {
        if (text_equal(json_text_get(item, "type"), type)) {
            return item;
        }
    }
    return NULL;
}

/* ---- whose it is ----------------------------------------------------------------------------- */

const char *fleet_node_of_lease(const json_t *lease)
{
    const char *name = json_text_get(meta_of(lease), "name");
    size_t len = strlen(NAMES_LEASE_PREFIX);
    return name && strncmp(name, NAMES_LEASE_PREFIX, len) == 0 ? name + len : NULL;
}

const char *fleet_node_of_node(const json_t *node)
{
    return json_text_get(meta_of(node), "name");
}

const char *fleet_node_of_bound(const json_t *slice_or_pod)
{
    return json_text_get(json_object_get(slice_or_pod, "spec"), "nodeName");
}

/* ---- what it tells --------------------------------------------------------------------------- */

/* What a view keeps as it is, for comparing. */
static void clean(char *text, size_t text_bytes)
{
    char shown[NAMES_HOLDER_BYTES];
    text_sanitize(shown, sizeof(shown), text, strlen(text));
    text_format(text, text_bytes, "%s", shown);
}

void fleet_take_lease(struct fleet_row *row, const json_t *lease)
{
    row->has_lease = lease_read(lease, &row->lease, NULL) == 0;
    clean(row->lease.holder, sizeof(row->lease.holder));
    clean(row->lease.renew_stamp, sizeof(row->lease.renew_stamp));
    put(row->boot_id, sizeof(row->boot_id),
        json_text_get(json_object_get(meta_of(lease), "annotations"), NAMES_ANNOTATION_BOOT_ID));
}

/* A refusal is no proof that the DPU is down: some reasons say that nobody knows. */
static enum readiness_state state_of_refusal(const char *reason)
{
    enum readiness_reason known;
    bool is_doubt = readiness_reason_from_name(reason, &known) &&
                    readiness_reason_traits(known)->state == READINESS_UNKNOWN;
    return is_doubt ? READINESS_UNKNOWN : READINESS_NOT_READY;
}

/* The word behind "reason " in a refusal of dpu-gate, if it is one of ours. */
static const char *reason_in(const char *message)
{
    static const char before[] = "reason ";
    for (const char *at = strstr(message, before); at; at = strstr(at, before)) {
        char word[FLEET_WORD_BYTES];
        enum readiness_reason reason;
        at += sizeof(before) - 1;
        text_format(word, sizeof(word), "%.*s", (int)strcspn(at, ", ;"), at);
        if (readiness_reason_from_name(word, &reason)) {
            return readiness_reason_name(reason);
        }
    }
    return "Refused";
}

/* The runtime asks dpu-gate, the kubelet repeats the answer: nothing is nearer to the pods. */
static void hear_gate(struct fleet_row *row, const json_t *condition)
{
    const char *message = json_text_get(condition, "message");
    const char *said = message ? strstr(message, NAMES_NOT_READY_PREFIX) : NULL;
    if (!said || text_equal(json_text_get(condition, "status"), "True")) {
        return;
    }
    struct fleet_word word = {.teller = FLEET_GATE,
                              .since = time_of(condition, "lastTransitionTime")};
    put(word.reason, sizeof(word.reason), reason_in(said));
    put(word.message, sizeof(word.message), said + strlen(NAMES_NOT_READY_PREFIX));
    word.state = state_of_refusal(word.reason);
    row->has_gate = true;
    fleet_hear(row, &word);
}

static void hear_condition(struct fleet_row *row, const json_t *condition)
{
    const char *status = json_text_get(condition, "status");
    struct fleet_word word = {.teller = FLEET_CONDITION,
                              .state = text_equal(status, "True")    ? READINESS_READY
                                       : text_equal(status, "False") ? READINESS_NOT_READY
                                                                     : READINESS_UNKNOWN,
                              .since = time_of(condition, "lastTransitionTime")};
    put(word.reason, sizeof(word.reason), json_text_get(condition, "reason"));
    put(word.message, sizeof(word.message), json_text_get(condition, "message"));
    if (condition) {
        fleet_hear(row, &word);
    }
}

bool fleet_node_is_marked(const json_t *node)
{
    const json_t *labels = json_object_get(meta_of(node), "labels");
    bool is_marked = false;
    for (size_t i = 0; i < ARRAY_LEN(host_labels); i++) {
        is_marked = is_marked || json_object_get(labels, host_labels[i]);
    }
    return is_marked;
}

void fleet_take_node(struct fleet_row *row, const json_t *node)
{
    const json_t *conditions = json_object_get(json_object_get(node, "status"), "conditions");
    row->has_node = true;
    row->is_marked = row->is_marked || fleet_node_is_marked(node);
    hear_gate(row, find_type(conditions, "Ready"));
    hear_condition(row, find_type(conditions, "DPUReady"));
}

void fleet_take_slice(struct fleet_row *row, const json_t *slice)
{
    const json_t *devices = json_object_get(json_object_get(slice, "spec"), "devices");
    const json_t *device = json_array_get(devices, 0);
    const json_t *basic = json_object_get(device, "basic"); /* v1beta1 has it in there */
    size_t i;
    const json_t *taint;
    json_array_foreach(json_object_get(basic ? basic : device, "taints"), i, taint)
    {
        const char *key = json_text_get(taint, "key");
        const char *suffix = key ? strrchr(key, '/') : NULL;
        if (!text_equal(suffix, TAINT_SUFFIX)) {
            continue;
        }
        struct fleet_word word = {.teller = FLEET_TAINT, .since = time_of(taint, "timeAdded")};
        put(word.reason, sizeof(word.reason), json_text_get(taint, "value"));
        word.state = state_of_refusal(word.reason);
        put(word.message, sizeof(word.message), "its ResourceSlice has a taint for that");
        fleet_hear(row, &word);
    }
}

/* "registry:5000/name:1.2@sha256:..." has the tag 1.2. */
static void put_tag(char *out, size_t out_bytes, const char *image)
{
    const char *name = strrchr(image, '/');
    name = name ? name + 1 : image;
    size_t len = strcspn(name, "@");
    const char *colon = memchr(name, ':', len);
    if (colon) {
        text_sanitize(out, out_bytes, colon + 1, len - (size_t)(colon + 1 - name));
    }
}

/* As far as the pod says: a ConfigMap behind it is not looked at. */
static bool has_rolling_names(const json_t *container)
{
    static const char flag[] = "--dra-rolling-update-uid=";
    bool is_named = false;
    bool is_on = false;
    size_t i;
    const json_t *item;
    json_array_foreach(json_object_get(container, "args"), i, item)
    {
        const char *arg = json_string_value(item);
        is_named = is_named || (arg && strncmp(arg, flag, sizeof(flag) - 1) == 0);
    }
    json_array_foreach(json_object_get(container, "env"), i, item)
    {
        is_on = is_on || (text_equal(json_text_get(item, "name"), AGENT_ENV_PREFIX "DRA") &&
                          text_equal(json_text_get(item, "value"), "on"));
    }
    return is_named && is_on;
}

void fleet_take_pod(struct fleet_row *row, const json_t *pod)
{
    const json_t *spec = json_object_get(pod, "spec");
    const json_t *conditions = json_object_get(json_object_get(pod, "status"), "conditions");
    const json_t *container = json_array_get(json_object_get(spec, "containers"), 0);
    const char *image = json_text_get(container, "image");
    bool is_ready = text_equal(json_text_get(find_type(conditions, "Ready"), "status"), "True");
    size_t i;
    const json_t *init;
    if (row->agent_pod[0] != '\0' && row->is_agent_ready) {
        return; /* two of them in a rolling update */
    }
    row->is_agent_ready = is_ready;
    row->has_rolling_names = has_rolling_names(container);
    put(row->agent_pod, sizeof(row->agent_pod), json_text_get(meta_of(pod), "name"));
    if (image) {
        put_tag(row->agent_version, sizeof(row->agent_version), image);
    }
    json_array_foreach(json_object_get(spec, "initContainers"), i, init)
    {
        const json_t *word = json_array_get(json_object_get(init, "args"), 0);
        row->has_gate = row->has_gate || text_equal(json_string_value(word), "install-cni");
    }
}

enum { PATH_MAX_BYTES = 4000 }; /* a URL has room for 4096 */

enum { LEASES, NODES, SLICES, PODS, LIST_COUNT };

static const struct list_kind {
    const char *what;
    const char *head; /* of the path; then the namespace, or the version of slices; then */
    const char *tail;
    int page; /* objects: a Lease has 1 KB, a Node with its images up to 40 */
    fleet_node_fn *node_of;
    fleet_take_fn *take;
} kinds[LIST_COUNT] = {
    [LEASES] = {"leases", "/apis/coordination.k8s.io/v1/namespaces/", "/leases", 500,
                fleet_node_of_lease, fleet_take_lease},
    [NODES] = {"nodes", "/api/v1/nodes", "", 250, fleet_node_of_node, fleet_take_node},
    [SLICES] = {"resourceslices", "/apis/resource.k8s.io/", "/resourceslices", 500,
                fleet_node_of_bound, fleet_take_slice},
    [PODS] = {"pods", "/api/v1/namespaces/", "/pods", 250, fleet_node_of_bound, fleet_take_pod},
};

/* As the host's agent writes them; an older server has not all of them. */
static const char *const slice_versions[] = {"v1", "v1beta2", "v1beta1"};

struct list {
    struct reader *reader;
    const struct list_kind *kind;
    size_t version; /* of slices: which one is tried */
    int code;       /* enum err_code of its failure, or 0 */
    char problem[FLEET_NOTE_BYTES];
};

struct reader {
    const struct fleet_config *config;
    struct mono deadline; /* of all pages */
    struct ev_loop *loop;
    struct kube_client *client;
    struct list lists[LIST_COUNT];
    size_t open;
    json_t *index; /* node -> place of its row */
    struct fleet_row *rows;
    size_t count;
    size_t capacity;
    struct wall now;
};

/* ---- rows ------------------------------------------------------------------------------------ */

static int grow(struct reader *r, struct err *e)
{
    size_t capacity = r->capacity > 0 ? 2 * r->capacity : 64;
    if (r->count >= FLEET_ROWS_MAX) {
        return err_set(e, ERR_LIMIT, "more than %d nodes: give --selector", (int)FLEET_ROWS_MAX);
    }
    struct fleet_row *rows = reallocarray(r->rows, capacity, sizeof(*rows));
    if (!rows) {
        return err_set(e, ERR_NOMEM, "out of memory for %zu nodes", capacity);
    }
    r->rows = rows;
    r->capacity = capacity;
    return 0;
}

/* The row of a node, new where there is none; NULL with `e` set. Valid until the next is added. */
static struct fleet_row *row_of(struct reader *r, const char *node, struct err *e)
{
    const json_t *place = json_object_get(r->index, node);
    if (place) {
        return &r->rows[json_integer_value(place)];
    }
    if (r->count == r->capacity && grow(r, e) != 0) {
        return NULL;
    }
    if (json_object_set_new(r->index, node, json_integer((json_int_t)r->count)) != 0) {
        (void)err_no_memory(e);
        return NULL;
    }
    struct fleet_row *row = &r->rows[r->count++];
    *row = (struct fleet_row){.now = r->now};
    text_format(row->node, sizeof(row->node), "%s", node);
    row->node_bytes = strlen(row->node);
    return row;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void end_list(struct list *l, int code, const char *problem)
{
    l->code = code;
    text_format(l->problem, sizeof(l->problem), "%s", problem);
    l->reader->open--;
    if (l->reader->open == 0) {
        ev_break(l->reader->loop, EVBREAK_ALL);
    }
}

static int take_items(struct list *l, const json_t *items, struct err *e)
{
    size_t i;
    const json_t *item;
    json_array_foreach(items, i, item)
    {
        const char *node = l->kind->node_of(item);
        if (!text_is_dns1123_subdomain(node ? node : "")) {
            continue;
        }
        struct fleet_row *row = row_of(l->reader, node, e);
        if (!row) {
            return e->code;
        }
        if (l->kind == &kinds[LEASES]) { /* its stamp is compared with this answer's Date */
            row->now = l->reader->now;
        }
        l->kind->take(row, item);
    }
    return 0;
}

static int ask_page(struct list *l, const char *from, struct err *e);

static void on_page(void *user, const struct kube_response *response)
{
    struct list *l = user;
    struct err e = ERR_INIT;
    const char *from = json_text_get(json_object_get(response->body, "metadata"), "continue");
    bool is_unserved = response->http_status == 404 && l->kind == &kinds[SLICES];
    if (is_unserved && ++l->version < ARRAY_LEN(slice_versions)) {
        if (ask_page(l, NULL, &e) != 0) {
            end_list(l, e.code, e.msg);
        }
        return;
    }
    if (response->code != 0) { /* a cluster without slices has none to tell of */
        end_list(l, is_unserved ? 0 : response->code, is_unserved ? "" : response->message);
        return;
    }
    if (response->has_server_date) { /* whole seconds, cut off: on average half a second old */
        l->reader->now = (struct wall){mono_ns_add(response->server_date.ns, NS_PER_SEC / 2)};
    }
    if (take_items(l, json_object_get(response->body, "items"), &e) != 0 ||
        (!text_is_empty(from) && ask_page(l, from, &e) != 0)) {
        end_list(l, e.code, e.msg);
    } else if (text_is_empty(from)) {
        end_list(l, 0, "");
    }
}

/* Percent-encoded, but for what is surely harmless in a query. */
static int put_query(struct buf *path, const char *key, const char *value, struct err *e)
{
    int rc = buf_appendf(path, e, "&%s=", key);
    for (const char *at = value; rc == 0 && *at; at++) {
        bool is_plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                        (*at >= '0' && *at <= '9') || strchr("-._~", *at);
        rc = is_plain ? buf_append(path, at, 1, e)
                      : buf_appendf(path, e, "%%%02X", (unsigned)(unsigned char)*at);
    }
    return rc;
}

/* What restricts a list to our objects, and to those of the only node to look at. */
static int put_selectors(const struct list *l, struct buf *path, struct err *e)
{
    const struct fleet_config *c = l->reader->config;
    char fields[2 * NAMES_K8S_NAME_BYTES + 64] = "";
    const char *labels = "";
    const char *node = c->node ? c->node : "";
    if (l->kind == &kinds[SLICES]) {
        text_format(fields, sizeof(fields), "spec.driver=%s%s%s", c->driver,
                    c->node ? ",spec.nodeName=" : "", node);
    } else if (c->node) {
        text_format(fields, sizeof(fields), "%s%s",
                    l->kind == &kinds[LEASES]  ? "metadata.name=" NAMES_LEASE_PREFIX
                    : l->kind == &kinds[NODES] ? "metadata.name="
                                               : "spec.nodeName=",
                    node);
    }
    if (l->kind == &kinds[PODS]) {
        labels = "app.kubernetes.io/name=dpu-host-agent";
    } else if (l->kind == &kinds[NODES] && c->selector) {
        labels = c->selector;
    }
    int rc = fields[0] != '\0' ? put_query(path, "fieldSelector", fields, e) : 0;
    if (rc != 0) {
        return rc;
    }
    return labels[0] != '\0' ? put_query(path, "labelSelector", labels, e) : 0;
}

static int put_path(const struct list *l, const char *from, struct buf *path, struct err *e)
{
    const struct list_kind *kind = l->kind;
    const char *middle = kind == &kinds[NODES]    ? ""
                         : kind == &kinds[SLICES] ? slice_versions[l->version]
                                                  : l->reader->config->ns;
    int rc = buf_appendf(path, e, "%s%s%s?limit=%d", kind->head, middle, kind->tail, kind->page);
    if (rc != 0) {
        return rc;
    }
    rc = put_selectors(l, path, e);
    if (rc != 0) {
        return rc;
    }
    return from ? put_query(path, "continue", from, e) : 0;
}

static int ask_page(struct list *l, const char *from, struct err *e)
{
    const struct reader *r = l->reader;
    struct kube_call *call; /* never cancelled: its deadline ends it */
    CLEANUP(buf) struct buf path;
    buf_init(&path, PATH_MAX_BYTES);
    int64_t left_ms = mono_since(r->deadline, clock_mono_now()) / NS_PER_MS;
    if (left_ms <= 0) {
        return err_set(e, ERR_RETRY, "listing %s: not all of it came in time: raise --api-timeout",
                       l->kind->what);
    }
    if (put_path(l, from, &path, e) != 0) {
        return err_wrap(e, "listing %s", l->kind->what);
    }
    const struct kube_request request = {.method = KUBE_GET,
                                         .channel = KUBE_CONTROL,
                                         .priority = KUBE_URGENT, /* somebody waits for it */
                                         .path = buf_text(&path),
                                         .deadline_ms = (uint32_t)left_ms};
    return kube_client_start(r->client, &request, on_page, l, &call, e);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int open_client(struct reader *r, struct err *e)
{
    struct kube_conf conf = {0};
    bool is_kubectls;
    int rc = api_reader_conf(r->config->kubeconfig, r->config->context, &conf, &is_kubectls, e);
    if (rc != 0) {
        return rc;
    }
    r->index = json_object();
    r->loop = ev_loop_new(EVFLAG_AUTO);
    if (!r->loop || !r->index) {
        kube_conf_fini(&conf);
        return err_no_memory(e);
    }
    return kube_client_new(r->loop, &conf, &r->client, e); /* takes conf */
}

/* Waits for the last page of each list. */
static void read_lists(struct reader *r)
{
    struct err e = ERR_INIT;
    r->open = LIST_COUNT;
    for (size_t i = 0; i < LIST_COUNT; i++) {
        struct list *l = &r->lists[i];
        *l = (struct list){.reader = r, .kind = &kinds[i]};
        if (ask_page(l, NULL, &e) != 0) {
            end_list(l, e.code, e.msg);
        }
    }
    if (r->open > 0) {
        (void)ev_run(r->loop, 0); /* ended by the last list */
    }
}

/* The Node of a further DPU is the one of the first. */
static void find_node(const struct reader *r, struct fleet_row *row)
{
    char node[NAMES_K8S_NAME_BYTES];
    const char *dashes = strstr(row->node, "--");
    for (; !row->has_node && dashes; dashes = strstr(dashes + 1, "--")) {
        text_format(node, sizeof(node), "%.*s", (int)(dashes - row->node), row->node);
        const json_t *place = json_object_get(r->index, node);
        if (place && r->rows[json_integer_value(place)].has_node) {
            row->has_node = true;
            row->node_bytes = (size_t)(dashes - row->node);
        }
    }
}

/* Of a DPU, and among those that were asked for. */
static bool is_wanted(const struct reader *r, const struct fleet_row *row)
{
    bool is_selected = row->has_node || text_is_empty(r->config->selector);
    return (row->has_lease || row->is_marked) && is_selected;
}

static void keep_wanted(struct reader *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->count; i++) { /* before a row moves */
        find_node(r, &r->rows[i]);
    }
    for (size_t i = 0; i < r->count; i++) {
        if (is_wanted(r, &r->rows[i])) {
            r->rows[kept] = r->rows[i];
            fleet_judge(&r->rows[kept++], r->config->holder);
        }
    }
    r->count = kept;
    if (kept > 0) {
        qsort(r->rows, kept, sizeof(*r->rows), fleet_compare);
    }
}

static int make_fleet(struct reader *r, struct fleet *out, struct err *e)
{
    const struct list *leases = &r->lists[LEASES];
    const struct list *nodes = &r->lists[NODES];
    struct fleet fleet = {.now = r->now};
    if (leases->code != 0) {
        return err_set(e, leases->code, "%s", leases->problem);
    }
    if (nodes->code != 0 && !text_is_empty(r->config->selector)) {
        return err_set(e, nodes->code, "--selector: %s", nodes->problem);
    }
    for (size_t i = NODES; i < LIST_COUNT; i++) {
        if (r->lists[i].code != 0) {
            text_format(fleet.notes[fleet.note_count++], FLEET_NOTE_BYTES, "%s",
                        r->lists[i].problem);
        }
    }
    keep_wanted(r);
    fleet.rows = TAKE(r->rows);
    fleet.count = r->count;
    *out = fleet;
    return 0;
}

int fleet_read(const struct fleet_config *config, struct fleet *out, struct err *e)
{
    struct reader r = {.config = config,
                       .deadline = mono_add(clock_mono_now(), config->api_timeout_ns)};
    int rc = open_client(&r, e);
    if (rc == 0) {
        read_lists(&r);
        rc = make_fleet(&r, out, e);
    }
    kube_client_free(r.client);
    if (r.loop) {
        ev_loop_destroy(r.loop);
    }
    json_decref(r.index);
    free(r.rows);
    return rc;
}

void fleet_fini(struct fleet *fleet)
{
    free(fleet->rows);
    *fleet = (struct fleet){.rows = NULL};
}
