/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/renewer_pace.h"

#include "base/time.h"
#include "contract/lease.h"

static int64_t min_ns(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

static int64_t max_ns(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

int64_t renewer_budget_ns(const struct renewer *r)
{
    int64_t interval_ns = r->config.interval_ns;
    int64_t duration_ns = r->lease_duration_s > 0 ? mono_ns_mul(NS_PER_SEC, r->lease_duration_s)
                                                  : r->config.duration_ns;
    return duration_ns > interval_ns ? duration_ns - interval_ns : duration_ns;
}

int64_t renewer_backoff_ns(const struct renewer *r, uint32_t failures)
{
    int64_t cap_ns = min_ns(lease_pace_pause_ns(r->config.interval_ns), RENEWER_BACKOFF_MAX_NS);
    int64_t wait_ns = min_ns(RENEWER_BACKOFF_MIN_NS, renewer_budget_ns(r) / 15);
    for (uint32_t i = 1; i < failures && wait_ns < cap_ns; i++) {
        wait_ns = mono_ns_mul(wait_ns, 2);
    }
    return min_ns(wait_ns, cap_ns);
}

int64_t renewer_first_deadline_ns(const struct renewer *r)
{
    int64_t waits_ns = renewer_backoff_ns(r, 1) + renewer_backoff_ns(r, 2);
    int64_t share_ns = (renewer_budget_ns(r) - waits_ns) / RENEWER_TRIES;
    return max_ns(min_ns(share_ns, lease_pace_deadline_ns(r->config.interval_ns)), NS_PER_MS);
}

int64_t renewer_deadline_ns(const struct renewer *r)
{
    bool is_slow = r->is_slow || r->failures >= RENEWER_TRIES; /* those that had to fit */
    return is_slow ? lease_pace_slow_deadline_ns(r->config.interval_ns)
                   : renewer_first_deadline_ns(r);
}

int64_t renewer_lasting_ns(const struct renewer *r)
{
    bool is_slow = r->failures >= RENEWER_TRIES;
    int64_t least_ns = is_slow ? RENEWER_LASTING_SLOW_NS : RENEWER_LASTING_MIN_NS;
    return max_ns(min_ns(renewer_budget_ns(r), RENEWER_LASTING_MAX_NS), least_ns);
}

struct mono renewer_next_slot(struct renewer *r, struct mono now)
{
    int64_t interval_ns = r->config.interval_ns;
    if (!r->cadence_set) {
        r->cadence_set = true;
        r->anchor = mono_add(now, -prng_next(&r->random, interval_ns / 10));
    }
    int64_t passed = mono_since(now, r->anchor) / interval_ns;
    return mono_add(r->anchor, mono_ns_mul(interval_ns, mono_ns_add(passed, 1)));
}
