/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl doctor: the command, and the links that the API server knows. */
#include "dpuctl/doctor.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/lease.h"
#include "dpuctl/api.h"
#include "dpuctl/fleet.h"
#include "dpuctl/print.h"
#include "kube/kube_answer.h"

#include <curl/curl.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SLACK_NS (1 * NS_PER_SEC) /* a renewal's way to us, and a busy machine */

#define SET_CLOCK(whose) "set the " whose " clock: certificates and tokens depend on it"

static const struct outcome {
    const char *name;
    const char *word; /* on a page */
    enum print_color color;
} outcomes[] = {[CHECK_PASS] = {"pass", "pass", PRINT_GOOD},
                [CHECK_WARN] = {"warn", "warn", PRINT_DOUBT},
                [CHECK_FAIL] = {"fail", "FAIL", PRINT_BAD},
                [CHECK_SKIP] = {"skip", "skip", PRINT_FAINT}};

void check_add(struct doctor *d, enum check_outcome outcome, const char *link, const char *mend,
               const char *found_format, ...)
{
    char found[PRINT_TEXT_BYTES];
    va_list args;
    va_start(args, found_format);
    text_vformat(found, sizeof(found), found_format, args);
    va_end(args);
    d->counts[outcome]++;
    (void)json_array_append_new(d->checks,
                                json_pack("{s:s, s:s, s:o, s:o}", "link", link, "outcome",
                                          outcomes[outcome].name, "found", print_json_text(found),
                                          "mend", print_json_text(mend)));
}

void check_rows(struct doctor *d, const json_t *doc, const struct check_row *rows, size_t count)
{
    char found[PRINT_TEXT_BYTES];
    char mend[PRINT_TEXT_BYTES];
    for (size_t i = 0; i < count; i++) {
        if (print_holds(doc, rows[i].when)) {
            print_fill(doc, rows[i].found, found, sizeof(found));
            print_fill(doc, rows[i].mend, mend, sizeof(mend));
            check_add(d, rows[i].outcome, rows[i].link, mend, "%s", found);
        }
    }
}

/* ---- the lease, and the DPU that renews it --------------------------------------------------- */

#define LEASE    "{lease.namespace}/{lease.name}"
#define REPAIRED "dpu-host-agent repairs that if it may patch the lease"
#define ALIKE    "set alike for dpu-agent, dpu-host-agent and dpuctl: --dpu-node-lease-"

static const struct check_row of_lease[] = {
    {"lease", CHECK_SKIP, "lease.isForbidden", LEASE ": {lease.problem}", ""},
    {"lease", CHECK_FAIL, "lease.isMissing", LEASE ": it does not exist",
     "start dpu-host-agent, which creates it, with this node name and namespace"},
    {"lease", CHECK_FAIL, "!lease.found !lease.isForbidden !lease.isMissing",
     LEASE ": {lease.problem}", ""},
    {"lease", CHECK_FAIL, "lease.found !lease.holderExpected",
     LEASE " is held by '{lease.holder}', not by '{here.holder}'",
     "find out who that is: only renewals by --holder-identity count"},
    {"lease", CHECK_PASS, "lease.holderExpected",
     LEASE " is held by {lease.holder}, each renewal for {lease.durationSeconds} s", ""},
    {"lease", CHECK_WARN, "lease.owner=other",
     "it belongs to an earlier Node of that name, so the API server deletes it", REPAIRED},
    {"lease", CHECK_WARN, "lease.owner=none",
     "its Node does not own it, so it stays when the Node is deleted", REPAIRED},
    {"lease", CHECK_FAIL, "lease.found !lease.durationSeconds", "it has no duration", REPAIRED},
    {"lease", CHECK_WARN, "lease.isTooShort",
     "it lasts {lease.durationSeconds} s, but dpuctl expects a renewal each {here.interval}",
     ALIKE "renew-interval"},
    {"lease", CHECK_WARN, "lease.isOfOtherDuration",
     "it lasts {lease.durationSeconds} s, but dpuctl's duration is {here.durationSeconds} s",
     ALIKE "duration"},
    /* As ovn-kubernetes' own check does on the host at each of its starts. */
    {"lease", CHECK_WARN, "lease.isRenewedByHost",
     "{lease.renewedBy} wrote its renewTime last, which is no renewal by the DPU",
     "give the DPU its own host name, or turn off ovn-kubernetes' own health check on the host; "
     "not "
     "with 1.3.0 (docs/upstream.md)"},
    {"DPU", CHECK_FAIL, "lease.health=" NAMES_HEALTH_SHUTDOWN,
     "it announced its shutdown on the lease: {lease.healthMessage}", "start the DPU again"},
    {"DPU", CHECK_FAIL, "lease.health=" NAMES_HEALTH_UNHEALTHY,
     "it reports on the lease that it is unhealthy: {lease.healthMessage}",
     "repair the service that the probe names; run 'journalctl -u dpu-agent' on the DPU"},
    {"DPU", CHECK_FAIL, "lease.found !lease.renewTime", "it has never renewed the lease",
     "start dpu-agent on the DPU with this node's name and the DPU's kubeconfig "
     "(deploy/dpu-kubeconfig)"},
    {"DPU", CHECK_FAIL, "lease.age lease.isLate",
     "it renewed the lease {lease.age} ago; the lease lasts {lease.durationSeconds} s",
     "check the DPU's power and network, and run 'systemctl status dpu-agent' there"},
    {"DPU", CHECK_PASS, "lease.age !lease.isLate",
     "it renewed the lease {lease.age} ago; the lease lasts {lease.durationSeconds} s", ""},
    {"DPU", CHECK_WARN, "lease.age !lease.isLate lease.isSlow",
     "it renewed the lease {lease.age} ago, but dpuctl expects a renewal each {here.interval}",
     ALIKE "renew-interval; then check dpu-agent's log for retries"},
    {"clocks", CHECK_WARN, "lease.clockSkew>5",
     "the DPU's clock is {lease.clockSkew} ahead of this host's", SET_CLOCK("DPU's")},
    {"clocks", CHECK_WARN, "lease.clockSkew<-5",
     "the DPU's clock is {lease.clockSkew} behind this host's", SET_CLOCK("DPU's")},
    {"DPU", CHECK_WARN, "lease.hasNoProbe",
     "dpu-agent has no probes, so a renewal proves only that dpu-agent runs",
     "set --probe=ovn-kubernetes on the DPU, or your own probes"},
};

/* "other": the first Node among the owners is not this one; "none": there is none. */
static const char *owner_of(const json_t *lease, const json_t *node)
{
    const json_t *owners = json_object_get(json_object_get(lease, "metadata"), "ownerReferences");
    const char *uid = json_text_get(json_object_get(node, "metadata"), "uid");
    const json_t *owner = json_text_find(owners, "kind", "Node");
    if (!uid || (owner && text_equal(json_text_get(owner, "uid"), uid))) {
        return NULL;
    }
    return owner ? "other" : "none";
}

static json_t *here_json(const struct agent_config *a)
{
    char host[256] = "";
    (void)gethostname(host, sizeof(host) - 1); /* without one nobody has its name */
    return json_pack("{s:o, s:s, s:s, s:I}", "host", print_json_text(host), "holder",
                     a->holder_identity, "interval", text_span(a->renew_interval_ns).text,
                     "durationSeconds", (json_int_t)(a->lease_duration_ns / NS_PER_SEC));
}

/* When the DPU renewed, by the record's observation. Where the host wrote the stamp, that is of the
 * renewal before. */
static void add_renewal(struct doctor *d, json_t *tree, const struct lease_view *lease,
                        bool is_by_host)
{
    const struct node_snapshot *seen = &d->seen;
    const struct readiness *v = &seen->record.readiness;
    int64_t interval_ns = d->config.agent.renew_interval_ns;
    int64_t age_ns = mono_since(seen->now, v->observed);
    if (!seen->has_record || seen->gate.reason == REASON_RECORD_INVALID || v->observed.ns <= 0 ||
        (!is_by_host && !text_equal(v->lease.renew_stamp, lease->renew_stamp))) {
        return;
    }
    print_json_put(tree, "age", print_json_seconds(age_ns));
    print_json_put(tree, "isLate", json_boolean(age_ns > (int64_t)lease->duration_s * NS_PER_SEC));
    /* Only a renewal that is overdue for our interval shows that the DPU keeps another one. */
    print_json_put(
        tree, "isSlow",
        json_boolean(interval_ns != 0 && age_ns > interval_ns + interval_ns / 2 + SLACK_NS));
    if (!is_by_host) {
        const json_t *record = json_object_get(d->doc, "record");
        (void)json_object_set(tree, "clockSkew", json_object_get(record, "dpuClockSkewSeconds"));
    }
}

static void check_lease(struct doctor *d, const struct api_answer *answer, const json_t *node)
{
    const struct agent_config *a = &d->config.agent;
    struct lease_view lease = {.duration_s = 0};
    json_t *tree = node_lease_json(a, &d->seen, answer);
    json_t *here = here_json(a);
    bool is_found = answer->body && lease_read(answer->body, &lease, NULL) == 0;
    print_json_put(d->doc, "here", here);
    print_json_put(d->doc, "lease", tree);
    if (is_found) {
        const char *writer = lease_renewed_by(answer->body);
        bool is_by_host = lease_is_by_host(&lease, writer, json_text_get(here, "host"));
        int64_t lasts_ns = (int64_t)lease.duration_s * NS_PER_SEC;
        bool is_checked = lease.duration_s > 0 && a->renew_interval_ns > 0;
        const char *owner = owner_of(answer->body, node);
        print_json_put(tree, "owner", print_json_text(owner));
        print_json_put(tree, "isRenewedByHost", json_boolean(is_by_host));
        print_json_put(tree, "renewedBy",
                       print_json_text(writer ? "this host" : "another program than dpu-agent"));
        print_json_put(tree, "isTooShort",
                       json_boolean(is_checked && lasts_ns <= a->renew_interval_ns));
        print_json_put(tree, "isOfOtherDuration",
                       json_boolean(is_checked && lasts_ns != a->lease_duration_ns));
        print_json_put(tree, "hasNoProbe", json_boolean(lease.has_no_probe));
        if (lease.renew_stamp[0] != '\0') {
            add_renewal(d, tree, &lease, is_by_host);
        }
    }
    print_json_put(tree, "isForbidden", json_boolean(answer->http_status == 403));
    print_json_put(tree, "isMissing", json_boolean(answer->http_status == 404));
    check_rows(d, d->doc, of_lease, ARRAY_LEN(of_lease));
}

/* ---- the API server -------------------------------------------------------------------------- */

#define HOST_AGENT "host-agent"
#define DRIVER     "dra-driver"
#define PODS       "host-agent-pods"
#define LEASES     "coordination.k8s.io", "leases", NULL
#define SLICES     "resource.k8s.io", "resourceslices", ""
#define CLAIMS     "resource.k8s.io", "resourceclaims", ""
#define EVENTS     "events.k8s.io", "events"
#define CONDITIONS "dra-claim-conditions"
#define CLAIMS_OF(part)                                                                            \
    "resource.k8s.io", "resourceclaims/" part, "", CHECK_WARN, "dra-driver-claims", CONDITIONS
#define RESTART "on-lost-network=restart"

/* Of node-readiness-controller; 404 where it is not installed. */
#define READINESS_RULES "/apis/readiness.node.x-k8s.io/v1alpha1/nodereadinessrules"

/* The rights of dpu-host-agent, or, by the files that grant them, of dpu-dra-driver; and what is
 * lost without each. */
static const struct right {
    const char *verb;
    const char *group;
    const char *resource;
    const char *ns; /* NULL: the lease's; "": the whole cluster */
    enum check_outcome without;
    const char *file;   /* that grants it, in rbac/ */
    const char *option; /* that needs it; "": the program itself */
    const char *effect;
} rights[] = {
    {"get", LEASES, CHECK_FAIL, HOST_AGENT, "", "the host can never prove that the DPU is dead"},
    {"create", LEASES, CHECK_FAIL, HOST_AGENT, "", "the host cannot create the lease"},
    {"list", LEASES, CHECK_WARN, HOST_AGENT, "",
     "the host polls the lease: it sees changes later, with more requests"},
    {"watch", LEASES, CHECK_WARN, HOST_AGENT, "",
     "the host polls the lease: it sees changes later, with more requests"},
    {"patch", LEASES, CHECK_WARN, HOST_AGENT, "",
     "the host cannot repair the lease, and reports a living DPU as dead while the API server "
     "takes no writes"},
    {"get", "", "nodes", "", CHECK_FAIL, HOST_AGENT, "",
     "the host cannot make the Node the lease's owner"},
    {"create", EVENTS, "default", CHECK_WARN, "host-agent-events", "events=on",
     "the Node gets no Events"},
    {"create", EVENTS, "", CHECK_WARN, PODS, "cri-socket", "Pods get no Events"},
    {"list", "", "pods", "", CHECK_WARN, PODS, RESTART, "no Pod gets a new sandbox"},
    {"patch", "", "nodes/status", "", CHECK_WARN, "host-agent-node-condition", "node-condition",
     "the Node has no condition DPUReady"},
    {"get", "", "nodes", "", CHECK_FAIL, DRIVER, "", "the DPU is not a DRA device"},
    {"create", SLICES, CHECK_FAIL, DRIVER, "", "the DPU is not a DRA device"},
    {"get", SLICES, CHECK_FAIL, DRIVER, "", "the DPU is not a DRA device"},
    {"list", SLICES, CHECK_WARN, DRIVER, "",
     "the driver restores a removed slice only after up to 10 minutes"},
    {"watch", SLICES, CHECK_WARN, DRIVER, "",
     "the driver restores a removed slice only after up to 10 minutes"},
    {"update", SLICES, CHECK_FAIL, DRIVER, "", "the scheduler does not learn that the DPU fails"},
    {"get", CLAIMS, CHECK_FAIL, DRIVER, "", "the driver cannot prepare claims of the DPU"},
    {"create", EVENTS, "", CHECK_WARN, DRIVER, "events=on",
     "Pods that claim the DPU get no Events"},
    {"update", CLAIMS_OF("status"), "claims have no condition"},
    {"associated-node:update", CLAIMS_OF("driver"), "from 1.36 on claims have no condition"},
    {"arbitrary-node:update", CLAIMS_OF("driver"), "by a certificate claims have no condition"},
};

struct questions {
    const struct api_answer *whoami;
    const struct api_answer *lease;
    const struct api_answer *node;
    const struct api_answer *readiness_rules;
    struct cluster_questions cluster; /* of another node only; else its rights */
    const struct api_answer *rights[ARRAY_LEN(rights)];
};

static bool is_needed(const struct admin_config *config, const struct right *r)
{
    bool has_socket = !text_is_empty(config->cri_socket);
    const struct {
        const char *option;
        bool is_on;
    } options[] = {
        {"events=on", config->events},
        {"node-condition", config->node_condition},
        {CONDITIONS, config->claim_conditions},
        {"cri-socket", has_socket},
        {RESTART, has_socket && config->on_lost_network == LOST_NETWORK_RESTART},
    };
    if (config->is_driver != (strncmp(r->file, DRIVER, strlen(DRIVER)) == 0)) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        if (text_equal(r->option, options[i].option)) {
            return options[i].is_on;
        }
    }
    return true;
}

static const struct api_answer *ask_right(struct api *api, const struct right *r,
                                          const struct agent_config *a)
{
    size_t len = strcspn(r->resource, "/");
    const char *subresource = r->resource + len + (r->resource[len] == '/');
    /* The agent's one lease or Node by name, so that rights to no more than these are seen. RBAC
     * knows no names of what is created. */
    const char *name = text_equal(r->verb, "create")           ? ""
                       : text_equal(r->resource, "leases")     ? a->lease_name
                       : strncmp(r->resource, "nodes", 5) == 0 ? a->node_name
                       : strstr(r->resource, "/driver")        ? api->config->driver
                                                               : "";
    CLEANUP(json)
    json_t *review = json_pack("{s:s, s:s, s:{s:{s:s, s:s, s:s%, s:s, s:s, s:s}}}", "apiVersion",
                               "authorization.k8s.io/v1", "kind", "SelfSubjectAccessReview", "spec",
                               "resourceAttributes", "verb", r->verb, "group", r->group, "resource",
                               r->resource, len, "subresource", subresource, "name", name,
                               "namespace", r->ns ? r->ns : a->lease_namespace);
    return api_ask(api, review,
                   mem_strdup("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"));
}

static void ask_questions(struct doctor *d, struct api *api, struct questions *q)
{
    const struct agent_config *a = &d->config.agent;
    CLEANUP(json)
    json_t *who = json_pack("{s:s, s:s}", "apiVersion", "authentication.k8s.io/v1", "kind",
                            "SelfSubjectReview");
    q->whoami = api_ask(api, who, mem_strdup("/apis/authentication.k8s.io/v1/selfsubjectreviews"));
    q->lease = api_ask(api, NULL, mem_format(API_LEASE_PATH, a->lease_namespace, a->lease_name));
    q->node = api_ask(api, NULL, mem_format("/api/v1/nodes/%s", json_text_get(d->doc, "node")));
    q->readiness_rules = api_ask(api, NULL, mem_strdup(READINESS_RULES));
    if (d->config.node) {
        cluster_ask(api, a->lease_namespace, &q->cluster);
    }
    for (size_t i = 0; i < ARRAY_LEN(rights) && !d->config.node && !api->is_not_agents; i++) {
        q->rights[i] = is_needed(&d->config, &rights[i]) ? ask_right(api, &rights[i], a) : NULL;
    }
    api_wait(api);
}

#define GIVE_KUBECONFIG "set --kubeconfig; with the agent's own, dpuctl also checks its rights"
#define MEND_FILE                                                                                  \
    "mend the file. An agent that runs uses the last good credential, which its log names, and "   \
    "loses that with a restart"
#define RENEW "renew the token or certificate; the kubelet renews a Pod's token"

static const struct check_row of_api[] = {
    {"API", CHECK_SKIP, "api.isNone", "{api.problem}", GIVE_KUBECONFIG},
    {"API", CHECK_FAIL, "!api.server !api.isNone", "{api.problem}", MEND_FILE},
    {"API", CHECK_WARN, "api.unusable", "{api.unusable}", MEND_FILE},
    {"API", CHECK_FAIL, "api.credential !api.credential>0",
     "{api.server}: the credential expired {api.credential} ago, by this host's clock", RENEW},
    {"API", CHECK_WARN, "api.credential>0",
     "{api.server}: the credential expires in {api.credential}, by this host's clock", RENEW},
    {"API", CHECK_SKIP, "api.server !api.reached api.isDebugPods",
     "{api.server}: {api.problem}; that is this Pod's way there, not the agent's", GIVE_KUBECONFIG},
    {"API", CHECK_FAIL, "api.server !api.reached !api.isDebugPods", "{api.server}: {api.problem}",
     "check the kubeconfig's address and CA; the route must not lead through the DPU's network"},
    {"API", CHECK_FAIL, "api.refusal", "{api.server} rejects dpuctl: {api.refusal}",
     "renew the credential: it has expired, or somebody revoked it"},
    {"API", CHECK_PASS, "api.isOpen api.user", "{api.server} answers user {api.user}", ""},
    {"API", CHECK_PASS, "api.isOpen !api.user", "{api.server} answers", ""},
    {"clocks", CHECK_WARN, "api.isOpen api.clockSkewSeconds>5",
     "the API server's clock is {api.clockSkewSeconds} ahead of this host's", SET_CLOCK("wrong")},
    {"clocks", CHECK_WARN, "api.isOpen api.clockSkewSeconds<-5",
     "the API server's clock is {api.clockSkewSeconds} behind this host's", SET_CLOCK("wrong")},
    {"lease", CHECK_SKIP, "!api.isOpen", "dpuctl cannot read it without the API server", ""},
};

/* Returns whether the API server lets us in. */
static bool check_reach(struct doctor *d, const struct api *api, const struct questions *q)
{
    const struct kube_metrics *m = api->client ? kube_client_metrics(api->client) : NULL;
    struct wall now = d->seen.wall;
    const struct api_answer *lease = q->lease;
    const json_t *review = json_object_get(q->whoami->body, "status");
    const char *user = json_text_get(json_object_get(review, "userInfo"), "username");
    json_t *tree = node_api_json(api, lease);
    bool is_refused = lease->http_status == 401;
    bool is_open = lease->http_status != 0 && !is_refused;
    print_json_put(d->doc, "api", tree);
    if (m && m->has_expiry && kube_expiry_is_near(&m->expiry, now)) {
        print_json_put(tree, "credential", print_json_seconds(wall_since(m->expiry.until, now)));
    }
    print_json_put(tree, "unusable",
                   print_json_text(api->client ? kube_client_problem(api->client) : NULL));
    print_json_put(tree, "refusal", print_json_text(is_refused ? lease->message : NULL));
    print_json_put(tree, "user", print_json_text(user));
    print_json_put(tree, "isNone", json_boolean(api->problem.code == ERR_NOTFOUND));
    print_json_put(tree, "isOpen", json_boolean(is_open));
    print_json_put(tree, "isDebugPods", json_boolean(api->is_debug_pods));
    check_rows(d, d->doc, of_api, ARRAY_LEN(of_api));
    return is_open;
}

static const char *whose(const struct doctor *d)
{
    return d->config.is_driver ? "dpu-dra-driver" : "dpu-host-agent";
}

static void check_right(struct doctor *d, const struct right *r)
{
    const char *ns = r->ns ? r->ns : d->config.agent.lease_namespace;
    char mend[128];
    text_format(mend, sizeof(mend), "kubectl apply -f rbac/%s.yaml", r->file);
    check_add(d, r->without, "rights", mend, "%s may not %s %s%s%s%s%s: %s%s%s%s", whose(d),
              r->verb, r->resource, r->group[0] ? "." : "", r->group, ns[0] ? " in " : "", ns,
              r->option[0] ? "with --" : "", r->option, r->option[0] ? ", " : "", r->effect);
}

static void check_rights(struct doctor *d, const struct questions *q)
{
    size_t asked = 0;
    size_t allowed = 0;
    const struct api_answer *unanswered = NULL;
    for (size_t i = 0; i < ARRAY_LEN(rights); i++) {
        const struct api_answer *answer = q->rights[i];
        const json_t *status = json_object_get(answer ? answer->body : NULL, "status");
        bool is_allowed = json_is_true(json_object_get(status, "allowed"));
        asked += answer != NULL;
        allowed += is_allowed;
        if (answer && !answer->body) {
            unanswered = answer; /* most likely all for the same reason: said once */
        } else if (answer && !is_allowed) {
            check_right(d, &rights[i]);
        }
    }
    if (unanswered) {
        check_add(d, CHECK_SKIP, "rights", "", "%s", unanswered->message);
    } else if (allowed == asked) {
        check_add(d, CHECK_PASS, "rights", "", "%s has all %zu rights that it needs", whose(d),
                  allowed);
    }
}

static const struct check_row of_node[] = {
    {"node", CHECK_FAIL, "kube.isMissing", "Node '{node}' does not exist",
     "set --node-name for dpuctl and both agents"},
    {"node", CHECK_SKIP, "!kube.found !kube.isMissing", "Node '{node}': {kube.problem}", ""},
    {"node", CHECK_WARN, "kube.found !kube.isMarked", "the Node has no label k8s.ovn.org/dpu-host",
     "kubectl label node {node} k8s.ovn.org/dpu-host= (the DaemonSet selects it)"},
    {"node", CHECK_SKIP, "kube.found !kube.ready", "the Node has no condition Ready",
     "start its kubelet"},
    {"node", CHECK_PASS, "kube.ready=True", "the Node is Ready", ""},
    {"node", CHECK_WARN, "kube.ready !kube.ready=True kube.isByGate",
     "the Node is not Ready: {kube.message}", "repair the DPU: see the links above"},
    {"node", CHECK_FAIL, "kube.ready !kube.ready=True !kube.isByGate",
     "the Node is not Ready for another reason than the DPU: {kube.message}",
     "run 'kubectl describe node {node}'"},
};

static void check_node(struct doctor *d, const struct api_answer *answer)
{
    const json_t *status = json_object_get(answer->body, "status");
    const json_t *info = json_object_get(status, "nodeInfo");
    const json_t *ready = json_text_find(json_object_get(status, "conditions"), "type", "Ready");
    const char *message = json_text_get(ready, "message");
    const char *runtime = json_text_get(info, "containerRuntimeVersion");
    const char *kubelet = json_text_get(info, "kubeletVersion");
    text_format(d->runtime_version, sizeof(d->runtime_version), "%s", runtime ? runtime : "");
    text_format(d->kubelet_version, sizeof(d->kubelet_version), "%s", kubelet ? kubelet : "");
    print_json_put(d->doc, "kube",
                   json_pack("{s:b, s:b, s:o, s:b, s:o, s:b, s:o}", "found", answer->body != NULL,
                             "isMissing", answer->http_status == 404, "problem",
                             print_json_text(answer->message), "isMarked",
                             fleet_node_is_marked(answer->body), "ready",
                             print_json_text(json_text_get(ready, "status")), "isByGate",
                             message && strstr(message, NAMES_NOT_READY_PREFIX), "message",
                             print_json_text(message ? message : "its condition has no message")));
    check_rows(d, d->doc, of_node, ARRAY_LEN(of_node));
}

/* Rights, lease, Node: gives the versions, too. */
static void check_api(struct doctor *d, struct api *api)
{
    struct questions q = {.whoami = NULL};
    ask_questions(d, api, &q);
    if (check_reach(d, api, &q)) {
        if (!d->config.node && api->is_not_agents) {
            check_add(d, CHECK_SKIP, "rights", "set --kubeconfig=FILE to the agent's own",
                      "not checked: this is kubectl's kubeconfig or a debug Pod's account, not the "
                      "agent's");
        } else if (!d->config.node) {
            check_rights(d, &q);
        }
        check_lease(d, q.lease, q.node->body);
        check_node(d, q.node);
        check_note_scheduling(d, q.node->body, json_object_get(q.readiness_rules->body, "items"),
                              q.readiness_rules->body || q.readiness_rules->http_status == 404);
    }
    check_cluster(d, &q.cluster);
}

/* ---- another node ---------------------------------------------------------------------------- */

static const struct check_row of_verdict[] = {
    {"verdict", CHECK_SKIP, "problem", "{problem}", ""},
    {"verdict", CHECK_FAIL, "isNone",
     "Node '{node}' has neither a lease nor the label of a host with a DPU",
     "kubectl label node NODE k8s.ovn.org/dpu-host= and start dpu-host-agent there"},
    {"verdict", CHECK_PASS, "state=Ready", "{state} ({reason}): {message}", ""},
    {"verdict", CHECK_FAIL, "state=NotReady", "{state} ({reason}): {message}", "{advice}"},
    {"verdict", CHECK_WARN, "state=Unknown", "{state} ({reason}): {message}", "{advice}"},
};

/* The same judgement as in the table of `dpuctl nodes`. */
static void check_verdict_from_afar(struct doctor *d, struct api *api)
{
    struct err e = ERR_INIT;
    CLEANUP(json) json_t *fleet = NULL;
    int rc = fleet_read(api, &fleet, &e);
    CLEANUP(json)
    json_t *none = json_pack("{s:s, s:b, s:o}", "node", d->config.agent.node_name, "isNone",
                             rc == 0, "problem", print_json_text(e.msg));
    const json_t *row = json_array_get(json_object_get(fleet, "nodes"), 0);
    if (row) { /* a further DPU (NODE--NAME) has its row, and no Node of that name */
        (void)json_object_set(d->doc, "node", json_object_get(row, "nodeName"));
    }
    check_rows(d, row ? row : none, of_verdict, ARRAY_LEN(of_verdict));
}

/* All that can be said of another node. */
static void examine_from_afar(struct doctor *d)
{
    static const struct check_row of_host[] = {
        {"host", CHECK_SKIP, "",
         "dpuctl can check record, agent, CNI, runtime and kubelet only on the node",
         "kubectl debug node/{node} -it --image=dpu-heartbeat-host:" DPU_VERSION
         " --profile=sysadmin -- dpuctl doctor --root=/host"}};
    d->seen.wall = clock_wall_now();
    d->doc = json_pack("{s:s}", "node", d->config.agent.node_name);
    struct api *api = api_open(&d->config);
    check_verdict_from_afar(d, api);
    check_api(d, api);
    api_close(api);
    if (d->runtime_version[0]) {
        check_judge_runtime(d, d->runtime_version, NULL);
    }
    check_scheduling(d);
    check_rows(d, d->doc, of_host, 1);
}

/* ---- this node, and the command -------------------------------------------------------------- */

static void examine(struct doctor *d)
{
    static void (*const checks[])(struct doctor *) = {check_cni, check_cri, check_runtime,
                                                      check_kubelet, check_scheduling};
    char path[PATH_MAX];
    node_snapshot_take(&d->config, &d->seen);
    d->doc = node_document(&d->config, &d->seen);
    check_record(d);
    d->config.asks_runtime = pods_find_runtime(&d->config, path);
    struct api *api = api_open(&d->config);
    check_api(d, api);
    api_close(api);
    check_judge_libcurl(d, curl_version_info(CURLVERSION_NOW)->version);
    d->cni = cni_scan_json(admin_path(&d->config, d->config.cni_conf_dir, path, sizeof(path)));
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        checks[i](d);
    }
}

static void print_checks(const struct admin_config *config, const json_t *tree)
{
    static const struct print_row rest[] = {
        {"", "", "{found}"}, {"\n               -> ", "mend", "{mend}"}, {"\n", "", ""}};
    bool has_color = print_has_color(config->color);
    const json_t *checks = json_object_get(tree, "checks");
    size_t counts[ARRAY_LEN(outcomes)] = {0};
    const json_t *first = NULL; /* the links are in the order of the chain: it explains others */
    size_t i;
    const json_t *check;
    json_array_foreach(checks, i, check)
    {
        const struct outcome *o = outcomes;
        while (!text_equal(json_text_get(check, "outcome"), o->name)) {
            o++; /* check_add gave it one of them */
        }
        counts[o - outcomes]++;
        print_cell(has_color, o->color, o->word, 0);
        (void)printf("  %-8s ", json_text_get(check, "link"));
        print_rows(check, rest, ARRAY_LEN(rest), has_color);
        first = !first && o == &outcomes[CHECK_FAIL] ? check : first;
    }
    if (first) {
        (void)printf("\n%zu broken; begin with the first, %s: %s\n", counts[CHECK_FAIL],
                     json_text_get(first, "link"), json_text_get(first, "found"));
    } else {
        (void)printf("\nnothing is broken; %zu warnings, %zu not checked\n", counts[CHECK_WARN],
                     counts[CHECK_SKIP]);
    }
}

/* What the record says follows from what the API server lets the agent do, never the other way
 * round: those links come first. The others keep their order. Takes `checks`; returns owned. */
static json_t *by_cause(json_t *checks)
{
    static const char *const first[] = {"API", "rights"};
    json_t *sorted = json_array();
    for (size_t k = 0; k <= ARRAY_LEN(first); k++) {
        size_t i;
        json_t *check;
        json_array_foreach(checks, i, check)
        {
            const char *link = json_text_get(check, "link");
            size_t rank = 0;
            while (rank < ARRAY_LEN(first) && !text_equal(link, first[rank])) {
                rank++;
            }
            if (rank == k) {
                (void)json_array_append(sorted, check);
            }
        }
    }
    json_decref(checks);
    return sorted;
}

int doctor_run(struct admin_config *config)
{
    static const char *const answers[] = {
        [ADMIN_GOOD] = "Whole", [ADMIN_BAD] = "Broken", [ADMIN_UNCLEAR] = "Unknown"};
    struct doctor d = {.config = *config, .checks = json_array()};
    if (config->node) {
        examine_from_afar(&d);
    } else {
        examine(&d);
    }
    enum admin_answer answer = d.counts[CHECK_FAIL] > 0   ? ADMIN_BAD
                               : d.counts[CHECK_SKIP] > 0 ? ADMIN_UNCLEAR
                                                          : ADMIN_GOOD;
    CLEANUP(json)
    json_t *tree = json_pack("{s:s, s:s, s:s, s:o}", "node", d.config.agent.node_name, "version",
                             DPU_VERSION, "answer", answers[answer], "checks", by_cause(d.checks));
    json_decref(d.doc);
    json_decref(d.cni);
    return print_document(config, tree, print_checks, answer);
}
