/* SPDX-License-Identifier: Apache-2.0 */
/* dpuctl doctor: the command, and the links that the API server knows. */
#include "dpuctl/doctor.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/lease.h"
#include "dpuctl/api.h"
#include "dpuctl/print.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLACK_NS        (1 * NS_PER_SEC) /* a renewal's way to us, and a busy machine */
#define SKEW_NOTABLE_NS (5 * NS_PER_SEC)

/* Of the whole chain; also the exit status. */
enum doctor_answer { WHOLE, BROKEN, UNCLEAR };

static const struct {
    const char *name; /* in JSON */
    const char *text;
    enum print_color color;
} outcomes[] = {
    [CHECK_PASS] = {"pass", "pass", PRINT_GOOD},
    [CHECK_WARN] = {"warn", "warn", PRINT_DOUBT},
    [CHECK_FAIL] = {"fail", "FAIL", PRINT_BAD},
    [CHECK_SKIP] = {"skip", "skip", PRINT_FAINT},
};

void check_add(struct doctor *d, enum check_outcome outcome, const char *link, const char *mend,
               const char *found_format, ...)
{
    char found[2 * CHECK_TEXT_BYTES];
    va_list args;
    struct check_result *last = &d->results[CHECK_MAX - 1];
    if (d->count == CHECK_MAX && (outcome != CHECK_FAIL || last->outcome == CHECK_FAIL)) {
        return; /* more than anybody reads, but it has to be told that something is broken */
    }
    d->count -= d->count == CHECK_MAX;
    struct check_result *result = &d->results[d->count++];
    *result = (struct check_result){.outcome = outcome, .link = link};
    va_start(args, found_format);
    text_vformat(found, sizeof(found), found_format, args); /* cut again by the next */
    va_end(args);
    print_clean(result->found, sizeof(result->found), found);
    print_clean(result->mend, sizeof(result->mend), mend);
}

/* ---- the lease, and the DPU that renews it --------------------------------------------------- */

/* "the DPU's" or "the API server's" clock against ours. */
static void check_clock(struct doctor *d, const char *whose, int64_t skew_ns, const char *mend)
{
    char span[PRINT_SPAN_BYTES];
    if (skew_ns > SKEW_NOTABLE_NS || skew_ns < -SKEW_NOTABLE_NS) {
        check_add(d, CHECK_WARN, "clocks", mend, "%s clock is %s %s of this host's", whose,
                  print_span(skew_ns, span), skew_ns > 0 ? "ahead" : "behind");
    }
}

static void check_owner(struct doctor *d, const json_t *lease, const json_t *node)
{
    const json_t *owners = json_object_get(json_object_get(lease, "metadata"), "ownerReferences");
    const char *uid = json_text_get(json_object_get(node, "metadata"), "uid");
    const char *owner_uid = NULL; /* of the first Node among them */
    for (size_t i = 0; !owner_uid && i < json_array_size(owners); i++) {
        const json_t *owner = json_array_get(owners, i);
        if (text_equal(json_text_get(owner, "kind"), "Node")) {
            owner_uid = json_text_get(owner, "uid");
        }
    }
    if (uid && !text_equal(owner_uid, uid)) {
        check_add(d, CHECK_WARN, "lease", "the agent repairs that within moments if it may update",
                  owner_uid
                      ? "it belongs to an earlier Node of that name, and will be deleted with it"
                      : "it does not belong to its Node: nobody removes it with the Node");
    }
}

static void check_timers(struct doctor *d, const struct lease_view *lease)
{
    const struct agent_config *a = &d->config.agent;
    char interval[PRINT_SPAN_BYTES];
    int64_t ours_s = a->lease_duration_ns / NS_PER_SEC;
    if (lease->duration_s == 0) {
        check_add(d, CHECK_FAIL, "lease", "the agent repairs that if it may update",
                  "it has no duration");
        return;
    }
    if (a->renew_interval_ns == 0) {
        return; /* the health check is off here */
    }
    if ((int64_t)lease->duration_s * NS_PER_SEC <= a->renew_interval_ns) {
        text_from_duration(a->renew_interval_ns, interval, sizeof(interval));
        check_add(d, CHECK_WARN, "lease",
                  "set --dpu-node-lease-renew-interval alike on both sides and for dpuctl",
                  "it lasts %u s, but here a renewal is expected each %s", lease->duration_s,
                  interval);
    }
    if (lease->duration_s != ours_s) {
        check_add(d, CHECK_WARN, "lease",
                  "set --dpu-node-lease-duration alike on both sides and for dpuctl",
                  "it lasts %u s, but --dpu-node-lease-duration here is %lld s", lease->duration_s,
                  (long long)ours_s);
    }
}

/* Without the record's observation there is but the DPU's own clock, which may be off. */
static void check_stamp(struct doctor *d, const struct lease_view *lease)
{
    char span[PRINT_SPAN_BYTES];
    int64_t age_ns = lease->renew_time_valid ? wall_since(d->seen.wall, lease->renew_time) : 0;
    if (age_ns > (int64_t)lease->duration_s * NS_PER_SEC) {
        check_add(d, CHECK_WARN, "DPU", "look at the DPU: power, network, clock",
                  "it renewed the lease at %s by its own clock: %s ago, but it lasts %u s",
                  lease->renew_stamp, print_span(age_ns, span), lease->duration_s);
    } else {
        check_add(d, CHECK_PASS, "DPU", "", "it renewed the lease at %s by its own clock",
                  lease->renew_stamp);
    }
}

/* By the record's observation. Only a renewal that is overdue for our interval shows that the DPU
 * keeps another one. */
static void check_age(struct doctor *d, const struct lease_view *lease, int64_t age_ns)
{
    char span[PRINT_SPAN_BYTES];
    char interval[PRINT_SPAN_BYTES];
    int64_t interval_ns = d->config.agent.renew_interval_ns;
    bool is_late = age_ns > (int64_t)lease->duration_s * NS_PER_SEC;
    check_add(d, is_late ? CHECK_FAIL : CHECK_PASS, "DPU",
              is_late ? "look at the DPU: power, network, 'systemctl status dpu-agent' there" : "",
              "it renewed the lease %s ago; it lasts %u s", print_span(age_ns, span),
              lease->duration_s);
    if (!is_late && interval_ns != 0 && age_ns > interval_ns + interval_ns / 2 + SLACK_NS) {
        text_from_duration(interval_ns, interval, sizeof(interval));
        check_add(d, CHECK_WARN, "DPU",
                  "set --dpu-node-lease-renew-interval alike on both sides; if it is, look for "
                  "retries in dpu-agent's log and metrics",
                  "it renewed the lease %s ago, but here a renewal is expected each %s", span,
                  interval);
    }
}

/* As ovn-kubernetes' own check does on the host at each of its starts. */
static bool check_writer(struct doctor *d, const json_t *lease)
{
    char host[256] = "";
    if (gethostname(host, sizeof(host) - 1) != 0 || !text_equal(lease_renewed_by(lease), host)) {
        return false;
    }
    check_add(
        d, CHECK_WARN, "lease",
        "turn off ovn-kubernetes' own health check on the host "
        "(dpu-node-lease-renew-interval=0); where the DPU has the host's name, give it another",
        "'%s', which is this host's name, wrote its renewTime last: a start of ovn-kubernetes' "
        "own health check is no sign of life of the DPU",
        host);
    return true;
}

static void check_renewal(struct doctor *d, const struct lease_view *lease, bool is_by_host)
{
    const struct node_snapshot *seen = &d->seen;
    const struct readiness *v = &seen->record.verdict;
    int64_t skew_ns;
    bool is_seen = seen->has_record && seen->gate.reason != REASON_RECORD_INVALID &&
                   v->observed.ns > 0 &&
                   (is_by_host || text_equal(v->lease.renew_stamp, lease->renew_stamp));
    if (lease->health != LEASE_HEALTH_NONE) {
        check_add(d, CHECK_FAIL, "DPU",
                  "mend what its probes found; 'journalctl -u dpu-agent' there",
                  "it says on the lease that it is %s: %s",
                  lease->health == LEASE_HEALTH_SHUTDOWN ? "shutting down" : "unhealthy",
                  lease->health_message);
    }
    if (lease->renew_stamp[0] == '\0') {
        check_add(d, CHECK_FAIL, "DPU",
                  "start dpu-agent on the DPU, with this node's name and its credential "
                  "(deploy/dpu-kubeconfig makes one)",
                  "it has never renewed the lease");
    } else if (is_seen) {
        check_age(d, lease, mono_since(seen->now, v->observed));
    } else if (!is_by_host) {
        check_stamp(d, lease);
    }
    if (is_seen && !is_by_host && lease->renew_time_valid && node_dpu_skew(seen, &skew_ns)) {
        check_clock(d, "the DPU's", skew_ns,
                    "set the DPU's clock: the readiness does not mind, but certificates and "
                    "tokens do");
    }
}

static void check_lease(struct doctor *d, const struct api_answer *answer, const json_t *node)
{
    const struct agent_config *a = &d->config.agent;
    struct lease_view lease;
    struct err e = ERR_INIT;
    if (!answer->body || lease_read(answer->body, &lease, &e) != 0) {
        check_add(d, answer->http_status == 403 ? CHECK_SKIP : CHECK_FAIL, "lease",
                  answer->http_status == 404
                      ? "the host's agent makes it: is it running, with this "
                        "node name and namespace?"
                      : "",
                  "%s/%s: %s", a->lease_namespace, a->lease_name,
                  answer->http_status == 404 ? "it does not exist"
                  : answer->body             ? e.msg
                                             : answer->message);
        return;
    }
    if (!text_equal(lease.holder, a->holder_identity)) {
        check_add(d, CHECK_FAIL, "lease",
                  "find out who that is; only renewals of the expected holder count "
                  "(--holder-identity)",
                  "%s/%s is held by '%s', not by '%s'", a->lease_namespace, a->lease_name,
                  lease.holder, a->holder_identity);
    } else {
        check_add(d, CHECK_PASS, "lease", "", "%s/%s is held by %s, for %u s", a->lease_namespace,
                  a->lease_name, lease.holder, lease.duration_s);
    }
    check_owner(d, answer->body, node);
    check_timers(d, &lease);
    check_renewal(d, &lease, check_writer(d, answer->body));
    if (lease.has_no_probe) {
        check_add(d, CHECK_WARN, "DPU", "set --probe=ovn-kubernetes there, or probes of your own",
                  "its dpu-agent asks no service: each renewal proves only that dpu-agent runs");
    }
}

/* ---- the API server -------------------------------------------------------------------------- */

#define HOST_AGENT "rbac/host-agent.yaml"
#define CONDITION  "rbac/host-agent-node-condition.yaml"
#define DRA        "rbac/host-agent-dra.yaml"
#define EVENTS     "rbac/host-agent-events.yaml"
#define LEASES     "coordination.k8s.io", "leases", NULL
#define SLICES     "resource.k8s.io", "resourceslices", ""

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
    {"get", LEASES, CHECK_FAIL, HOST_AGENT, "no proof can be had that the DPU is dead"},
    {"create", LEASES, CHECK_FAIL, HOST_AGENT, "the lease cannot be made"},
    {"update", LEASES, CHECK_WARN, HOST_AGENT, "a changed lease is not repaired"},
    {"list", LEASES, CHECK_WARN, HOST_AGENT, "the lease is polled, later and at a higher price"},
    {"watch", LEASES, CHECK_WARN, HOST_AGENT, "the lease is polled, later and at a higher price"},
    {"patch", LEASES, CHECK_WARN, HOST_AGENT,
     "a living DPU is called dead while the API server answers reads but takes no writes"},
    {"get", "", "nodes", "", CHECK_FAIL, HOST_AGENT,
     "the lease cannot be made, nor tied to its Node"},
    {"create", SLICES, CHECK_WARN, DRA, "with --dra=on, the DPU is no DRA device"},
    {"get", SLICES, CHECK_WARN, DRA, "with --dra=on, nobody sees that someone changed the slice"},
    {"list", SLICES, CHECK_WARN, DRA, "with --dra=on, slices of an earlier Node of that name stay"},
    {"watch", SLICES, CHECK_WARN, DRA,
     "with --dra=on, a slice that the kubelet removed is back a minute later"},
    {"update", SLICES, CHECK_WARN, DRA,
     "with --dra=on, the scheduler does not hear of an unhealthy DPU"},
    {"delete", SLICES, CHECK_WARN, DRA,
     "with --dra=on, slices of an earlier Node of that name stay"},
    {"get", "resource.k8s.io", "resourceclaims", "", CHECK_WARN, DRA,
     "with --dra=on, claims of the DPU cannot be prepared"},
    {"create", "events.k8s.io", "events", "default", CHECK_WARN, EVENTS,
     "with --events=on, changes are not told as Events of the Node"},
    {"patch", "", "nodes/status", "", CHECK_WARN, CONDITION,
     "with --node-condition, the Node has no condition DPUReady"},
};

struct questions {
    const struct api_answer *whoami;
    const struct api_answer *lease;
    const struct api_answer *node;
    const struct api_answer *bindings; /* of another node only; else its rights */
    const struct api_answer *rights[ARRAY_LEN(rights)];
};

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
    q->lease = api_ask(api, NULL,
                       mem_format("/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s",
                                  a->lease_namespace, a->lease_name));
    q->node = api_ask(api, NULL, mem_format("/api/v1/nodes/%s", a->node_name));
    if (d->config.node) {
        q->bindings =
            api_ask(api, NULL,
                    mem_format("/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
                               a->lease_namespace));
    }
    for (size_t i = 0; i < ARRAY_LEN(rights) && !d->config.node && !api->is_kubectls; i++) {
        q->rights[i] = ask_right(api, &rights[i], a);
    }
    api_wait(api);
}

static void check_expiry(struct doctor *d, const struct api *api)
{
    struct kube_expiry expiry;
    char span[PRINT_SPAN_BYTES];
    struct wall now = d->seen.wall;
    if (!kube_client_expiry(api->client, &expiry) || !kube_expiry_is_near(&expiry, now)) {
        return;
    }
    int64_t left_ns = wall_since(expiry.until, now);
    bool is_over = left_ns <= 0;
    check_add(d, is_over ? CHECK_FAIL : CHECK_WARN, "API",
              "renew the token or certificate; a pod's is the kubelet's to renew",
              "%s: the credential %s %s%s, by this host's clock", kube_client_describe(api->client),
              is_over ? "ran out" : "runs out in", print_span(left_ns, span),
              is_over ? " ago" : "");
}

static bool check_reach(struct doctor *d, const struct api *api, const struct questions *q)
{
    const char *server = kube_client_describe(api->client);
    const struct api_answer *lease = q->lease;
    const json_t *review = json_object_get(q->whoami->body, "status");
    const char *user = json_text_get(json_object_get(review, "userInfo"), "username");
    check_expiry(d, api);
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
        if (!answer) {
            continue;
        }
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

static void check_node(struct doctor *d, const struct api_answer *answer)
{
    const json_t *status = json_object_get(answer->body, "status");
    const json_t *info = json_object_get(status, "nodeInfo");
    const json_t *ready = fleet_find_type(json_object_get(status, "conditions"), "Ready");
    const char *message = json_text_get(ready, "message");
    if (!answer->body) {
        bool is_gone = answer->http_status == 404;
        check_add(d, is_gone ? CHECK_FAIL : CHECK_SKIP, "node",
                  is_gone ? "give --node-name, to dpuctl and to both agents" : "", "Node '%s': %s",
                  d->config.agent.node_name, is_gone ? "it does not exist" : answer->message);
        return;
    }
    print_clean(d->runtime_version, sizeof(d->runtime_version),
                json_text_get(info, "containerRuntimeVersion"));
    print_clean(d->kubelet_version, sizeof(d->kubelet_version),
                json_text_get(info, "kubeletVersion"));
    if (!fleet_node_is_marked(answer->body)) {
        check_add(d, CHECK_WARN, "node",
                  "kubectl label node NODE k8s.ovn.org/dpu-host= (the DaemonSet looks for it)",
                  "the Node has no label k8s.ovn.org/dpu-host");
    }
    if (!ready) {
        check_add(d, CHECK_SKIP, "node", "start its kubelet",
                  "the Node does not say whether it is Ready");
    } else if (text_equal(json_text_get(ready, "status"), "True")) {
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

/* The account that a binding gives the Role of DPUs to, if it is not one DPU's own; else NULL. */
static const json_t *shared_account(const json_t *binding)
{
    const char *role = json_text_get(json_object_get(binding, "roleRef"), "name");
    size_t len = role ? strlen(role) : 0;
    bool is_dpus = text_equal(role, "dpu-agent") || /* rbac/, or a release of the chart */
                   (len > 4 && text_equal(role + len - 4, "-dpu"));
    size_t i;
    const json_t *subject;
    json_array_foreach(json_object_get(binding, "subjects"), i, subject)
    {
        const char *name = json_text_get(subject, "name");
        bool is_account = text_equal(json_text_get(subject, "kind"), "ServiceAccount");
        if (is_dpus && is_account && name && strncmp(name, "dpu-agent-", 10) != 0) {
            return subject;
        }
    }
    return NULL;
}

/* The admission policy ties a DPU to its lease by its user, so it cannot where they have one. Who
 * may not look is not told. */
static void check_accounts(struct doctor *d, const struct api_answer *bindings)
{
    size_t i;
    const json_t *binding;
    json_array_foreach(json_object_get(bindings ? bindings->body : NULL, "items"), i, binding)
    {
        const json_t *account = shared_account(binding);
        const char *ns = json_text_get(account, "namespace");
        if (account) {
            check_add(d, CHECK_WARN, "rights",
                      "deploy/dpu-kubeconfig makes one for each DPU; where the platform hands out "
                      "the same to all, trust them all alike (docs/security.md)",
                      "DPUs share the account '%s/%s': no policy keeps one from renewing the "
                      "lease of another",
                      ns ? ns : "", json_text_get(account, "name"));
        }
    }
}

/* Rights, lease, Node: gives the versions, too. `rc` and `e` are api_open's. */
static void check_api(struct doctor *d, struct api *api, int rc, const struct err *e)
{
    struct questions q = {.whoami = NULL};
    if (!api) {
        bool is_none = rc == ERR_NOTFOUND && text_is_empty(d->config.agent.kubeconfig);
        check_add(d, is_none ? CHECK_SKIP : CHECK_FAIL, "API",
                  "give --kubeconfig: the agent's own shows what the agent may do", "%s", e->msg);
        check_add(d, CHECK_SKIP, "lease", "", "it cannot be read without the API server");
        return;
    }
    ask_questions(d, api, &q);
    if (!check_reach(d, api, &q)) {
        check_add(d, CHECK_SKIP, "lease", "", "it cannot be read without the API server");
    } else {
        if (!d->config.node && api->is_kubectls) {
            check_add(d, CHECK_SKIP, "rights", "give --kubeconfig=FILE, the agent's own",
                      "not asked: this kubeconfig is kubectl's, not the agent's");
        } else if (!d->config.node) {
            check_rights(d, &q);
        }
        check_lease(d, q.lease, q.node->body);
        check_node(d, q.node);
    }
    if (d->config.node) {
        check_accounts(d, q.bindings);
    }
}

/* ---- another node ---------------------------------------------------------------------------- */

/* The same judgement as in the table of `dpuctl nodes`. Returns whether the agent's pod gives its
 * sockets names for a rolling update. */
static bool check_verdict_from_afar(struct doctor *d, struct api *api, struct err *e)
{
    bool has_rolling_names = false;
    struct fleet fleet;
    if (!api || fleet_read(api, &fleet, e) != 0) {
        check_add(d, CHECK_SKIP, "verdict", "", "%s", e->msg);
        return false;
    }
    if (fleet.count == 0) {
        check_add(d, CHECK_FAIL, "verdict",
                  "kubectl label node NODE k8s.ovn.org/dpu-host= and start dpu-host-agent there",
                  "Node '%s' has neither a lease nor the label of a DPU's host",
                  d->config.agent.node_name);
    } else {
        const struct fleet_row *row = fleet.rows;
        bool is_ready = row->state == READINESS_READY;
        has_rolling_names = row->has_rolling_names;
        check_add(d,
                  is_ready                            ? CHECK_PASS
                  : row->state == READINESS_NOT_READY ? CHECK_FAIL
                                                      : CHECK_WARN,
                  "verdict", is_ready ? "" : readiness_reason_fix(row->reason), "%s (%s): %s",
                  readiness_state_name(row->state), row->reason, row->message);
    }
    fleet_fini(&fleet);
    return has_rolling_names;
}

/* All that can be said of another node. */
static void examine_from_afar(struct doctor *d)
{
    char command[CHECK_TEXT_BYTES];
    struct api *api = NULL;
    struct err e = ERR_INIT;
    d->seen.wall = clock_wall_now();
    int rc = api_open(&d->config, &api, &e);
    bool has_rolling_names = check_verdict_from_afar(d, api, &e);
    check_api(d, api, rc, &e);
    api_close(api);
    if (has_rolling_names) {
        check_rolling_names(d);
    }
    if (d->runtime_version[0]) {
        check_judge_runtime(d, d->runtime_version, NULL);
    }
    text_format(command, sizeof(command),
                "kubectl debug node/%.100s -it --image=dpu-heartbeat-host:%s --profile=sysadmin "
                "-- dpuctl doctor --root=/host",
                d->config.agent.node_name, DPU_VERSION);
    check_add(d, CHECK_SKIP, "host", command,
              "record, agent, CNI, the runtime's settings and the kubelet's sockets are seen on "
              "the node only");
}

/* ---- this node, and the command -------------------------------------------------------------- */

static void examine(struct doctor *d)
{
    static void (*const checks[])(struct doctor *) = {check_cni, check_cri, check_runtime,
                                                      check_kubelet};
    char path[PATH_MAX];
    struct api *api = NULL;
    struct err e = ERR_INIT;
    node_snapshot_take(&d->config, &d->seen);
    if (geteuid() != 0) {
        check_add(d, CHECK_SKIP, "user", "run it as root",
                  "not root: some of the files below may not be readable");
    }
    check_record(d);
    d->config.asks_runtime = pods_find_runtime(&d->config, path);
    int rc = api_open(&d->config, &api, &e);
    check_api(d, api, rc, &e);
    api_close(api);
    cni_scan_directory(admin_path(&d->config, d->config.cni_conf_dir, path, sizeof(path)), &d->cni);
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        checks[i](d);
    }
}

static size_t count_of(const struct doctor *d, enum check_outcome outcome)
{
    size_t count = 0;
    for (size_t i = 0; i < d->count; i++) {
        count += d->results[i].outcome == outcome;
    }
    return count;
}

static enum doctor_answer answer_of(const struct doctor *d)
{
    return count_of(d, CHECK_FAIL) > 0 ? BROKEN : count_of(d, CHECK_SKIP) > 0 ? UNCLEAR : WHOLE;
}

/* The links are in the order of the chain, so the first broken one explains later ones. */
static void print_end(const struct doctor *d)
{
    size_t warned = count_of(d, CHECK_WARN);
    size_t skipped = count_of(d, CHECK_SKIP);
    for (size_t i = 0; i < d->count; i++) {
        if (d->results[i].outcome == CHECK_FAIL) {
            (void)printf("\n%zu broken; begin with the first, %s: %s\n", count_of(d, CHECK_FAIL),
                         d->results[i].link, d->results[i].found);
            return;
        }
    }
    (void)printf("\nnothing is broken");
    if (warned + skipped > 0) {
        (void)printf("; %zu to think about, %zu not looked at", warned, skipped);
    }
    (void)putchar('\n');
}

static void print_text(const struct doctor *d)
{
    bool has_color = print_has_color(d->config.color);
    for (size_t i = 0; i < d->count; i++) {
        const struct check_result *r = &d->results[i];
        (void)printf("%s%s%s  %-8s %s\n", print_on(has_color, outcomes[r->outcome].color),
                     outcomes[r->outcome].text, print_off(has_color), r->link, r->found);
        if (r->mend[0] != '\0') {
            (void)printf("               %s-> %s%s\n", print_on(has_color, PRINT_HEAD), r->mend,
                         print_off(has_color));
        }
    }
    print_end(d);
}

static json_t *doctor_json(const struct doctor *d)
{
    static const char *const answers[] = {
        [WHOLE] = "Whole", [BROKEN] = "Broken", [UNCLEAR] = "Unknown"};
    json_t *checks = json_array();
    for (size_t i = 0; i < d->count; i++) {
        const struct check_result *r = &d->results[i];
        (void)json_array_append_new(checks, json_pack("{s:s, s:s, s:s, s:s}", "link", r->link,
                                                      "outcome", outcomes[r->outcome].name, "found",
                                                      r->found, "mend", r->mend));
    }
    return json_pack("{s:s, s:s, s:s, s:o}", "node", d->config.agent.node_name, "version",
                     DPU_VERSION, "answer", answers[answer_of(d)], "checks", checks);
}

static bool print_results(const struct doctor *d)
{
    if (d->config.output != ADMIN_TEXT) {
        return print_json(doctor_json(d), d->config.output == ADMIN_YAML, stdout);
    }
    print_text(d);
    return fflush(stdout) == 0;
}

int doctor_run(struct admin_config *config)
{
    CLEANUP(free) struct doctor *d = MEM_NEW(struct doctor); /* large */
    d->config = *config;
    if (config->node) {
        examine_from_afar(d);
    } else {
        examine(d);
    }
    return print_results(d) ? (int)answer_of(d) : UNCLEAR;
}
