/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/fleet.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "contract/lease.h"
#include "contract/readiness.h"
#include "dpuctl/api.h"
#include "dpuctl/options.h"
#include "dpuctl/print.h"

#include <curl/curl.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLEET_ROWS_MAX = 50000, /* ten times what a cluster is made for */
    FLEET_TRIES = 3,        /* of lists whose pages expire */
};

/* ---- a row; all texts that it takes are sanitized -------------------------------------------- */

/* Lays what an object tells into its row; what cannot be read tells nothing. `now` is the API
 * server's clock when it answered; 0: it gave no Date. */
typedef void take_fn(json_t *row, const json_t *object, struct wall now);

/* Of a DPU of whom nothing is known yet. Returns owned. */
static json_t *row_new(const char *ns, const char *node)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:i, s:b, s:b, s:n, s:n, s:n, s:n, "
        "s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n}",
        "node", node, "nodeName", node, "namespace", ns, "state",
        readiness_state_name(READINESS_UNKNOWN), "reason", "", "message", "", "toldBy", "lease",
        "hasLease", 0, "hasNode", 0, "hasLabel", 0, "durationSeconds", 0, "hostAgentReady", 0,
        "gateIn", 0, "since", "sinceSeconds", "holder", "renewTime", "renewalAgeSeconds", "health",
        "dpuBootId", "healthMessage", "dpuAgentVersion", "hostAgentPod", "hostAgentVersion",
        "advice");
}

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

/* The node whose row it belongs to, or NULL; of "ovn-dpu-NODE". */
static const char *node_of_lease(const json_t *lease)
{
    const char *name = json_text_get(meta_of(lease), "name");
    size_t len = strlen(NAMES_LEASE_PREFIX);
    return name && strncmp(name, NAMES_LEASE_PREFIX, len) == 0 ? name + len : NULL;
}

static const char *node_of_node(const json_t *node)
{
    return json_text_get(meta_of(node), "name");
}

static const char *node_of_bound(const json_t *slice_or_pod)
{
    return json_text_get(json_object_get(slice_or_pod, "spec"), "nodeName");
}

static void take_lease(json_t *row, const json_t *lease, struct wall now)
{
    const json_t *notes = json_object_get(meta_of(lease), "annotations");
    struct lease_view seen;
    if (lease_read(lease, &seen, NULL) != 0) {
        return;
    }
    print_json_put(row, "hasLease", json_true());
    print_json_put(row, "holder", print_json_text(seen.holder));
    print_json_put(row, "durationSeconds", json_integer(seen.duration_s));
    print_json_put(row, "renewTime", print_json_text(seen.renew_stamp));
    print_json_put(row, "health", print_json_text(lease_health_name(seen.health)));
    print_json_put(row, "healthMessage", print_json_text(seen.health_message));
    print_json_put(row, "dpuBootId",
                   print_json_text(json_text_get(notes, NAMES_ANNOTATION_BOOT_ID)));
    print_json_put(row, "dpuAgentVersion", print_json_text(seen.agent_version));
    if (seen.renew_time_valid && now.ns != 0) {
        print_json_put(row, "renewalAgeSeconds",
                       print_json_seconds(wall_since(now, seen.renew_time)));
    }
}

/* ---- what its host says ---------------------------------------------------------------------- */

/* Keeps it if none that is more telling has spoken. */
static void hear(json_t *row, const char *teller, enum readiness_state state, const char *reason,
                 const char *message, struct wall since)
{
    static const char *const rising[] = {"lease", "taint", "condition", "gate"};
    for (size_t i = ARRAY_LEN(rising); i-- > 0 && !text_equal(rising[i], teller);) {
        if (text_equal(rising[i], json_text_get(row, "toldBy"))) {
            return;
        }
    }
    print_json_put(row, "toldBy", json_string(teller));
    print_json_put(row, "state", json_string(readiness_state_name(state)));
    print_json_put(row, "reason", print_json_text(reason));
    print_json_put(row, "message", print_json_text(message));
    print_json_put(row, "since", print_json_stamp(since));
}

/* A refusal is no proof that the DPU is down: some reasons say that nobody knows. */
static enum readiness_state state_of_refusal(const char *reason)
{
    enum readiness_reason known;
    bool is_doubt = readiness_reason_from_name(reason ? reason : "", &known) &&
                    readiness_reason_traits(known)->state == READINESS_UNKNOWN;
    return is_doubt ? READINESS_UNKNOWN : READINESS_NOT_READY;
}

/* The word behind "reason " in a refusal of dpu-gate, if it is one of ours. */
static const char *reason_in(const char *message)
{
    static const char before[] = "reason ";
    for (const char *at = strstr(message, before); at; at = strstr(at, before)) {
        char word[64];
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
static void hear_gate(json_t *row, const json_t *condition)
{
    const char *message = json_text_get(condition, "message");
    const char *said = message ? strstr(message, NAMES_NOT_READY_PREFIX) : NULL;
    if (said && !text_equal(json_text_get(condition, "status"), "True")) {
        const char *reason = reason_in(said);
        print_json_put(row, "gateIn", json_true());
        hear(row, "gate", state_of_refusal(reason), reason, said + strlen(NAMES_NOT_READY_PREFIX),
             time_of(condition, "lastTransitionTime"));
    }
}

static void hear_condition(json_t *row, const json_t *condition)
{
    const char *status = json_text_get(condition, "status");
    enum readiness_state state = text_equal(status, "True")    ? READINESS_READY
                                 : text_equal(status, "False") ? READINESS_NOT_READY
                                                               : READINESS_UNKNOWN;
    if (condition) {
        hear(row, "condition", state, json_text_get(condition, "reason"),
             json_text_get(condition, "message"), time_of(condition, "lastTransitionTime"));
    }
}

bool fleet_node_is_marked(const json_t *node)
{
    const json_t *labels = json_object_get(meta_of(node), "labels");
    return json_object_get(labels, "k8s.ovn.org/dpu-host") ||
           json_object_get(labels, "network.operator.openshift.io/dpu-host");
}

static void take_node(json_t *row, const json_t *node, struct wall now)
{
    const json_t *conditions = json_object_get(json_object_get(node, "status"), "conditions");
    print_json_put(row, "hasNode", json_true());
    print_json_put(row, "hasLabel", json_boolean(fleet_node_is_marked(node)));
    hear_gate(row, json_text_find(conditions, "type", "Ready"));
    hear_condition(row, json_text_find(conditions, "type", "DPUReady"));
}

static void take_slice(json_t *row, const json_t *slice, struct wall now)
{
    const json_t *devices = json_object_get(json_object_get(slice, "spec"), "devices");
    size_t i;
    const json_t *taint;
    json_array_foreach(json_object_get(json_array_get(devices, 0), "taints"), i, taint)
    {
        const char *key = json_text_get(taint, "key");
        const char *reason = json_text_get(taint, "value");
        if (text_equal(key ? strrchr(key, '/') : NULL, "/unhealthy")) { /* behind the driver */
            hear(row, "taint", state_of_refusal(reason), reason,
                 "the ResourceSlice carries the taint", time_of(taint, "timeAdded"));
        }
    }
}

/* "registry:5000/name:1.2@sha256:..." has the tag 1.2. */
static json_t *tag_of(const char *image)
{
    char tag[64];
    const char *slash = image ? strrchr(image, '/') : NULL;
    const char *name = slash ? slash + 1 : image;
    size_t len = name ? strcspn(name, "@") : 0;
    const char *colon = name ? memchr(name, ':', len) : NULL;
    text_format(tag, sizeof(tag), "%.*s", colon ? (int)(name + len - colon - 1) : 0,
                colon ? colon + 1 : "");
    return print_json_text(tag);
}

static void take_pod(json_t *row, const json_t *pod, struct wall now)
{
    const json_t *spec = json_object_get(pod, "spec");
    const json_t *ready = json_text_find(
        json_object_get(json_object_get(pod, "status"), "conditions"), "type", "Ready");
    const json_t *container = json_array_get(json_object_get(spec, "containers"), 0);
    size_t i;
    const json_t *init;
    if (print_holds(row, "hostAgentReady")) {
        return; /* two of them in a rolling update */
    }
    print_json_put(row, "hostAgentReady",
                   json_boolean(text_equal(json_text_get(ready, "status"), "True")));
    print_json_put(row, "hostAgentPod", print_json_text(json_text_get(meta_of(pod), "name")));
    print_json_put(row, "hostAgentVersion", tag_of(json_text_get(container, "image")));
    json_array_foreach(json_object_get(spec, "initContainers"), i, init)
    {
        const json_t *word = json_array_get(json_object_get(init, "args"), 0);
        if (text_equal(json_string_value(word), "install-cni")) {
            print_json_put(row, "gateIn", json_true());
        }
    }
}

/* ---- the judgement --------------------------------------------------------------------------- */

static void judge(json_t *row, enum readiness_state state, enum readiness_reason reason,
                  const char *message)
{
    char text[PRINT_TEXT_BYTES];
    print_fill(row, message, text, sizeof(text));
    print_json_put(row, "state", json_string(readiness_state_name(state)));
    print_json_put(row, "reason", json_string(readiness_reason_name(reason)));
    print_json_put(row, "message", json_string(text));
}

/* Nothing but the stamp of the last renewal is left to go by. */
static void judge_silence(json_t *row, bool host_says_ready)
{
    const json_t *age = json_object_get(row, "renewalAgeSeconds");
    json_int_t lasts_s = json_integer_value(json_object_get(row, "durationSeconds"));
    struct wall renewed = time_of(row, "renewTime");
    if (!json_is_real(age)) {
        judge(row, READINESS_UNKNOWN, REASON_AWAITING_FIRST_RENEWAL,
              json_text_get(row, "renewTime") ? "the age of its last renewal is unknown"
                                              : "the DPU has never renewed the lease");
    } else if (json_real_value(age) <= (double)lasts_s) {
        judge(row, READINESS_READY, REASON_LEASE_RENEWED, "the DPU renews its lease");
    } else if (host_says_ready) { /* which sees renewals with a clock that is behind, or is dead */
        judge(row, READINESS_UNKNOWN, REASON_LEASE_EXPIRED,
              "the last renewal is stamped {renewTime} and valid for {durationSeconds} s, but the "
              "host reports Ready: a clock is wrong, or dpu-host-agent is dead");
        print_json_put(row, "since", json_null());
    } else {
        judge(row, READINESS_NOT_READY, REASON_LEASE_EXPIRED,
              "the last renewal is stamped {renewTime} and valid for {durationSeconds} s");
        print_json_put(row, "since",
                       print_json_stamp((struct wall){
                           mono_ns_add(renewed.ns, mono_ns_mul(lasts_s, NS_PER_SEC))}));
    }
}

static void judge_lease(json_t *row, const char *holder, bool host_says_ready)
{
    char message[PRINT_TEXT_BYTES];
    const char *held_by = json_text_get(row, "holder");
    const char *health = json_text_get(row, "health");
    bool is_foreign = held_by && !text_equal(held_by, holder);
    if (is_foreign) {
        text_format(message, sizeof(message),
                    "the lease is held by '{holder}'; only renewals of '%s' count", holder);
        judge(row, READINESS_NOT_READY, REASON_LEASE_INVALID, message);
    } else if (health) {
        judge(row, READINESS_NOT_READY,
              text_equal(health, NAMES_HEALTH_SHUTDOWN) ? REASON_DPU_SHUTDOWN
                                                        : REASON_DPU_REPORTED_UNHEALTHY,
              "the DPU reports on the lease: {healthMessage}");
    } else {
        judge_silence(row, host_says_ready);
        return;
    }
    print_json_put(row, "since", json_null());
}

/* Completes the judgement. `holder`: whose renewals count. */
static void judge_row(json_t *row, const char *holder, struct wall now)
{
    bool is_told = !text_equal(json_text_get(row, "toldBy"), "lease");
    bool is_ready = text_equal(json_text_get(row, "state"), "Ready");
    bool is_off = print_holds(row, "reason=HealthCheckDisabled");
    if (!is_told || (is_ready && !is_off)) { /* else the host's word stands */
        if (print_holds(row, "hasLease")) {
            judge_lease(row, holder, is_told);
        } else {
            judge(row, READINESS_UNKNOWN, REASON_LEASE_NOT_FOUND,
                  "the Node has the label of a host with a DPU, but no lease");
            print_json_put(row, "since", json_null());
        }
    }
    struct wall since = time_of(row, "since");
    if (since.ns > 0 && now.ns > 0) {
        print_json_put(row, "sinceSeconds", print_json_seconds(wall_since(now, since)));
    }
    if (!print_holds(row, "state=Ready")) {
        const char *reason = json_text_get(row, "reason");
        print_json_put(row, "advice", json_string(readiness_reason_fix(reason ? reason : "")));
    }
}

/* NotReady, Unknown, Ready; of the same state by reason, then by name. For qsort of json_t *. */
static int compare_rows(const void *a, const void *b)
{
    static const char *const keys[] = {"state", "reason", "node"};
    int order = 0;
    for (size_t i = 0; order == 0 && i < ARRAY_LEN(keys); i++) {
        const char *left = json_text_get(*(json_t *const *)a, keys[i]);
        const char *right = json_text_get(*(json_t *const *)b, keys[i]);
        order = strcmp(left ? left : "", right ? right : "");
        if (i == 0 && order != 0) { /* "Ready" is last, else by the letter */
            order = text_equal(left, "Ready") ? 1 : text_equal(right, "Ready") ? -1 : order;
        }
    }
    return order;
}

/* ---- the whole cluster ----------------------------------------------------------------------- */

/* OWNERS: the Node of a further DPU (NODE--NAME), of which alone is asked. */
enum { LEASES, NODES, OWNERS, SLICES, PODS, LIST_COUNT };

static const struct list_kind {
    const char *what;
    const char *path; /* up to the namespace, where there is one; then */
    const char *tail;
    const char *labels; /* that restrict it */
    const char *field;  /* that names the only node to look at */
    int page;           /* objects: a Lease has 1 KB, a Node with its images up to 40 */
    const char *(*node_of)(const json_t *object);
    take_fn *take;
} kinds[LIST_COUNT] = {
    [LEASES] = {"leases", "/apis/coordination.k8s.io/v1/namespaces/", "/leases", "",
                "metadata.name=" NAMES_LEASE_PREFIX, 500, node_of_lease, take_lease},
    [NODES] = {"nodes", "/api/v1/nodes", NULL, "", "metadata.name=", 250, node_of_node, take_node},
    [OWNERS] = {"nodes", "/api/v1/nodes", NULL, "", "metadata.name=", 1, node_of_node, take_node},
    [SLICES] = {"resourceslices", "/apis/resource.k8s.io/v1/resourceslices", NULL, "",
                "spec.nodeName=", 500, node_of_bound, take_slice},
    [PODS] = {"pods", "/api/v1/namespaces/", "/pods", "app.kubernetes.io/name=dpu-host-agent",
              "spec.nodeName=", 250, node_of_bound, take_pod},
};

struct list {
    const struct list_kind *kind;
    const struct api_answer *page; /* asked for; NULL: it is over */
    char *from;                    /* where the next page begins; owned */
    struct err problem;
};

struct reader {
    struct api *api;
    const struct admin_config *config;
    struct list lists[LIST_COUNT];
    json_t *rows;    /* by node */
    json_t *further; /* conditions that Nodes have of further DPUs, by the names of the rows */
    struct wall now; /* the API server's clock at the last answer */
    int tries_left;
    const char *expired; /* the list that had to begin anew; NULL: none */
};

/* The row of a node, new where there is none; NULL: too many. */
static json_t *row_of(const struct reader *r, const char *node)
{
    json_t *row = json_object_get(r->rows, node);
    if (!row && json_object_size(r->rows) < FLEET_ROWS_MAX) {
        row = row_new(r->config->agent.lease_namespace, node);
        print_json_put(r->rows, node, row);
    }
    return row;
}

/* What is no list must not pass for an empty one. The items of that are null where a Go program has
 * none. */
static int check_page(const json_t *page, struct err *e)
{
    const json_t *items = json_object_get(page, "items");
    size_t i;
    const json_t *item;
    if (!json_is_array(items) && !json_is_null(items)) {
        return err_set(e, ERR_PARSE, "the answer is no list of the API: its items are %s",
                       items ? "no array" : "missing");
    }
    json_array_foreach(items, i, item)
    {
        if (!json_text_get(meta_of(item), "name")) {
            return err_set(e, ERR_PARSE, "the answer is no list of the API: item %zu has no name",
                           i + 1);
        }
    }
    return 0;
}

/* A further DPU has the Node's condition NAME.DRIVER/DPUReady, and the row NODE--NAME. */
static void keep_further(const struct reader *r, const char *name, const json_t *node)
{
    static const char tail[] = "." NAMES_DRA_DRIVER "/DPUReady";
    const size_t tail_len = sizeof(tail) - 1;
    size_t i;
    json_t *condition;
    json_array_foreach(json_object_get(json_object_get(node, "status"), "conditions"), i, condition)
    {
        const char *type = json_text_get(condition, "type");
        size_t len = type ? strlen(type) : 0;
        if (len > tail_len && text_equal(type + len - tail_len, tail)) {
            CLEANUP(free) char *row = mem_format("%s--%.*s", name, (int)(len - tail_len), type);
            (void)json_object_set(r->further, row, condition); /* text out of JSON: no failure */
        }
    }
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
        json_t *row = row_of(r, node);
        if (!row) {
            (void)err_set(&l->problem, ERR_LIMIT, "there are too many nodes: set --selector");
            return;
        }
        l->kind->take(row, item, r->now);
        if (l->kind->take == take_node) {
            keep_further(r, node, item);
        }
    }
}

static void add_query(char **path, const char *key, const char *value)
{
    if (value[0] != '\0') {
        CLEANUP(free) char *before = *path;
        char *encoded = curl_easy_escape(NULL, value, 0);
        *path = mem_format("%s&%s=%s", before, key, encoded ? encoded : "");
        curl_free(encoded);
    }
}

/* NULL: all are asked for. */
static const char *only_node(const struct admin_config *c)
{
    return c->scope == ADMIN_CLUSTER ? c->node : c->agent.node_name;
}

/* The length of NODE in the name NODE--NAME of a further DPU, where deploy/dpu-kubeconfig cuts it,
 * too; 0: it has no such name. */
static size_t owner_len(const char *name)
{
    size_t len = 0;
    for (const char *at = strstr(name, "--"); at; at = strstr(at + 1, "--")) {
        len = (size_t)(at - name);
    }
    return len;
}

static bool is_asked(const struct reader *r, const struct list *l)
{
    const char *only = only_node(r->config);
    return l->kind != &kinds[OWNERS] || (only && owner_len(only) > 0);
}

static void ask_page(struct reader *r, struct list *l)
{
    const struct admin_config *c = r->config;
    const struct list_kind *kind = l->kind;
    char fields[2 * NAMES_K8S_NAME_BYTES + 64] = "";
    char *path =
        mem_format("%s%s%s?limit=%d", kind->path, kind->tail ? c->agent.lease_namespace : "",
                   kind->tail ? kind->tail : "", kind->page);
    const char *only = only_node(c);
    int only_len = only ? (int)(kind == &kinds[OWNERS] ? owner_len(only) : strlen(only)) : 0;
    text_format(fields, sizeof(fields), "%s%s%s%s%.*s",
                kind == &kinds[SLICES] ? "spec.driver=" : "",
                kind == &kinds[SLICES] ? c->driver : "", kind == &kinds[SLICES] && only ? "," : "",
                only ? kind->field : "", only_len, only ? only : "");
    add_query(&path, "fieldSelector", fields);
    add_query(&path, "labelSelector",
              kind->take == take_node && c->selector ? c->selector : kind->labels);
    add_query(&path, "continue", l->from ? l->from : "");
    l->page = api_ask(r->api, NULL, path);
}

/* False: the server has forgotten where this page begins. */
static bool take_page(struct reader *r, struct list *l)
{
    enum { HTTP_GONE = 410 };
    const struct api_answer *page = l->page;
    const char *from = json_text_get(meta_of(page->body), "continue");
    CLEANUP(free) char *before = TAKE(l->from);
    l->page = NULL;
    if (!page->body && page->http_status == HTTP_GONE && before && r->tries_left > 0) {
        return false;
    }
    if (!page->body) {
        (void)err_set(&l->problem, ERR_RETRY, "listing %s: %s", l->kind->what, page->message);
    } else if (check_page(page->body, &l->problem) != 0) {
        (void)err_wrap(&l->problem, "listing %s", l->kind->what);
    } else {
        r->now = page->has_date ? page->date : r->now;
        l->from = text_is_empty(from) ? NULL : mem_strdup(from);
        take_items(r, l, json_object_get(page->body, "items"));
    }
    return true;
}

/* Forgets all that was read. */
static void reader_clear(struct reader *r)
{
    for (size_t i = 0; i < LIST_COUNT; i++) {
        free(r->lists[i].from);
        r->lists[i] = (struct list){.kind = &kinds[i]};
    }
    (void)json_object_clear(r->rows);
    (void)json_object_clear(r->further);
}

/* The next page of each list that is not over. False: one of them has to begin anew, and with it
 * all: a row has what they say together, and whatever was deleted meanwhile is to leave it. */
static bool read_pages(struct reader *r)
{
    bool is_whole = true;
    api_wait(r->api);
    for (size_t i = 0; i < LIST_COUNT; i++) {
        struct list *l = &r->lists[i];
        if (l->page && !take_page(r, l)) {
            r->expired = l->kind->what;
            is_whole = false;
        }
    }
    api_forget(r->api);
    return is_whole;
}

/* Page by page of all lists, until each is over. */
static void read_lists(struct reader *r)
{
    bool is_open = true;
    bool is_anew = true;
    while (is_open) {
        if (is_anew) {
            r->tries_left--;
            reader_clear(r);
        }
        is_open = false;
        for (size_t i = 0; i < LIST_COUNT; i++) {
            struct list *l = &r->lists[i];
            if (l->problem.code == 0 && (is_anew ? is_asked(r, l) : l->from != NULL)) {
                ask_page(r, l);
                is_open = true;
            }
        }
        is_anew = is_open && !read_pages(r);
    }
}

/* The Node of a further DPU is the one of the first. */
static void find_node(const struct reader *r, json_t *row)
{
    char node[NAMES_K8S_NAME_BYTES];
    const char *name = json_text_get(row, "node");
    text_format(node, sizeof(node), "%.*s", (int)owner_len(name), name);
    if (!print_holds(row, "hasNode") &&
        print_holds(json_object_get(r->rows, node), "hasNode nodeName")) {
        print_json_put(row, "hasNode", json_true());
        print_json_put(row, "nodeName", json_string(node));
        hear_condition(row, json_object_get(r->further, name));
    }
}

/* Rows of DPUs, and among those that were asked for, in order. */
static json_t *judged_rows(const struct reader *r)
{
    json_t *wanted = json_array();
    CLEANUP(free) json_t **order = mem_calloc(json_object_size(r->rows) + 1, sizeof(json_t *));
    size_t count = 0;
    const char *node;
    json_t *row;
    const char *only = only_node(r->config);
    json_object_foreach(r->rows, node, row)
    {
        find_node(r, row);
        if ((!only || text_equal(node, only)) &&
            (print_holds(row, "hasLease") || print_holds(row, "hasLabel")) &&
            (print_holds(row, "hasNode") || text_is_empty(r->config->selector))) {
            judge_row(row, r->config->agent.holder_identity, r->now);
            order[count++] = row;
        }
    }
    qsort(order, count, sizeof(json_t *), compare_rows);
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append(wanted, order[i]);
    }
    return wanted;
}

static void add_note(json_t *notes, const char *before, const char *what, const char *after)
{
    CLEANUP(free) char *note = mem_format("%s%s%s", before, what, after);
    (void)json_array_append_new(notes, print_json_text(note));
}

/* What the reader of the rows should know of the lists. */
static void add_notes(const struct reader *r, json_t *notes)
{
    if (r->expired) {
        add_note(notes, "a page of the ", r->expired,
                 " had expired (HTTP 410): all was listed anew");
    }
    for (size_t i = NODES; i < LIST_COUNT; i++) {
        bool is_told = i == OWNERS && r->lists[NODES].problem.code != 0;
        if (r->lists[i].problem.code != 0 && !is_told) {
            add_note(notes, "not checked: ", r->lists[i].problem.msg, "");
        }
    }
}

static int judge_lists(const struct reader *r, json_t **out, struct err *e)
{
    const struct err *leases = &r->lists[LEASES].problem;
    const struct err *nodes = &r->lists[NODES].problem;
    size_t i;
    const json_t *row;
    if (leases->code != 0) {
        return err_set(e, leases->code, "%s", leases->msg);
    }
    if (nodes->code != 0 && !text_is_empty(r->config->selector)) {
        return err_set(e, nodes->code, "--selector: %s", nodes->msg);
    }
    json_t *rows = judged_rows(r);
    json_t *notes = json_array();
    add_notes(r, notes);
    json_t *counts = json_pack("{s:i, s:i, s:i}", "NotReady", 0, "Unknown", 0, "Ready", 0);
    json_array_foreach(rows, i, row)
    {
        const char *state = json_text_get(row, "state");
        json_int_t count = json_integer_value(json_object_get(counts, state));
        print_json_put(counts, state, json_integer(count + 1));
    }
    *out = json_pack("{s:s, s:o, s:i, s:o, s:o, s:o}", "version", DPU_VERSION, "time",
                     print_json_stamp(r->now), "total", (int)json_array_size(rows), "counts",
                     counts, "notes", notes, "nodes", rows);
    return 0;
}

int fleet_read(struct api *api, json_t **out, struct err *e)
{
    if (!api->client) {
        return err_set(e, api->problem.code, "%s", api->problem.msg);
    }
    struct reader r = {.api = api,
                       .config = api->config,
                       .rows = json_object(),
                       .further = json_object(),
                       .tries_left = FLEET_TRIES};
    api_forget(api);
    read_lists(&r);
    int rc = judge_lists(&r, out, e);
    reader_clear(&r);
    json_decref(r.rows);
    json_decref(r.further);
    return rc;
}

static bool is_shown(const struct admin_config *config, const json_t *row)
{
    static const char *const filters[] = {[ADMIN_ALL] = "",
                                          [ADMIN_BROKEN] = "!state=Ready",
                                          [ADMIN_NOT_READY] = "state=NotReady",
                                          [ADMIN_UNKNOWN] = "state=Unknown",
                                          [ADMIN_READY] = "state=Ready"};
    return print_holds(row, filters[config->filter]);
}

/* ---- for people ------------------------------------------------------------------------------ */

static const char *const columns[][2] = {
    {"NODE", "{node}"},
    {"STATE", "{state}"},
    {"REASON", "{reason}"},
    {"SINCE", "{sinceSeconds-}"},
    {"RENEWED", "{renewalAgeSeconds-}"},
    {"HOLDER", "{holder}"},
    {"BOOT", "{dpuBootId}"},
    {"DPU-AGENT", "{dpuAgentVersion}"},
    {"HOST-AGENT", "{hostAgentVersion}"},
    {"AGENT-READY", "{hostAgentReady}"},
    {"GATE", "{gateIn}"},
};

enum { NARROW = 5 /* without -o wide */, STATE_COLUMN = 1, CELL_BYTES = 256 };

static void fill_cell(const json_t *row, size_t column, char cell[static CELL_BYTES])
{
    print_fill(row, columns[column][1], cell, CELL_BYTES);
    if (cell[0] == '\0') {
        text_format(cell, CELL_BYTES, "-");
    }
}

static void print_table(const struct admin_config *config, const json_t *rows)
{
    char cell[CELL_BYTES];
    size_t widths[ARRAY_LEN(columns)];
    size_t count = config->output == ADMIN_WIDE ? ARRAY_LEN(columns) : NARROW;
    bool has_color = print_has_color(config->color);
    size_t i;
    const json_t *row;
    for (size_t k = 0; k < count; k++) {
        widths[k] = strlen(columns[k][0]);
        json_array_foreach(rows, i, row)
        {
            fill_cell(row, k, cell);
            widths[k] = strlen(cell) > widths[k] ? strlen(cell) : widths[k];
        }
        (void)printf(k + 1 < count ? "%-*s  " : "%*s\n", k + 1 < count ? (int)widths[k] : 0,
                     columns[k][0]);
    }
    json_array_foreach(rows, i, row)
    {
        for (size_t k = 0; k < count; k++) {
            fill_cell(row, k, cell);
            print_cell(has_color && k == STATE_COLUMN,
                       print_state_color(json_text_get(row, "state")), cell,
                       k + 1 < count ? (int)widths[k] + 2 : 0);
        }
        (void)putchar('\n');
    }
}

/* As kubectl has it. */
static const struct print_row name_line[] = {{"", "", "node/{nodeName}\n"}};

/* All that is known of one row. */
static const struct print_row page[] = {
    {"", "", "{node}: {state} ({reason})"},
    {" for ", "sinceSeconds", "{sinceSeconds}"},
    {"", "", ", as seen through the API server\n  {message}\n"},
    {"  -> ", "advice", "{advice}\n"},
    {"\n  source   ", "toldBy=lease", "the lease alone"},
    {"\n  source   ", "toldBy=taint", "its host, by a taint of the ResourceSlice"},
    {"\n  source   ", "toldBy=condition", "its host, by the condition DPUReady"},
    {"\n  source   ", "toldBy=gate", "dpu-gate, by the Node's condition Ready"},
    {"\n  lease    ", "hasLease", "{namespace}/" NAMES_LEASE_PREFIX "{node}: held by "},
    {"", "hasLease", "{holder}"},
    {"", "hasLease !holder", "no one"},
    {", ", "hasLease", "{durationSeconds} s"},
    {"\n           ", "renewalAgeSeconds !renewalAgeSeconds<0",
     "renewed {renewTime}, {renewalAgeSeconds} before the API server's clock"},
    {"\n           ", "renewalAgeSeconds<0",
     "renewed {renewTime}, {renewalAgeSeconds} ahead of the API server's clock"},
    {"\n  DPU      ", "dpuBootId", "boot {dpuBootId}"},
    {"\n           ", "dpuAgentVersion", "dpu-agent {dpuAgentVersion}"},
    {"\n  agent    ", "hostAgentPod", "pod {hostAgentPod}, image {hostAgentVersion}"},
    {", ", "hostAgentPod !hostAgentReady", "not ready"},
    {"\n  gate     ", "gateIn", "in"},
    {"\n  gate     ", "!gateIn", "not visible from here"},
    {"\n\n", "", "For the rest, run on the node:\n"},
    {"  kubectl ", "hostAgentPod", "-n {namespace} exec {hostAgentPod} -- dpuctl status\n"},
    {"  kubectl ", "hostAgentPod", "-n {namespace} exec {hostAgentPod} -- dpuctl doctor\n"},
    {"  kubectl ", "!hostAgentPod",
     "debug node/{nodeName} -it --image=dpu-heartbeat-host:" DPU_VERSION
     " --profile=sysadmin -- dpuctl doctor --root=/host\n"},
};

/* ---- one look -------------------------------------------------------------------------------- */

/* Takes away what is not to be shown. */
static void filter_rows(const struct admin_config *config, json_t *rows)
{
    for (size_t i = json_array_size(rows); i-- > 0;) {
        if (!is_shown(config, json_array_get(rows, i))) {
            (void)json_array_remove(rows, i);
        }
    }
}

/* Of the first row, since what is broken comes first. */
static enum admin_answer answer_of(const json_t *rows)
{
    const json_t *worst = json_array_get(rows, 0);
    return print_holds(worst, "state=NotReady")  ? ADMIN_BAD
           : print_holds(worst, "state=Unknown") ? ADMIN_UNCLEAR
                                                 : ADMIN_GOOD;
}

static void print_fleet(const struct admin_config *config, const json_t *fleet)
{
    static const struct print_row sum[] = {
        {"", "",
         "{total} with a DPU: {counts.NotReady} NotReady, {counts.Unknown} Unknown, "
         "{counts.Ready} Ready\n"}};
    const json_t *rows = json_object_get(fleet, "nodes");
    if (config->output == ADMIN_NAME) {
        print_rows(rows, name_line, 1, false);
        return;
    }
    if (print_holds(fleet, "total")) {
        print_table(config, rows);
        (void)putchar('\n');
    }
    print_rows(fleet, sum, 1, false);
}

static void print_node(const struct admin_config *config, const json_t *row)
{
    if (config->output == ADMIN_NAME) {
        print_rows(row, name_line, 1, false);
        return;
    }
    print_rows(row, page, ARRAY_LEN(page), print_has_color(config->color));
}

static void tell_notes(const struct admin_config *config, const json_t *fleet)
{
    size_t i;
    const json_t *note;
    json_array_foreach(json_object_get(fleet, "notes"), i, note)
    {
        (void)fprintf(stderr, "%s: %s\n", config->name, json_string_value(note));
    }
}

/* Returns owned; NULL: said why. */
static json_t *read_fleet(struct admin_config *config)
{
    struct err e = ERR_INIT;
    json_t *fleet = NULL;
    config->started_at = clock_mono_now();
    struct api *api = api_open(config);
    if (fleet_read(api, &fleet, &e) != 0) {
        (void)fprintf(stderr, "%s: %s\n", config->name, e.msg);
    }
    api_close(api);
    return fleet;
}

/* Of the one that was asked for: no row is no good news. Returns false if that is so. */
static bool tell_of_absence(const struct admin_config *config, const json_t *rows)
{
    bool is_known = !config->node || json_array_size(rows) > 0;
    if (!is_known) {
        const char *selected =
            text_is_empty(config->selector) ? "" : ", or not those of --selector";
        (void)fprintf(
            stderr,
            "%s: found no DPU: Node '%s' has neither a lease nor the label of a host with "
            "a DPU%s\n",
            config->name, config->node, selected);
    }
    return is_known;
}

static int look_once(struct admin_config *config)
{
    CLEANUP(json) json_t *fleet = read_fleet(config);
    json_t *rows = json_object_get(fleet, "nodes");
    if (!fleet) {
        return ADMIN_UNCLEAR;
    }
    bool is_known = tell_of_absence(config, rows);
    filter_rows(config, rows);
    int status = print_document(config, fleet, print_fleet, answer_of(rows));
    if (config->output != ADMIN_JSON && config->output != ADMIN_YAML) {
        tell_notes(config, fleet); /* elsewhere the answer has a place for them */
    }
    return is_known ? status : ADMIN_UNCLEAR;
}

/* ---- again and again ------------------------------------------------------------------------- */

static void print_change(const struct admin_config *config, json_t *row, const char *time,
                         const char *former)
{
    static const struct print_row line[] = {{"  ", "", "{node}  {state}  {reason}: {message}"}};
    if (config->output == ADMIN_JSON) {
        print_json_line(row);
    } else if (config->output == ADMIN_NAME) {
        print_rows(row, name_line, 1, false);
    } else {
        (void)fputs(time ? time : "", stdout);
        print_rows(row, line, 1, false);
        (void)printf("%s%s\n", former ? "; was " : "", former ? former : "");
    }
}

/* Prints the rows whose state or reason is not the one in `known`, which it brings up to date. */
static bool print_changes(const struct admin_config *config, const json_t *fleet, json_t *known,
                          bool is_first)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(fleet, "nodes"), i, row)
    {
        char word[CELL_BYTES];
        const char *node = json_text_get(row, "node");
        const char *former = json_text_get(known, node);
        print_fill(row, "{state} {reason}", word, sizeof(word));
        if (text_equal(word, former)) {
            continue;
        }
        if (is_shown(config, row) || former) {
            print_change(config, row, json_text_get(fleet, "time"),
                         is_first ? NULL
                         : former ? former
                                  : "not there");
        }
        print_json_put(known, node, json_string(word));
    }
    return fflush(stdout) == 0;
}

static int look_on(struct admin_config *config)
{
    CLEANUP(json) json_t *known = json_object();
    CLEANUP(fd) int stop_fd = admin_stop_signals();
    bool is_first = true;
    do {
        CLEANUP(json) json_t *fleet = read_fleet(config);
        if (!fleet) {
            continue; /* said; it may come back */
        }
        bool is_written = print_changes(config, fleet, known, is_first);
        if (is_first) {
            tell_notes(config, fleet);
        }
        is_first = false;
        if (!is_written) {
            return errno == EPIPE ? EXIT_SUCCESS : ADMIN_UNCLEAR;
        }
    } while (admin_wait(stop_fd, config->interval_ns));
    return EXIT_SUCCESS;
}

int nodes_run(struct admin_config *config)
{
    return config->watch ? look_on(config) : look_once(config);
}

int status_of_node_run(struct admin_config *config)
{
    CLEANUP(json) json_t *fleet = read_fleet(config);
    const json_t *rows = json_object_get(fleet, "nodes");
    json_t *row = json_array_get(rows, 0);
    if (fleet) {
        (void)tell_of_absence(config, rows); /* no document is the answer then */
    }
    int status = print_document(config, row, print_node, answer_of(rows));
    tell_notes(config, fleet);
    return status;
}
