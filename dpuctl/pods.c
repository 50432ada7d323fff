/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl pods: which of this node have lost their network, as the container runtime and the kernel
 * show them, and what follows. */
#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/time.h"
#include "dpuctl/node.h"
#include "dpuctl/options.h"
#include "dpuctl/print.h"
#include "grpc/grpc_unary.h"
#include "probe/pod_net.h"

#include <ev.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint8_t *bytes_of(const struct buf *answer)
{
    return (const uint8_t *)buf_text(answer);
}

/* ---- the runtime ----------------------------------------------------------------------------- */

bool pods_find_runtime(const struct admin_config *config, char out[static PATH_MAX])
{
    static const char *const known[] = {"/run/containerd/containerd.sock", "/run/crio/crio.sock"};
    if (!text_is_empty(config->cri_socket)) {
        admin_path(config, config->cri_socket, out, PATH_MAX);
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (access(admin_path(config, known[i], out, PATH_MAX), F_OK) == 0) {
            return true;
        }
    }
    return false;
}

int pods_ask_runtime(const struct admin_config *config, const char *socket, enum cri_call call,
                     const char *id, struct buf *answer, struct err *e)
{
    struct cri_request request;
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    int64_t left_ns = config->api_timeout_ns - mono_since(clock_mono_now(), config->started_at);
    if (!loop) {
        return err_set(e, ERR_IO, "creating an event loop");
    }
    cri_ask(call, id, &request);
    const struct grpc_unary_plan plan = {.path = socket,
                                         .method = request.method,
                                         .message = {.bytes = request.bytes, .len = request.len},
                                         .timeout_ns = left_ns > 0 ? left_ns : 0};
    buf_consume(answer, SIZE_MAX);
    int rc = grpc_unary_ask(loop, &plan, answer, e);
    ev_loop_destroy(loop);
    return rc;
}

/* ---- the document ---------------------------------------------------------------------------- */

/* All of them are asked about, one by one. */
struct pods {
    const struct admin_config *config;
    const char *socket;
    struct wall reboot; /* when the DPU's was seen; 0: of none that is known */
    struct cri_sandbox *each;
    size_t count;
    struct buf answer;
    json_t *shown;
    int lost;
    int unseen; /* could not be looked at */
};

static void take_sandbox(void *user, const struct cri_sandbox *sandbox)
{
    struct pods *all = user;
    all->each[all->count++] = *sandbox;
}

static int compare_age(const void *a, const void *b)
{
    const struct cri_sandbox *left = a;
    const struct cri_sandbox *right = b;
    return (left->made.ns > right->made.ns) - (left->made.ns < right->made.ns);
}

/* The agent's next action, or that of people; NULL: none. */
static const char *what_follows(const struct admin_config *config,
                                const struct pod_net_finding *net)
{
    static const char *const by_mode[] = {
        "reported", "new Pods are rejected until it is gone",
        "gets a new sandbox, unless its restartPolicy is Never, or OnFailure in a Job"};
    if (net->evidence != POD_NET_LOST) {
        return NULL;
    }
    if (config->on_lost_network == LOST_NETWORK_STATUS && !net->is_by_device) {
        return by_mode[LOST_NETWORK_REPORT]; /* the pod may have done it */
    }
    return text_is_empty(config->cri_socket) ? "nothing: dpu-host-agent has no --cri-socket"
                                             : by_mode[config->on_lost_network];
}

static int show_pod(struct pods *all, const struct cri_sandbox *s,
                    const struct pod_net_finding *net, bool is_hosts, struct err *e)
{
    static const char *const names[] = {[POD_NET_UNSEEN] = "Unknown",
                                        [POD_NET_UNKNOWN] = "Unknown",
                                        [POD_NET_WHOLE] = "There",
                                        [POD_NET_AWAY] = "Away",
                                        [POD_NET_LOST] = "Lost"};
    bool knows_reboot = all->reboot.ns != 0;
    json_t *pod = json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:o, s:s, s:o, s:o}", "namespace", s->ns, "name", s->name, "uid",
        s->uid, "sandbox", s->id, "madeTime", print_json_stamp(s->made), "madeBeforeReboot",
        knows_reboot ? json_boolean(s->made.ns < all->reboot.ns) : json_null(), "network",
        is_hosts ? "Host" : names[net->evidence], "seen", print_json_text(net->words), "follows",
        print_json_text(what_follows(all->config, net)));
    all->lost += net->evidence == POD_NET_LOST;
    all->unseen += net->evidence == POD_NET_UNSEEN && !is_hosts;
    return json_array_append_new(all->shown, pod) == 0
               ? 0
               : err_set(e, ERR_PARSE, "the runtime names a pod by what is no UTF-8");
}

/* Below which the host's /proc, /sys and /var/lib/cni are: --root, or else the agent's --host-root.
 */
static const char *root_of_pods(const struct admin_config *config)
{
    return text_is_empty(config->root) ? config->host_root : config->root;
}

/* Errors only where the runtime itself does not answer any more. */
static int inspect_pod(struct pods *all, const struct cri_sandbox *s, struct err *e)
{
    struct cri_detail detail = {.has_host_network = false};
    struct pod_net_finding found = {.evidence = POD_NET_UNSEEN};
    struct pod_net net;
    struct err own = ERR_INIT;
    const char *root = root_of_pods(all->config);
    int rc = pods_ask_runtime(all->config, all->socket, CRI_INSPECT, s->id, &all->answer, &own);
    if (rc == ERR_GONE) {
        return 0; /* it has ended */
    }
    if (own.sys_errno != 0) {
        return err_set(e, rc, "%s", own.msg);
    }
    if (rc == 0) {
        rc = cri_read_detail(bytes_of(&all->answer), all->answer.len, &detail, &own);
    }
    if (rc != 0) {
        text_format(found.words, sizeof(found.words), "%s", own.msg); /* may be cut */
    } else if (!detail.has_host_network) {
        /* Whether it is there says the look, too. */
        (void)pod_net_open(root, s->id, detail.pid, detail.netns, &net);
        pod_net_look(&net, root, &found);
    }
    return show_pod(all, s, &found, detail.has_host_network, e);
}

/* The oldest first. */
static int inspect_pods(struct pods *all, struct err *e)
{
    int rc = pods_ask_runtime(all->config, all->socket, CRI_LIST, NULL, &all->answer, e);
    if (rc == 0) {
        rc = cri_read_list(bytes_of(&all->answer), all->answer.len, take_sandbox, all, e);
    }
    qsort(all->each, all->count, sizeof(*all->each), compare_age);
    for (size_t i = 0; rc == 0 && i < all->count; i++) {
        rc = inspect_pod(all, &all->each[i], e);
    }
    return rc;
}

/* Returns owned; NULL on an error: of a call, or of the list. */
static json_t *pods_document(const struct admin_config *config, const char *socket, struct err *e)
{
    static const char *const modes[] = {"report", "status", "restart"};
    bool is_off = text_is_empty(config->cri_socket);
    struct node_snapshot node;
    struct pods all = {.config = config,
                       .socket = socket,
                       .each = mem_calloc(CRI_SANDBOXES_MAX, sizeof(*all.each)),
                       .shown = json_array()};
    all.answer = (struct buf){.max_bytes = GRPC_UNARY_REPLY_MAX_BYTES};
    node_snapshot_take(config, &node);
    if (node.has_record) {
        all.reboot = node.record.readiness.dpu_rebooted;
    }
    int rc = inspect_pods(&all, e);
    free(all.each);
    buf_fini(&all.answer);
    json_t *tree = json_pack("{s:s, s:s, s:i, s:i, s:o}", "node", config->agent.node_name,
                             "onLostNetwork", is_off ? "off" : modes[config->on_lost_network],
                             "lost", all.lost, "unseen", all.unseen, "pods", all.shown);
    if (rc != 0) {
        json_decref(tree);
        return NULL;
    }
    return tree;
}

json_t *node_pods_json(const struct admin_config *config, const char *socket)
{
    struct err e = ERR_INIT;
    CLEANUP(json) json_t *tree = pods_document(config, socket, &e);
    if (!tree) {
        return json_pack("{s:o}", "problem", print_json_text(e.msg));
    }
    return json_pack("{s:I, s:O, s:O}", "count",
                     (json_int_t)json_array_size(json_object_get(tree, "pods")), "lost",
                     json_object_get(tree, "lost"), "unseen", json_object_get(tree, "unseen"));
}

/* ---- the command ----------------------------------------------------------------------------- */

static void print_pods(const struct admin_config *config, const json_t *tree)
{
    static const struct print_row lost[] = {{"", "network=Lost", "{namespace}/{name}\n"}};
    static const struct print_row columns[] = {
        {"  ", "madeBeforeReboot", "made before the DPU's reboot"},
        {"  ", "madeBeforeReboot=no", "made after the DPU's reboot"},
        {"  ", "seen", "{seen}"},
        {"; ", "follows", "{follows}"},
        {"\n", "", ""},
    };
    bool has_color = print_has_color(config->color);
    int width = (int)strlen("POD");
    char name[2 * CRI_NAME_BYTES];
    const json_t *pods = json_object_get(tree, "pods");
    size_t i;
    const json_t *pod;
    if (config->output == ADMIN_NAME) {
        print_rows(pods, lost, 1, false);
        return;
    }
    json_array_foreach(pods, i, pod)
    {
        print_fill(pod, "{namespace}/{name}", name, sizeof(name));
        width = (int)strlen(name) > width ? (int)strlen(name) : width;
    }
    (void)printf("%-*s  %-20s  %s\n", width, "POD", "MADE", "NETWORK");
    json_array_foreach(pods, i, pod)
    {
        enum print_color color = print_holds(pod, "network=Lost")   ? PRINT_BAD
                                 : print_holds(pod, "network=Away") ? PRINT_DOUBT
                                                                    : PRINT_PLAIN;
        const char *made = json_text_get(pod, "madeTime");
        print_fill(pod, "{namespace}/{name}", name, sizeof(name));
        (void)printf("%-*s  %s  ", width, name, made ? made : "-");
        print_cell(has_color, color, json_text_get(pod, "network"), (int)strlen("NETWORK"));
        print_rows(pod, columns, ARRAY_LEN(columns), has_color);
    }
}

int pods_run(struct admin_config *config)
{
    char socket[PATH_MAX];
    struct err e = ERR_INIT;
    if (!pods_find_runtime(config, socket)) {
        (void)fputs("dpuctl pods: found no socket of a container runtime: set --cri-socket=FILE\n",
                    stderr);
        return ADMIN_UNCLEAR;
    }
    CLEANUP(json) json_t *tree = pods_document(config, socket, &e);
    if (!tree) {
        (void)fprintf(stderr, "dpuctl pods: %s\n", e.msg);
        return ADMIN_UNCLEAR;
    }
    enum admin_answer answer = print_holds(tree, "lost")     ? ADMIN_BAD
                               : print_holds(tree, "unseen") ? ADMIN_UNCLEAR
                                                             : ADMIN_GOOD;
    return print_document(config, tree, print_pods, answer);
}
