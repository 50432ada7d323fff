/* SPDX-License-Identifier: Apache-2.0 */
/* The options of both agents: names, defaults, and how they have to fit together. */
#include "dpu-agent/dpu_options.h"
#include "host-agent/host_options.h"
#include "tests/support/case.h"
#include "tests/unit/option_args.h"

#include <ctype.h>

struct world {
    struct host_config host;
    struct dpu_config dpu;
    struct err e;
};

static void world_begin(struct world *w)
{
    w->e = (struct err)ERR_INIT;
}

static void world_end(struct world *w)
{
    option_fini(host_options_program(), &w->host);
    option_fini(dpu_options_program(), &w->dpu);
}

WORLD(world_begin, world_end)

/* Each anew. */
static int parse_host(struct world *w, const char *const *args, const char *const *env)
{
    enum option_outcome outcome;
    option_fini(host_options_program(), &w->host);
    w->host = (struct host_config){0};
    return parse_args(host_options_program(), args, env, &w->host, &outcome, &w->e);
}

static int parse_dpu(struct world *w, const char *const *args, const char *const *env)
{
    enum option_outcome outcome;
    option_fini(dpu_options_program(), &w->dpu);
    w->dpu = (struct dpu_config){0};
    return parse_args(dpu_options_program(), args, env, &w->dpu, &outcome, &w->e);
}

TEST_IN(defaults_are_those_of_upstream)
{
    const char *const *args = ARGS("--node-name=worker-1");
    assert_int_equal(parse_host(w, args, NULL), 0);
    assert_int_equal(parse_dpu(w, args, NULL), 0);
    const struct agent_config *both[] = {&w->host.agent, &w->dpu.agent};
    for (size_t i = 0; i < ARRAY_LEN(both); i++) {
        assert_null(both[i]->kubeconfig);
        assert_string_equal(both[i]->lease_namespace, "ovn-kubernetes");
        assert_string_equal(both[i]->lease_name, "ovn-dpu-worker-1");
        assert_string_equal(both[i]->holder_identity, "ovnkube-dpu-node");
        assert_true(both[i]->renew_interval_ns == 10 * NS_PER_SEC);
        assert_true(both[i]->lease_duration_ns == 40 * NS_PER_SEC);
        assert_int_equal(both[i]->log_level, LOG_INFO);
        assert_int_equal(both[i]->log_format, LOG_TEXT);
    }
    assert_string_equal(w->host.readiness_file, "/run/dpu-heartbeat/readiness.json");
    assert_true(w->host.api_outage_hold_ns == INT64_MAX);
    assert_true(w->host.stale_hold_ns == 300 * NS_PER_SEC);
    assert_int_equal(w->dpu.probes.count, 0);
    assert_true(w->dpu.probe_interval_ns == 5 * NS_PER_SEC);
    assert_true(w->dpu.probe_timeout_ns == 2 * NS_PER_SEC);
    assert_int_equal(w->dpu.probe_failure_threshold, 3);
    assert_int_equal(w->dpu.probe_success_threshold, 1);
    assert_false(w->dpu.announce_shutdown);
}

/* It cannot tell which pods are its DPU's, and the gate asks for the first one's record. */
TEST_IN(a_further_dpus_agent_keeps_off_gate_and_pods)
{
    static const struct {
        const char *lease;
        const char *option;
        const char *refused; /* NULL: it is taken */
    } rows[] = {
        {"--lease-name=ovn-dpu-a--b", "--cni-sync", "cni-sync"},
        {"--lease-name=ovn-dpu-a--b", "--on-lost-network=restart", "on-lost-network"},
        {"--lease-name=ovn-dpu-a--b", "--on-lost-network=status", "on-lost-network"},
        {"--lease-name=ovn-dpu-a--b", "--on-lost-network=report", NULL},
        {"--lease-name=ovn-dpu-a--b", "--cni-sync=false", NULL},
        {"--lease-name=ovn-dpu-a", "--cni-sync", NULL},
        {"--lease-name=ovn-dpu-a-b", "--on-lost-network=restart", NULL},
        {"--lease-name=ovn-dpu-b--c", "--cni-sync", NULL}, /* no name that the policies know */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *const *args =
            ARGS("--node-name=a", "--cri-socket=/run/x", rows[i].lease, rows[i].option);
        int rc = parse_host(w, args, NULL);
        assert_int_equal(rc, rows[i].refused ? ERR_PARSE : 0);
        assert_true(!rows[i].refused || strstr(w->e.msg, rows[i].refused));
    }
}

TEST_IN(the_node_is_the_lower_case_host_name_unless_told)
{
    char host_name[256] = "";
    assert_int_equal(gethostname(host_name, sizeof(host_name) - 1), 0);
    for (char *p = host_name; *p; p++) {
        *p = (char)tolower((unsigned char)*p);
    }
    assert_int_equal(parse_host(w, NULL, NULL), 0);
    assert_string_equal(w->host.agent.node_name, host_name);
    assert_string_equal(w->host.agent.sources[AGENT_SOURCE_NODE], "the host name");

    static const struct {
        const char *env[3];
        const char *node;
    } cases[] = {
        {{"K8S_NODE=k"}, "k"},
        {{"K8S_NODE=k", "NODE_NAME=n"}, "n"},
        {{"NODE_NAME=n", "DPU_HEARTBEAT_NODE_NAME=d"}, "d"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(parse_host(w, NULL, cases[i].env), 0);
        assert_string_equal(w->host.agent.node_name, cases[i].node);
    }

    /* A DPU serves another node than the one that a pod's environment speaks of. */
    assert_int_equal(parse_dpu(w, NULL, cases[1].env), 0);
    assert_null(w->dpu.agent.node_name);
    assert_null(w->dpu.agent.lease_name);
}

TEST_IN(a_node_that_is_found_later_names_the_lease_unless_that_is_given)
{
    char longest[247];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(parse_dpu(w, NULL, NULL), 0);
    assert_int_equal(agent_options_set_node(&w->dpu.agent, longest, "OVS", &w->e), ERR_LIMIT);
    assert_non_null(strstr(w->e.msg, "OVS: a node name of 246 bytes is too long"));
    assert_null(w->dpu.agent.node_name);
    assert_int_equal(agent_options_set_node(&w->dpu.agent, longest + 1, "OVS", &w->e), 0);
    assert_int_equal(strlen(w->dpu.agent.lease_name), NAMES_K8S_NAME_BYTES - 1);
    assert_int_equal(agent_options_set_node(&w->dpu.agent, "w1", "OVS", &w->e), 0);
    assert_string_equal(w->dpu.agent.lease_name, "ovn-dpu-w1");
    assert_string_equal(w->dpu.agent.sources[AGENT_SOURCE_NODE], "OVS");
    assert_int_equal(agent_options_set_node(&w->dpu.agent, "No Name", "OVS", &w->e), ERR_LIMIT);
    assert_non_null(strstr(w->e.msg, "OVS: 'No Name' is not usable"));
    assert_string_equal(w->dpu.agent.node_name, "w1");
    assert_int_equal(agent_options_set_node(&w->dpu.agent, "w2", "OVS", &w->e), 0);
    assert_string_equal(w->dpu.agent.lease_name, "ovn-dpu-w2");

    assert_int_equal(parse_dpu(w, ARGS("--lease-name=mine"), NULL), 0);
    assert_int_equal(agent_options_set_node(&w->dpu.agent, "w1", "OVS", &w->e), 0);
    assert_string_equal(w->dpu.agent.lease_name, "mine");
    assert_int_equal(agent_options_set_node(&w->dpu.agent, longest, "OVS", &w->e), 0);
}

TEST_IN(what_the_platforms_set_is_understood_after_our_own)
{
    static const struct {
        const char *ns;
        int interval_s, duration_s;
        const char *source; /* of the interval */
        const char *env[5];
    } rows[] = {
        {"a", 10, 40, "default of --dpu-node-lease-renew-interval", {"OVN_KUBERNETES_NAMESPACE=a"}},
        {"b",
         5,
         40,
         "environment variable OVNKUBE_NODE_DPU_LEASE_RENEW_INTERVAL",
         {"OVN_KUBERNETES_NAMESPACE=a", "OVNKUBE_NODE_LEASE_NAMESPACE=b",
          "OVNKUBE_NODE_DPU_LEASE_RENEW_INTERVAL=5"}},
        {"ovn-kubernetes",
         6,
         60,
         "environment variable OVNKUBE_NODE_LEASE_RENEW_INTERVAL",
         {"OVNKUBE_NODE_LEASE_RENEW_INTERVAL=6", "OVNKUBE_NODE_LEASE_DURATION=60"}},
        {"ovn-kubernetes",
         7,
         50,
         "environment variable DPU_NODE_LEASE_RENEW_INTERVAL",
         {"OVNKUBE_NODE_LEASE_RENEW_INTERVAL=6", "DPU_NODE_LEASE_RENEW_INTERVAL=7",
          "OVNKUBE_NODE_DPU_LEASE_DURATION=50", "KUBECONFIG=/k"}},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(parse_host(w, ARGS("--node-name=n"), rows[i].env), 0);
        assert_string_equal(w->host.agent.lease_namespace, rows[i].ns);
        assert_true(w->host.agent.renew_interval_ns == rows[i].interval_s * NS_PER_SEC);
        assert_true(w->host.agent.lease_duration_ns == rows[i].duration_s * NS_PER_SEC);
        assert_string_equal(w->host.agent.sources[AGENT_SOURCE_INTERVAL], rows[i].source);
        assert_string_equal(w->host.agent.sources[AGENT_SOURCE_NODE], "flag --node-name");
        assert_true(i < ARRAY_LEN(rows) - 1 || strcmp(w->host.agent.kubeconfig, "/k") == 0);
    }
}

TEST_IN(zero_for_either_timer_disables_the_health_check)
{
    static const struct {
        const char *disabled_by; /* NULL: it is on */
        const char *args[3];
        const char *env;
    } cases[] = {
        {"dpu-node-lease-duration", {"--dpu-node-lease-duration=0"}, NULL},
        {"dpu-node-lease-duration", {"--dpu-node-lease-duration=0s"}, NULL},
        {"dpu-node-lease-duration", {NULL}, "DPU_NODE_LEASE_DURATION=0"},
        {"dpu-node-lease-duration",
         {"--dpu-node-lease-duration=0", "--dpu-node-lease-renew-interval=600"},
         NULL},
        {"dpu-node-lease-renew-interval",
         {"--dpu-node-lease-renew-interval=0", "--dpu-node-lease-duration=0"},
         NULL},
        {"dpu-node-lease-renew-interval",
         {"--dpu-node-lease-renew-interval=0", "--dpu-node-lease-duration=1500ms"},
         NULL},
        {NULL, {"--dpu-node-lease-duration=20"}, NULL},
        {NULL,
         {"--dpu-node-lease-duration=10", "--dpu-node-lease-renew-interval=9.999999999"},
         NULL},
        {NULL, {"--dpu-node-lease-duration=20"}, "DPU_NODE_LEASE_DURATION=0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *env[] = {"NODE_NAME=n", cases[i].env, NULL};
        assert_int_equal(parse_host(w, cases[i].args, env), 0);
        assert_int_equal(parse_dpu(w, cases[i].args, env), 0);
        const struct agent_config *both[] = {&w->host.agent, &w->dpu.agent};
        for (size_t j = 0; j < ARRAY_LEN(both); j++) {
            assert_int_equal(both[j]->renew_interval_ns == 0, cases[i].disabled_by != NULL);
            assert_true(both[j]->lease_duration_ns > both[j]->renew_interval_ns);
            if (cases[i].disabled_by) {
                assert_string_equal(both[j]->disabled_by, cases[i].disabled_by);
            } else {
                assert_null(both[j]->disabled_by);
            }
        }
    }
}

TEST_IN(impossible_combinations_name_options_values_and_sources)
{
    static const struct {
        const char *flag, *env;
        const char *message;
    } cases[] = {
        {"--dpu-node-lease-duration=10", NULL,
         "flag --dpu-node-lease-duration: '10s' is not usable; allowed: whole seconds, more than "
         "the renew interval 10s (default of --dpu-node-lease-renew-interval)"},
        {"--dpu-node-lease-renew-interval=50", "DPU_NODE_LEASE_DURATION=45",
         "environment variable DPU_NODE_LEASE_DURATION: '45s' is not usable; allowed: whole "
         "seconds, more than the renew interval 50s (flag --dpu-node-lease-renew-interval)"},
        {"--dpu-node-lease-renew-interval=601", NULL,
         "flag --dpu-node-lease-renew-interval: '601' is out of range; allowed: 0s to 600s"},
        {"--dpu-node-lease-renew-interval=1ms", NULL,
         "flag --dpu-node-lease-renew-interval: '1ms' is not usable; allowed: 0, or at least "
         "100ms"},
        {"--dpu-node-lease-duration=40.5", NULL,
         "flag --dpu-node-lease-duration: '40.5s' is not usable; allowed: whole seconds, more than "
         "the renew interval 10s (default of --dpu-node-lease-renew-interval)"},
        {"--node-name=Worker_1", NULL,
         "flag --node-name: 'Worker_1' is not usable; allowed: at most 253 lower-case "
         "letters, digits, '-' and '.'"},
        {"--lease-name=UP", NULL,
         "flag --lease-name: 'UP' is not usable; allowed: at most 253 lower-case "
         "letters, digits, '-' and '.'"},
        {"--namespace=a.b", NULL,
         "flag --namespace: 'a.b' is not usable; allowed: at most 63 lower-case letters, "
         "digits and '-'"},
        {"--holder-identity=", NULL,
         "flag --holder-identity: '' is not usable; allowed: 1 to 255 bytes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *env[] = {"NODE_NAME=n", cases[i].env, NULL};
        assert_int_not_equal(parse_host(w, ARGS(cases[i].flag), env), 0);
        assert_string_equal(w->e.msg, cases[i].message);
        assert_int_not_equal(parse_dpu(w, ARGS(cases[i].flag), env), 0);
        assert_string_equal(w->e.msg, cases[i].message);
    }
}

TEST_IN(the_readiness_file_is_an_absolute_path)
{
    const char *const *args = ARGS("--node-name=a", "--readiness-file=x.json");
    assert_int_equal(parse_host(w, args, NULL), ERR_PARSE);
    assert_string_equal(w->e.msg, "flag --readiness-file: 'x.json' is not an absolute path");
}

TEST_IN(probes_are_carried_as_they_are_written)
{
    const char *const *args = ARGS("--node-name=a", "--probe", "interval=2s,failures=2;exec:a b=c",
                                   "--probe=unix:/run/x", "--announce-shutdown");
    assert_int_equal(parse_dpu(w, args, NULL), 0);
    assert_int_equal(w->dpu.probes.count, 2);
    assert_string_equal(w->dpu.probes.items[0], "interval=2s,failures=2;exec:a b=c");
    assert_string_equal(w->dpu.probes.items[1], "unix:/run/x");
    assert_true(w->dpu.announce_shutdown);
}
