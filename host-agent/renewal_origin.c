/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/renewal_origin.h"

#include "base/text.h"

static void copy_stamp(struct lease_view *to, const struct lease_view *from)
{
    text_format(to->renew_stamp, sizeof(to->renew_stamp), "%s", from->renew_stamp);
    to->renew_time_valid = from->renew_time_valid;
    to->renew_time = from->renew_time;
}

/* A quarter is the jitter of requests and of a busy DPU. */
static bool is_alike(int64_t a_ns, int64_t b_ns)
{
    int64_t apart_ns = a_ns < b_ns ? b_ns - a_ns : a_ns - b_ns;
    return a_ns > 0 && b_ns > 0 && apart_ns <= a_ns / 4;
}

/* A renewTime in the name of this host. */
static void note_rhythm(struct renewal_origin *o, const struct lease_view *lease)
{
    int64_t lasts_ns = mono_ns_mul(NS_PER_SEC, lease->duration_s);
    int64_t gap_ns = o->host_wrote.ns != 0 ? wall_since(lease->renew_time, o->host_wrote) : 0;
    if (gap_ns < lasts_ns && is_alike(gap_ns, o->gap_ns)) {
        o->is_same_name = true;
    }
    o->gap_ns = gap_ns;
    o->host_wrote = lease->renew_time;
}

static void forget_rhythm(struct renewal_origin *o)
{
    o->host_wrote = (struct wall){0};
    o->gap_ns = 0;
    o->is_same_name = false;
}

bool renewal_origin_tell(struct renewal_origin *o, struct lease_view *lease, const char *writer)
{
    bool is_first = !text_equal(o->newest.uid, lease->uid);
    bool is_new = is_first || !text_equal(o->newest.renew_stamp, lease->renew_stamp);
    bool is_host = o->host[0] != '\0' && text_equal(writer, o->host) && lease->renew_time_valid;
    if (is_new) {
        o->newest = *lease;
        if (is_host) {
            note_rhythm(o, lease);
        } else {
            forget_rhythm(o);
        }
        if (is_first || !is_host || o->is_same_name) {
            o->dpu = *lease;
        }
    }
    bool is_bump = !text_equal(o->dpu.renew_stamp, o->newest.renew_stamp);
    if (is_bump) {
        copy_stamp(lease, &o->dpu);
    }
    return is_new && is_bump;
}
