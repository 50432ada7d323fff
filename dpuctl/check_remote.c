/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/doctor.h"

#include "base/clock.h"
#include "base/text.h"
#include "dpuctl/fleet_reader.h"
#include "json/json_text.h"

#include <string.h>

/* The same judgement as in the table of `dpuctl nodes`. Returns whether the agent's pod gives its
 * sockets names for a rolling update. */
static bool check_verdict(struct doctor *d)
{
    bool has_rolling_names = false;
    const struct admin_config *c = &d->config;
    const struct fleet_config look = {.kubeconfig = c->agent.kubeconfig,
                                      .context = c->context,
                                      .ns = c->agent.lease_namespace,
                                      .holder = c->agent.holder_identity,
                                      .driver = c->driver,
                                      .api_timeout_ns = admin_time_left_ns(c),
                                      .node = c->agent.node_name};
    struct fleet fleet;
    struct err e = ERR_INIT;
    if (fleet_read(&look, &fleet, &e) != 0) {
        check_add(d, CHECK_SKIP, "verdict", "", "%s", e.msg);
        return false;
    }
    if (fleet.count == 0) {
        check_add(d, CHECK_FAIL, "verdict",
                  "kubectl label node NODE k8s.ovn.org/dpu-host= and start dpu-host-agent there",
                  "Node '%s' has neither a lease nor the label of a DPU's host", look.node);
    } else {
        const struct fleet_row *row = fleet.rows;
        has_rolling_names = row->has_rolling_names;
        check_add(d,
                  row->state == READINESS_READY       ? CHECK_PASS
                  : row->state == READINESS_NOT_READY ? CHECK_FAIL
                                                      : CHECK_WARN,
                  "verdict", row->state == READINESS_READY ? "" : fleet_cure(row->reason),
                  "%s (%s): %s", readiness_state_name(row->state), row->reason, row->message);
    }
    fleet_fini(&fleet);
    return has_rolling_names;
}

/* The account that a binding gives the Role of DPUs to, if it is not one DPU's own; else NULL. */
static const json_t *shared_account(const json_t *binding)
{
    const char *role = json_text_get(json_object_get(binding, "roleRef"), "name");
    size_t len = role ? strlen(role) : 0;
    bool is_dpus = text_equal(role, "dpu-agent") || /* rbac/, or a release of the chart */
                   (len > 4 && text_equal(role + len - 4, "-dpu"));
    size_t i;
    const json_t *subject;
    json_array_foreach(json_object_get(binding, "subjects"), i, subject)
    {
        const char *name = json_text_get(subject, "name");
        bool is_account = text_equal(json_text_get(subject, "kind"), "ServiceAccount");
        if (is_dpus && is_account && name && strncmp(name, "dpu-agent-", 10) != 0) {
            return subject;
        }
    }
    return NULL;
}

/* The admission policy ties a DPU to its lease by its user, so it cannot where they have one. Who
 * may not look is not told. */
static void check_accounts(struct doctor *d)
{
    struct api_reader *api;
    size_t i;
    const json_t *binding;
    if (api_reader_open(&d->config, &api, NULL) != 0) {
        return; /* check_api says why */
    }
    const struct api_answer *answer =
        api_reader_ask(api, NULL, "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
                       d->config.agent.lease_namespace);
    api_reader_wait(api);
    json_array_foreach(json_object_get(answer->body, "items"), i, binding)
    {
        const json_t *account = shared_account(binding);
        const char *ns = json_text_get(account, "namespace");
        if (account) {
            check_add(d, CHECK_WARN, "rights",
                      "deploy/dpu-kubeconfig makes one for each DPU; where the platform hands out "
                      "the same to all, trust them all alike (docs/security.md)",
                      "DPUs share the account '%s/%s': no policy keeps one from renewing the "
                      "lease of another",
                      ns ? ns : "", json_text_get(account, "name"));
        }
    }
    api_reader_close(api);
}

void check_from_afar(struct doctor *d)
{
    char command[CHECK_TEXT_BYTES];
    d->look = (struct node_look){.wall = clock_wall_now()};
    bool has_rolling_names = check_verdict(d);
    check_api(d);
    check_accounts(d);
    if (has_rolling_names) {
        check_rolling_names(d);
    }
    if (d->runtime_version[0]) {
        check_judge_runtime(d, d->runtime_version, NULL);
    }
    text_format(command, sizeof(command),
                "kubectl debug node/%.100s -it --image=dpu-heartbeat-host:%s --profile=sysadmin "
                "-- dpuctl doctor --root=/host",
                d->config.agent.node_name, DPU_VERSION);
    check_add(d, CHECK_SKIP, "host", command,
              "record, agent, CNI, the runtime's settings and the kubelet's sockets are seen on "
              "the node only");
}
