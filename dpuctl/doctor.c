/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/doctor.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/lease.h"
#include "dpuctl/api.h"
#include "dpuctl/node.h"
#include "dpuctl/options.h"
#include "dpuctl/print.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char summary[] =
    "Checks the whole chain from the DPU to a pod, link by link, and says how to mend what is "
    "broken. 'dpuctl doctor NODE' does that for another node, as far as the API server knows. "
    "Changes nothing, and needs no agent to be alive. Run it as root on the node, with the "
    "agent's own kubeconfig. Exit status: 0 whole (warnings are allowed), 1 broken, 2 unknown "
    "(nothing is broken, but not everything could be looked at), 64 wrong usage.";

enum { FLAG_BYTES = 320 }; /* a name that does not fit is none */

/* Of the whole chain; also the exit status. */
enum health { WHOLE, BROKEN, UNCLEAR };

static const char *const outcome_names[] = {
    [CHECK_PASS] = "pass", [CHECK_WARN] = "warn", [CHECK_FAIL] = "fail", [CHECK_SKIP] = "skip"};

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
    (void)vsnprintf(found, sizeof(found), found_format, args); /* cut again by the next */
    va_end(args);
    text_sanitize(result->found, sizeof(result->found), found, strlen(found));
    text_sanitize(result->mend, sizeof(result->mend), mend, strlen(mend));
}

static void examine(struct doctor *d)
{
    char dir[PATH_MAX];
    if (d->is_remote) {
        check_from_afar(d);
        return;
    }
    node_look_take(&d->config, &d->look);
    if (geteuid() != 0) {
        check_add(d, CHECK_SKIP, "user", "run it as root",
                  "not root: some of the files below may not be readable");
    }
    check_record(d);
    d->config.asks_runtime = pods_find_runtime(&d->config, dir);
    check_api(d);
    cni_scan_directory(admin_path(&d->config, d->config.cni_conf_dir, dir, sizeof(dir)), &d->cni);
    check_cni(d);
    check_cri(d);
    check_runtime(d);
    check_kubelet(d);
}

static size_t count_of(const struct doctor *d, enum check_outcome outcome)
{
    size_t count = 0;
    for (size_t i = 0; i < d->count; i++) {
        count += d->results[i].outcome == outcome;
    }
    return count;
}

static enum health health_of(const struct doctor *d)
{
    return count_of(d, CHECK_FAIL) > 0 ? BROKEN : count_of(d, CHECK_SKIP) > 0 ? UNCLEAR : WHOLE;
}

/* ---- for a person ---------------------------------------------------------------------------- */

static void print_result(const struct check_result *r, bool has_color)
{
    static const enum screen_color colors[] = {[CHECK_PASS] = SCREEN_GOOD,
                                               [CHECK_WARN] = SCREEN_DOUBT,
                                               [CHECK_FAIL] = SCREEN_BAD,
                                               [CHECK_SKIP] = SCREEN_FAINT};
    (void)printf("%s%s%s  %-8s %s\n", screen_on(has_color, colors[r->outcome]),
                 r->outcome == CHECK_FAIL ? "FAIL" : outcome_names[r->outcome],
                 screen_off(has_color), r->link, r->found);
    if (r->mend[0] != '\0') {
        (void)printf("               %s-> %s%s\n", screen_on(has_color, SCREEN_HEAD), r->mend,
                     screen_off(has_color));
    }
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
    (void)printf("\nnothing is broken%s", warned + skipped > 0 ? "" : "\n");
    if (warned + skipped > 0) {
        (void)printf("; %zu to think about, %zu not looked at\n", warned, skipped);
    }
}

static bool print_text(const struct doctor *d)
{
    bool has_color = screen_has_color((enum admin_color)d->config.color);
    for (size_t i = 0; i < d->count; i++) {
        print_result(&d->results[i], has_color);
    }
    print_end(d);
    return fflush(stdout) == 0;
}

/* ---- for a program --------------------------------------------------------------------------- */

static json_t *tree_of(const struct doctor *d)
{
    static const char *const healths[] = {
        [WHOLE] = "Whole", [BROKEN] = "Broken", [UNCLEAR] = "Unknown"};
    CLEANUP(json) json_t *checks = json_array();
    for (size_t i = 0; i < d->count; i++) {
        const struct check_result *r = &d->results[i];
        json_t *check = json_pack("{s:s, s:s, s:s, s:s}", "link", r->link, "outcome",
                                  outcome_names[r->outcome], "found", r->found, "mend", r->mend);
        if (json_array_append_new(checks, check) != 0) {
            return NULL;
        }
    }
    return json_pack("{s:s, s:s, s:s, s:O}", "node", d->config.agent.node_name, "version",
                     DPU_VERSION, "answer", healths[health_of(d)], "checks", checks);
}

static bool print(const struct doctor *d)
{
    if (d->config.output == ADMIN_TEXT) {
        return print_text(d);
    }
    return json_print(tree_of(d), d->config.output == ADMIN_YAML, stdout);
}

/* "doctor NODE ..." is "doctor --node-name=NODE ...", and another node. */
static void take_node(struct doctor *d, int argc, char **argv, char flag[static FLAG_BYTES])
{
    d->is_remote = argc > 1 && argv[1][0] != '-' && argv[1][0] != '\0';
    if (d->is_remote) {
        text_format(flag, FLAG_BYTES, "--node-name=%s", argv[1]);
        argv[1] = flag;
    }
}

int doctor_main(int argc, char **argv)
{
    char flag[FLAG_BYTES];
    int status = UNCLEAR;
    (void)signal(SIGPIPE, SIG_IGN);           /* seen by the flush */
    struct doctor *d = calloc(1, sizeof(*d)); /* large */
    if (!d) {
        (void)fputs("dpuctl doctor: out of memory\n", stderr);
        return status;
    }
    take_node(d, argc, argv, flag);
    if (admin_options_parse("dpuctl doctor", summary, argc, argv, &d->config, &status)) {
        log_setup(LOG_ERROR, LOG_TEXT, "");
        examine(d);
        status = print(d) ? (int)health_of(d) : UNCLEAR;
        admin_options_fini(&d->config);
    }
    free(d);
    return status;
}

#define SLACK_NS        (1 * NS_PER_SEC) /* a renewal's way to us, and a busy machine */
#define SKEW_NOTABLE_NS (5 * NS_PER_SEC)

void check_clock(struct doctor *d, const char *whose, int64_t skew_ns, const char *mend)
{
    char span[SCREEN_SPAN_BYTES];
    if (skew_ns > SKEW_NOTABLE_NS || skew_ns < -SKEW_NOTABLE_NS) {
        check_add(d, CHECK_WARN, "clocks", mend, "%s clock is %s %s of this host's", whose,
                  screen_span(skew_ns, span), skew_ns > 0 ? "ahead" : "behind");
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
    char interval[SCREEN_SPAN_BYTES];
    int64_t ours_s = a->lease_duration_ns / NS_PER_SEC;
    int64_t lasts_ns = (int64_t)lease->duration_s * NS_PER_SEC;
    if (lease->duration_s == 0) {
        check_add(d, CHECK_FAIL, "lease", "the agent repairs that if it may update",
                  "it has no duration");
        return;
    }
    if (a->renew_interval_ns == 0) {
        return; /* the health check is off here */
    }
    if (lasts_ns <= a->renew_interval_ns) {
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
    char span[SCREEN_SPAN_BYTES];
    int64_t age_ns = lease->renew_time_valid ? wall_since(d->look.wall, lease->renew_time) : 0;
    if (age_ns > (int64_t)lease->duration_s * NS_PER_SEC) {
        check_add(d, CHECK_WARN, "DPU", "look at the DPU: power, network, clock",
                  "it renewed the lease at %s by its own clock: %s ago, but it lasts %u s",
                  lease->renew_stamp, screen_span(age_ns, span), lease->duration_s);
    } else {
        check_add(d, CHECK_PASS, "DPU", "", "it renewed the lease at %s by its own clock",
                  lease->renew_stamp);
    }
}

/* Only a renewal that is overdue for our interval shows that the DPU keeps another one. */
static void check_interval(struct doctor *d, int64_t age_ns)
{
    char span[SCREEN_SPAN_BYTES];
    char interval[SCREEN_SPAN_BYTES];
    int64_t interval_ns = d->config.agent.renew_interval_ns;
    if (interval_ns == 0 || age_ns <= interval_ns + interval_ns / 2 + SLACK_NS) {
        return;
    }
    text_from_duration(interval_ns, interval, sizeof(interval));
    check_add(d, CHECK_WARN, "DPU",
              "set --dpu-node-lease-renew-interval alike on both sides; if it is, look for retries "
              "in dpu-agent's log and metrics",
              "it renewed the lease %s ago, but here a renewal is expected each %s",
              screen_span(age_ns, span), interval);
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
    const struct node_look *look = &d->look;
    const struct readiness *v = &look->record.verdict;
    char span[SCREEN_SPAN_BYTES];
    bool is_seen = look->has_record && look->gate.reason != REASON_RECORD_INVALID &&
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
        return;
    }
    if (!is_seen) {
        if (!is_by_host) {
            check_stamp(d, lease);
        }
        return;
    }
    int64_t age_ns = mono_since(look->now, v->observed);
    bool is_late = age_ns > (int64_t)lease->duration_s * NS_PER_SEC;
    check_add(d, is_late ? CHECK_FAIL : CHECK_PASS, "DPU",
              is_late ? "look at the DPU: power, network, 'systemctl status dpu-agent' there" : "",
              "it renewed the lease %s ago; it lasts %u s", screen_span(age_ns, span),
              lease->duration_s);
    if (!is_late) {
        check_interval(d, age_ns);
    }
    int64_t skew_ns;
    if (!is_by_host && lease->renew_time_valid && node_look_dpu_skew(look, &skew_ns)) {
        check_clock(d, "the DPU's", skew_ns,
                    "set the DPU's clock: the readiness does not mind, but certificates and "
                    "tokens do");
    }
}

static void check_probes(struct doctor *d, const struct lease_view *lease)
{
    if (lease->has_no_probe) {
        check_add(d, CHECK_WARN, "DPU", "set --probe=ovn-kubernetes there, or probes of your own",
                  "its dpu-agent asks no service: each renewal proves only that dpu-agent runs");
    }
}

void check_lease(struct doctor *d, const struct api_answer *answer, const json_t *node)
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
    check_probes(d, &lease);
}

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

/* The same judgement as in the table of `dpuctl nodes`. Returns whether the agent's pod gives its
 * sockets names for a rolling update. */
static bool check_verdict_from_afar(struct doctor *d)
{
    bool has_rolling_names = false;
    const struct admin_config *c = &d->config;
    const struct fleet_config look = {.kubeconfig = c->agent.kubeconfig,
                                      .context = c->context,
                                      .ns = c->agent.lease_namespace,
                                      .holder = c->agent.holder_identity,
                                      .driver = c->driver,
                                      .api_timeout_ns = admin_time_left_ns(c),
                                      .node = c->agent.node_name};
    struct fleet fleet;
    struct err e = ERR_INIT;
    if (fleet_read(&look, &fleet, &e) != 0) {
        check_add(d, CHECK_SKIP, "verdict", "", "%s", e.msg);
        return false;
    }
    if (fleet.count == 0) {
        check_add(d, CHECK_FAIL, "verdict",
                  "kubectl label node NODE k8s.ovn.org/dpu-host= and start dpu-host-agent there",
                  "Node '%s' has neither a lease nor the label of a DPU's host", look.node);
    } else {
        const struct fleet_row *row = fleet.rows;
        has_rolling_names = row->has_rolling_names;
        check_add(d,
                  row->state == READINESS_READY       ? CHECK_PASS
                  : row->state == READINESS_NOT_READY ? CHECK_FAIL
                                                      : CHECK_WARN,
                  "verdict", row->state == READINESS_READY ? "" : readiness_reason_fix(row->reason),
                  "%s (%s): %s", readiness_state_name(row->state), row->reason, row->message);
    }
    fleet_fini(&fleet);
    return has_rolling_names;
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
static void check_accounts(struct doctor *d)
{
    struct api_reader *api;
    size_t i;
    const json_t *binding;
    if (api_reader_open(&d->config, &api, NULL) != 0) {
        return; /* check_api says why */
    }
    const struct api_answer *answer =
        api_reader_ask(api, NULL, "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
                       d->config.agent.lease_namespace);
    api_reader_wait(api);
    json_array_foreach(json_object_get(answer->body, "items"), i, binding)
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
    api_reader_close(api);
}

void check_from_afar(struct doctor *d)
{
    char command[CHECK_TEXT_BYTES];
    d->look = (struct node_look){.wall = clock_wall_now()};
    bool has_rolling_names = check_verdict_from_afar(d);
    check_api(d);
    check_accounts(d);
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
