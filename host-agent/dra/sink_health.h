/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict as DRA device health: a projection that decides nothing. Pure. */
#ifndef DRA_SINK_HEALTH_H
#define DRA_SINK_HEALTH_H

#include "contract/readiness.h"
#include "host-agent/dra/health.h"

/* Ready is Healthy, NotReady is Unhealthy; Unknown, and Ready without a health check, is Unknown.
 * The message is the verdict's sentence with its reason in front. */
struct health_report sink_health_project(const struct readiness *verdict);

#endif
