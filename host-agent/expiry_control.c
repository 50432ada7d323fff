/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Silence is proof only while others are heard. The control is the Lease of this very node, which
 * its kubelet renews through the same API server: if that stood still since the DPU fell silent,
 * the API server takes no writes (etcd out of space, a dead webhook on leases), and the DPU's
 * silence says nothing.
 */
#include "base/text.h"
#include "host-agent/expiry_internal.h"

/* The kubelet renews each quarter of nodeLeaseDurationSeconds, which is 40 s by default. */
#define CONTROL_INTERVAL_NS     (10 * NS_PER_SEC)
#define CONTROL_INTERVAL_MAX_NS (60 * NS_PER_SEC)

/* It has missed a renewal and half of the next. */
static int64_t still_ns(const struct lease_view *control)
{
    int64_t interval_ns = mono_ns_mul(NS_PER_SEC, control->duration_s) / 4;
    if (interval_ns < CONTROL_INTERVAL_NS) {
        interval_ns = CONTROL_INTERVAL_NS;
    } else if (interval_ns > CONTROL_INTERVAL_MAX_NS) {
        interval_ns = CONTROL_INTERVAL_MAX_NS;
    }
    return interval_ns + interval_ns / 2;
}

/* From when on the DPU is overdue: what others write since, it could have written, too. */
struct mono expiry_overdue_at(const struct expiry *x)
{
    struct mono alive = x->went_back ? mono_max(x->observed, x->went_back_at) : x->observed;
    return mono_add(alive, expiry_suspicion_ns(x));
}

static bool was_written_since(const struct expiry *x)
{
    return mono_before(expiry_overdue_at(x), x->control.written_at);
}

/* Until the last look that showed this stamp. A newer one does not say how often it was written in
 * between. */
static bool stands_still(const struct expiry_control_view *c)
{
    return mono_since(c->looked_at, c->since) > c->still_ns;
}

enum expiry_heard expiry_hear(const struct expiry *x)
{
    switch (x->control.state) {
    case EXPIRY_CONTROL_UNKNOWN:
        return EXPIRY_NOT_ASKED;
    case EXPIRY_CONTROL_SEEN:
        return (x->control.moved || was_written_since(x)) && !stands_still(&x->control)
                   ? EXPIRY_HEARD
                   : EXPIRY_NOT_HEARD;
    case EXPIRY_CONTROL_NONE:
        return EXPIRY_HEARD; /* no control can be had: the silence alone decides */
    case EXPIRY_CONTROL_UNREADABLE:
    case EXPIRY_CONTROL_LOST:
        break;
    }
    return x->lease_unreadable ? EXPIRY_NO_SENSE : EXPIRY_HEARD;
}

/* An etcd that was restored from a backup shows it as it was: nobody has written it. Its stamp may
 * go back without that, where this machine's clock was set: then it has no date. */
static bool went_back(const struct expiry_control_view *c, uint64_t version, struct mono at)
{
    return (version != 0 && version < c->version) || (at.ns != 0 && mono_before(at, c->since));
}

static void take_stamp(struct expiry *x, const struct expiry_event *event)
{
    struct expiry_control_view *c = &x->control;
    struct mono at = mono_min(event->control_at, event->now);
    uint64_t version = expiry_version(event->lease);
    bool first = c->state != EXPIRY_CONTROL_SEEN;
    if (!first && text_equal(c->stamp, event->lease->renew_stamp)) {
        c->looked_at = event->now;
        return;
    }
    bool moved = !first && !went_back(c, version, at);
    bool graced = c->graced || (moved && stands_still(c));
    struct mono since = at.ns != 0 ? at : event->now;
    if (graced && !c->graced) {
        expiry_give_grace(x, event->now, EXPIRY_GRACE_WRITES); /* writes are taken again */
    }
    *c = (struct expiry_control_view){.state = EXPIRY_CONTROL_SEEN,
                                      .moved = moved,
                                      .graced = graced,
                                      .still_ns = still_ns(event->lease),
                                      .version = version,
                                      .since = first || moved ? since : mono_min(since, c->since),
                                      .written_at = at,
                                      .looked_at = event->now};
    text_format(c->stamp, sizeof(c->stamp), "%s", event->lease->renew_stamp);
}

void expiry_take_control(struct expiry *x, const struct expiry_event *event)
{
    struct expiry_control_view *c = &x->control;
    bool in_time = mono_before(c->asked_at, expiry_proof_deadline(x));
    c->under_way = false;
    if (mono_before(c->asked_at, expiry_overdue_at(x))) {
        return; /* the DPU was seen meanwhile */
    }
    if (event->control == EXPIRY_CONTROL_SEEN) {
        take_stamp(x, event);
    } else if (event->control != EXPIRY_CONTROL_LOST) {
        if (c->state == EXPIRY_CONTROL_SEEN) { /* refused with all else, maybe: a read tells */
            x->proof_after = mono_max(x->proof_after, event->now);
        }
        c->state = event->control;
    } else if (c->state == EXPIRY_CONTROL_UNKNOWN && !in_time) {
        c->state = EXPIRY_CONTROL_LOST; /* the lease was read, the control cannot be */
    }
}
