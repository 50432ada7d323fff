/* SPDX-License-Identifier: Apache-2.0 */
/*
 * History: what the host has seen on the lease, and what of it is a renewal, a reboot, a report, or
 * past. CORE.
 *
 * The API server may show what is over: a watch that resumes, a server that lags, a late answer, an
 * etcd that was restored. And not everything new on the lease is the DPU's. docs/architecture.md,
 * "Rules for both sides", says what counts; this module decides it, and judges nothing.
 */
#ifndef HOST_AGENT_HISTORY_H
#define HOST_AGENT_HISTORY_H

#include "base/time.h"
#include "contract/lease.h"
#include "contract/readiness.h"

#include <stdbool.h>
#include <stdint.h>

struct history {
    const char *holder; /* whose renewals count; borrowed */

    /* The last renewal. Without one, `observed` is when waiting began. */
    struct mono observed;          /* o */
    char stamp[NAMES_STAMP_BYTES]; /* its renewTime; "": there was none */
    struct wall stamp_time;        /* of the DPU's clock, as seen since we run; 0: none */
    char uid[NAMES_UID_BYTES];     /* of its lease */
    int64_t last_gap_ns;           /* between the last two renewals; 0 if unknown */
    int boot_repeats;              /* renewals in a row under the boot before the last */

    struct lease_view lease;            /* as last seen, to be marked; uid "": none was */
    struct wall newest;                 /* the latest stamp ever known, of reports too; 0: none */
    uint64_t version;                   /* the highest seen; 0: unknown */
    char past_stamp[NAMES_STAMP_BYTES]; /* of the last state that was over when it was seen */
    struct mono reported; /* when its report was seen first with its present stamp; 0: a past one */

    /* Nothing was seen since this process began: a stamp other than the record's was made while
     * none ran. */
    bool is_first_look;
};

/* What a state of the lease is beside what is known. */
struct news {
    bool is_same_lease; /* not deleted and made anew meanwhile */
    bool is_new_stamp;  /* another renewTime, or another lease */
    bool is_old;        /* by its version, a hint only, before the last state seen, */
    bool is_behind;     /* or before any that was seen, on whichever lease */
    bool is_renewal;
    bool is_late_report; /* stamped later than all that is known */
};

/* `by_write`: it is what our own write was answered with. */
struct news history_compare(const struct history *h, const struct lease_view *lease, bool by_write);

bool history_has_renewed(const struct history *h);
bool history_is_ours(const struct history *h, const struct lease_view *lease);

/* When a renewal was made that no trusted watch showed as it came. `looked_at` is when the last
 * read began that would have shown it. */
struct mono history_date(const struct history *h, const struct lease_view *lease,
                         int64_t interval_ns, struct mono looked_at, struct mono now);

void history_renew(struct history *h, struct mono made, const struct lease_view *lease);

/* Keeps the boot ID in `out`, with the one before. True if it is a reboot. */
bool history_take_boot(struct history *h, const struct lease_view *lease, const struct news *news,
                       struct readiness *out);

/* True if `lease`, which is not kept yet, says that the DPU is not well, and this counts. */
bool history_take_report(struct history *h, const struct lease_view *lease, const struct news *news,
                         int64_t duration_ns, struct mono now);

/* The report that was seen last is over: as silent as a DPU that never reported. */
bool history_is_report_over(const struct history *h, int64_t duration_ns, struct mono t);

/* `lease` is the last state seen from now on. If it `stands`, by a write on it or by a stamp of the
 * DPU's, higher versions than its own are of an etcd that is no more. */
void history_keep(struct history *h, const struct lease_view *lease, bool stands);

/* It was over already. */
void history_keep_past(struct history *h, const struct lease_view *lease);

/* What a former process has left. */
void history_restore(struct history *h, const struct readiness *was, struct mono now);

/* ---- whose renewal it is ---------------------------------------------------------------------
 *
 * Which machine wrote a renewTime, the DPU or this host? ovn-kubernetes' own health check writes
 * one on the host, too, each time that it starts. What this host wrote is no sign of life of the
 * DPU.
 *
 * dpu-agent signs its renewals, and clears managedFields. A renewTime that it has not signed,
 * beside a sign of its own, is another program's, unless a dpu-agent of another version wrote it,
 * which does not sign yet. Where nobody signs, upstream names the machine in its User-Agent, and
 * the API server keeps that name in managedFields.
 *
 * A DPU may have the host's name, and another program than dpu-agent may renew on it. Their
 * renewals are known by their rhythm: two gaps in a row that are alike and shorter than the lease.
 * A host that is restarted with a back-off has no such rhythm.
 */

enum { ORIGIN_HOST_BYTES = 65 }; /* a Linux host name */

struct renewal_origin {
    char host[ORIGIN_HOST_BYTES];           /* "": nobody can say */
    char uid[NAMES_UID_BYTES];              /* of the lease as last seen; "": none yet */
    char newest[NAMES_STAMP_BYTES];         /* its renewTime */
    struct lease_view dpu;                  /* the lease with the newest renewTime of the DPU */
    char signer[NAMES_AGENT_VERSION_BYTES]; /* the version of the dpu-agent that signed last */
    struct wall host_wrote;                 /* the last renewTime that is the host's; 0: none */
    int64_t gap_ns;                         /* between the last two of them; 0: there are no two */
    bool is_regular;                        /* by their rhythm they are the DPU's, after all */
};

/* Replaces a renewTime that is not the DPU's by the DPU's newest one. `writer` is who wrote it by
 * managedFields, or NULL. Where nobody signs, the first look at a lease is left as it is: it is no
 * renewal. Returns true if such a one was written since the last look. */
bool origin_leave_out_host(struct renewal_origin *o, struct lease_view *lease, const char *writer);

#endif
