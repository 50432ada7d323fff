/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/doctor.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "dpuctl/api_reader.h"
#include "dpuctl/fleet_take.h"
#include "dpuctl/screen.h"
#include "json/json_text.h"

#include <stdio.h>
#include <string.h>

#define CONDITION "rbac/host-agent-node-condition.yaml"
#define DRA       "rbac/host-agent-dra.yaml"
#define EVENTS    "rbac/host-agent-events.yaml"
#define SLACK_NS  (1 * NS_PER_SEC) /* a renewal's way to us, and a busy machine */

/* What the host's agent asks for, and the file that grants it. */
static const struct right {
    const char *verb;
    const char *group;
    const char *resource;
    const char *ns; /* NULL: the lease's; "": the whole cluster */
    enum check_outcome without;
    const char *file;
    const char *effect;
} rights[] = {
    {"get", "coordination.k8s.io", "leases", NULL, CHECK_FAIL, "rbac/host-agent.yaml",
     "no proof can be had that the DPU is dead"},
    {"create", "coordination.k8s.io", "leases", NULL, CHECK_FAIL, "rbac/host-agent.yaml",
     "the lease cannot be made"},
    {"update", "coordination.k8s.io", "leases", NULL, CHECK_WARN, "rbac/host-agent.yaml",
     "a changed lease is not repaired"},
    {"list", "coordination.k8s.io", "leases", NULL, CHECK_WARN, "rbac/host-agent.yaml",
     "the lease is polled, later and at a higher price"},
    {"watch", "coordination.k8s.io", "leases", NULL, CHECK_WARN, "rbac/host-agent.yaml",
     "the lease is polled, later and at a higher price"},
    {"patch", "coordination.k8s.io", "leases", NULL, CHECK_WARN, "rbac/host-agent.yaml",
     "a living DPU is called dead while the API server answers reads but takes no writes"},
    {"get", "", "nodes", "", CHECK_FAIL, "rbac/host-agent.yaml",
     "the lease cannot be made, nor tied to its Node"},
    {"create", "resource.k8s.io", "resourceslices", "", CHECK_WARN, DRA,
     "with --dra=on, the DPU is no DRA device"},
    {"get", "resource.k8s.io", "resourceslices", "", CHECK_WARN, DRA,
     "with --dra=on, nobody sees that someone changed the slice"},
    {"list", "resource.k8s.io", "resourceslices", "", CHECK_WARN, DRA,
     "with --dra=on, slices of an earlier Node of that name stay"},
    {"watch", "resource.k8s.io", "resourceslices", "", CHECK_WARN, DRA,
     "with --dra=on, a slice that the kubelet removed is back a minute later"},
    {"update", "resource.k8s.io", "resourceslices", "", CHECK_WARN, DRA,
     "with --dra=on, the scheduler does not hear of an unhealthy DPU"},
    {"delete", "resource.k8s.io", "resourceslices", "", CHECK_WARN, DRA,
     "with --dra=on, slices of an earlier Node of that name stay"},
    {"get", "resource.k8s.io", "resourceclaims", "", CHECK_WARN, DRA,
     "with --dra=on, claims of the DPU cannot be prepared"},
    {"create", "events.k8s.io", "events", "default", CHECK_WARN, EVENTS,
     "with --events=on, changes are not told as Events of the Node"},
    {"patch", "", "nodes/status", "", CHECK_WARN, CONDITION,
     "with --node-condition, the Node has no condition DPUReady"},
};

struct questions {
    struct api_reader *api;
    const struct api_answer *whoami;
    const struct api_answer *lease;
    const struct api_answer *node;
    const struct api_answer *rights[ARRAY_LEN(rights)];
};

/* The agent's one lease or Node by name, so that rights to no more than these are seen. */
static const char *object_of(const struct right *r, const struct agent_config *a)
{
    return text_equal(r->verb, "create")           ? "" /* RBAC knows no names there */
           : text_equal(r->resource, "leases")     ? a->lease_name
           : strncmp(r->resource, "nodes", 5) == 0 ? a->node_name
                                                   : "";
}

static const struct api_answer *ask_right(struct api_reader *api, const struct right *r,
                                          const struct agent_config *a)
{
    size_t len = strcspn(r->resource, "/");
    const char *subresource = r->resource + len + (r->resource[len] == '/');
    CLEANUP(json)
    json_t *review = json_pack("{s:s, s:s, s:{s:{s:s, s:s, s:s%, s:s, s:s, s:s}}}", "apiVersion",
                               "authorization.k8s.io/v1", "kind", "SelfSubjectAccessReview", "spec",
                               "resourceAttributes", "verb", r->verb, "group", r->group, "resource",
                               r->resource, len, "subresource", subresource, "name",
                               object_of(r, a), "namespace", r->ns ? r->ns : a->lease_namespace);
    return api_reader_ask(api, review, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
}

static void ask(struct questions *q, const struct admin_config *config)
{
    const struct agent_config *a = &config->agent;
    CLEANUP(json)
    json_t *who = json_pack("{s:s, s:s}", "apiVersion", "authentication.k8s.io/v1", "kind",
                            "SelfSubjectReview");
    q->whoami = api_reader_ask(q->api, who, "/apis/authentication.k8s.io/v1/selfsubjectreviews");
    q->lease = api_reader_ask(q->api, NULL, "/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s",
                              a->lease_namespace, a->lease_name);
    q->node = api_reader_ask(q->api, NULL, "/api/v1/nodes/%s", a->node_name);
    for (size_t i = 0; i < ARRAY_LEN(rights); i++) {
        q->rights[i] = ask_right(q->api, &rights[i], a);
    }
    api_reader_wait(q->api);
}

/* ---- the way there --------------------------------------------------------------------------- */

static void check_expiry(struct doctor *d, const struct api_reader *api)
{
    struct kube_expiry expiry;
    char span[SCREEN_SPAN_BYTES];
    struct wall now = d->look.wall;
    if (!kube_client_expiry(api->client, &expiry) || !kube_expiry_is_near(&expiry, now)) {
        return;
    }
    int64_t left_ns = wall_since(expiry.until, now);
    bool is_over = left_ns <= 0;
    check_add(d, is_over ? CHECK_FAIL : CHECK_WARN, "API",
              "renew the token or certificate; a pod's is the kubelet's to renew",
              "%s: the credential %s %s%s, by this host's clock", kube_client_describe(api->client),
              is_over ? "ran out" : "runs out in", screen_span(left_ns, span),
              is_over ? " ago" : "");
}

static bool check_reach(struct doctor *d, const struct questions *q)
{
    const char *server = kube_client_describe(q->api->client);
    const struct api_answer *lease = q->lease;
    const json_t *review = json_object_get(q->whoami->body, "status");
    const char *user = json_text_get(json_object_get(review, "userInfo"), "username");
    check_expiry(d, q->api);
    if (lease->http_status == 0) {
        check_add(d, CHECK_FAIL, "API",
                  "check address, network and certificate authority of that kubeconfig; the way "
                  "may lead through the DPU's own network, which it must not",
                  "%s: %s", server, lease->message);
        return false;
    }
    if (lease->http_status == 401) {
        check_add(d, CHECK_FAIL, "API", "renew the credential: it has run out, or is revoked",
                  "%s does not know us: %s", server, lease->message);
        return false;
    }
    check_add(d, CHECK_PASS, "API", "", "%s answers%s%s", server, user ? ", we are " : "",
              user ? user : "");
    if (lease->has_date) {
        check_clock(d, "the API server's", lease->skew_ns,
                    "set the clock (chrony, systemd-timesyncd): the readiness does not mind, but "
                    "certificates and tokens do");
    }
    return true;
}

static void check_rights(struct doctor *d, const struct questions *q)
{
    size_t allowed = 0;
    size_t unanswered = 0;
    for (size_t i = 0; i < ARRAY_LEN(rights); i++) {
        const struct right *r = &rights[i];
        const struct api_answer *answer = q->rights[i];
        const json_t *status = json_object_get(answer->body, "status");
        char mend[128];
        text_format(mend, sizeof(mend), "kubectl apply -f %s", r->file);
        if (!answer->body && unanswered++ > 0) {
            continue; /* most likely for the same reason: said once */
        }
        if (!answer->body) {
            check_add(d, CHECK_SKIP, "rights", "", "%s %s: %s", r->verb, r->resource,
                      answer->message);
        } else if (json_is_true(json_object_get(status, "allowed"))) {
            allowed++;
        } else {
            check_add(d, r->without, "rights", mend, "we may not %s %s%s%s%s%s: %s", r->verb,
                      r->resource, r->group[0] != '\0' ? "." : "", r->group,
                      text_is_empty(r->ns) ? "" : " in ", r->ns ? r->ns : "", r->effect);
        }
    }
    if (allowed == ARRAY_LEN(rights)) {
        check_add(d, CHECK_PASS, "rights", "", "all %zu that the host's agent asks for", allowed);
    }
}

/* ---- the Node -------------------------------------------------------------------------------- */

static void check_ready(struct doctor *d, const json_t *status)
{
    const json_t *conditions = json_object_get(status, "conditions");
    bool is_said = false;
    for (size_t i = 0; i < json_array_size(conditions); i++) {
        const json_t *condition = json_array_get(conditions, i);
        const char *message = json_text_get(condition, "message");
        if (!text_equal(json_text_get(condition, "type"), "Ready")) {
            continue;
        }
        is_said = true;
        if (text_equal(json_text_get(condition, "status"), "True")) {
            check_add(d, CHECK_PASS, "node", "", "the Node is Ready");
        } else if (message && strstr(message, NAMES_NOT_READY_PREFIX)) {
            check_add(d, CHECK_WARN, "node", "that follows from the DPU: mend the links before",
                      "the Node is not Ready: %s", message);
        } else {
            check_add(d, CHECK_FAIL, "node", "'kubectl describe node' has more",
                      "the Node is not Ready, and not because of the DPU: %s",
                      message ? message : "it does not say why");
        }
    }
    if (!is_said) {
        check_add(d, CHECK_SKIP, "node", "start its kubelet",
                  "the Node does not say whether it is Ready");
    }
}

static void check_node(struct doctor *d, const struct questions *q)
{
    const struct api_answer *answer = q->node;
    const json_t *status = json_object_get(answer->body, "status");
    const json_t *info = json_object_get(status, "nodeInfo");
    const char *runtime = json_text_get(info, "containerRuntimeVersion");
    const char *kubelet = json_text_get(info, "kubeletVersion");
    if (!answer->body) {
        bool is_gone = answer->http_status == 404;
        check_add(d, is_gone ? CHECK_FAIL : CHECK_SKIP, "node",
                  is_gone ? "give --node-name, to dpuctl and to both agents" : "", "Node '%s': %s",
                  d->config.agent.node_name, is_gone ? "it does not exist" : answer->message);
        return;
    }
    if (runtime) {
        text_sanitize(d->runtime_version, sizeof(d->runtime_version), runtime, strlen(runtime));
    }
    if (kubelet) {
        text_sanitize(d->kubelet_version, sizeof(d->kubelet_version), kubelet, strlen(kubelet));
    }
    if (!fleet_node_is_marked(answer->body)) {
        check_add(d, CHECK_WARN, "node",
                  "kubectl label node NODE k8s.ovn.org/dpu-host= (the DaemonSet looks for it)",
                  "the Node has no label k8s.ovn.org/dpu-host");
    }
    check_ready(d, status);
}

void check_api(struct doctor *d)
{
    const struct admin_config *config = &d->config;
    struct questions q = {.api = NULL};
    struct err e = ERR_INIT;
    int rc = api_reader_open(config, &q.api, &e);
    if (rc != 0) {
        bool none = rc == ERR_NOTFOUND && text_is_empty(config->agent.kubeconfig);
        check_add(d, none ? CHECK_SKIP : CHECK_FAIL, "API",
                  "give --kubeconfig: the agent's own shows what the agent may do", "%s", e.msg);
        check_add(d, CHECK_SKIP, "lease", "", "it cannot be read without the API server");
        return;
    }
    ask(&q, config);
    if (check_reach(d, &q)) {
        if (q.api->is_kubectls && !d->is_remote) {
            check_add(d, CHECK_SKIP, "rights", "give --kubeconfig=FILE, the agent's own",
                      "not asked: this kubeconfig is kubectl's, not the agent's");
        } else if (!d->is_remote) {
            check_rights(d, &q);
        }
        check_lease(d, q.lease, q.node->body);
        check_node(d, &q);
    } else {
        check_add(d, CHECK_SKIP, "lease", "", "it cannot be read without the API server");
    }
    api_reader_close(q.api);
}
