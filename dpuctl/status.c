/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/status.h"

#include "base/log.h"
#include "base/text.h"
#include "contract/lease.h"
#include "dpuctl/admin_options.h"
#include "dpuctl/api_reader.h"
#include "dpuctl/commands.h"
#include "dpuctl/json_print.h"
#include "dpuctl/pods_look.h"
#include "dpuctl/screen.h"
#include "json/json_text.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

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
