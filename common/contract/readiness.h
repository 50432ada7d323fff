/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict: is the DPU behind this node ready, why, and until when is that known?
 *
 * Computed in one place (host-agent/verdict.h). The record, the DRA health
 * stream, the ResourceSlice taint, events, metrics and log lines are projections of this struct;
 * none of them decides anything by itself. A plain value: copy it.
 */
#ifndef CONTRACT_READINESS_H
#define CONTRACT_READINESS_H

#include "base/err.h"
#include "base/time.h"
#include "contract/names.h"

#include <stdbool.h>
#include <stdint.h>

/* 0 is the safe state. */
enum readiness_state {
    READINESS_UNKNOWN,
    READINESS_NOT_READY,
    READINESS_READY,
};

/* Why; in the CamelCase of Kubernetes conditions. docs/reasons.md has cause and cure of each. */
enum readiness_reason {
    REASON_AWAITING_FIRST_RENEWAL,
    REASON_LEASE_RENEWED,
    REASON_HEALTH_CHECK_DISABLED,
    REASON_LEASE_EXPIRED,
    REASON_LEASE_NOT_FOUND,
    REASON_LEASE_INVALID,
    REASON_DPU_REPORTED_UNHEALTHY,
    REASON_DPU_SHUTDOWN,
    REASON_API_SERVER_UNREACHABLE,
    REASON_API_SERVER_NOT_WRITING,
    REASON_POD_NETWORK_LOST,
    REASON_HOST_PROBE_FAILED,
    /* Only a reader of the record comes to these. */
    REASON_RECORD_MISSING,
    REASON_RECORD_STALE,
    REASON_RECORD_INVALID,
    REASON_OTHER, /* of a newer writer: `other_reason` */
    REASON_COUNT
};

/* The consequences of a reason, the same in all outputs. */
struct reason_traits {
    const char *name;           /* "LeaseRenewed" */
    enum readiness_state state; /* of the DPU, as far as the reason tells */
    int status_code; /* CNI 1.1.0: 50, the plugin is not available; 51: running pods are hit, too */
    const char *fix; /* what to do about it */
};

struct readiness_lease {
    char ns[NAMES_K8S_NAME_BYTES];
    char name[NAMES_K8S_NAME_BYTES];
    char uid[NAMES_UID_BYTES];           /* "" while no lease was seen */
    char renew_stamp[NAMES_STAMP_BYTES]; /* renewTime of the last renewal that was observed */
    char resource_version[NAMES_VERSION_BYTES];
    uint32_t duration_s; /* as on the lease; 0 if absent */
};

/* The result of a host probe, one of the host's own, in this boot of the host. */
enum host_probe_state {
    HOST_PROBE_NEVER_WELL, /* never that all is well: whatever else it says proves nothing */
    HOST_PROBE_WELL,
    HOST_PROBE_FAILED, /* it said so once, and says no now */
};

enum { HOST_PROBES_MAX = 8, HOST_PROBE_BYTES = 96 };

struct readiness_host_probe {
    char probe[HOST_PROBE_BYTES]; /* as configured, its settings too: no two are alike */
    enum host_probe_state says;
};

struct readiness_host_probes {
    struct readiness_host_probe each[HOST_PROBES_MAX];
    uint32_t count;
};

struct readiness {
    enum readiness_state state;
    bool admit; /* CNI ADD goes through: always for Ready, never for NotReady, held for Unknown */
    enum readiness_reason reason;
    char other_reason[NAMES_REASON_BYTES]; /* the word of REASON_OTHER; else "" */
    char message[NAMES_MESSAGE_BYTES];     /* one sentence without the "DPU Not Ready: " prefix */
    struct mono observed;                  /* when the last renewal was observed; 0 if none was */
    struct mono lease_until;               /* when the lease runs out; 0 if none was renewed */
    struct wall transition; /* when state, admit or reason last changed, by the host's clock */
    struct readiness_lease lease;
    char dpu_boot_id[NAMES_BOOT_ID_BYTES];     /* of the DPU that renews; "" if it does not say */
    char dpu_boot_before[NAMES_BOOT_ID_BYTES]; /* the one before; "" if none is known */
    struct wall dpu_rebooted; /* when another boot than before was seen, by the host's clock; 0:
                                 none was */
    struct readiness_host_probes host_probes;
};

/* "Ready", "NotReady", "Unknown". */
const char *readiness_state_name(enum readiness_state state);
const struct reason_traits *readiness_reason_traits(enum readiness_reason reason);
/* The next step; also for a name that is none of ours (a newer agent's). */
const char *readiness_reason_fix(const char *name);
/* "LeaseRenewed" ... */
const char *readiness_reason_name(enum readiness_reason reason);
/* The same of a verdict that may be a newer writer's. Borrowed from it, or static. */
const char *readiness_reason_word(const struct readiness *r);
/* "none", "well", "failed". */
const char *host_probe_state_name(enum host_probe_state state);
/* The inverse. Returns false for a word that is none of ours. */
NODISCARD bool readiness_state_from_name(const char *name, enum readiness_state *out);
NODISCARD bool readiness_reason_from_name(const char *name, enum readiness_reason *out);
NODISCARD bool host_probe_state_from_name(const char *name, enum host_probe_state *out);

/* One of them accuses the DPU. */
bool readiness_is_accused(const struct readiness *r);
/* Same verdict for an observer: state, admit, reason and message are equal. */
bool readiness_same_verdict(const struct readiness *a, const struct readiness *b);

#endif
