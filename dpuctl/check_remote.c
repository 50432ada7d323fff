/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/doctor.h"

#include "base/clock.h"
#include "base/text.h"
#include "dpuctl/fleet_reader.h"

#include <string.h>

/* The same judgement as in the table of `dpuctl nodes`. */
static void check_verdict(struct doctor *d)
{
    const struct admin_config *c = &d->config;
    const struct fleet_config look = {.kubeconfig = c->agent.kubeconfig,
                                      .context = c->context,
                                      .ns = c->agent.lease_namespace,
                                      .holder = c->agent.holder_identity,
                                      .driver = c->driver,
                                      .api_timeout_ns = c->api_timeout_ns,
                                      .node = c->agent.node_name};
    struct fleet fleet;
    struct err e = ERR_INIT;
    if (fleet_read(&look, &fleet, &e) != 0) {
        check_add(d, CHECK_SKIP, "verdict", "", "%s", e.msg);
        return;
    }
    if (fleet.count == 0) {
        check_add(d, CHECK_FAIL, "verdict",
                  "kubectl label node NODE k8s.ovn.org/dpu-host= and start dpu-host-agent there",
                  "Node '%s' has neither a lease nor the label of a DPU's host", look.node);
    } else {
        const struct fleet_row *row = fleet.rows;
        check_add(d,
                  row->state == READINESS_READY       ? CHECK_PASS
                  : row->state == READINESS_NOT_READY ? CHECK_FAIL
                                                      : CHECK_WARN,
                  "verdict", row->state == READINESS_READY ? "" : fleet_cure(row->reason),
                  "%s (%s): %s", readiness_state_name(row->state), row->reason, row->message);
    }
    fleet_fini(&fleet);
}

/* Of CRI-O it is a setting that counts, which is on the node. */
static void check_runtime_version(struct doctor *d)
{
    static const char scheme[] = "containerd://";
    if (strncmp(d->runtime_version, scheme, sizeof(scheme) - 1) == 0) {
        check_judge_runtime(d, d->runtime_version, "");
    }
}

void check_from_afar(struct doctor *d)
{
    char command[CHECK_TEXT_BYTES];
    d->look = (struct node_look){.wall = clock_wall_now()};
    check_verdict(d);
    check_api(d);
    check_runtime_version(d);
    text_format(command, sizeof(command),
                "kubectl debug node/%.100s -it --image=dpu-heartbeat-host:%s --profile=sysadmin "
                "-- dpuctl doctor --root=/host",
                d->config.agent.node_name, DPU_VERSION);
    check_add(d, CHECK_SKIP, "host", command,
              "record, agent, CNI, the runtime's settings and the kubelet's sockets are seen on "
              "the node only");
}
