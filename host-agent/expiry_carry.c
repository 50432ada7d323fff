/* SPDX-License-Identifier: Apache-2.0 */
/* A record carried over a restart: what it is worth at the start, and after the first look. */
#include "base/rfc3339.h"
#include "base/text.h"
#include "host-agent/expiry_internal.h"

#include <string.h>

static bool is_usable(const struct readiness *was, struct mono now)
{
    return was->observed.ns > 0 && !mono_before(now, was->observed) && was->lease.uid[0] != '\0' &&
           was->reason != REASON_HEALTH_CHECK_DISABLED && was->reason < REASON_RECORD_MISSING;
}

static void restore_lease(struct expiry *x, const struct readiness_lease *was, struct mono now)
{
    text_format(x->lease.uid, sizeof(x->lease.uid), "%s", was->uid);
    text_format(x->lease.renew_stamp, sizeof(x->lease.renew_stamp), "%s", was->renew_stamp);
    text_format(x->observed_stamp, sizeof(x->observed_stamp), "%s", was->renew_stamp);
    x->observed_wall_valid =
        rfc3339_parse(was->renew_stamp, strlen(was->renew_stamp), &x->observed_wall, NULL) == 0;
    x->lease.duration_s = was->duration_s;
    expiry_adopt_duration(x, was->duration_s, now);
    expiry_remember_stamp(x, was->renew_stamp);
}

void expiry_restore(struct expiry *x, const struct expiry_carry *carry, struct mono now)
{
    const struct readiness *was = &carry->verdict;
    bool lost_pods = was->reason == REASON_POD_NETWORK_LOST;
    bool lease_was_well = lost_pods || was->reason == REASON_HOST_PROBE_FAILED;
    bool admitted = was->admit || lease_was_well;
    if (lost_pods && x->config.pods_count) {
        text_format(x->pods, sizeof(x->pods), "%s", was->message); /* until they are looked at */
    }
    expiry_know_boot(x, was->dpu_boot_id); /* also of a lease that was never seen renewed */
    if (!is_usable(was, now)) {
        return;
    }
    x->has_observation = true;
    x->observed = was->observed;
    restore_lease(x, &was->lease, now);
    x->proof_after = (struct mono){0}; /* adopting a duration is no reason for a grace here */
    x->carry_pending = true;
    x->blind = true; /* the first list tells */
    x->blind_since = now;
    x->blind_read_at = mono_add(now, x->config.renew_interval_ns);
    x->verdict = *was;
    x->verdict.witnesses.count = 0; /* who asks them tells which there are now */

    if (was->reason == REASON_DPU_REPORTED_UNHEALTHY || was->reason == REASON_DPU_SHUTDOWN) {
        x->phase = EXPIRY_REPORTED;
        x->report = (struct expiry_report){.health = was->reason == REASON_DPU_SHUTDOWN
                                                         ? LEASE_HEALTH_SHUTDOWN
                                                         : LEASE_HEALTH_UNHEALTHY,
                                           .renewed = now};
        text_format(x->report.uid, sizeof(x->report.uid), "%s", was->lease.uid);
    } else if (was->state == READINESS_NOT_READY && !lease_was_well) {
        x->phase = EXPIRY_EXPIRED;
    } else if (admitted && mono_before(now, expiry_run_out(x))) {
        x->phase = EXPIRY_FRESH;
    } else if (admitted && mono_before(now, carry->hold_until)) {
        x->phase = EXPIRY_HOLDING;
        x->hold_cause = EXPIRY_HOLD_RESTART;
        x->hold_admit = true;
    }
    /* What takes away hides why the lease was held: that may have been an outage, too. */
    if (was->reason == REASON_API_SERVER_UNREACHABLE ||
        (x->phase == EXPIRY_HOLDING && lease_was_well)) {
        x->contact_lost = true; /* as it was: contact is regained by the first answer */
        text_format(x->failure, sizeof(x->failure), "%s", "not reached since the restart");
    }
}

bool expiry_is_unsettled(const struct expiry *x)
{
    return x->carry_pending && !x->lease_unreadable;
}

/*
 * The first look at the lease after a restart. The carried stamp r was observed at o; if the same
 * lease now shows r', the DPU's own clock measures the distance, free of skew. Where it cannot (a
 * stepped clock, another lease) the observation is at least as young as o: it was r then.
 */
void expiry_settle_carry(struct expiry *x, const struct lease_view *lease, struct mono now)
{
    struct mono dated;
    bool same_lease = text_equal(x->lease.uid, lease->uid);
    bool changed = !same_lease || !text_equal(x->lease.renew_stamp, lease->renew_stamp);
    bool by_us = same_lease && changed && text_equal(lease->holder, x->config.holder);
    bool is_dated = by_us && expiry_date_by_stamps(x, lease, &dated) &&
                    !mono_before(mono_add(now, x->duration_ns), dated); /* else it stepped ahead */
    bool is_silence = same_lease && (!changed || lease->renew_stamp[0] == '\0');
    x->carry_pending = false;
    if (is_dated) {
        expiry_note_renewal(x, mono_min(dated, now), lease);
    }
    x->went_back =
        by_us && !is_dated && !is_silence; /* what follows it counts, wherever the clock stepped */
    x->went_back_at = now;
    if (x->went_back) {
        expiry_give_grace(x, now, EXPIRY_GRACE_BACK); /* as to a stamp that goes back later on */
    }
    if (mono_before(now, expiry_run_out(x))) {
        expiry_move(x, EXPIRY_FRESH); /* a report that stands is taken next */
        return;
    }
    if (is_silence || x->phase == EXPIRY_REPORTED || (is_dated && x->phase == EXPIRY_EXPIRED)) {
        return; /* the same silence as before */
    }
    if (x->phase == EXPIRY_HOLDING || is_dated) {
        expiry_give_grace(x, now, EXPIRY_GRACE_RESTART); /* it lived while we were away */
        return;
    }
    expiry_move(x, EXPIRY_AWAITING);
    x->has_observation = false;
    x->observed = now;
}
