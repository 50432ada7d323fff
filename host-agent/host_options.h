/* SPDX-License-Identifier: Apache-2.0 */
/* The options of dpu-host-agent. Const once option_parse(host_options_program(), ...) is done. */
#ifndef HOST_AGENT_HOST_OPTIONS_H
#define HOST_AGENT_HOST_OPTIONS_H

#include "host-agent/install/cni_install.h"
#include "loop/agent_options.h"
#include "loop/option.h"

#include <stdbool.h>
#include <stdint.h>

struct host_config {
    struct agent_config agent;
    char *readiness_file;       /* an absolute path */
    int64_t api_outage_hold_ns; /* INT64_MAX: unlimited */
    int64_t stale_hold_ns;
    bool cni_sync;
    struct cni_options cni;
    bool events;         /* on the Node; only with an API client at all */
    bool node_condition; /* DPUReady */
    bool node_condition_firm;
    char *cri_socket;          /* an absolute path; "": nobody looks at pods */
    char *host_root;           /* an absolute path, or "" */
    struct option_list probes; /* as written; the probe module reads them */
    int on_lost_network;       /* enum podnet_mode */
};

/* The name of a further DPU of the node, by its lease `ovn-dpu-NODE--DPU`, as the admission
 * policies know it; "" for the first DPU. Borrowed from the config. */
const char *host_options_further_dpu(const struct agent_config *agent);

/* Static: lives as long as the program. */
const struct option_program *host_options_program(void);

#endif
