/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict as a device taint: a projection that decides nothing. Pure. */
#ifndef DRA_SINK_SLICE_H
#define DRA_SINK_SLICE_H

#include "contract/readiness.h"
#include "host-agent/dra/slice_plan.h"

/* The device is tainted exactly while CNI ADD would be refused, so that the scheduler sends no pod
 * where its network cannot come up. The taint's value is the reason: a sentence does not fit. */
struct slice_taint sink_slice_project(const struct readiness *verdict);

#endif
