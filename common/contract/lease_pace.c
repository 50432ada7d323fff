/* SPDX-License-Identifier: Apache-2.0 */
/* The pace: plain arithmetic, a core. */
#include "contract/lease.h"

#define DEADLINE_MIN_NS (1 * NS_PER_SEC)
#define DEADLINE_MAX_NS (5 * NS_PER_SEC)
#define BOTH_WAYS_NS    (1 * NS_PER_SEC)

int64_t lease_pace_deadline_ns(int64_t renew_interval_ns)
{
    int64_t two_ns = mono_ns_mul(renew_interval_ns, 2);
    return two_ns < DEADLINE_MIN_NS   ? DEADLINE_MIN_NS
           : two_ns > DEADLINE_MAX_NS ? DEADLINE_MAX_NS
                                      : two_ns;
}

int64_t lease_pace_slow_deadline_ns(int64_t renew_interval_ns)
{
    int64_t deadline_ns = lease_pace_deadline_ns(renew_interval_ns);
    int64_t interval_ns = mono_ns_sub(renew_interval_ns, BOTH_WAYS_NS);
    return interval_ns > deadline_ns ? interval_ns : deadline_ns;
}

int64_t lease_pace_pause_ns(int64_t renew_interval_ns)
{
    return renew_interval_ns;
}

int64_t lease_pace_grace_ns(int64_t renew_interval_ns)
{
    int64_t two_ns = mono_ns_mul(renew_interval_ns, 2);
    int64_t retry_ns = mono_ns_add(mono_ns_add(lease_pace_slow_deadline_ns(renew_interval_ns),
                                               lease_pace_pause_ns(renew_interval_ns)),
                                   BOTH_WAYS_NS);
    return two_ns > retry_ns ? two_ns : retry_ns;
}
