/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/sink_slice.h"

#include "base/text.h"

struct slice_taint sink_slice_project(const struct readiness *verdict)
{
    struct slice_taint taint = {.is_set = !verdict->admit};
    if (taint.is_set) {
        (void)text_copy(taint.value, sizeof(taint.value),
                        readiness_reason_name(verdict->reason)); /* fits */
    }
    return taint;
}
