/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/renewal_origin.h"

#include "base/text.h"

#include <inttypes.h>

/* The gap between the last two renewTimes in the host's name is like the one before (a quarter is
 * the jitter of requests and of a busy DPU), and shorter than the lease. */
static void note_rhythm(struct renewal_origin *o, const struct lease_view *lease, bool is_host)
{
    int64_t lasts_ns = mono_ns_mul(NS_PER_SEC, lease->duration_s);
    bool has_gap = is_host && o->host_wrote.ns != 0;
    int64_t gap_ns = has_gap ? wall_since(lease->renew_time, o->host_wrote) : 0;
    bool is_rhythm = gap_ns > 0 && gap_ns < lasts_ns && o->gap_ns > 0 &&
                     imaxabs(gap_ns - o->gap_ns) <= gap_ns / 4;
    o->is_same_name = is_host && (o->is_same_name || is_rhythm);
    o->gap_ns = gap_ns;
    o->host_wrote = is_host ? lease->renew_time : (struct wall){0};
}

bool renewal_origin_tell(struct renewal_origin *o, struct lease_view *lease, const char *writer)
{
    bool is_first = !text_equal(o->uid, lease->uid);
    bool is_new = is_first || !text_equal(o->newest, lease->renew_stamp);
    bool is_host = o->host[0] != '\0' && text_equal(writer, o->host) && lease->renew_time_valid;
    if (is_new) {
        text_format(o->uid, sizeof(o->uid), "%s", lease->uid);
        text_format(o->newest, sizeof(o->newest), "%s", lease->renew_stamp);
        note_rhythm(o, lease, is_host);
    }
    if (is_new && (is_first || !is_host || o->is_same_name)) {
        o->dpu = *lease;
    }
    bool is_bump = !text_equal(o->dpu.renew_stamp, o->newest);
    if (is_bump) {
        text_format(lease->renew_stamp, sizeof(lease->renew_stamp), "%s", o->dpu.renew_stamp);
        lease->renew_time_valid = o->dpu.renew_time_valid;
        lease->renew_time = o->dpu.renew_time;
    }
    return is_new && is_bump;
}
