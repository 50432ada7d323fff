/* SPDX-License-Identifier: Apache-2.0 */
/* dpu-agent's metrics; docs/metrics.md is the reference. The only label from outside is the probe's
 * name, which is the administrator's own and escaped. */
#ifndef DPU_AGENT_DPU_METRICS_H
#define DPU_AGENT_DPU_METRICS_H

#include "dpu-agent/lease_writer.h"
#include "probe/probe_set.h"

/* `lease` is NULL while none is renewed. */
void dpu_metrics_write(const struct probe_state *v, const struct lease_writer_stats *lease,
                       struct mono now, struct buf *page);

#endif
