/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/control_date.h"

/* Both clocks are slewed alike, but they are not read at the same moment. */
#define STEP_LEAST_NS (100 * NS_PER_MS)

static int64_t offset_ns(struct mono now, struct wall wall)
{
    return mono_ns_sub(wall.ns, now.ns);
}

void control_date_init(struct control_date *d, struct mono now, struct wall wall)
{
    *d = (struct control_date){.offset_ns = offset_ns(now, wall), .steady_since = now};
}

static void notice_step(struct control_date *d, struct mono now, struct wall wall)
{
    int64_t step_ns = mono_ns_sub(offset_ns(now, wall), d->offset_ns);
    if (step_ns >= -STEP_LEAST_NS && step_ns <= STEP_LEAST_NS) {
        return;
    }
    int64_t shown_ns = mono_ns_add(now.ns, d->offset_ns); /* at most */
    d->shown.ns = shown_ns > d->shown.ns ? shown_ns : d->shown.ns;
    d->offset_ns = offset_ns(now, wall);
    d->steady_since = now;
}

struct mono control_date_tell(struct control_date *d, struct mono now, struct wall wall,
                              const struct lease_view *control)
{
    notice_step(d, now, wall);
    int64_t age_ns = wall_since(wall, control->renew_time);
    if (!control->renew_time_valid || age_ns < 0 || control->renew_time.ns <= d->shown.ns ||
        age_ns > mono_since(now, d->steady_since)) {
        return (struct mono){0};
    }
    return mono_add(now, -age_ns);
}
