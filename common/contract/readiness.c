/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/readiness.h"

#include "base/text.h"

#include <assert.h>

static const char *const state_names[] = {
    [READINESS_UNKNOWN] = "Unknown",
    [READINESS_NOT_READY] = "NotReady",
    [READINESS_READY] = "Ready",
};

#define LOOK_AT_DPU                                                                                \
    "check the DPU's power and network, and run 'systemctl status dpu-agent' there; "              \
    "docs/reasons.md has the causes of each reason"
#define START_HOST_AGENT                                                                           \
    "start dpu-host-agent ('systemctl enable --now dpu-host-agent'), or check its Pod: "           \
    "'kubectl get pods -A -l app.kubernetes.io/name=dpu-host-agent -o wide'"

static const struct reason_traits traits[REASON_COUNT] = {
    [REASON_AWAITING_FIRST_RENEWAL] =
        {"AwaitingFirstRenewal", READINESS_UNKNOWN, 50,
         "check that dpu-agent runs on the DPU, with this node's name and its credential"},
    [REASON_LEASE_RENEWED] = {"LeaseRenewed", READINESS_READY, 50, LOOK_AT_DPU},
    [REASON_HEALTH_CHECK_DISABLED] = {"HealthCheckDisabled", READINESS_READY, 50, LOOK_AT_DPU},
    [REASON_LEASE_EXPIRED] = {"LeaseExpired", READINESS_NOT_READY, 50, LOOK_AT_DPU},
    [REASON_LEASE_NOT_FOUND] = {"LeaseNotFound", READINESS_NOT_READY, 50,
                                "check that dpu-host-agent, which creates the lease, runs on the "
                                "host with this namespace"},
    [REASON_LEASE_INVALID] =
        {"LeaseInvalid", READINESS_NOT_READY, 50,
         "find out who holds and who renews the lease; set --holder-identity alike on both sides"},
    [REASON_DPU_REPORTED_UNHEALTHY] =
        {"DPUReportedUnhealthy", READINESS_NOT_READY, 50,
         "repair the service that the probe names; run 'journalctl -u dpu-agent' on the DPU"},
    [REASON_DPU_SHUTDOWN] = {"DPUShutdown", READINESS_NOT_READY, 50,
                             "start dpu-agent on the DPU: it was stopped on purpose"},
    [REASON_API_SERVER_UNREACHABLE] = {"ApiServerUnreachable", READINESS_UNKNOWN, 50,
                                       "repair the host's connection to the API server"},
    [REASON_API_SERVER_NOT_WRITING] =
        {"ApiServerNotWriting", READINESS_UNKNOWN, 50,
         "check what rejects the host's writes to the lease: etcd's space and quorum, webhooks and "
         "policies on leases, the right to patch leases (rbac/host-agent.yaml)"},
    [REASON_POD_NETWORK_LOST] = {"PodNetworkLost", READINESS_NOT_READY, 51,
                                 "run 'dpuctl pods' on the host; delete the Pods that it lists, or "
                                 "set --on-lost-network=restart of dpu-host-agent"},
    [REASON_HOST_PROBE_FAILED] = {"HostProbeFailed", READINESS_NOT_READY, 50,
                                  "check the DPU from its host: 'lspci', 'ip link', the cable; "
                                  "'dpuctl status' there lists the host probes"},
    [REASON_RECORD_MISSING] = {"RecordMissing", READINESS_UNKNOWN, 50, START_HOST_AGENT},
    [REASON_RECORD_STALE] = {"RecordStale", READINESS_UNKNOWN, 50,
                             START_HOST_AGENT "; if it is gone for good, take the gate out: "
                                              "'dpu-host-agent uninstall-cni', or remove "
                                              "0*-dpu-gate.conf* from the CNI directory"},
    [REASON_RECORD_INVALID] = {"RecordInvalid", READINESS_UNKNOWN, 50, START_HOST_AGENT},
    [REASON_OTHER] = {"Other", READINESS_UNKNOWN, 50, LOOK_AT_DPU},
};

static const char *const host_probe_state_names[] = {
    [HOST_PROBE_NEVER_WELL] = "none",
    [HOST_PROBE_WELL] = "well",
    [HOST_PROBE_FAILED] = "failed",
};

const char *readiness_state_name(enum readiness_state state)
{
    assert((size_t)state < ARRAY_LEN(state_names));
    return state_names[state];
}

const struct reason_traits *readiness_reason_traits(enum readiness_reason reason)
{
    assert(reason < REASON_COUNT);
    return &traits[reason];
}

const char *readiness_reason_name(enum readiness_reason reason)
{
    return readiness_reason_traits(reason)->name;
}

const char *readiness_reason_word(const struct readiness *r)
{
    return r->reason == REASON_OTHER ? r->other_reason : readiness_reason_name(r->reason);
}

const char *readiness_reason_fix(const char *name)
{
    enum readiness_reason reason;
    return readiness_reason_from_name(name, &reason) ? traits[reason].fix : LOOK_AT_DPU;
}

const char *host_probe_state_name(enum host_probe_state state)
{
    assert((size_t)state < ARRAY_LEN(host_probe_state_names));
    return host_probe_state_names[state];
}

bool readiness_state_from_name(const char *name, enum readiness_state *out)
{
    for (size_t i = 0; i < ARRAY_LEN(state_names); i++) {
        if (text_equal(state_names[i], name)) {
            *out = (enum readiness_state)i;
            return true;
        }
    }
    return false;
}

bool readiness_reason_from_name(const char *name, enum readiness_reason *out)
{
    for (size_t i = 0; i < REASON_COUNT; i++) {
        if (text_equal(traits[i].name, name)) {
            *out = (enum readiness_reason)i;
            return true;
        }
    }
    return false;
}

bool host_probe_state_from_name(const char *name, enum host_probe_state *out)
{
    for (size_t i = 0; i < ARRAY_LEN(host_probe_state_names); i++) {
        if (text_equal(host_probe_state_names[i], name)) {
            *out = (enum host_probe_state)i;
            return true;
        }
    }
    return false;
}

bool readiness_is_accused(const struct readiness *r)
{
    for (size_t i = 0; i < r->host_probes.count; i++) {
        if (r->host_probes.each[i].says == HOST_PROBE_FAILED) {
            return true;
        }
    }
    return false;
}

bool readiness_same_verdict(const struct readiness *a, const struct readiness *b)
{
    return a->state == b->state && a->admit == b->admit && a->reason == b->reason &&
           text_equal(a->other_reason, b->other_reason) && text_equal(a->message, b->message);
}
