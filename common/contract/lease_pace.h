/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast both sides of a lease come back after an outage: dpu-agent keeps to these bounds, and
 * dpu-host-agent waits for it that long before silence is proof again. One formula, so that the
 * grace always outlasts the retry. CORE: plain arithmetic.
 *
 * The worst case is a request that was sent just before the API server came back, on a connection
 * that stays dead: it runs to its deadline, the next one waits for its turn and is answered.
 */
#ifndef CONTRACT_LEASE_PACE_H
#define CONTRACT_LEASE_PACE_H

#include <stdint.h>

/* How long the DPU's side waits for an answer before it tries anew: two intervals, 1 s to 5 s. */
int64_t lease_pace_deadline_ns(int64_t renew_interval_ns);

/* The longest such wait, where the API server has turned out slow: an interval less a second, if
 * that is longer. */
int64_t lease_pace_slow_deadline_ns(int64_t renew_interval_ns);

/* The longest pause of the DPU's side between a failed request and the next: one interval. */
int64_t lease_pace_pause_ns(int64_t renew_interval_ns);

/* How long after an outage a living DPU may take to be seen renewing: a whole retry and a second
 * for both ways, but at least two intervals. */
int64_t lease_pace_grace_ns(int64_t renew_interval_ns);

#endif
