/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/dpu_options.h"

/* clang-format off */
static const struct option_row rows[] = {
    {.name = "node-name", .type = OPTION_TEXT,
     .offset = offsetof(struct dpu_config, agent.node_name), .placeholder = "NAME",
     .help = "The Kubernetes node that the DPU serves. Without it the name that OVS has, "
             "external_ids:host-k8s-nodename: the agent waits for it, and follows it."},
    AGENT_OPTION_ROWS(struct dpu_config, agent),
    {.name = "ovs-rundir", .type = OPTION_TEXT, .offset = offsetof(struct dpu_config, ovs_rundir),
     .env = {"OVS_RUNDIR"}, .default_text = "/run/openvswitch", .placeholder = "DIR",
     .help = "Where OVS has its sockets and pid files."},
    {.name = "ovn-rundir", .type = OPTION_TEXT, .offset = offsetof(struct dpu_config, ovn_rundir),
     .env = {"OVN_RUNDIR"}, .placeholder = "DIR",
     .help = "Where OVN has them. Unset, as --ovs-rundir: the charts of ovn-kubernetes have both "
             "there on a DPU."},
    {.name = "heartbeat", .type = OPTION_CHOICE, .offset = offsetof(struct dpu_config, heartbeat),
     .choices = "own|companion", .default_text = "own",
     .help = "Who renews the lease: this agent, or, as its companion, ovn-kubernetes' own health check "
             "on this DPU, to which it adds what the probes say."},
    {.name = "probe", .type = OPTION_LIST, .offset = offsetof(struct dpu_config, probes),
     .placeholder = "PROBE",
     .help = "What healthy means here. 'ovn-kubernetes' asks each service of such a DPU in its own "
             "language: 'ovsdb', 'vswitchd' (has bridge br-int; 'vswitchd:BRIDGE' for another), "
             "'ovn-nb', 'ovn-sb', 'ovn-northd' (active, connected), 'ovn-controller' (connected, "
             "has computed flows), 'ovnkube' (its time stamp in SB_Global changes). Each can be "
             "given alone. Others: 'exec:COMMAND' (exit status 0; what it leaves in its process group "
             "is killed), 'unix:SOCKET' (the kernel "
             "accepts a connection, which it does for a frozen server, too) or "
             "'http://HOST:PORT/PATH' or 'https://...' (answers 2xx, or 'status=204,ca=FILE;...'; HOST "
             "is an address or 'localhost'), 'netdev:NAME' (the interface exists; 'carrier=up;netdev:NAME' "
             "for one with a carrier) or 'pci:0000:03:00.0' (the function does). Settings of its own come first: "
             "'interval=2s,timeout=1s,failures=2,successes=1;exec:COMMAND'; 'refused=5s,silent=30s,"
             "missing=15s,denied=0,wrong=15s;vswitchd' is how long such a failure is forgiven. A "
             "service has defaults of its own (docs/reasons.md). While a probe fails, the lease is "
             "not renewed and says so. Without any probe the agent's own life is the heartbeat. "
             "At most 16; the text of one is shown up to 127 bytes, its words up to 255."},
    {.name = "probe-interval", .type = OPTION_DURATION,
     .offset = offsetof(struct dpu_config, probe_interval_ns), .default_text = "5s",
     .min = 100 * NS_PER_MS, .max = 3600 * NS_PER_SEC, .help = "The pause between two runs of a probe that is no service."},
    {.name = "probe-timeout", .type = OPTION_DURATION,
     .offset = offsetof(struct dpu_config, probe_timeout_ns), .default_text = "2s",
     .min = 10 * NS_PER_MS, .max = 600 * NS_PER_SEC,
     .help = "A probe that is no service, and takes longer, has failed and is ended."},
    {.name = "probe-failure-threshold", .type = OPTION_INT,
     .offset = offsetof(struct dpu_config, probe_failure_threshold), .default_text = "3",
     .min = 1, .max = 100, .help = "Failures in a row until a probe that is no service counts as failing."},
    {.name = "probe-success-threshold", .type = OPTION_INT,
     .offset = offsetof(struct dpu_config, probe_success_threshold), .default_text = "1",
     .min = 1, .max = 100, .help = "Successes in a row until a failing probe counts as healthy."},
    {.name = "announce-shutdown", .type = OPTION_BOOL,
     .offset = offsetof(struct dpu_config, announce_shutdown), .default_text = "false",
     .help = "Say on the lease that this is a planned stop, so that the host flips at once. Without "
             "it a restart within the lease duration goes unnoticed."},
    AGENT_HTTP_ROW(struct dpu_config, agent, "127.0.0.1:9413"),
};
/* clang-format on */

static int check(void *config, const struct option_origins *origins, struct err *e)
{
    struct dpu_config *dpu = config;
    return agent_options_check(&dpu->agent, origins, e);
}

const struct option_program *dpu_options_program(void)
{
    static const struct option_program program = {
        .name = "dpu-agent",
        .summary = "Renews the heartbeat lease of the node that this DPU serves.",
        .env_prefix = AGENT_ENV_PREFIX,
        .rows = rows,
        .row_count = ARRAY_LEN(rows),
        .check = check,
    };
    return &program;
}
