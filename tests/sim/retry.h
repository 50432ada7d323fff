/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of one retry of the DPU, R of docs/architecture.md, for those who judge: written anew,
 * so that they share no code with the product.
 */
#ifndef TESTS_SIM_RETRY_H
#define TESTS_SIM_RETRY_H

#include <stdint.h>

#define RETRY_SEC_NS  INT64_C(1000000000)
#define RETRY_HANG_NS (5 * RETRY_SEC_NS) /* a request that hangs, on either side */

static inline int64_t retry_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t retry_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The DPU pauses for an interval at most. Before that its last request hangs until it is given up;
 * or after it the host's own write makes it send three, each as slow as one may be that keeps up
 * with the interval. */
static inline int64_t retry_ns(int64_t interval_ns)
{
    int64_t patience_ns = retry_least(retry_most(2 * interval_ns, RETRY_SEC_NS), RETRY_HANG_NS);
    int64_t hang_ns = retry_most(patience_ns, interval_ns - RETRY_SEC_NS);
    int64_t slow_ns = retry_most(hang_ns, 3 * retry_least(interval_ns, hang_ns));
    return retry_most(2 * interval_ns, interval_ns + slow_ns + RETRY_SEC_NS);
}

#endif
