/* SPDX-License-Identifier: Apache-2.0 */
/* Judgements on what else is in the cluster: who may write leases, and what ovn-kubernetes has set.
 * Pure but for the requests at the end. */
#include "dpuctl/doctor.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "contract/names.h"
#include "dpuctl/api.h"
#include "dpuctl/print.h"

#include <string.h>

enum { SHARERS_SHOWN = 8 };

/* ---- who may renew the leases of several DPUs ------------------------------------------------ */

/* A rule's list has the word, or stands for all of them. */
static bool covers(const json_t *list, const char *word)
{
    size_t i;
    const json_t *entry;
    json_array_foreach(list, i, entry)
    {
        const char *text = json_string_value(entry);
        if (text_equal(text, "*") || text_equal(text, word)) {
            return true;
        }
    }
    return false;
}

/* Lays into `leases` the names of those that the rule lets renew; "*": all of them. */
static void add_rule(json_t *leases, const json_t *rule)
{
    const json_t *verbs = json_object_get(rule, "verbs");
    const json_t *names = json_object_get(rule, "resourceNames");
    size_t i;
    const json_t *entry;
    if (!covers(json_object_get(rule, "apiGroups"), "coordination.k8s.io") ||
        !covers(json_object_get(rule, "resources"), "leases") ||
        (!covers(verbs, "update") && !covers(verbs, "patch"))) {
        return;
    }
    if (json_array_size(names) == 0) {
        print_json_put(leases, "*", json_true());
    }
    json_array_foreach(names, i, entry)
    {
        const char *name = json_string_value(entry);
        if (name && strncmp(name, NAMES_LEASE_PREFIX, strlen(NAMES_LEASE_PREFIX)) == 0) {
            print_json_put(leases, name, json_true());
        }
    }
}

static const char *name_of(const json_t *object)
{
    const char *name = json_text_get(json_object_get(object, "metadata"), "name");
    return name ? name : "";
}

static const json_t *find_named(const json_t *items, const char *name)
{
    size_t i;
    const json_t *item;
    json_array_foreach(items, i, item)
    {
        if (text_equal(name_of(item), name)) {
            return item;
        }
    }
    return NULL;
}

/* The cluster's own, which watch over all objects, and ours, which admission policies tie to the
 * lease of their node (rbac/dpu-admission.yaml, rbac/host-admission.yaml). */
static bool is_trusted(const char *kind, const char *ns, const char *name, const char *lease_ns)
{
    static const char *const people[] = {
        "system:masters",     "system:kube-",        "dpu-heartbeat:dpus",
        "dpu-heartbeat:dpu:", "dpu-heartbeat:hosts", "dpu-heartbeat:host:"};
    static const char *const accounts[] = {"dpu-agent-", "dpu-host-agent"};
    bool is_account = text_equal(kind, "ServiceAccount");
    const char *const *trusted = is_account ? accounts : people;
    size_t count = is_account ? ARRAY_LEN(accounts) : ARRAY_LEN(people);
    if (is_account && !text_equal(ns, lease_ns)) {
        return text_equal(ns, "kube-system");
    }
    for (size_t i = 0; i < count; i++) {
        if (strncmp(name, trusted[i], strlen(trusted[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* A rule that allows all there is; who has it by a name of people is an administrator. */
static bool is_of_administrators(const json_t *role, const char *kind, const char *name)
{
    size_t i;
    const json_t *rule;
    bool is_system = strncmp(name, "system:", 7) == 0;
    json_array_foreach(json_object_get(role, "rules"), i, rule)
    {
        if (!is_system && !text_equal(kind, "ServiceAccount") &&
            covers(json_object_get(rule, "apiGroups"), "") &&
            covers(json_object_get(rule, "apiGroups"), "rbac.authorization.k8s.io") &&
            covers(json_object_get(rule, "resources"), "secrets") &&
            covers(json_object_get(rule, "verbs"), "escalate")) {
            return true;
        }
    }
    return false;
}

/* Lays what the binding grants into `sharers`, by subject: {"leases": {...}, "by": "Role 'x'"}. */
static void add_binding(json_t *sharers, const json_t *binding, const json_t *role,
                        const char *lease_ns)
{
    char who[2 * NAMES_K8S_NAME_BYTES + 32];
    char by[NAMES_K8S_NAME_BYTES + 32];
    CLEANUP(json) json_t *leases = json_object();
    size_t i;
    const json_t *entry;
    json_array_foreach(json_object_get(role, "rules"), i, entry)
    {
        add_rule(leases, entry);
    }
    const json_t *ref = json_object_get(binding, "roleRef");
    const char *ref_kind = json_text_get(ref, "kind");
    text_format(by, sizeof(by), "%s '%s'", ref_kind ? ref_kind : "", name_of(role));
    json_array_foreach(json_object_get(binding, "subjects"), i, entry)
    {
        const char *kind = json_text_get(entry, "kind");
        const char *name = json_text_get(entry, "name");
        const char *ns = json_text_get(entry, "namespace");
        if (json_object_size(leases) == 0 || !kind || !name ||
            is_trusted(kind, ns, name, lease_ns) || is_of_administrators(role, kind, name)) {
            continue;
        }
        bool has_ns = text_equal(kind, "ServiceAccount") && ns;
        text_format(who, sizeof(who), "%s '%s%s%s'", kind, has_ns ? ns : "", has_ns ? "/" : "",
                    name);
        json_t *sharer = json_object_get(sharers, who);
        if (!sharer) {
            sharer = json_pack("{s:{}, s:o}", "leases", "by", print_json_text(by));
            print_json_put(sharers, who, sharer);
        }
        (void)json_object_update(json_object_get(sharer, "leases"), leases);
    }
}

static void add_bindings(json_t *sharers, const json_t *bindings, const struct cluster_rights *r,
                         const char *lease_ns)
{
    size_t i;
    const json_t *binding;
    json_array_foreach(bindings, i, binding)
    {
        const json_t *ref = json_object_get(binding, "roleRef");
        bool is_role = text_equal(json_text_get(ref, "kind"), "Role");
        const char *name = json_text_get(ref, "name");
        const json_t *role = find_named(is_role ? r->roles : r->cluster_roles, name ? name : "");
        if (role) { /* else it grants nothing */
            add_binding(sharers, binding, role, lease_ns);
        }
    }
}

void check_judge_rights(struct doctor *d, const struct cluster_rights *r)
{
    CLEANUP(json) json_t *sharers = json_object();
    const char *lease_ns = d->config.agent.lease_namespace;
    size_t shown = 0;
    size_t more = 0;
    const char *who;
    const json_t *sharer;
    add_bindings(sharers, r->bindings, r, lease_ns);
    add_bindings(sharers, r->cluster_bindings, r, lease_ns);
    json_object_foreach(sharers, who, sharer)
    {
        const json_t *leases = json_object_get(sharer, "leases");
        bool is_all = json_object_get(leases, "*") != NULL;
        if (!is_all && json_object_size(leases) < 2) {
            continue; /* its own */
        }
        if (shown == SHARERS_SHOWN) {
            more++;
            continue;
        }
        shown++;
        check_add(d, CHECK_WARN, "rights",
                  "give each DPU its own account (deploy/dpu-kubeconfig), or trust all DPUs alike "
                  "(docs/security.md)",
                  "%s may renew %s in %s (by %s): no policy keeps one DPU that has it from "
                  "renewing another's lease",
                  who, is_all ? "any lease" : "the leases of several DPUs", lease_ns,
                  json_text_get(sharer, "by"));
    }
    if (more > 0) {
        check_add(d, CHECK_WARN, "rights", "", "%zu more may renew leases of several DPUs", more);
    }
}

/* ---- ovn-kubernetes' own check --------------------------------------------------------------- */

#define INTERVAL "dpu-node-lease-renew-interval"

/* The value that stands behind each mention of the option: "=0", " 0", "= 0". */
static bool says_zero(const char *text)
{
    for (const char *at = strstr(text, INTERVAL); at; at = strstr(at + 1, INTERVAL)) {
        const char *value = at + strlen(INTERVAL);
        value += strspn(value, " \t=\"'");
        size_t digits = strspn(value, "0123456789");
        if (digits > 0 && strspn(value, "0") == digits && value != at + strlen(INTERVAL)) {
            return true;
        }
    }
    return false;
}

/* A line that sets it to 0, and is no comment. */
static bool is_zero_in_file(const char *text)
{
    char line[256];
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        text += strspn(text, " \t");
        text_format(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
        if (line[0] != '#' && line[0] != ';' && says_zero(line)) {
            return true;
        }
    }
    return false;
}

/* The arguments as one text. Returns owned. */
static char *words_of(const json_t *container)
{
    static const char *const lists[] = {"command", "args"};
    char *words = mem_strdup("");
    for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
        size_t i;
        const json_t *word;
        json_array_foreach(json_object_get(container, lists[k]), i, word)
        {
            CLEANUP(free) char *before = words;
            const char *text = json_string_value(word);
            words = mem_format("%s %s", before, text ? text : "");
        }
    }
    return words;
}

static const char *env_of(const json_t *container, const char *name)
{
    const json_t *env = json_text_find(json_object_get(container, "env"), "name", name);
    const char *value = json_text_get(env, "value");
    return value ? value : "";
}

static bool is_off(const json_t *container, const char *file)
{
    CLEANUP(free) char *words = words_of(container);
    if (strstr(words, INTERVAL)) { /* it goes before the file */
        return says_zero(words);
    }
    const char *value = env_of(container, "DPU_NODE_LEASE_RENEW_INTERVAL");
    return value[0] != '\0' ? text_equal(value, "0") : is_zero_in_file(file);
}

/* Of an image's tag: "v1.3.0" and "1.3.0-2" are it, "v1.4.0" and later are not; else nobody knows.
 */
static bool is_mended(const char *image)
{
    const char *slash = strrchr(image, '/');
    const char *colon = strchr(slash ? slash : image, ':');
    const char *tag = colon ? colon + 1 : "";
    uint64_t major;
    uint64_t minor;
    tag += *tag == 'v';
    size_t major_len = strspn(tag, "0123456789");
    const char *rest = tag + major_len + (tag[major_len] == '.');
    return text_to_u64(tag, major_len, &major, NULL) == 0 &&
           text_to_u64(rest, strspn(rest, "0123456789"), &minor, NULL) == 0 &&
           (major > 1 || (major == 1 && minor > 3));
}

void check_judge_upstream(struct doctor *d, const json_t *daemon_sets, const json_t *config_map)
{
    const char *file = json_text_get(json_object_get(config_map, "data"), "ovnkube.conf");
    size_t i;
    size_t k;
    const json_t *set;
    const json_t *container;
    json_array_foreach(daemon_sets, i, set)
    {
        const json_t *pod =
            json_object_get(json_object_get(json_object_get(set, "spec"), "template"), "spec");
        json_array_foreach(json_object_get(pod, "containers"), k, container)
        {
            const char *image = json_text_get(container, "image");
            bool is_host = text_equal(env_of(container, "OVNKUBE_NODE_MODE"), "dpu-host") ||
                           strstr(name_of(set), "dpu-host");
            if (is_host && strstr(name_of(set), "ovnkube") && is_off(container, file ? file : "") &&
                !is_mended(image ? image : "")) {
                check_add(d, CHECK_WARN, "CNI",
                          "set it to 10 again on the hosts, or run a build with upstream's commit "
                          "0fe6e3d96 (docs/upstream.md)",
                          "DaemonSet '%s' (%s) has " INTERVAL "=0: with ovn-kubernetes 1.3.0 every "
                          "ADD and STATUS ends with EOF",
                          name_of(set), image ? image : "no image");
                break;
            }
        }
    }
}

/* ---- what keeps new Pods off a Node ---------------------------------------------------------- */

#define WAYS      "choose a way: docs/monitoring.md, Make scheduling stop"
#define DPF_HOST  "feature.node.kubernetes.io/dpu-enabled"
#define DPF_TAINT "dpu.nvidia.com/dpu-ready"

static const struct check_row of_scheduling[] = {
    {"scheduling", CHECK_PASS, "byStatus",
     "while the DPU is not ready, the Node is NotReady: the runtime polls STATUS, which dpu-gate "
     "answers",
     ""},
    {"scheduling", CHECK_PASS, "rule condition",
     "while {conditionType} is not True, the NodeReadinessRule '{rule}' taints the Node", ""},
    {"scheduling", CHECK_WARN, "rule !condition",
     "the NodeReadinessRule '{rule}' goes by {conditionType}, a condition that the Node does not "
     "have",
     "set --node-condition and --node-condition-firm for dpu-host-agent"},
    {"scheduling", CHECK_PASS, "isTaintedByDPF", "DPF has tainted the Node with " DPF_TAINT, ""},
    {"scheduling", CHECK_SKIP, "!isAny why",
     "dpuctl cannot see what keeps new Pods away while the DPU is not ready: {why}", ""},
    {"scheduling", CHECK_WARN, "!isAny !why",
     "nothing keeps new Pods away while the DPU is not ready: the scheduler places them here, "
     "where they wait",
     WAYS},
};

/* Whether all labels that the rule selects by are on the Node. Expressions are taken to fit. */
static bool is_selected(const json_t *rule, const json_t *labels)
{
    const json_t *selector = json_object_get(rule, "nodeSelector");
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(selector, "matchLabels"), key, value)
    {
        if (!json_equal(json_object_get(labels, key), value)) {
            return false;
        }
    }
    return true;
}

/* The condition of ours that a rule goes by at all times, not only at a Node's first start; or
 * NULL. With two DPUs each has its own (DRIVER/DPUReady). */
static const char *condition_of(const json_t *rule)
{
    static const char ours[] = "DPUReady";
    size_t i;
    const json_t *condition;
    if (!text_equal(json_text_get(rule, "enforcementMode"), "continuous") ||
        json_is_true(json_object_get(rule, "dryRun"))) {
        return NULL;
    }
    json_array_foreach(json_object_get(rule, "conditions"), i, condition)
    {
        const char *type = json_text_get(condition, "type");
        const char *slash = type ? strrchr(type, '/') : NULL;
        if (text_equal(slash ? slash + 1 : type, ours)) {
            return type;
        }
    }
    return NULL;
}

void check_note_scheduling(struct doctor *d, const json_t *node, const json_t *rules,
                           bool may_see_rules)
{
    const json_t *labels = json_object_get(json_object_get(node, "metadata"), "labels");
    const json_t *conditions = json_object_get(json_object_get(node, "status"), "conditions");
    const json_t *taints = json_object_get(json_object_get(node, "spec"), "taints");
    bool has_condition = json_text_find(conditions, "type", "DPUReady") != NULL;
    bool is_dpf = text_equal(json_text_get(labels, DPF_HOST), "true");
    json_t *tree = json_object();
    size_t i;
    const json_t *each;
    json_array_foreach(rules, i, each)
    {
        const json_t *rule = json_object_get(each, "spec");
        const char *type = is_selected(rule, labels) ? condition_of(rule) : NULL;
        if (type) {
            print_json_put(tree, "rule", print_json_text(name_of(each)));
            print_json_put(tree, "conditionType", print_json_text(type));
            print_json_put(tree, "condition",
                           json_boolean(json_text_find(conditions, "type", type) != NULL));
        }
    }
    print_json_put(tree, "isTaintedByDPF",
                   json_boolean(json_text_find(taints, "key", DPF_TAINT) != NULL));
    /* What may keep Pods away and is not seen. A rule needs a condition to go by. */
    print_json_put(tree, "why",
                   print_json_text(!node    ? "the Node cannot be read"
                                   : is_dpf ? "DPF does so if dpu-agent's DPUService has the label "
                                              "svc.dpu.nvidia.com/critical"
                                   : !may_see_rules && has_condition
                                       ? "a NodeReadinessRule may, which this user may not list"
                                       : NULL));
    print_json_put(d->doc, "scheduling", tree);
}

/* What was said above of a link. */
static bool has_check(const struct doctor *d, const char *link, const char *outcome)
{
    size_t i;
    const json_t *check;
    json_array_foreach(d->checks, i, check)
    {
        if (text_equal(json_text_get(check, "link"), link) &&
            text_equal(json_text_get(check, "outcome"), outcome)) {
            return true;
        }
    }
    return false;
}

void check_scheduling(struct doctor *d)
{
    json_t *tree = json_object_get(d->doc, "scheduling");
    bool polls = has_check(d, "runtime", "pass");
    bool may_poll = polls || has_check(d, "runtime", "skip");
    bool is_gated = has_check(d, "CNI", "pass");
    /* Through Multus it depends on Multus's version, which its file does not tell. */
    bool may_be_gated = is_gated || d->config.node || has_check(d, "CNI", "skip") ||
                        print_holds(d->cni, "first.isMultus");
    bool by_status = (polls && is_gated) || print_holds(d->doc, "kube.isByGate");
    if (!tree) {
        return; /* without the API server there is nothing to say */
    }
    if (!print_holds(tree, "why") && may_poll && may_be_gated) {
        print_json_put(tree, "why",
                       json_string("STATUS does so if the runtime polls it and dpu-gate answers"));
    }
    print_json_put(tree, "byStatus", json_boolean(by_status));
    print_json_put(tree, "isAny",
                   json_boolean(by_status || print_holds(tree, "rule") ||
                                print_holds(tree, "isTaintedByDPF")));
    check_rows(d, tree, of_scheduling, ARRAY_LEN(of_scheduling));
}

/* ---- the requests ---------------------------------------------------------------------------- */

#define RBAC "/apis/rbac.authorization.k8s.io/v1"

void cluster_ask(struct api *api, const char *ns, struct cluster_questions *q)
{
    q->roles = api_ask(api, NULL, mem_format(RBAC "/namespaces/%s/roles", ns));
    q->bindings = api_ask(api, NULL, mem_format(RBAC "/namespaces/%s/rolebindings", ns));
    q->cluster_roles = api_ask(api, NULL, mem_strdup(RBAC "/clusterroles"));
    q->cluster_bindings = api_ask(api, NULL, mem_strdup(RBAC "/clusterrolebindings"));
    q->daemon_sets = api_ask(api, NULL, mem_format("/apis/apps/v1/namespaces/%s/daemonsets", ns));
    q->config_map =
        api_ask(api, NULL, mem_format("/api/v1/namespaces/%s/configmaps/ovnkube-config", ns));
}

static const json_t *items_of(const struct api_answer *answer)
{
    return json_object_get(answer ? answer->body : NULL, "items");
}

/* Who may read nothing of it is no administrator, and is not told about it. */
static void check_sight(struct doctor *d, const struct cluster_questions *q)
{
    const struct api_answer *const answers[] = {q->roles, q->bindings, q->cluster_roles,
                                                q->cluster_bindings};
    const char *problem = NULL;
    size_t seen = 0;
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        bool is_seen = items_of(answers[i]) != NULL;
        seen += is_seen;
        problem = is_seen || !answers[i] ? problem : answers[i]->message;
    }
    if (seen > 0 && problem) {
        check_add(d, CHECK_SKIP, "rights", "let dpuctl list roles and bindings, also the cluster's",
                  "who may renew leases: not all can be read: %s", problem);
    }
}

void check_cluster(struct doctor *d, const struct cluster_questions *q)
{
    const struct cluster_rights rights = {.roles = items_of(q->roles),
                                          .bindings = items_of(q->bindings),
                                          .cluster_roles = items_of(q->cluster_roles),
                                          .cluster_bindings = items_of(q->cluster_bindings)};
    check_sight(d, q);
    check_judge_rights(d, &rights);
    check_judge_upstream(d, items_of(q->daemon_sets), q->config_map ? q->config_map->body : NULL);
}
