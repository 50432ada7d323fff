/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the readiness FSM share; see expiry.h. CORE. */
#ifndef HOST_AGENT_EXPIRY_INTERNAL_H
#define HOST_AGENT_EXPIRY_INTERNAL_H

#include "host-agent/expiry.h"

/* expiry.c */
void expiry_move(struct expiry *x, enum expiry_phase to);
struct mono expiry_run_out(const struct expiry *x);        /* when the lease itself runs out */
struct mono expiry_proof_deadline(const struct expiry *x); /* when silence becomes proof */
/* The last early read, shortly before the deadline, was answered. */
bool expiry_early_reads_went_well(const struct expiry *x);
/* How long after a renewal the watch becomes suspect. */
int64_t expiry_suspicion_ns(const struct expiry *x);
/* Reads again if the next renewal does not show: a renewal was just observed. */
void expiry_expect_renewal(struct expiry *x);
/* Silence is no proof before the DPU had the time of one retry from now. */
void expiry_give_grace(struct expiry *x, struct mono now, enum expiry_grace_cause cause);
void expiry_adopt_duration(struct expiry *x, uint32_t duration_s, struct mono now);

/* expiry_renewal.c: what a state of the lease says. */
void expiry_remember_stamp(struct expiry *x, const char *stamp);
/* Of a Lease, for comparing: resourceVersions are opaque, so that it is a hint only. 0: none. */
uint64_t expiry_version(const struct lease_view *lease);
/* A state of this lease that we have already gone past: a lagging API server, a late answer. */
bool expiry_is_stale(const struct expiry *x, const struct lease_view *lease,
                     enum expiry_source source);
/* A lease that a read has found replaced by another one since. */
bool expiry_is_past(const struct expiry *x, const struct lease_view *lease,
                    enum expiry_source source);
/* Takes it for a renewal if it is one, and says so. `is_prompt`: it was made just now, for else we
 * would have seen it before. */
bool expiry_take_renewal(struct expiry *x, const struct lease_view *lease, bool is_prompt,
                         struct mono now);
/* Counts a renewal as observed at `observed`. */
void expiry_note_renewal(struct expiry *x, struct mono observed, const struct lease_view *lease);
/* When the renewal that `lease` shows was made, by the distance of the DPU's own stamps from the
 * last observed one, or from the baseline. False if they do not tell. May lie ahead of now, or
 * before it was possible. */
bool expiry_date_by_stamps(const struct expiry *x, const struct lease_view *lease,
                           struct mono *out);

/* expiry_report.c: what the DPU says of itself. True if a report that it is not well stands. */
bool expiry_take_report(struct expiry *x, const struct lease_view *lease, bool renewed,
                        struct mono now);
/* The DPU stopped renewing its report: it no longer counts. */
bool expiry_report_ran_out(const struct expiry *x, struct mono started_at);

/* expiry_boot.c: which boot of the DPU renews. True if it is another one than before. */
bool expiry_take_boot(struct expiry *x, const struct lease_view *lease, bool renewed);
/* That of a former process. */
void expiry_know_boot(struct expiry *x, const char *id);

/* expiry_verdict.c: what the state says. Updates the verdict, all but its transition. */
void expiry_judge(struct expiry *x, struct mono now);
struct mono
expiry_hold_end(const struct expiry *x); /* of admission; MONO_NEVER: it ends by itself */

/* expiry_carry.c: over a restart. */
void expiry_restore(struct expiry *x, const struct expiry_carry *carry, struct mono now);
/* What the carried record is worth is open, and the first look that makes sense will tell. */
bool expiry_is_unsettled(const struct expiry *x);
void expiry_settle_carry(struct expiry *x, const struct lease_view *lease, struct mono now);

/* expiry_control.c: are others heard? */
enum expiry_heard {
    EXPIRY_HEARD,     /* the API server took a write since the DPU fell silent */
    EXPIRY_NOT_HEARD, /* the control stands still */
    EXPIRY_NOT_ASKED, /* nobody looked yet */
    EXPIRY_NO_SENSE,  /* neither the lease nor the control can be read */
};
enum expiry_heard expiry_hear(const struct expiry *x);
/* A look from then on says something. */
struct mono expiry_overdue_at(const struct expiry *x);
void expiry_take_control(struct expiry *x, const struct expiry_event *event);

#endif
