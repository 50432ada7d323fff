/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/fleet_reader.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "dpuctl/api_reader.h"
#include "dpuctl/fleet_take.h"
#include "json/json_text.h"

#include <ev.h>

#include <stdlib.h>
#include <string.h>

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

static int finish(struct reader *r, struct fleet *out, struct err *e)
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
        rc = finish(&r, out, e);
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
