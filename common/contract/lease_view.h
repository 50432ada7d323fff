/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we read of a Lease, as a plain value: copy it. Filled by lease_read (contract/lease.h) and
 * judged by the readiness FSM, which knows no JSON.
 */
#ifndef CONTRACT_LEASE_VIEW_H
#define CONTRACT_LEASE_VIEW_H

#include "base/time.h"
#include "contract/names.h"

#include <stdbool.h>
#include <stdint.h>

/* What the DPU says of itself on the lease (annotation dpu.k8s.ovn.org/health). */
enum lease_health {
    LEASE_HEALTH_NONE, /* absent or any other word: nothing is said */
    LEASE_HEALTH_UNHEALTHY,
    LEASE_HEALTH_SHUTDOWN,
};

/* A plain copy of what we read; every text is bounded, cut texts are marked invalid. */
struct lease_view {
    char ns[NAMES_K8S_NAME_BYTES];
    char name[NAMES_K8S_NAME_BYTES];
    char uid[NAMES_UID_BYTES];
    char resource_version[NAMES_VERSION_BYTES];
    char holder[NAMES_HOLDER_BYTES];     /* "" if absent */
    char renew_stamp[NAMES_STAMP_BYTES]; /* renewTime as text, unparsed; "" if absent/null */
    bool renew_time_valid;               /* renew_stamp is RFC 3339 */
    struct wall renew_time;              /* only if renew_time_valid */
    uint32_t duration_s;                 /* 0 if absent or not positive */
    enum lease_health health;
    char health_message[NAMES_MESSAGE_BYTES]; /* sanitized; "" if absent */
    char health_stamp[NAMES_STAMP_BYTES];     /* sanitized; "" if absent: an older dpu-agent */
    bool has_no_probe;                        /* it says so: the renewals prove the agent alone */
    char boot_id[NAMES_BOOT_ID_BYTES];        /* "" if absent, or none that a kernel has */
    char agent_version[NAMES_AGENT_VERSION_BYTES]; /* dpu-agent's; sanitized; "" if absent */
};

#endif
