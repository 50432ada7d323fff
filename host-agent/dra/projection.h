/* SPDX-License-Identifier: Apache-2.0 */
/* What of a verdict goes to the kubelet and to the scheduler: projections that decide nothing.
 * Pure.
 */
#ifndef DRA_PROJECTION_H
#define DRA_PROJECTION_H

#include "contract/readiness.h"
#include "host-agent/dra/health.h"
#include "host-agent/dra/slice_plan.h"

/* Ready is Healthy, NotReady is Unhealthy; Unknown, and Ready without a health check, is Unknown.
 * The message is the verdict's sentence with its reason in front. */
struct health_report projection_health(const struct readiness *verdict);

/* The device is tainted exactly while CNI ADD would be refused, so that the scheduler sends no pod
 * where its network cannot come up. The taint's value is the reason: a sentence does not fit. */
struct slice_taint projection_taint(const struct readiness *verdict);

#endif
