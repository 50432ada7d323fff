/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the DPU says of itself on the lease. A report is a lease of its own: dpu-agent renews its
 * stamp once an interval while it stands, and renewTime may be renewed by somebody else meanwhile
 * (ovn-kubernetes' own health check). One whose stamp stands still for a lease duration while the
 * lease is renewed is a leftover.
 */
#include "base/text.h"
#include "host-agent/expiry_internal.h"

static bool is_renewed(const struct expiry_report *report, const struct lease_view *lease)
{
    return !text_equal(report->uid, lease->uid) || report->health != lease->health ||
           !text_equal(report->stamp, lease->health_stamp);
}

static bool stood_still(const struct expiry *x, struct mono at)
{
    return mono_reached(at, mono_add(x->report.renewed, x->duration_ns));
}

bool expiry_take_report(struct expiry *x, const struct lease_view *lease, bool renewed,
                        struct mono now)
{
    struct expiry_report *report = &x->report;
    bool ours = text_equal(lease->holder, x->config.holder);
    bool says_so = ours && lease->health != LEASE_HEALTH_NONE;
    if (says_so && is_renewed(report, lease)) {
        *report = (struct expiry_report){.health = lease->health, .renewed = now};
        text_format(report->uid, sizeof(report->uid), "%s", lease->uid);
        text_format(report->stamp, sizeof(report->stamp), "%s", lease->health_stamp);
    } else if (says_so) {
        report->over = report->over || (renewed && stood_still(x, now));
    } else if (renewed || text_equal(report->uid, lease->uid)) {
        *report = (struct expiry_report){.health = LEASE_HEALTH_NONE};
    }
    return report->uid[0] != '\0' && !report->over;
}

/* An announced shutdown is the last that is heard, and an older dpu-agent reports only once. */
bool expiry_report_ran_out(const struct expiry *x, struct mono started_at)
{
    return x->report.health == LEASE_HEALTH_UNHEALTHY && x->report.stamp[0] != '\0' &&
           stood_still(x, started_at);
}
