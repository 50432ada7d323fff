/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/projection.h"

#include "base/text.h"

static enum health_status status_of(const struct readiness *verdict)
{
    switch (verdict->state) {
    case READINESS_READY:
        return verdict->reason == REASON_HEALTH_CHECK_DISABLED ? HEALTH_UNKNOWN : HEALTH_HEALTHY;
    case READINESS_NOT_READY:
        return HEALTH_UNHEALTHY;
    case READINESS_UNKNOWN:
        return HEALTH_UNKNOWN;
    }
    return HEALTH_UNKNOWN;
}

struct health_report projection_health(const struct readiness *verdict)
{
    struct health_report report = {.status = status_of(verdict)};
    text_format(report.message, sizeof(report.message), "%s: %s",
                readiness_reason_name(verdict->reason), verdict->message);
    return report;
}

struct slice_taint projection_taint(const struct readiness *verdict)
{
    struct slice_taint taint = {.is_set = !verdict->admit};
    if (taint.is_set) {
        text_format(taint.value, sizeof(taint.value), "%s", readiness_reason_name(verdict->reason));
    }
    return taint;
}
