/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the DRA plugin, as rows for the host agent's table. */
#ifndef DRA_DRA_OPTIONS_H
#define DRA_DRA_OPTIONS_H

#include "base/err.h"
#include "contract/names.h"
#include "host-agent/dra/dra_service.h"
#include "loop/option.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dra_mode { DRA_AUTO, DRA_ON, DRA_OFF };

/* Texts are owned by the program's config: free with option_fini. */
struct dra_options {
    int mode; /* enum dra_mode */
    char *driver;
    char *device;
    char *kubelet_root;
    char *registrar_dir;
    char *plugin_dir;
    char *lock_dir;
    char *pool;
    int64_t health_timeout_ns;
    int taint_effect; /* enum slice_effect */
    struct option_list attributes;
    char *rolling_uid;
    char *netdev;
};

/* clang-format off */
/* NOLINTBEGIN(bugprone-macro-parentheses): initialisers, not expressions */
#define DRA_OPTION_ROWS(owner, member) \
    {.name = "dra", .type = OPTION_CHOICE, .offset = offsetof(owner, member.mode), \
     .choices = "auto|on|off", .default_text = "auto", \
     .help = "Report the DPU to the kubelet and the scheduler as a DRA device. auto: if the " \
             "kubelet's plugin registry exists when the agent starts."}, \
    {.name = "dra-driver-name", .type = OPTION_TEXT, .offset = offsetof(owner, member.driver), \
     .default_text = NAMES_DRA_DRIVER, .placeholder = "NAME", \
     .help = "The DRA driver: a DNS name of at most 63 bytes, as in the DeviceClass."}, \
    {.name = "dra-device-name", .type = OPTION_TEXT, .offset = offsetof(owner, member.device), \
     .default_text = "dpu0", .placeholder = "NAME", .help = "The device: a DNS label."}, \
    {.name = "dra-pool-name", .type = OPTION_TEXT, .offset = offsetof(owner, member.pool), \
     .placeholder = "NAME", .help = "The pool. Without it it is the node name."}, \
    {.name = "kubelet-root-dir", .type = OPTION_TEXT, \
     .offset = offsetof(owner, member.kubelet_root), .default_text = "/var/lib/kubelet", \
     .placeholder = "DIR", .help = "The kubelet's --root-dir, as seen by this agent."}, \
    {.name = "dra-registrar-dir", .type = OPTION_TEXT, \
     .offset = offsetof(owner, member.registrar_dir), .placeholder = "DIR", \
     .help = "Where the registration socket goes. Without it it is plugins_registry in " \
             "--kubelet-root-dir."}, \
    {.name = "dra-plugin-dir", .type = OPTION_TEXT, .offset = offsetof(owner, member.plugin_dir), \
     .placeholder = "DIR", \
     .help = "Where the DRA socket goes, under the same path for the kubelet. Without it it is " \
             "plugins/DRIVER in --kubelet-root-dir."}, \
    {.name = "dra-lock-dir", .type = OPTION_TEXT, .offset = offsetof(owner, member.lock_dir), \
     .placeholder = "DIR", \
     .help = "Where the agents of one driver keep their locks. Without it it is --dra-plugin-dir."}, \
    {.name = "dra-health-timeout", .type = OPTION_DURATION, \
     .offset = offsetof(owner, member.health_timeout_ns), .default_text = "30s", \
     .min = 3 * NS_PER_SEC, .max = 3600 * NS_PER_SEC, \
     .help = "How long the kubelet believes a health report: whole seconds. Three are sent in that " \
             "time."}, \
    {.name = "dra-taint-effect", .type = OPTION_CHOICE, \
     .offset = offsetof(owner, member.taint_effect), \
     .choices = "NoSchedule|NoExecute|None|off", .default_text = "NoSchedule", \
     .help = "What an unhealthy DPU does to pods that claim it: get none (NoSchedule), lose those " \
             "it has (NoExecute), tell only (None), nothing (off)."}, \
    {.name = "dra-attribute", .type = OPTION_LIST, .offset = offsetof(owner, member.attributes), \
     .placeholder = "NAME=VALUE", .help = "A device attribute to select by: a string."}, \
    {.name = "dpu-netdev", .type = OPTION_TEXT, .offset = offsetof(owner, member.netdev), \
     .placeholder = "NAME", \
     .help = "A network device of the DPU on this host; its PCI address, ids, driver and serial " \
             "number become attributes."}, \
    {.name = "dra-rolling-update-uid", .type = OPTION_TEXT, \
     .offset = offsetof(owner, member.rolling_uid), .placeholder = "UID", \
     .help = "The UID of our pod: two instances may then run side by side in a rolling update " \
             "(kubelet 1.33 or newer)."}
/* NOLINTEND(bugprone-macro-parentheses) */
/* clang-format on */

/* Checks what a table cannot. Errors: ERR_PARSE, ERR_LIMIT, naming the option. */
NODISCARD int dra_options_check(const struct dra_options *o, struct err *e);

/* False for off, and for auto where there is no plugin registry. */
bool dra_options_enabled(const struct dra_options *o);

/* Fills what the options say into `config` (texts borrowed from `o`). Attributes found on the host
 * come first, so that given ones win; a host device that cannot be read is logged, not an error. */
NODISCARD int dra_options_apply(const struct dra_options *o, struct dra_config *config,
                                struct err *e);

#endif
