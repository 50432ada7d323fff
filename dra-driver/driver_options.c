/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "dra-driver/driver.h"

#define ROW(option, kind, member) OPTION_ROW(option, kind, struct driver_config, member)

/* clang-format off */
static const struct option_row rows[] = {
    AGENT_NODE_ROW(struct driver_config, agent),
    AGENT_BASE_ROWS(struct driver_config, agent),
    {ROW("readiness-file", OPTION_PATH, readiness_file), .default_text = NAMES_READINESS_FILE,
     .min = 1, .placeholder = "FILE", .help = "The readiness record that dpu-host-agent writes."},
    {ROW("dra-driver-name", OPTION_TEXT, dra.driver), .default_text = NAMES_DRA_DRIVER,
     .placeholder = "NAME",
     .help = "The DRA driver's name: a DNS name of at most 63 bytes, as in the DeviceClass."},
    {ROW("dra-device-name", OPTION_TEXT, dra.device), .default_text = "dpu0",
     .placeholder = "NAME", .help = "The device's name: a DNS label."},
    {ROW("dra-pool-name", OPTION_TEXT, dra.pool), .placeholder = "NAME",
     .help = "The pool's name. Defaults to the node name."},
    {ROW("kubelet-root-dir", OPTION_TEXT, dra.kubelet_root),
     .default_text = "/var/lib/kubelet", .placeholder = "DIR",
     .help = "The kubelet's --root-dir, the same path for this program."},
    {ROW("dra-plugin-dir", OPTION_TEXT, dra.plugin_dir), .placeholder = "DIR",
     .help = "The directory of the DRA socket and the driver's state, below --kubelet-root-dir. "
             "Defaults to plugins/DRIVER there."},
    {ROW("dra-health-timeout", OPTION_DURATION, dra.health_timeout_ns), .default_text = "30s",
     .min = 3 * NS_PER_SEC, .max = 3600 * NS_PER_SEC,
     .help = "How long the kubelet believes a health report: whole seconds. The driver sends three "
             "in that time."},
    {ROW("dra-taint-effect", OPTION_CHOICE, dra.taint_effect),
     .choices = "NoSchedule|NoExecute|None|off", .default_text = "NoSchedule",
     .help = "The taint of an unhealthy DPU. NoSchedule: no further Pods get it. NoExecute: Pods "
             "that have it are evicted. None: information only. off: no taint."},
    {ROW("dra-attribute", OPTION_LIST, dra.attributes), .placeholder = "NAME=VALUE",
     .help = "A device attribute to select by, a string."},
    {ROW("events", OPTION_BOOL, events), .default_text = "on",
     .help = "Write an Event on each Pod that claims the DPU when its health changes."},
    {ROW("dra-claim-conditions", OPTION_BOOL, dra.claim_conditions), .default_text = "off",
     .help = "With the Events on Pods, write the condition Ready into each prepared claim."},
    {ROW("dra-rolling-update-uid", OPTION_TEXT, dra.rolling_uid), .placeholder = "UID",
     .help = "The UID of the driver's Pod. Two Pods may then run side by side during a rolling "
             "update."},
    {ROW("host-root", OPTION_PATH, host_root), .default_text = "", .placeholder = "DIR",
     .help = "The directory below which the driver sees the host's /sys, for the attributes of "
             "the DPU's function."},
    AGENT_HTTP_ROW(struct driver_config, agent, "127.0.0.1:9414"),
};
/* clang-format on */

static int check(void *config, const struct option_origins *origins, struct err *e)
{
    struct driver_config *driver = config;
    agent_options_guess_node(&driver->agent);
    if (!text_is_dns1123_subdomain(driver->agent.node_name)) {
        return option_refuse(origins, "node-name", driver->agent.node_name,
                             "at most 253 lower-case letters, digits, '-' and '.'", e);
    }
    return dra_options_check(&driver->dra, e);
}

const struct option_program *driver_options_program(void)
{
    static const struct option_program program = {
        .name = "dpu-dra-driver",
        .summary = "Offers the DPU of this node to kubelet and scheduler as a DRA device, and "
                   "shows them its health as dpu-host-agent's record has it.",
        .env_prefix = AGENT_ENV_PREFIX,
        .rows = rows,
        .row_count = ARRAY_LEN(rows),
        .check = check,
    };
    return &program;
}
