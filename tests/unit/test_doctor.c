/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/doctor.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "dpuctl/print.h"
#include "tests/support/case.h"

static struct doctor *new_doctor(void)
{
    struct doctor *d = calloc(1, sizeof(*d)); /* large */
    assert_non_null(d);
    d->checks = json_array();
    return d;
}

static void end(struct doctor *d)
{
    json_decref(d->cni);
    json_decref(d->checks);
    free(d);
}

static void expect(const struct doctor *d, size_t index, const char *outcome, const char *found)
{
    const json_t *check = json_array_get(d->checks, index);
    assert_string_equal(json_string_value(json_object_get(check, "outcome")), outcome);
    assert_non_null(strstr(json_string_value(json_object_get(check, "found")), found));
}

TEST(texts_from_outside_stay_on_their_line)
{
    struct doctor *d = new_doctor();
    check_add(d, CHECK_FAIL, "link", "mend\nit", "%s", "a\033]0;b\nc");
    expect(d, 0, "fail", "a ]0;b c");
    assert_true(print_holds(json_array_get(d->checks, 0), "mend !mend=mend\nit"));
    end(d);
}

/* ---- CNI: lists that a directory of files cannot easily make --------------------------------- */

/* Files as cni_scan_json gives them; the first that is whole is taken. */
static struct doctor *see_files(const char *files)
{
    struct doctor *d = new_doctor();
    size_t i;
    json_t *entry;
    d->cni = json_pack("{s:n, s:o}", "problem", "files", json_loads(files, 0, NULL));
    assert_non_null(d->cni);
    json_array_foreach(json_object_get(d->cni, "files"), i, entry)
    {
        if (!json_object_get(entry, "problem") && !json_object_get(d->cni, "first")) {
            assert_int_equal(json_object_set(d->cni, "first", entry), 0);
        }
    }
    return d;
}

TEST(a_broken_gate_alone_is_no_gate_and_one_that_cannot_be_read_is_not_accused)
{
    struct doctor *d = see_files("[{\"file\": \"a\", \"problem\": \"it names no network\", "
                                 "\"isGated\": true}]");
    assert_int_equal(json_object_set_new(d->cni, "more", json_integer(2)), 0);
    check_cni(d);
    assert_int_equal(json_array_size(d->checks), 3);
    expect(d, 0, "fail", "names no network");
    expect(d, 1, "warn", "2 more files");
    expect(d, 2, "warn", "that a runtime can use");
    end(d);
    /* What only we may not read accuses nobody. */
    d = see_files("[{\"file\": \"05-dpu-gate.conflist\", \"problem\": \"denied\", "
                  "\"isForbidden\": true}, {\"file\": \"10-x.conf\"}]");
    check_cni(d);
    assert_int_equal(json_array_size(d->checks), 1);
    expect(d, 0, "skip", "denied");
    end(d);
}

TEST(a_broken_file_before_all_stops_containerd)
{
    static const struct {
        const char *runtime;
        const char *before;
    } rows[] = {{"containerd://2.1.0", "fail"}, {"cri-o://1.36.3", "warn"}, {"", "warn"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct doctor *d =
            see_files("[{\"file\": \"00-a.conf\", \"problem\": \"broken\"}, {\"file\": "
                      "\"10-b.conf\"}, {\"file\": \"20-c.conf\", \"problem\": \"broken\"}]");
        (void)strcpy(d->runtime_version, rows[i].runtime);
        check_cni(d);
        expect(d, 0, rows[i].before, "00-a.conf: broken");
        expect(d, 1, "warn", "20-c.conf: broken");
        end(d);
    }
}

TEST(a_runtime_is_judged_by_how_it_asks_status)
{
    static const struct {
        const char *version;
        const char *grace;
        const char *outcome;
    } rows[] = {
        {"containerd://1.7.27-0ubuntu1", "", "warn"},
        {"containerd://2.0.0", "", "warn"},
        {"containerd://2.0.1", "", "fail"},
        {"containerd://2.0.3", "", "pass"},
        {"containerd://2.0.10", "", "pass"},
        {"containerd://", "", "skip"},
        {"containerd://main", "", "skip"},
        {"cri-o://1.35.9", "5s", "warn"},
        {"cri-o://1.36.2", "", "pass"},
        {"cri-o://1.36.3", "", "warn"},
        {"cri-o://1.36.3", "0h0m0.0s", "warn"},
        {"cri-o://1.36.3", "5s", "pass"},
        {"cri-o://1.36.2", NULL, "pass"},
        {"cri-o://1.36.3", NULL, "skip"},
        {"cri-o://main", "5s", "skip"},
        {"", "", "skip"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct doctor *d = new_doctor();
        check_judge_runtime(d, rows[i].version, rows[i].grace);
        assert_int_equal(json_array_size(d->checks), 1);
        expect(d, 0, rows[i].outcome, "");
        bool is_to_mend = rows[i].outcome[0] == 'w' || rows[i].outcome[0] == 'f';
        assert_int_equal(print_holds(json_array_get(d->checks, 0), "mend"), is_to_mend);
        end(d);
    }
}

TEST(an_old_libcurl_is_named_because_agents_reject_names_with_it)
{
    static const char *const old[] = {"7.81.0", "7.86.0"};
    static const char *const current[] = {"7.87.0", "7.88.1", "8.5.0", "8.22.0", "8.24.0-DEV"};
    for (size_t i = 0; i < ARRAY_LEN(old); i++) {
        struct doctor *d = new_doctor();
        check_judge_libcurl(d, old[i]);
        assert_int_equal(json_array_size(d->checks), 1);
        expect(d, 0, "warn", old[i]);
        expect(d, 0, "warn", "agents reject a kubeconfig whose server or proxy has a name");
        assert_true(print_holds(json_array_get(d->checks, 0), "mend"));
        end(d);
    }
    for (size_t i = 0; i < ARRAY_LEN(current); i++) {
        struct doctor *d = new_doctor();
        check_judge_libcurl(d, current[i]);
        assert_int_equal(json_array_size(d->checks), 0);
        end(d);
    }
}

TEST(a_setting_is_found_as_toml_has_it)
{
    static const struct {
        const char *text;
        const char *value; /* NULL: not set */
    } rows[] = {
        {"", NULL},
        {"key", NULL},
        {"key =", ""},
        {"key = 5s", "5s"},
        {"key=\"5s\"\n", "5s"},
        {"  key\t=\t'5s'  # why\n", "5s"},
        {"key = 5s # why", "5s"},
        {"# key = \"5s\"\n", NULL},
        {"key_more = 1\nmore_key = 2\nkeys = 3", NULL},
        {"key = 1\nother = 2\nkey = 3\r\n", "3"},
        {"key = 1\nkey =\n", ""},
        {"key\n= 5s\n", NULL},
        {"key = \"\033[31m\"", " [31m"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char value[32] = "as it was";
        bool is_set = check_find_setting(rows[i].text, "key", value, sizeof(value));
        assert_int_equal(is_set, rows[i].value != NULL);
        assert_string_equal(value, rows[i].value ? rows[i].value : "as it was");
    }
}

/* ---- who may renew the leases of several DPUs ------------------------------------------------ */

#define RULE(groups, resources, verbs, more)                                                       \
    "{\"apiGroups\": [" groups "], \"resources\": [" resources "], \"verbs\": [" verbs "]" more "}"
#define LEASES(verbs, more) RULE("\"coordination.k8s.io\"", "\"leases\"", verbs, more)
#define ONLY(names)         ", \"resourceNames\": [" names "]"

/* What is said of a role "r" with these rules, bound to these subjects by a binding of that kind.
 */
static json_t *judge_rights(bool is_cluster_role, bool is_cluster_binding, const char *rules,
                            const char *subjects)
{
    struct doctor *d = new_doctor();
    d->config.agent.lease_namespace = (char *)(uintptr_t) "ovn-kubernetes";
    CLEANUP(json)
    json_t *role =
        json_pack("[{s:{s:s}, s:o}]", "metadata", "name", "r", "rules", json_loads(rules, 0, NULL));
    CLEANUP(json)
    json_t *binding = json_pack("[{s:{s:s, s:s}, s:o}]", "roleRef", "kind",
                                is_cluster_role ? "ClusterRole" : "Role", "name", "r", "subjects",
                                json_loads(subjects, 0, NULL));
    assert_true(role && binding);
    const struct cluster_rights rights = {.roles = is_cluster_role ? NULL : role,
                                          .cluster_roles = is_cluster_role ? role : NULL,
                                          .bindings = is_cluster_binding ? NULL : binding,
                                          .cluster_bindings = is_cluster_binding ? binding : NULL};
    check_judge_rights(d, &rights);
    json_t *checks = json_incref(d->checks);
    end(d);
    return checks;
}

#define ACCOUNT(ns, name)                                                                          \
    "{\"kind\": \"ServiceAccount\", \"namespace\": \"" ns "\", \"name\": \"" name "\"}"
#define GROUP(name) "{\"kind\": \"Group\", \"name\": \"" name "\"}"
#define USER(name)  "{\"kind\": \"User\", \"name\": \"" name "\"}"

TEST(who_may_renew_the_leases_of_several_dpus_is_told_by_what_is_granted)
{
    static const char all[] = ACCOUNT("dpf", "all");
    static const struct {
        const char *rules;
        const char *subjects;
        int count; /* of those who are named */
    } rows[] = {
        {LEASES("\"get\", \"update\"", ""), all, 1},
        {LEASES("\"patch\"", ""), all, 1},
        {LEASES("\"*\"", ""), all, 1},
        {RULE("\"*\"", "\"*\"", "\"*\"", ""), all, 1},
        {RULE("\"apps\", \"coordination.k8s.io\"", "\"pods\", \"leases\"", "\"update\"", ""), all,
         1},
        {LEASES("\"get\", \"list\", \"create\"", ""), all, 0},
        {RULE("\"apps\"", "\"leases\"", "\"update\"", ""), all, 0},
        {RULE("\"coordination.k8s.io\"", "\"leasecandidates\"", "\"*\"", ""), all, 0},
        /* By name: of one DPU, of several, of something else. */
        {LEASES("\"update\"", ONLY("\"ovn-dpu-a\"")), all, 0},
        {LEASES("\"update\"", ONLY("\"ovn-dpu-a\", \"ovn-dpu-b\"")), all, 1},
        {LEASES("\"update\"", ONLY("\"ovn-dpu-a\"")) "," LEASES("\"patch\"",
                                                                ONLY("\"ovn-dpu-b\", \"leader\"")),
         all, 1},
        {LEASES("\"update\"", ONLY("\"leader\", \"ovnkube\"")), all, 0},
        /* To whom. */
        {LEASES("\"update\"", ""), GROUP("system:ovn-nodes"), 1},
        {LEASES("\"update\"", ""), GROUP("system:serviceaccounts:dpf"), 1},
        {LEASES("\"update\"", ""), GROUP("system:nodes") "," USER("dpu") "," ACCOUNT("x", "y"), 3},
        {LEASES("\"update\"", ""), ACCOUNT("ovn-kubernetes", "ovnkube-node"), 1},
        {LEASES("\"update\"", ""), ACCOUNT("dpf", "dpu-agent-all"), 1}, /* no policy knows it */
        {LEASES("\"update\"", ""), ACCOUNT("ovn-kubernetes", "dpu-agent-fine"), 0},
        {LEASES("\"patch\"", ""), ACCOUNT("ovn-kubernetes", "dpu-host-agent"), 0},
        {LEASES("\"update\"", ""), GROUP("dpu-heartbeat:dpus") "," GROUP("dpu-heartbeat:hosts"), 0},
        {LEASES("\"update\"", ""), USER("dpu-heartbeat:dpu:a"), 0},
        {LEASES("\"update\"", ""), ACCOUNT("kube-system", "generic-garbage-collector"), 0},
        {LEASES("\"update\"", ""), USER("system:kube-controller-manager"), 0},
        /* Administrators are people. */
        {RULE("\"*\"", "\"*\"", "\"*\"", ""),
         GROUP("system:masters") "," GROUP("kubeadm:cluster-admins"), 0},
        {RULE("\"*\"", "\"*\"", "\"*\"", ""), GROUP("system:serviceaccounts"), 1},
        /* Nothing of it makes sense. */
        {"7, null, {\"verbs\": \"*\"}", all, 0},
        {LEASES("\"update\"", ""), "7, {}, {\"kind\": \"User\"}, null", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (int kind = 0; kind < 3; kind++) { /* a ClusterRole may be bound in a namespace */
            CLEANUP(free) char *rules = mem_format("[%s]", rows[i].rules);
            CLEANUP(free) char *subjects = mem_format("[%s]", rows[i].subjects);
            CLEANUP(json) json_t *said = judge_rights(kind > 0, kind > 1, rules, subjects);
            if ((int)json_array_size(said) != rows[i].count) {
                fail_msg("row %zu, kind %d: %zu", i, kind, json_array_size(said));
            }
        }
    }
    CLEANUP(json)
    json_t *said =
        judge_rights(true, true, "[" LEASES("\"*\"", "") "]", "[" ACCOUNT("dpf", "all") "]");
    const char *found = json_string_value(json_object_get(json_array_get(said, 0), "found"));
    assert_string_equal(found,
                        "ServiceAccount 'dpf/all' may renew any lease in ovn-kubernetes (by "
                        "ClusterRole 'r'): no policy keeps one DPU that has it from renewing "
                        "another's lease");
}

/* One account, and a Role for each lease. */
TEST(rights_of_several_bindings_count_together_and_many_are_not_all_named)
{
    struct doctor *d = new_doctor();
    char text[64];
    CLEANUP(json) json_t *roles = json_array();
    CLEANUP(json) json_t *bindings = json_array();
    d->config.agent.lease_namespace = (char *)(uintptr_t) "ovn-kubernetes";
    for (int i = 0; i < 24; i++) { /* two Roles for each of twelve accounts */
        (void)snprintf(text, sizeof(text), "ovn-dpu-%d", i);
        (void)json_array_append_new(roles, json_pack("{s:{s:s}, s:[{s:[s], s:[s], s:[s], s:[s]}]}",
                                                     "metadata", "name", text, "rules", "apiGroups",
                                                     "coordination.k8s.io", "resources", "leases",
                                                     "verbs", "update", "resourceNames", text));
        json_t *ref = json_pack("{s:s, s:s}", "kind", "Role", "name", text);
        (void)snprintf(text, sizeof(text), "a%d", i / 2);
        (void)json_array_append_new(bindings, json_pack("{s:o, s:[{s:s, s:s, s:s}]}", "roleRef",
                                                        ref, "subjects", "kind", "ServiceAccount",
                                                        "namespace", "x", "name", text));
    }
    const struct cluster_rights rights = {.roles = roles, .bindings = bindings};
    check_judge_rights(d, &rights);
    assert_int_equal(json_array_size(d->checks), 9);
    expect(d, 0, "warn", "'x/a0' may renew the leases of several DPUs");
    expect(d, 8, "warn", "4 more may renew");
    end(d);
}

/* ---- ovn-kubernetes' own check --------------------------------------------------------------- */

TEST(upstreams_check_turned_off_on_a_host_is_named_where_that_stops_pods)
{
    static const char off[] = "[ovnkubenode]\ndpu-node-lease-renew-interval = 0\n";
    static const struct {
        const char *set;   /* its name */
        const char *image; /* of its container, and then */
        const char *args;
        const char *env; /* NAME=VALUE, or "" */
        const char *file;
        bool is_named;
    } rows[] = {
        {"ovnkube-node-dpu-host", "r/ovn-kube-ubuntu:v1.3.0", "", "", off, true},
        {"ovnkube-node-dpu-host", "r:5000/ovn-kube-ubuntu:master", "", "", off, true},
        {"ovnkube-node-dpu-host", "r:5000/ovn-kube@sha256:0", "", "", off, true},
        {"ovnkube-node-dpu-host", "r/o:1.4.1", "", "", off, false},
        {"ovnkube-node-dpu-host", "r/o:v2.0", "", "", off, false},
        {"ovnkube-node-dpu-host", "r/o:v1.3.1", "", "", off, true},
        {"ovnkube-node-dpu", "r/o:v1.3.0", "", "", off, false}, /* the DPU side is safe */
        {"ovnkube-node", "r/o:v1.3.0", "", "OVNKUBE_NODE_MODE=dpu-host", off, true},
        {"ovnkube-node", "r/o:v1.3.0", "", "OVNKUBE_NODE_MODE=full", off, false},
        {"sriov-dpu-host", "r/o:v1.3.0", "", "", off, false},
        {"ovnkube-node-dpu-host", "r/o:v1.3.0", "", "", "", false},
        {"ovnkube-node-dpu-host", "r/o:v1.3.0", "", "", "dpu-node-lease-renew-interval=10\n",
         false},
        {"ovnkube-node-dpu-host", "r/o:v1.3.0", "", "", "# dpu-node-lease-renew-interval=0\n",
         false},
        {"ovnkube-node-dpu-host", "r/o:v1.3.0", "", "", "a=1\r\n  dpu-node-lease-renew-interval=00",
         true},
        {"ovnkube-node-dpu-host", "r/o:v1.3.0", "--dpu-node-lease-renew-interval=0", "", "", true},
        {"ovnkube-node-dpu-host", "r/o:v1.3.0", "--dpu-node-lease-renew-interval 0 -v", "", "",
         true},
        {"ovnkube-node-dpu-host", "r/o:v1.3.0", "--dpu-node-lease-renew-interval=20", "", off,
         false},
        {"ovnkube-node-dpu-host", "r/o:v1.3.0", "", "DPU_NODE_LEASE_RENEW_INTERVAL=0", "", true},
        {"ovnkube-node-dpu-host", "r/o:v1.3.0", "", "DPU_NODE_LEASE_RENEW_INTERVAL=5", off, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct doctor *d = new_doctor();
        char name[64];
        const char *equals = strchr(rows[i].env, '=');
        (void)snprintf(name, sizeof(name), "%.*s", equals ? (int)(equals - rows[i].env) : 0,
                       rows[i].env);
        CLEANUP(json)
        json_t *sets = json_pack(
            "[{s:{s:s}, s:{s:{s:{s:[{s:s, s:[s, s], s:[{s:s, s:s}]}]}}}}]", "metadata", "name",
            rows[i].set, "spec", "template", "spec", "containers", "image", rows[i].image, "args",
            "ovnkube", rows[i].args, "env", "name", name, "value", equals ? equals + 1 : "");
        CLEANUP(json) json_t *map = json_pack("{s:{s:s}}", "data", "ovnkube.conf", rows[i].file);
        assert_true(sets && map);
        check_judge_upstream(d, sets, map);
        if ((json_array_size(d->checks) == 1) != rows[i].is_named) {
            fail_msg("row %zu", i);
        }
        end(d);
    }
    struct doctor *d = new_doctor();
    CLEANUP(json) json_t *odd = json_loads("[7, {}, {\"spec\": []}, null]", 0, NULL);
    check_judge_upstream(d, odd, NULL);
    check_judge_upstream(d, NULL, odd);
    assert_int_equal(json_array_size(d->checks), 0);
    end(d);
}

/* ---- what keeps new Pods away ---------------------------------------------------------------- */

#define READINESS_RULE(spec)                                                                       \
    "[{\"metadata\":{\"name\":\"other\"},\"spec\":{\"enforcementMode\":\"continuous\","            \
    "\"conditions\":["                                                                             \
    "{\"type\":\"Ready\"}]}},{\"metadata\":{\"name\":\"r\"},\"spec\":{" spec "}}]"
#define ON_DPU_READY "\"conditions\":[{\"type\":\"DPUReady\",\"requiredStatus\":\"True\"}]"
#define CONTINUOUS   "\"enforcementMode\":\"continuous\","
#define NODE_OF(meta, spec)                                                                        \
    "{\"metadata\":{" meta "},\"spec\":{" spec "},\"status\":{\"conditions\":[]}}"
#define NODE_WITH(type)                                                                            \
    "{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"status\":{\"conditions\":[{\"type\":\"" type       \
    "\"}]}}"
#define DPF_LABEL "\"labels\":{\"feature.node.kubernetes.io/dpu-enabled\":\"true\"}"

TEST(the_way_in_which_scheduling_stops_is_named_and_its_absence_too)
{
    static const char nothing[] = "nothing keeps new Pods away";
    static const struct {
        const char *runtime; /* what was said above of it, and of CNI; "": nothing */
        const char *cni;
        const char *node;
        const char *rules; /* NULL: they may not be listed */
        const char *outcome;
        const char *found;
    } rows[] = {
        {"pass", "pass", NODE_OF("", ""), "[]", "pass", "the runtime polls STATUS"},
        {"pass", "fail", NODE_OF("", ""), "[]", "warn", nothing},
        {"pass", "warn", NODE_OF("", ""), "[]", "warn", nothing},
        {"pass", "skip", NODE_OF("", ""), "[]", "skip", "STATUS does so if"},
        {"warn", "pass", NODE_OF("", ""), "[]", "warn", nothing},
        {"warn", "skip", NODE_OF("", ""), "[]", "warn", nothing},
        {"skip", "pass", NODE_OF("", ""), "[]", "skip", "STATUS does so if"},
        {"skip", "fail", NODE_OF("", ""), "[]", "warn", nothing},
        /* A rule goes by the condition that dpu-host-agent keeps, and at all times. */
        {"warn", "pass", NODE_WITH("DPUReady"), READINESS_RULE(CONTINUOUS ON_DPU_READY), "pass",
         "while DPUReady is not True, the NodeReadinessRule 'r'"},
        {"warn", "pass", NODE_WITH("Ready"), READINESS_RULE(CONTINUOUS ON_DPU_READY), "warn",
         "a condition that the Node does not have"},
        {"warn", "pass", NODE_WITH("d.example/DPUReady"),
         READINESS_RULE(CONTINUOUS "\"conditions\":[{\"type\":\"d.example/DPUReady\"}]"), "pass",
         "while d.example/DPUReady is"},
        {"warn", "pass", NODE_WITH("DPUReady"),
         READINESS_RULE("\"enforcementMode\":\"bootstrap-only\"," ON_DPU_READY), "warn", nothing},
        {"warn", "pass", NODE_WITH("DPUReady"),
         READINESS_RULE(CONTINUOUS "\"dryRun\":true," ON_DPU_READY), "warn", nothing},
        {"warn", "pass", NODE_WITH("DPUReady"), READINESS_RULE(CONTINUOUS "\"conditions\":[7]"),
         "warn", nothing},
        {"warn", "pass", NODE_WITH("DPUReady"),
         READINESS_RULE(CONTINUOUS
                        "\"nodeSelector\":{\"matchLabels\":{\"a\":\"b\"}}," ON_DPU_READY),
         "pass", "'r'"},
        {"warn", "pass", NODE_WITH("DPUReady"),
         READINESS_RULE(CONTINUOUS
                        "\"nodeSelector\":{\"matchLabels\":{\"a\":\"c\"}}," ON_DPU_READY),
         "warn", nothing},
        {"warn", "pass", NODE_WITH("DPUReady"), NULL, "skip", "this user may not list"},
        {"warn", "pass", NODE_WITH("Ready"), NULL, "warn", nothing}, /* it would need a condition */
        {"warn", "pass", NODE_OF(DPF_LABEL, ""), "[]", "skip", "svc.dpu.nvidia.com/critical"},
        {"warn", "pass", NODE_OF("", "\"taints\":[{\"key\":\"dpu.nvidia.com/dpu-ready\"}]"), "[]",
         "pass", "DPF has tainted the Node"},
        {"pass", "skip", NODE_OF(DPF_LABEL, ""), "[]", "skip", "svc.dpu.nvidia.com/critical"},
        {"warn", "pass", "null", "[]", "skip", "the Node cannot be read"},
        {"warn", "pass", "[]", "[7,{\"spec\":[]}]", "warn", nothing},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct doctor *d = new_doctor();
        CLEANUP(json) json_t *node = json_loads(rows[i].node, JSON_DECODE_ANY, NULL);
        CLEANUP(json) json_t *rules = rows[i].rules ? json_loads(rows[i].rules, 0, NULL) : NULL;
        static const enum check_outcome words[] = {
            ['f'] = CHECK_FAIL, ['p'] = CHECK_PASS, ['s'] = CHECK_SKIP, ['w'] = CHECK_WARN};
        size_t kind = (size_t)rows[i].runtime[0];
        assert_non_null(node);
        d->doc = json_object();
        check_add(d, words[kind], "runtime", "", "any");
        kind = (size_t)rows[i].cni[0];
        check_add(d, words[kind], "CNI", "", "any");
        check_note_scheduling(d, json_is_null(node) ? NULL : node, rules, rules != NULL);
        check_scheduling(d);
        const json_t *said = json_array_get(d->checks, 2);
        const char *found = json_text_get(said, "found");
        if (json_array_size(d->checks) != 3 || !strstr(found, rows[i].found) ||
            !text_equal(json_text_get(said, "outcome"), rows[i].outcome)) {
            fail_msg("row %zu: %zu %s %s", i, json_array_size(d->checks),
                     json_text_get(said, "outcome"), found);
        }
        json_decref(d->doc);
        end(d);
    }
}

TEST(through_multus_or_from_afar_it_cannot_be_seen_whether_status_arrives)
{
    for (int i = 0; i < 2; i++) {
        struct doctor *d = new_doctor();
        CLEANUP(json) json_t *node = json_object();
        d->doc = json_object();
        d->config.node = i == 0 ? "another" : NULL;
        d->cni = i == 1 ? json_pack("{s:{s:b}}", "first", "isMultus", 1) : NULL;
        check_add(d, CHECK_PASS, "runtime", "", "it polls STATUS");
        check_note_scheduling(d, node, NULL, true);
        check_scheduling(d);
        expect(d, 1, "skip", "STATUS does so if");
        json_decref(d->doc);
        end(d);
    }
}

TEST(a_node_that_dpu_gate_made_not_ready_shows_that_status_arrives)
{
    struct doctor *d = new_doctor();
    CLEANUP(json) json_t *node = json_object();
    d->doc = json_pack("{s:{s:b}}", "kube", "isByGate", 1);
    check_add(d, CHECK_WARN, "runtime", "", "whatever is known of it");
    check_note_scheduling(d, node, NULL, true);
    check_scheduling(d);
    expect(d, 1, "pass", "the runtime polls STATUS");
    json_decref(d->doc);
    end(d);
}
