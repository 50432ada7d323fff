/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/api.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "contract/lease.h"
#include "dpuctl/print.h"
#include "kube/kube_conf.h"

#include <ev.h>

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct api_request {
    struct api_request *next;
    struct api *api;
    struct kube_call *call; /* NULL: over */
    struct api_answer answer;
};

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

static int load_conf(struct api *api, struct kube_conf *out, struct err *e)
{
    const char *file = api->config->agent.kubeconfig;
    const char *context = api->config->context;
    if (!text_is_empty(file)) {
        return kube_conf_load_context(file, context, out, e);
    }
    int rc = text_is_empty(context) ? kube_conf_load_in_cluster(NULL, out, e) : ERR_NOTFOUND;
    if (rc != ERR_NOTFOUND) {
        return rc;
    }
    api->is_kubectls = true;
    return load_kubectls(context, out, e);
}

int api_open(const struct admin_config *config, struct api **out, struct err *e)
{
    struct kube_conf conf = {0};
    struct api *api = MEM_NEW(struct api);
    api->config = config;
    int rc = load_conf(api, &conf, e);
    if (rc == 0) {
        api->loop = ev_loop_new(EVFLAG_AUTO);
        rc = api->loop ? kube_client_new(api->loop, &conf, &api->client, e) /* takes it */
                       : err_set(e, ERR_IO, "making an event loop");
    }
    if (rc != 0) {
        api_close(api);
        return rc;
    }
    *out = api;
    return 0;
}

void api_close(struct api *api)
{
    if (api) {
        kube_client_free(api->client);
        api_forget(api);
        if (api->loop) {
            ev_loop_destroy(api->loop);
        }
        free(api);
    }
}

const char *api_hint(const struct admin_config *config, int rc)
{
    bool is_none = rc == ERR_NOTFOUND && text_is_empty(config->agent.kubeconfig);
    return is_none ? ": give --kubeconfig=FILE" : "";
}

static void end_request(struct api_request *r, int code, const char *message)
{
    r->call = NULL;
    r->answer.code = code;
    text_format(r->answer.message, sizeof(r->answer.message), "%s", message);
    r->api->open--;
    if (r->api->open == 0) {
        ev_break(r->api->loop, EVBREAK_ALL);
    }
}

static void on_answer(void *user, const struct kube_response *response)
{
    struct api_request *r = user;
    struct api_answer *a = &r->answer;
    a->http_status = response->http_status;
    a->has_date = response->has_server_date;
    /* A Date has whole seconds, cut off: on average it is half a second old. */
    a->date = (struct wall){mono_ns_add(response->server_date.ns, NS_PER_SEC / 2)};
    a->skew_ns = wall_since(a->date, response->received_wall);
    a->body = response->code == 0 ? json_incref(response->body) : NULL;
    end_request(r, response->code, response->message);
}

const struct api_answer *api_ask(struct api *api, const json_t *body, char *path)
{
    CLEANUP(free) char *owned = path;
    struct err e = ERR_INIT;
    struct api_request *r = MEM_NEW(struct api_request);
    r->api = api;
    r->next = api->requests;
    api->requests = r;
    api->open++;
    const struct kube_request request = {.method = body ? KUBE_POST : KUBE_GET,
                                         .channel = KUBE_CONTROL,
                                         .priority = KUBE_URGENT, /* somebody waits for it */
                                         .path = owned,
                                         .body = body,
                                         .deadline_ms = 60000}; /* the wait ends it */
    if (kube_client_start(api->client, &request, on_answer, r, &r->call, &e) != 0) {
        end_request(r, e.code, e.msg);
    }
    return &r->answer;
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)timer;
    (void)events;
    ev_break(loop, EVBREAK_ALL);
}

void api_wait(struct api *api)
{
    ev_timer timer;
    char span[32];
    char late[64];
    const struct admin_config *config = api->config;
    int64_t timeout_ns = config->asks_runtime ? config->api_timeout_ns / 2 : config->api_timeout_ns;
    int64_t left_ns = timeout_ns - mono_since(clock_mono_now(), config->started_at);
    if (api->open > 0) {
        ev_timer_init(&timer, on_timeout, left_ns > 0 ? (double)left_ns / 1e9 : 0., 0.);
        ev_now_update(api->loop);
        ev_timer_start(api->loop, &timer);
        (void)ev_run(api->loop, 0); /* whether it was broken off is seen by the answers */
        ev_timer_stop(api->loop, &timer);
    }
    text_from_duration(timeout_ns, span, sizeof(span));
    text_format(late, sizeof(late), "no answer within %s", span);
    for (struct api_request *r = api->requests; r; r = r->next) {
        if (r->call) {
            kube_call_cancel(r->call);
            r->answer.is_late = true;
            end_request(r, ERR_RETRY, late);
        }
    }
}

void api_forget(struct api *api)
{
    while (api->requests) {
        struct api_request *r = api->requests;
        api->requests = r->next;
        json_decref(r->answer.body);
        free(r);
    }
}

/* ---- what an object tells of a DPU ----------------------------------------------------------- */

static const json_t *meta_of(const json_t *object)
{
    return json_object_get(object, "metadata");
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

const json_t *fleet_find_type(const json_t *list, const char *type)
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

const char *fleet_node_of_lease(const json_t *lease)
{
    const char *name = json_text_get(meta_of(lease), "name");
    size_t len = strlen(NAMES_LEASE_PREFIX);
    return name && strncmp(name, NAMES_LEASE_PREFIX, len) == 0 ? name + len : NULL;
}

static const char *node_of_node(const json_t *node)
{
    return json_text_get(meta_of(node), "name");
}

const char *fleet_node_of_bound(const json_t *slice_or_pod)
{
    return json_text_get(json_object_get(slice_or_pod, "spec"), "nodeName");
}

/* What a view keeps as it is, for comparing. */
static void clean_in_place(char *text, size_t text_bytes)
{
    char shown[NAMES_HOLDER_BYTES];
    print_clean(shown, sizeof(shown), text);
    text_format(text, text_bytes, "%s", shown);
}

void fleet_take_lease(struct fleet_row *row, const json_t *lease)
{
    row->has_lease = lease_read(lease, &row->lease, NULL) == 0;
    clean_in_place(row->lease.holder, sizeof(row->lease.holder));
    clean_in_place(row->lease.renew_stamp, sizeof(row->lease.renew_stamp));
    print_clean(
        row->boot_id, sizeof(row->boot_id),
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
    print_clean(word.reason, sizeof(word.reason), reason_in(said));
    print_clean(word.message, sizeof(word.message), said + strlen(NAMES_NOT_READY_PREFIX));
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
    print_clean(word.reason, sizeof(word.reason), json_text_get(condition, "reason"));
    print_clean(word.message, sizeof(word.message), json_text_get(condition, "message"));
    if (condition) {
        fleet_hear(row, &word);
    }
}

bool fleet_node_is_marked(const json_t *node)
{
    const json_t *labels = json_object_get(meta_of(node), "labels");
    return json_object_get(labels, "k8s.ovn.org/dpu-host") ||
           json_object_get(labels, "network.operator.openshift.io/dpu-host");
}

void fleet_take_node(struct fleet_row *row, const json_t *node)
{
    const json_t *conditions = json_object_get(json_object_get(node, "status"), "conditions");
    row->has_node = true;
    row->is_marked = row->is_marked || fleet_node_is_marked(node);
    hear_gate(row, fleet_find_type(conditions, "Ready"));
    hear_condition(row, fleet_find_type(conditions, "DPUReady"));
}

void fleet_take_slice(struct fleet_row *row, const json_t *slice)
{
    const json_t *devices = json_object_get(json_object_get(slice, "spec"), "devices");
    size_t i;
    const json_t *taint;
    json_array_foreach(json_object_get(json_array_get(devices, 0), "taints"), i, taint)
    {
        const char *key = json_text_get(taint, "key");
        if (!text_equal(key ? strrchr(key, '/') : NULL, "/unhealthy")) { /* behind the driver */
            continue;
        }
        struct fleet_word word = {.teller = FLEET_TAINT,
                                  .message = "its ResourceSlice has a taint for that",
                                  .since = time_of(taint, "timeAdded")};
        print_clean(word.reason, sizeof(word.reason), json_text_get(taint, "value"));
        word.state = state_of_refusal(word.reason);
        fleet_hear(row, &word);
    }
}

/* "registry:5000/name:1.2@sha256:..." has the tag 1.2. */
static void take_tag(struct fleet_row *row, const char *image)
{
    const char *slash = image ? strrchr(image, '/') : NULL;
    const char *name = slash ? slash + 1 : image;
    size_t len = name ? strcspn(name, "@") : 0;
    const char *colon = name ? memchr(name, ':', len) : NULL;
    if (colon) {
        text_sanitize(row->agent_version, sizeof(row->agent_version), colon + 1,
                      len - (size_t)(colon + 1 - name));
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
    const json_t *ready =
        fleet_find_type(json_object_get(json_object_get(pod, "status"), "conditions"), "Ready");
    const json_t *container = json_array_get(json_object_get(spec, "containers"), 0);
    size_t i;
    const json_t *init;
    if (row->agent_pod[0] != '\0' && row->is_agent_ready) {
        return; /* two of them in a rolling update */
    }
    row->is_agent_ready = text_equal(json_text_get(ready, "status"), "True");
    row->has_rolling_names = has_rolling_names(container);
    print_clean(row->agent_pod, sizeof(row->agent_pod), json_text_get(meta_of(pod), "name"));
    take_tag(row, json_text_get(container, "image"));
    json_array_foreach(json_object_get(spec, "initContainers"), i, init)
    {
        const json_t *word = json_array_get(json_object_get(init, "args"), 0);
        row->has_gate = row->has_gate || text_equal(json_string_value(word), "install-cni");
    }
}

/* ---- the whole cluster ----------------------------------------------------------------------- */

enum { LEASES, NODES, SLICES, PODS, LIST_COUNT };

static const struct list_kind {
    const char *what;
    const char *path; /* up to the namespace, where there is one; then */
    const char *tail;
    const char *labels; /* that restrict it */
    const char *field;  /* that names the only node to look at */
    int page;           /* objects: a Lease has 1 KB, a Node with its images up to 40 */
    const char *(*node_of)(const json_t *object);
    fleet_take_fn *take;
} kinds[LIST_COUNT] = {
    [LEASES] = {"leases", "/apis/coordination.k8s.io/v1/namespaces/", "/leases", "",
                "metadata.name=" NAMES_LEASE_PREFIX, 500, fleet_node_of_lease, fleet_take_lease},
    [NODES] = {"nodes", "/api/v1/nodes", NULL, "", "metadata.name=", 250, node_of_node,
               fleet_take_node},
    [SLICES] = {"resourceslices", "/apis/resource.k8s.io/v1/resourceslices", NULL, "",
                "spec.nodeName=", 500, fleet_node_of_bound, fleet_take_slice},
    [PODS] = {"pods", "/api/v1/namespaces/", "/pods", "app.kubernetes.io/name=dpu-host-agent",
              "spec.nodeName=", 250, fleet_node_of_bound, fleet_take_pod},
};

struct list {
    const struct list_kind *kind;
    const struct api_answer *page; /* asked for; NULL: it is over */
    char *from;                    /* where the next page begins; owned */
    int code;                      /* enum err_code of its failure, or 0 */
    char problem[FLEET_NOTE_BYTES];
};

struct reader {
    struct api *api;
    const struct admin_config *config;
    struct list lists[LIST_COUNT];
    json_t *index; /* node -> place of its row */
    size_t capacity;
    struct fleet fleet;
};

/* The row of a node, new where there is none; NULL: too many. Valid until the next is added. */
static struct fleet_row *row_of(struct reader *r, const char *node)
{
    struct fleet *f = &r->fleet;
    const json_t *place = json_object_get(r->index, node);
    if (place) {
        return &f->rows[json_integer_value(place)];
    }
    if (f->count >= FLEET_ROWS_MAX) {
        return NULL;
    }
    if (f->count == r->capacity) {
        r->capacity = r->capacity > 0 ? 2 * r->capacity : 64;
        f->rows = mem_realloc(f->rows, r->capacity * sizeof(*f->rows));
    }
    (void)json_object_set_new(r->index, node, json_integer((json_int_t)f->count));
    struct fleet_row *row = &f->rows[f->count++];
    *row = (struct fleet_row){.now = f->now};
    text_format(row->node, sizeof(row->node), "%s", node);
    row->node_bytes = strlen(row->node);
    return row;
}

static void end_list(struct list *l, int code, const char *format, ...) PRINTF_LIKE(3, 4);

static void end_list(struct list *l, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_vformat(l->problem, sizeof(l->problem), format, args);
    va_end(args);
    l->page = NULL;
    l->code = code;
}

static void take_items(struct reader *r, struct list *l, const json_t *items)
{
    size_t i;
    const json_t *item;
    json_array_foreach(items, i, item)
    {
        const char *node = l->kind->node_of(item);
        if (!text_is_dns1123_subdomain(node ? node : "")) {
            continue;
        }
        struct fleet_row *row = row_of(r, node);
        if (!row) {
            end_list(l, ERR_LIMIT, "more than %d nodes: give --selector", (int)FLEET_ROWS_MAX);
            return;
        }
        if (l->kind == &kinds[LEASES]) { /* its stamp is compared with this answer's Date */
            row->now = r->fleet.now;
        }
        l->kind->take(row, item);
    }
}

/* Percent-encoded, but for what is surely harmless in a query. */
static void add_query(char **path, const char *key, const char *value)
{
    if (value[0] == '\0') {
        return;
    }
    CLEANUP(free) char *before = *path;
    CLEANUP(free) char *encoded = mem_alloc(3 * strlen(value) + 1);
    char *to = encoded;
    for (const char *at = value; *at; at++) {
        bool is_plain = isalnum((unsigned char)*at) || strchr("-._~", *at);
        text_format(to, 4, is_plain ? "%c" : "%%%02X", (unsigned char)*at);
        to += strlen(to);
    }
    *path = mem_format("%s&%s=%s", before, key, encoded);
}

static void ask_page(struct reader *r, struct list *l)
{
    const struct admin_config *c = r->config;
    const struct list_kind *kind = l->kind;
    char fields[2 * NAMES_K8S_NAME_BYTES + 64] = "";
    char *path =
        mem_format("%s%s%s?limit=%d", kind->path, kind->tail ? c->agent.lease_namespace : "",
                   kind->tail ? kind->tail : "", kind->page);
    const char *only = r->api->config->scope == ADMIN_CLUSTER ? c->node : c->agent.node_name;
    text_format(fields, sizeof(fields), "%s%s%s%s%s", kind == &kinds[SLICES] ? "spec.driver=" : "",
                kind == &kinds[SLICES] ? c->driver : "", kind == &kinds[SLICES] && only ? "," : "",
                only ? kind->field : "", only ? only : "");
    add_query(&path, "fieldSelector", fields);
    add_query(&path, "labelSelector",
              kind == &kinds[NODES] && c->selector ? c->selector : kind->labels);
    add_query(&path, "continue", l->from ? l->from : "");
    l->page = api_ask(r->api, NULL, path);
}

static void take_page(struct reader *r, struct list *l)
{
    const struct api_answer *page = l->page;
    const char *from = json_text_get(meta_of(page->body), "continue");
    free(TAKE(l->from));
    if (page->is_late) {
        end_list(l, ERR_RETRY, "listing %s: not all of it came in time: raise --api-timeout",
                 l->kind->what);
    } else if (page->http_status == 404 && l->kind == &kinds[SLICES]) {
        end_list(l, 0, "%s", ""); /* a cluster without slices has none to tell of */
    } else if (!page->body) {
        end_list(l, page->code, "%s", page->message);
    } else {
        r->fleet.now = page->has_date ? page->date : r->fleet.now;
        l->page = NULL;
        l->from = text_is_empty(from) ? NULL : mem_strdup(from);
        take_items(r, l, json_object_get(page->body, "items"));
    }
}

/* Page by page of all lists, until each is over. */
static void read_lists(struct reader *r)
{
    bool is_open = true;
    for (size_t i = 0; i < LIST_COUNT; i++) {
        r->lists[i].kind = &kinds[i];
        ask_page(r, &r->lists[i]);
    }
    while (is_open) {
        is_open = false;
        api_wait(r->api);
        for (size_t i = 0; i < LIST_COUNT; i++) {
            if (r->lists[i].page) {
                take_page(r, &r->lists[i]);
            }
        }
        api_forget(r->api);
        for (size_t i = 0; i < LIST_COUNT; i++) {
            if (r->lists[i].from && r->lists[i].code == 0) {
                ask_page(r, &r->lists[i]);
                is_open = true;
            }
        }
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
        if (place && r->fleet.rows[json_integer_value(place)].has_node) {
            row->has_node = true;
            row->node_bytes = (size_t)(dashes - row->node);
        }
    }
}

/* Rows of DPUs, and among those that were asked for. */
static void keep_wanted(struct reader *r)
{
    struct fleet *f = &r->fleet;
    size_t count = f->count;
    f->count = 0;
    for (size_t i = 0; i < count; i++) { /* before a row moves */
        find_node(r, &f->rows[i]);
    }
    for (size_t i = 0; i < count; i++) {
        const struct fleet_row *row = &f->rows[i];
        bool is_selected = row->has_node || text_is_empty(r->config->selector);
        if ((row->has_lease || row->is_marked) && is_selected) {
            f->rows[f->count] = *row;
            fleet_judge(&f->rows[f->count++], r->config->agent.holder_identity);
        }
    }
    if (f->count > 0) {
        qsort(f->rows, f->count, sizeof(*f->rows), fleet_compare);
    }
}

static int judge_lists(struct reader *r, struct err *e)
{
    const struct list *leases = &r->lists[LEASES];
    const struct list *nodes = &r->lists[NODES];
    struct fleet *f = &r->fleet;
    if (leases->code != 0) {
        return err_set(e, leases->code, "%s", leases->problem);
    }
    if (nodes->code != 0 && !text_is_empty(r->config->selector)) {
        return err_set(e, nodes->code, "--selector: %s", nodes->problem);
    }
    for (size_t i = NODES; i < LIST_COUNT; i++) {
        if (r->lists[i].code != 0) {
            text_format(f->notes[f->note_count++], FLEET_NOTE_BYTES, "%s", r->lists[i].problem);
        }
    }
    keep_wanted(r);
    return 0;
}

int fleet_read(struct api *api, struct fleet *out, struct err *e)
{
    struct reader r = {.api = api, .config = api->config, .index = json_object()};
    api_forget(api);
    read_lists(&r);
    int rc = judge_lists(&r, e);
    json_decref(r.index);
    for (size_t i = 0; i < LIST_COUNT; i++) {
        free(r.lists[i].from);
    }
    if (rc != 0) {
        fleet_fini(&r.fleet);
    } else {
        *out = r.fleet;
    }
    return rc;
}

void fleet_fini(struct fleet *fleet)
{
    free(fleet->rows);
    fleet->rows = NULL;
}
