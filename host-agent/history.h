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
    int64_t last_gap_ns;           /* between the last two renewals; 0 if unknown */
    int boot_repeats;              /* renewals in a row under the boot before the last */

    struct lease_view lease; /* as last seen, to be marked; uid "": none was */
    bool is_first_look; /* since we started: another stamp than the record's was made meanwhile */
    struct wall newest; /* the latest stamp ever known; 0: none */
    char past_stamp[NAMES_STAMP_BYTES]; /* of the last state that was over already */
    struct mono reported; /* its report, for the first time with this stamp; 0: a past one */
};

/* What a state of the lease is beside what is known. */
struct news {
    bool is_same_lease; /* not deleted and made anew meanwhile */
    bool is_new_stamp;  /* another renewTime, or another lease */
    bool is_old;        /* by its version, which is a hint only: resourceVersions are opaque */
    bool is_renewal;
};

/* `by_write`: it is what our own write was answered with. */
struct news history_compare(const struct history *h, const struct lease_view *lease, bool by_write);

bool history_has_renewed(const struct history *h);
bool history_is_ours(const struct history *h, const struct lease_view *lease);

/* When a renewal was made that no trusted watch showed as it came. `looked_at` is when the last
 * read began that would have shown it. */
struct mono history_date(const struct history *h, const struct lease_view *lease,
                         int64_t interval_ns, struct mono looked_at, struct mono now);

void history_renew(struct history *h, struct mono made, const char *stamp);

/* Keeps the boot ID in `out`, with the one before. True if it is a reboot. */
bool history_take_boot(struct history *h, const struct lease_view *lease, const struct news *news,
                       struct readiness *out);

/* True if `lease`, which is not kept yet, says that the DPU is not well, and this counts. */
bool history_take_report(struct history *h, const struct lease_view *lease, const struct news *news,
                         int64_t duration_ns, struct mono now);

/* The report that was seen last is over: as silent as a DPU that never reported. */
bool history_is_report_over(const struct history *h, int64_t duration_ns, struct mono t);

/* `lease` is the last state seen from now on. */
void history_keep(struct history *h, const struct lease_view *lease);

/* It was over already. */
void history_keep_past(struct history *h, const struct lease_view *lease);

/* What a former process has left. */
void history_restore(struct history *h, const struct readiness *was, struct mono now);

#endif
