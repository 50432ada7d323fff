/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/host_options.h"

#include "base/text.h"
#include "host-agent/podnet/podnet.h"

#include <string.h>

#define ROW(option, kind, member) OPTION_ROW(option, kind, struct host_config, member)

/* clang-format off */
static const struct option_row rows[] = {
    AGENT_NODE_ROW(struct host_config, agent),
    AGENT_OPTION_ROWS(struct host_config, agent),
    {ROW("readiness-file", OPTION_PATH, readiness_file), .default_text = NAMES_READINESS_FILE,
     .min = 1, .placeholder = "FILE", .help = "The readiness record; on a tmpfs."},
    {ROW("api-outage-hold", OPTION_DURATION, api_outage_hold_ns), .default_text = "unlimited",
     .choices = "unlimited", .min = 0, .max = INT64_MAX,
     .help = "How long the host keeps the last state after the Lease expired while it cannot reach "
             "the API server, or the server takes no writes. A write that is forbidden to the host "
             "(403, 422) is held for one lease duration at most."},
    {ROW("stale-hold", OPTION_DURATION, stale_hold_ns), .default_text = "300s", .min = 0,
     .max = 86400 * NS_PER_SEC,
     .help = "How long readers of the record keep its state after this agent died."},
    {ROW("events", OPTION_BOOL, events), .default_text = "on",
     .help = "Write an Event about the Node for each change of readiness, unless the health check "
             "is disabled and nothing else needs the API server."},
    {ROW("node-condition", OPTION_BOOL, node_condition), .default_text = "off",
     .help = "Keep the condition DPUReady in the Node's status. Needs "
             "rbac/host-agent-node-condition.yaml."},
    {ROW("node-condition-firm", OPTION_BOOL, node_condition_firm), .default_text = "off",
     .help = "If the state is Unknown, make DPUReady True if Pods are admitted, else False."},
    AGENT_HTTP_ROW(struct host_config, agent, "127.0.0.1:9412"),
    {ROW("cni-sync", OPTION_BOOL, cni_sync), .default_text = "false",
     .help = "Keep the configuration that 'dpu-host-agent install-cni' wrote in sync with its "
             "source."},
    CNI_OPTION_ROWS(struct host_config, cni),
    {ROW("probe", OPTION_LIST, probes), .placeholder = "PROBE",
     .help = "A check of the DPU from the host. If it fails, Pods are rejected at once, whatever "
             "the Lease says. It counts only after it has passed once since the host booted, and "
             "never makes a node ready. 'pci:0000:03:00.0' (the function exists; counts at once), "
             "'netdev:NAME' (the interface exists, or was away for less than 3s; "
             "'carrier=up;netdev:NAME': and has a carrier), 'http://HOST:PORT/PATH', "
             "'https://...', 'exec:COMMAND' or 'unix:SOCKET', with the settings of dpu-agent's "
             "--probe. By default it runs every 5s, for at most 2s, and fails after 3 failures. At "
             "most 8, of 95 bytes each. Off while the health check is disabled."},
    {ROW("cri-socket", OPTION_PATH, cri_socket), .default_text = "", .max = OPTION_MAX_SOCKET_BYTES,
     .placeholder = "FILE",
     .help = "The container runtime's socket, such as /run/containerd/containerd.sock, to find "
             "Pods that lost their network when the DPU was reset. Empty turns that off."},
    {ROW("on-lost-network", OPTION_CHOICE, on_lost_network), .choices = "report|status|restart",
     .default_text = "report",
     .help = "The action for Pods that lost their network. report: write an Event on each. status: "
             "also reject new Pods, and STATUS with code 51, until none is left. restart: also "
             "stop their sandboxes one after the other, once the DPU has been ready for a lease "
             "duration; the kubelet then makes new ones. Needs --cri-socket."},
    {ROW("host-root", OPTION_PATH, host_root), .default_text = "", .placeholder = "DIR",
     .help = "The directory below which this agent sees the host's /proc, /sys and /var/lib/cni. "
             "For --cri-socket, --probe=netdev: and --probe=pci:."},
};
/* clang-format on */

const char *host_options_further_dpu(const struct agent_config *agent)
{
    char first[NAMES_K8S_NAME_BYTES + sizeof(NAMES_LEASE_PREFIX)];
    text_format(first, sizeof(first), NAMES_LEASE_PREFIX "%s--",
                agent->node_name ? agent->node_name : "");
    bool is_further = agent->lease_name && strncmp(agent->lease_name, first, strlen(first)) == 0;
    return is_further ? agent->lease_name + strlen(first) : "";
}

/* Refuses options that only one agent of a node may have, because they concern all of its Pods. */
static int check_further_dpu(const struct host_config *host, const struct option_origins *origins,
                             struct err *e)
{
    bool acts_on_pods = host->on_lost_network != PODNET_MODE_REPORT;
    const char *dpu = host_options_further_dpu(&host->agent);
    if (text_is_empty(dpu) || (!host->cni_sync && !acts_on_pods)) {
        return 0;
    }
    const char *from = option_origin(origins, host->cni_sync ? "cni-sync" : "on-lost-network");
    return err_set(
        e, ERR_PARSE, "%s: not allowed for a further DPU of the node (lease '%.120s'): %s", from,
        host->agent.lease_name,
        host->cni_sync
            ? "dpu-gate reads the first DPU's record, and only that DPU's agent keeps the conflist"
            : "the agent cannot tell which Pods use its DPU; allowed: report");
}

static int check_pods(const struct host_config *host, const struct option_origins *origins,
                      struct err *e)
{
    if (host->cri_socket[0] != '\0' || host->on_lost_network == PODNET_MODE_REPORT) {
        return 0;
    }
    return err_set(e, ERR_PARSE, "%s: needs --cri-socket, or the agent cannot check Pods",
                   option_origin(origins, "on-lost-network"));
}

static int check(void *config, const struct option_origins *origins, struct err *e)
{
    struct host_config *host = config;
    agent_options_guess_node(&host->agent);
    int rc = agent_options_check(&host->agent, origins, e);
    if (rc != 0 || (rc = check_pods(host, origins, e)) != 0 ||
        (rc = check_further_dpu(host, origins, e)) != 0) {
        return rc;
    }
    return cni_options_check(&host->cni, origins, e);
}

const struct option_program *host_options_program(void)
{
    static const struct option_program program = {
        .name = "dpu-host-agent",
        .summary =
            "Watches the heartbeat Lease of this node and tells CNI, the API server "
            "and all readers of its record whether the DPU is ready. The commands install-cni and "
            "uninstall-cni put dpu-gate in front of the node's CNI plugin and remove it "
            "again; each has --help.",
        .env_prefix = AGENT_ENV_PREFIX,
        .rows = rows,
        .row_count = ARRAY_LEN(rows),
        .check = check,
        .is_commands = cni_commands_take,
    };
    return &program;
}
