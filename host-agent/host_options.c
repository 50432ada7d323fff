/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/host_options.h"

#include "base/text.h"
#include "host-agent/podnet/podnet.h"

#include <string.h>

/* clang-format off */
static const struct option_row rows[] = {
    AGENT_NODE_ROW(struct host_config, agent),
    AGENT_OPTION_ROWS(struct host_config, agent),
    {.name = "readiness-file", .type = OPTION_TEXT,
     .offset = offsetof(struct host_config, readiness_file), .default_text = NAMES_READINESS_FILE,
     .placeholder = "FILE", .help = "Where the readiness record goes; on a tmpfs."},
    {.name = "api-outage-hold", .type = OPTION_DURATION,
     .offset = offsetof(struct host_config, api_outage_hold_ns), .default_text = "unlimited",
     .choices = "unlimited", .min = 0, .max = INT64_MAX,
     .help = "How long the last readiness is held after the lease ran out while the API server "
             "cannot be reached, or takes no writes."},
    {.name = "stale-hold", .type = OPTION_DURATION,
     .offset = offsetof(struct host_config, stale_hold_ns), .default_text = "300s",
     .min = 0, .max = 86400 * NS_PER_SEC,
     .help = "How long readers of the record hold its state after this agent died."},
    {.name = "events", .type = OPTION_BOOL, .offset = offsetof(struct host_config, events),
     .default_text = "on",
     .help = "Write a Kubernetes Event about the Node for each change of readiness. Not written "
             "where nothing else needs the API server."},
    {.name = "node-condition", .type = OPTION_BOOL,
     .offset = offsetof(struct host_config, node_condition), .default_text = "off",
     .help = "Keep the condition DPUReady in the Node's status. Needs "
             "rbac/host-agent-node-condition.yaml."},
    AGENT_HTTP_ROW(struct host_config, agent, "127.0.0.1:9412"),
    {.name = "cni-sync", .type = OPTION_BOOL, .offset = offsetof(struct host_config, cni_sync),
     .default_text = "false",
     .help = "Keep the configuration that 'dpu-host-agent install-cni' wrote in step with its source."},
    CNI_OPTION_ROWS(struct host_config, cni),
    DRA_OPTION_ROWS(struct host_config, dra),
    {.name = "probe", .type = OPTION_LIST, .offset = offsetof(struct host_config, probes),
     .placeholder = "PROBE",
     .help = "What this host sees of its DPU by itself. One that fails refuses pods at once, whatever "
             "the lease says, if it has been well since the host was started; until then it proves "
             "nothing, and it never makes a node ready. 'pci:0000:03:00.0' (the function exists: "
             "counts at once), 'netdev:NAME' (the interface exists, or was away for less than 3s; "
             "'carrier=up;netdev:NAME': and has a carrier), 'http://HOST:PORT/PATH', 'https://...', "
             "'exec:COMMAND', 'unix:SOCKET', with the settings of dpu-agent's --probe. Without "
             "settings one is asked every 5s, for 2s, and counts after 3 failures. At most 8, of "
             "95 bytes each. Not asked where the health check is disabled."},
    {.name = "cri-socket", .type = OPTION_TEXT, .offset = offsetof(struct host_config, cri_socket),
     .default_text = "", .placeholder = "FILE",
     .help = "The container runtime's socket, such as /run/containerd/containerd.sock: look for "
             "pods that lost their network, as when the DPU was reset. Empty: do not look."},
    {.name = "on-lost-network", .type = OPTION_CHOICE,
     .offset = offsetof(struct host_config, on_lost_network), .choices = "report|status|restart",
     .default_text = "report",
     .help = "What pods that lost their network lead to: an Event on each (report); as long as one "
             "is left CNI refuses new ones, STATUS with code 51 (status); once the DPU has been "
             "ready for a lease duration they get new sandboxes, one after the other, except "
             "where the restartPolicy is Never (restart). Needs --cri-socket."},
    {.name = "host-root", .type = OPTION_TEXT, .offset = offsetof(struct host_config, host_root),
     .default_text = "", .placeholder = "DIR",
     .help = "Where the host's /proc, /sys and /var/lib/cni are, seen from here. For --cri-socket, and "
             "for --probe=netdev: and pci:."},
};
/* clang-format on */

static int check_absolute(const struct option_origins *origins, const char *option,
                          const char *path, struct err *e)
{
    return path[0] == '/' ? 0 : option_refuse(origins, option, path, "an absolute path", e);
}

/* Its lease is ovn-dpu-NODE--DPU, as the admission policies know it. */
static bool is_further_dpu(const struct agent_config *agent)
{
    char first[NAMES_K8S_NAME_BYTES + sizeof(NAMES_LEASE_PREFIX)];
    text_format(first, sizeof(first), NAMES_LEASE_PREFIX "%s--",
                agent->node_name ? agent->node_name : "");
    return agent->lease_name && strncmp(agent->lease_name, first, strlen(first)) == 0;
}

/* What one agent of the node does for all of its pods. */
static int check_further_dpu(const struct host_config *host, const struct option_origins *origins,
                             struct err *e)
{
    bool acts_on_pods = host->on_lost_network != PODNET_MODE_REPORT;
    char from[OPTION_ORIGIN_BYTES];
    if (!is_further_dpu(&host->agent) || (!host->cni_sync && !acts_on_pods)) {
        return 0;
    }
    option_describe_origin(origins, host->cni_sync ? "cni-sync" : "on-lost-network", from);
    return err_set(e, ERR_PARSE, "%s: not for a further DPU of the node (lease '%.120s'): %s", from,
                   host->agent.lease_name,
                   host->cni_sync
                       ? "dpu-gate asks for the first one's record, whose agent keeps the conflist"
                       : "its agent cannot tell which pods are its DPU's; allowed: report");
}

static int check_pods(const struct host_config *host, const struct option_origins *origins,
                      struct err *e)
{
    char from[OPTION_ORIGIN_BYTES];
    int rc =
        host->host_root[0] != '\0' ? check_absolute(origins, "host-root", host->host_root, e) : 0;
    if (rc != 0) {
        return rc;
    }
    if (host->cri_socket[0] != '\0') {
        return check_absolute(origins, "cri-socket", host->cri_socket, e);
    }
    if (host->on_lost_network == PODNET_MODE_REPORT) {
        return 0;
    }
    option_describe_origin(origins, "on-lost-network", from);
    return err_set(e, ERR_PARSE, "%s: without --cri-socket nobody looks at pods", from);
}

static int check(void *config, const struct option_origins *origins, struct err *e)
{
    struct host_config *host = config;
    agent_options_guess_node(&host->agent);
    int rc = agent_options_check(&host->agent, origins, e);
    if (rc != 0 || (rc = check_absolute(origins, "readiness-file", host->readiness_file, e)) != 0 ||
        (rc = check_pods(host, origins, e)) != 0 ||
        (rc = check_further_dpu(host, origins, e)) != 0) {
        return rc;
    }
    rc = cni_options_check(&host->cni, origins, e);
    return rc != 0 ? rc : dra_options_check(&host->dra, e);
}

const struct option_program *host_options_program(void)
{
    static const struct option_program program = {
        .name = "dpu-host-agent",
        .summary = "Watches the heartbeat lease of this node and tells CNI, kubelet and scheduler "
                   "whether its DPU is ready. Its commands install-cni and uninstall-cni put "
                   "dpu-gate in front of the node's CNI plugin and take it away again; each has "
                   "--help.",
        .env_prefix = AGENT_ENV_PREFIX,
        .rows = rows,
        .row_count = ARRAY_LEN(rows),
        .check = check,
    };
    return &program;
}
