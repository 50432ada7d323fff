/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log_repeat.h"

#include "base/text.h"

#include <inttypes.h>

bool log_repeat_due(struct log_repeat *r, struct mono now, int64_t period_ns)
{
    if (mono_before(now, r->next)) {
        r->pending++;
        return false;
    }
    r->held_back = r->pending;
    r->pending = 0;
    r->next = mono_add(now, period_ns);
    r->more[0] = '\0';
    if (r->held_back > 0) {
        text_format(r->more, sizeof(r->more), " (%" PRIu64 " more like it %s not shown)",
                    r->held_back, r->held_back == 1 ? "was" : "were");
    }
    return true;
}

void log_repeat_reset(struct log_repeat *r)
{
    *r = (struct log_repeat){0};
}
