/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/dpu_options.h"

#define ROW(option, kind, member) OPTION_ROW(option, kind, struct dpu_config, member)

/* clang-format off */
static const struct option_row rows[] = {
    {ROW("node-name", OPTION_TEXT, agent.node_name), .placeholder = "NAME",
     .help = "The Kubernetes node that the DPU serves. Defaults to "
             "external_ids:host-k8s-nodename of OVS; the agent waits for it and follows it."},
    AGENT_OPTION_ROWS(struct dpu_config, agent),
    {ROW("ovs-rundir", OPTION_TEXT, ovs_rundir),
     .env = {"OVS_RUNDIR"}, .default_text = "/run/openvswitch", .placeholder = "DIR",
     .help = "The directory of OVS's sockets and pid files."},
    {ROW("ovn-rundir", OPTION_TEXT, ovn_rundir), .env = {"OVN_RUNDIR"}, .placeholder = "DIR",
     .help = "The directory of OVN's sockets and pid files. Defaults to --ovs-rundir."},
    {ROW("heartbeat", OPTION_CHOICE, heartbeat), .choices = "own|companion", .default_text = "own",
     .help = "own: this agent renews the Lease. companion: ovn-kubernetes' own health check on "
             "this DPU renews it, and this agent only reports failing probes."},
    {ROW("probe", OPTION_LIST, probes), .placeholder = "PROBE",
     .help = "A check of the DPU's health. 'ovn-kubernetes' stands for all of 'ovsdb', "
             "'vswitchd' (has bridge br-int and all of ovn-bridge-mappings; 'vswitchd:BRIDGE' names one "
             "bridge alone), 'ovn-nb', "
             "'ovn-sb', 'ovn-northd' (active, connected), 'ovn-controller' (connected, has "
             "computed flows, and its chassis follows; 'ovn-controller:CHASSIS' names one that is "
             "not OVS's system-id) and 'ovnkube' (its time stamp in SB_Global changes). Others: "
             "'exec:COMMAND' (exits with 0; its process group is killed afterwards), "
             "'unix:SOCKET' (accepts a connection, even if the server hangs), "
             "'bgp:/run/frr/bgpd.vty' (FRR's peers are established; 'least=1;bgp:...': so many), "
             "'http://HOST:PORT/PATH' or 'https://...' (answers 2xx; HOST is an address or "
             "'localhost'), 'netdev:NAME,NAME' (the interfaces exist) and 'pci:0000:03:00.0' (the "
             "function exists). Settings come first: "
             "'interval=2s,timeout=1s,failures=2,successes=1;exec:COMMAND', "
             "'status=204,ca=FILE;https://...', 'least=1,carrier=up;netdev:p0,p1'. "
             "'refused=5s,silent=30s,missing=15s,denied=0,wrong=15s;vswitchd' says how long to "
             "tolerate each failure; docs/reasons.md has the defaults. While a probe fails, the "
             "agent reports it on the Lease instead of renewing. Without a probe, the heartbeat "
             "proves only that the agent runs. At most 16."},
    {ROW("probe-interval", OPTION_DURATION, probe_interval_ns), .default_text = "5s",
     .min = 100 * NS_PER_MS, .max = 3600 * NS_PER_SEC,
     .help = "The pause between two runs of a probe, except of the services of ovn-kubernetes."},
    {ROW("probe-timeout", OPTION_DURATION, probe_timeout_ns), .default_text = "2s",
     .min = 10 * NS_PER_MS, .max = 600 * NS_PER_SEC,
     .help = "The time limit of such a probe; a longer run fails and is ended."},
    {ROW("probe-failure-threshold", OPTION_INT, probe_failure_threshold), .default_text = "3",
     .min = 1, .max = 100, .help = "Failures in a row until such a probe counts as failing."},
    {ROW("probe-success-threshold", OPTION_INT, probe_success_threshold), .default_text = "1",
     .min = 1, .max = 100, .help = "Successes in a row until a failing probe counts as passing."},
    {ROW("announce-shutdown", OPTION_BOOL, announce_shutdown), .default_text = "false",
     .help = "Announce a stop on the Lease, so that the node turns NotReady at once. By default, "
             "a restart within the lease duration has no effect."},
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
        .summary = "Renews the heartbeat Lease of the node that this DPU serves.",
        .env_prefix = AGENT_ENV_PREFIX,
        .rows = rows,
        .row_count = ARRAY_LEN(rows),
        .check = check,
    };
    return &program;
}
