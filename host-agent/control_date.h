/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When was the control written, by our own clock? The kubelet stamps it with the wall clock of this
 * machine, which is ours, too, as long as nobody sets it: a stamp from before that tells nothing.
 * CORE.
 */
#ifndef HOST_AGENT_CONTROL_DATE_H
#define HOST_AGENT_CONTROL_DATE_H

#include "contract/lease_view.h"

struct control_date {
    int64_t offset_ns;        /* wall clock - boot clock */
    struct mono steady_since; /* it has been the same */
    struct wall shown;        /* the wall clock may have shown this before; 0: never set */
};

void control_date_init(struct control_date *d, struct mono now, struct wall wall);

/* `now` and `wall` were read together. 0: nobody can say. */
struct mono control_date_tell(struct control_date *d, struct mono now, struct wall wall,
                              const struct lease_view *control);

#endif
