/* SPDX-License-Identifier: Apache-2.0 */
/* What is a renewal, and when was it made? */
#include "base/rfc3339.h"
#include "base/text.h"
#include "host-agent/expiry_internal.h"

#include <string.h>

static bool was_seen(const struct expiry *x, const char *stamp)
{
    for (size_t i = 0; i < EXPIRY_SEEN_STAMPS; i++) {
        if (text_equal(x->seen[i], stamp)) {
            return true;
        }
    }
    return false;
}

void expiry_remember_stamp(struct expiry *x, const char *stamp)
{
    if (stamp[0] != '\0' && !was_seen(x, stamp)) {
        text_format(x->seen[x->seen_next], NAMES_STAMP_BYTES, "%s", stamp);
        x->seen_next = (x->seen_next + 1) % EXPIRY_SEEN_STAMPS;
    }
}

/* Than the last renewal, or than the baseline. */
static bool is_before(const struct lease_view *lease, const struct expiry *x)
{
    bool is_first = !x->has_observation;
    bool is_known = is_first ? x->lease_known && x->lease.renew_time_valid : x->observed_wall_valid;
    struct wall stamped = is_first ? x->lease.renew_time : x->observed_wall;
    return is_known && lease->renew_time_valid && lease->renew_time.ns < stamped.ns;
}

/* Made after the newest renewal, by the DPU's own clock: no old state, wherever the renewTime
 * beside it comes from (an etcd that was restored, on which the DPU did not renew before it fell
 * ill). */
static bool is_newly_reported(const struct expiry *x, const struct lease_view *lease)
{
    struct wall at;
    return lease->health != LEASE_HEALTH_NONE && x->observed_wall_valid &&
           rfc3339_parse(lease->health_stamp, strlen(lease->health_stamp), &at, NULL) == 0 &&
           at.ns > x->observed_wall.ns;
}

uint64_t expiry_version(const struct lease_view *lease)
{
    const char *text = lease->resource_version;
    uint64_t version;
    return text_to_u64(text, strlen(text), &version, NULL) == 0 ? version : 0;
}

static bool is_older(const struct expiry *x, const struct lease_view *lease)
{
    uint64_t version = expiry_version(lease);
    return version != 0 && version < x->highest_version;
}

/* Never against a quorum read. A state without a stamp before it is not past: it was the late one,
 * or a damage that has been undone. */
bool expiry_is_stale(const struct expiry *x, const struct lease_view *lease,
                     enum expiry_source source)
{
    if (!x->lease_known || !text_equal(x->lease.uid, lease->uid) ||
        text_equal(x->lease.renew_stamp, lease->renew_stamp) || is_newly_reported(x, lease)) {
        return false;
    }
    if (x->lease.renew_stamp[0] != '\0' && lease->renew_stamp[0] != '\0' &&
        was_seen(x, lease->renew_stamp)) {
        return true;
    }
    return source == EXPIRY_BY_WATCH && is_before(lease, x) && is_older(x, lease);
}

/* A watch that resumes tells what has happened meanwhile; a read may have shown more by then. */
bool expiry_is_past(const struct expiry *x, const struct lease_view *lease,
                    enum expiry_source source)
{
    return source == EXPIRY_BY_WATCH && x->lease_known && !text_equal(x->lease.uid, lease->uid) &&
           is_older(x, lease);
}

bool expiry_date_by_stamps(const struct expiry *x, const struct lease_view *lease, struct mono *out)
{
    bool is_first = !x->has_observation;
    bool is_known = is_first ? x->lease.renew_time_valid : x->observed_wall_valid;
    struct wall stamped = is_first ? x->lease.renew_time : x->observed_wall;
    struct mono seen = is_first ? x->stamp_seen_at : x->observed;
    if (!is_known || !lease->renew_time_valid || lease->renew_time.ns <= stamped.ns) {
        return false;
    }
    *out = mono_add(seen, wall_since(lease->renew_time, stamped));
    return true;
}

/* What it shows counts from the DPU's last sign of life on. */
static void forget_control(struct expiry *x)
{
    x->control = (struct expiry_control_view){.under_way = x->control.under_way,
                                              .asked_at = x->control.asked_at};
}

void expiry_note_renewal(struct expiry *x, struct mono observed, const struct lease_view *lease)
{
    text_format(x->observed_stamp, sizeof(x->observed_stamp), "%s", lease->renew_stamp);
    x->last_gap_ns = x->has_observation ? mono_since(observed, x->observed) : 0;
    x->has_observation = true;
    x->observed = observed;
    x->observed_wall_valid = lease->renew_time_valid;
    x->observed_wall = lease->renew_time;
    x->went_back = false;
    forget_control(x);
    expiry_expect_renewal(x);
}

/* Seen late: between the last moment we could look and now, and by the DPU's own stamps if they
 * tell. */
static struct mono date(const struct expiry *x, const struct lease_view *lease, bool is_prompt,
                        struct mono now)
{
    struct mono dated;
    if (is_prompt || !expiry_date_by_stamps(x, lease, &dated)) {
        return now;
    }
    return mono_min(now, mono_max(dated, mono_max(x->observed, x->sighted_at)));
}

/*
 * A renewal is a renewTime, as text, that was not seen before, written by the expected holder on
 * the lease we were already looking at. The first look at a lease is a baseline. A stamp older
 * than the observed one is the DPU's clock stepping back, or an old state of the lease (an etcd
 * restored from a backup): the next one tells, and until then silence is no proof.
 */
bool expiry_take_renewal(struct expiry *x, const struct lease_view *lease, bool is_prompt,
                         struct mono now)
{
    if (!x->lease_known || !text_equal(x->lease.uid, lease->uid) ||
        !text_equal(lease->holder, x->config.holder) || lease->renew_stamp[0] == '\0' ||
        was_seen(x, lease->renew_stamp)) {
        return false;
    }
    bool follows = x->went_back && x->lease.renew_time_valid && lease->renew_time_valid &&
                   x->lease.renew_time.ns < lease->renew_time.ns;
    if (is_before(lease, x) && !follows) {
        if (!x->went_back) {
            x->went_back = true;
            x->went_back_at = now;
            text_format(x->observed_stamp, sizeof(x->observed_stamp), "%s", lease->renew_stamp);
            forget_control(x);
            expiry_give_grace(x, now, EXPIRY_GRACE_BACK);
        }
        return false;
    }
    struct mono observed = date(x, lease, is_prompt, now);
    expiry_note_renewal(x, observed, lease);
    x->lost_total_ns = 0;
    if (!mono_before(observed, now)) {
        x->proof_after = (struct mono){0};
    }
    return true;
}
