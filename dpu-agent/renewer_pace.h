/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pace of the renewer: cadence, backoff, deadlines. CORE; used by renewer.c only.
 *
 * budget = the time between a renewal that is due and the end of the lease. RENEWER_TRIES requests
 * that run into their deadline, and the longest backoffs between them, fit into it. Once that many
 * have failed, or a write took longer, the deadline widens. A request that is not answered by its
 * deadline goes on beside the next try for the whole budget, so that a slow API server, or a slow
 * name server, does not fail for ever.
 */
#ifndef DPU_AGENT_RENEWER_PACE_H
#define DPU_AGENT_RENEWER_PACE_H

#include "dpu-agent/renewer.h"

int64_t renewer_budget_ns(const struct renewer *r);

/* Of the next request: how long it is waited for before the next try. */
int64_t renewer_deadline_ns(const struct renewer *r);
/* The same while all is well. */
int64_t renewer_first_deadline_ns(const struct renewer *r);

/* How long its answer is welcome. */
int64_t renewer_lasting_ns(const struct renewer *r);

/* Upper bound of the jitter before retry number `failures` (1: the first). */
int64_t renewer_backoff_ns(const struct renewer *r, uint32_t failures);

/* The first slot of the cadence after `now`. The cadence starts with the first call, shifted to be
 * early rather than late by up to a tenth of the interval: a lease that outlasts its interval by
 * little must not run out in the first round. */
struct mono renewer_next_slot(struct renewer *r, struct mono now);

#endif
