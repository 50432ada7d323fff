/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Lease as both sides see it: coordination.k8s.io/v1, the few fields we use.
 *
 * A Lease is edited in its parsed JSON tree, or in place in its text, so that fields and labels we
 * do not know survive a PUT. Reading never fails on a lease the API server accepts: every spec
 * field may be absent (coordination/v1 types.go), and what cannot be read as ours is reported as
 * such, not refused. No I/O and no clock here. Cores use the view and the pace only, which need no
 * JSON.
 */
#ifndef CONTRACT_LEASE_H
#define CONTRACT_LEASE_H

#include "base/err.h"
#include "base/time.h"
#include "contract/names.h"

#include <stdbool.h>
#include <stdint.h>

struct json_t; /* jansson's */

/* ---- what we read of it ---------------------------------------------------------------------- */

/* The DPU's report on the lease (annotation dpu.k8s.ovn.org/health). */
enum lease_health {
    LEASE_HEALTH_NONE, /* absent or any other word: nothing is said */
    LEASE_HEALTH_UNHEALTHY,
    LEASE_HEALTH_SHUTDOWN,
};

/* The word in the annotation; NULL for none. */
const char *lease_health_name(enum lease_health health);

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
    char sign[NAMES_STAMP_BYTES];        /* the renewTime that dpu-agent wrote; "": none, as of
                                            upstream's DPU side, or of one that has ended */
    uint32_t duration_s;                 /* 0 if absent or not positive */
    enum lease_health health;
    char health_message[NAMES_MESSAGE_BYTES]; /* sanitized; "" if absent */
    char health_stamp[NAMES_STAMP_BYTES];     /* sanitized; "" if absent: an older dpu-agent */
    bool has_no_probe;                        /* it says so: the renewals prove the agent alone */
    char boot_id[NAMES_BOOT_ID_BYTES];        /* "" if absent, or none that a kernel has */
    char agent_version[NAMES_AGENT_VERSION_BYTES]; /* dpu-agent's; sanitized; "" if absent */
};

/* Copies what it needs. Errors: ERR_PARSE if `lease` is not a Lease with a name, namespace, uid
 * and resourceVersion (an HTTP 200 is evidence only if it is the object that was asked for). */
NODISCARD int lease_read(const struct json_t *lease, struct lease_view *out, struct err *e);

/* The writer of renewTime, by metadata.managedFields: the name from the client's User-Agent. NULL
 * if there is not exactly one. Returns borrowed from `lease`. */
const char *lease_renewed_by(const struct json_t *lease);

/* Whether the renewTime is no DPU's. dpu-agent's sign tells, whoever is named. Without one, it is
 * the host's name; with that of another renewTime, that nobody is named: the API server keeps track
 * of no writer on a lease that dpu-agent renews. `host` is this machine's name, `writer` that of
 * lease_renewed_by(); both may be NULL. */
static inline bool lease_is_by_host(const struct lease_view *lease, const char *writer,
                                    const char *host)
{
    bool is_signed = text_equal(lease->sign, lease->renew_stamp);
    bool is_named = !text_is_empty(host) && text_equal(writer, host);
    bool is_strange = !writer && lease->sign[0] != '\0';
    return lease->renew_time_valid && !is_signed && (is_named || is_strange);
}

/* ---- the DPU's edits -------------------------------------------------------------------------
 *
 * Of a lease that lease_read has taken, or of one out of lease_new. */

/* The renewal: renewTime = now; where the clock stands still, or was set back by less than a
 * minute, the former renewTime and a microsecond. Signed; acquireTime and holderIdentity only if
 * unset; removes our health annotations. */
void lease_set_renewal(struct json_t *lease, struct wall now, const char *holder);

/* The renewTime that lease_set_renewal would write. */
struct rfc3339_text lease_next_stamp(const struct json_t *lease, struct wall now);

/* The report: the health annotations, their stamp renewed as a renewTime is, which itself stays as
 * it is. LEASE_HEALTH_NONE removes them. With a shutdown the sign goes: who renews from then on is
 * not ours. */
void lease_set_health(struct json_t *lease, enum lease_health health, const char *message,
                      struct wall now);

/* The dpu-agent that writes it, and the boot of its DPU; "" leaves the annotation as it is. A
 * companion renews nothing: a sign that is left of before goes. */
struct lease_agent {
    const char *boot_id;
    const char *version;
    bool has_no_probe;
    bool is_companion;
};
void lease_set_agent(struct json_t *lease, const struct lease_agent *agent);

/* ---- the same lease as text -------------------------------------------------------------------
 *
 * From one renewal to the next only resourceVersion and renewTime of a lease change, its sign, and
 * the times in its managedFields: digits, in places that stay. Who keeps the text of an answer
 * finds by comparing bytes that the next one differs nowhere else, and renews the text of its last
 * request in place. What looks otherwise is read as a tree: the texts above all say what that
 * would. */

enum { LEASE_PLACES_MAX = 8 };

struct lease_place { /* the characters of a text, without its quotes */
    size_t at;
    size_t len;
};

struct lease_text {
    char *text; /* owned; NULL: none is kept */
    size_t len;
    struct lease_place version;
    struct lease_place stamp;
    struct lease_place sign;                     /* len 0: there is none */
    struct lease_place places[LEASE_PLACES_MAX]; /* these, and the times; in their order */
    size_t place_count;
};

/* Copies the text of a lease that lease_read has taken. False, and none is kept, if a renewal would
 * change more, or its places cannot be told: no acquireTime or renewTime, too many times, escapes.
 */
bool lease_text_keep(struct lease_text *t, const char *text, size_t len);
/* `text` is the kept lease with other digits in its places, and this renewTime, signed alike. */
bool lease_text_matches(const struct lease_text *t, const char *text, size_t len,
                        const char *stamp);
/* Writes both into the kept text, and signs. False if they differ from what is there by more than
 * digits; the text then counts no longer. */
NODISCARD bool lease_text_renew(struct lease_text *t, const char *version, const char *stamp);
/* Gives the tree of the kept lease what a text that matches has in its places. */
void lease_text_show(const struct lease_text *t, const char *text, struct json_t *lease);
void lease_text_fini(struct lease_text *t); /* accepts a zeroed one */

/* ---- the host's edits ------------------------------------------------------------------------ */

/* The owner reference we keep on the lease. It is no controller: the API server allows one, and
 * that place is for upstream's DPU side. That one adds a controller with the UID that the Node had
 * at its start, and after the Node was made anew each of its renewals would be refused beside ours.
 */
struct lease_owner {
    const char *node_name; /* borrowed */
    const char *node_uid;  /* borrowed */
};

/* A new Lease without renewTime: nothing is alive until it has been seen alive.
 * Returns owned (json_decref). */
struct json_t *lease_new(const char *ns, const char *name, const char *holder, uint32_t duration_s,
                         struct lease_owner owner);

/* The faults that the keeper finds in a lease. */
struct lease_drift {
    bool duration; /* leaseDurationSeconds differs */
    bool owner; /* our Node's is missing, blocks deletion or is in the way, or another's is there */
    bool holder_empty;   /* nobody holds it */
    bool holder_foreign; /* somebody else does: reported and left alone */
};

struct lease_drift lease_check(const struct json_t *lease, const char *holder, uint32_t duration_s,
                               struct lease_owner owner);

/* The merge patch that mends what lease_check calls duration, owner and holder_empty. References to
 * Nodes are replaced, not appended. Never touches renewTime. It fails on another version of the
 * lease, unless it is only the duration's. Returns owned (json_decref). */
struct json_t *lease_repair(const struct json_t *lease, const char *holder, uint32_t duration_s,
                            struct lease_owner owner);

/* ---- pace ------------------------------------------------------------------------------------
 *
 * How fast both sides of a lease come back after an outage: dpu-agent keeps to these bounds, and
 * dpu-host-agent waits for it that long before silence is proof again. One formula, so that the
 * grace always outlasts the retry. It counts from when the host knows that the API server takes
 * writes again, the end of its mark: the DPU may be able to write only from then on. */

#define LEASE_PACE_BOTH_WAYS_NS NS_PER_SEC

/* How long the DPU's side waits for an answer before it tries anew: two intervals, 1 s to 5 s. */
static inline int64_t lease_pace_deadline_ns(int64_t renew_interval_ns)
{
    int64_t two_ns = mono_ns_mul(renew_interval_ns, 2);
    return mono_ns_max(mono_ns_min(two_ns, 5 * NS_PER_SEC), NS_PER_SEC);
}

/* The longest such wait, where the API server has turned out slow: an interval less a second, if
 * that is longer. */
static inline int64_t lease_pace_slow_deadline_ns(int64_t renew_interval_ns)
{
    return mono_ns_max(mono_ns_sub(renew_interval_ns, LEASE_PACE_BOTH_WAYS_NS),
                       lease_pace_deadline_ns(renew_interval_ns));
}

/* A DPU whose requests take longer cannot renew once an interval, and may be refused. */
static inline int64_t lease_pace_request_ns(int64_t renew_interval_ns)
{
    return mono_ns_min(renew_interval_ns, lease_pace_slow_deadline_ns(renew_interval_ns));
}

/* How long after an outage a living DPU may take to be seen renewing: a pause of one interval at
 * most after a request that failed, the longer of two retries, and a second for both ways; but at
 * least two intervals.
 *
 * One retry hangs: its request was sent just before the API server came back, on a connection that
 * stays dead. It runs to its deadline, and after the pause the next one is answered.
 *
 * The other is overtaken: the host's mark has changed the version of the lease, so that the PUT
 * after the pause meets a conflict, and a GET and a PUT follow it. */
static inline int64_t lease_pace_grace_ns(int64_t renew_interval_ns)
{
    int64_t pause_ns = mono_ns_add(renew_interval_ns, LEASE_PACE_BOTH_WAYS_NS);
    int64_t hanging_ns = lease_pace_slow_deadline_ns(renew_interval_ns);
    int64_t overtaken_ns = mono_ns_mul(lease_pace_request_ns(renew_interval_ns), 3);
    int64_t retry_ns = mono_ns_add(pause_ns, mono_ns_max(hanging_ns, overtaken_ns));
    return mono_ns_max(mono_ns_mul(renew_interval_ns, 2), retry_ns);
}

#endif
