/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/readiness.h"

#include "base/text.h"

#include <assert.h>

static const char *const state_names[] = {
    [READINESS_UNKNOWN] = "Unknown",
    [READINESS_NOT_READY] = "NotReady",
    [READINESS_READY] = "Ready",
};

static const char *const reason_names[REASON_COUNT] = {
    [REASON_AWAITING_FIRST_RENEWAL] = "AwaitingFirstRenewal",
    [REASON_LEASE_RENEWED] = "LeaseRenewed",
    [REASON_HEALTH_CHECK_DISABLED] = "HealthCheckDisabled",
    [REASON_LEASE_EXPIRED] = "LeaseExpired",
    [REASON_LEASE_NOT_FOUND] = "LeaseNotFound",
    [REASON_LEASE_INVALID] = "LeaseInvalid",
    [REASON_DPU_REPORTED_UNHEALTHY] = "DPUReportedUnhealthy",
    [REASON_DPU_SHUTDOWN] = "DPUShutdown",
    [REASON_API_SERVER_UNREACHABLE] = "ApiServerUnreachable",
    [REASON_API_SERVER_NOT_WRITING] = "ApiServerNotWriting",
    [REASON_POD_NETWORK_LOST] = "PodNetworkLost",
    [REASON_HOST_PROBE_FAILED] = "HostProbeFailed",
    [REASON_RECORD_MISSING] = "RecordMissing",
    [REASON_RECORD_STALE] = "RecordStale",
    [REASON_RECORD_INVALID] = "RecordInvalid",
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

const char *readiness_reason_name(enum readiness_reason reason)
{
    assert(reason < REASON_COUNT);
    return reason_names[reason];
}

const char *host_probe_state_name(enum host_probe_state state)
{
    assert((size_t)state < ARRAY_LEN(host_probe_state_names));
    return host_probe_state_names[state];
}

/* Index of `name`, or `count`. */
static size_t find_name(const char *const *names, size_t count, const char *name)
{
    size_t i = 0;
    while (i < count && !text_equal(names[i], name)) {
        i++;
    }
    return i;
}

bool readiness_state_from_name(const char *name, enum readiness_state *out)
{
    size_t i = find_name(state_names, ARRAY_LEN(state_names), name);
    if (i == ARRAY_LEN(state_names)) {
        return false;
    }
    *out = (enum readiness_state)i;
    return true;
}

bool readiness_reason_from_name(const char *name, enum readiness_reason *out)
{
    size_t i = find_name(reason_names, REASON_COUNT, name);
    if (i == REASON_COUNT) {
        return false;
    }
    *out = (enum readiness_reason)i;
    return true;
}

bool host_probe_state_from_name(const char *name, enum host_probe_state *out)
{
    size_t i = find_name(host_probe_state_names, ARRAY_LEN(host_probe_state_names), name);
    if (i == ARRAY_LEN(host_probe_state_names)) {
        return false;
    }
    *out = (enum host_probe_state)i;
    return true;
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
           text_equal(a->message, b->message);
}
