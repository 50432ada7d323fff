/* SPDX-License-Identifier: Apache-2.0 */
/* The options of dpu-agent. Const once option_parse(dpu_options_program(), ...) is done. */
#ifndef DPU_AGENT_DPU_OPTIONS_H
#define DPU_AGENT_DPU_OPTIONS_H

#include "loop/agent_options.h"
#include "loop/option.h"

#include <stdbool.h>
#include <stdint.h>

struct dpu_config {
    struct agent_config agent;
    struct option_list probes; /* as written; the probe module reads them */
    int64_t probe_interval_ns; /* these four: for a probe that says nothing else */
    int64_t probe_timeout_ns;
    int64_t probe_failure_threshold;
    int64_t probe_success_threshold;
    bool announce_shutdown;
    int heartbeat; /* enum dpu_heartbeat */
    char *ovs_rundir;
    char *ovn_rundir; /* NULL: the same */
};

enum dpu_heartbeat { DPU_HEARTBEAT_OWN, DPU_HEARTBEAT_COMPANION };

/* Static: lives as long as the program. */
const struct option_program *dpu_options_program(void);

#endif
