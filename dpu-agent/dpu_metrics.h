/* SPDX-License-Identifier: Apache-2.0 */
/* dpu-agent's metrics; docs/metrics.md is the reference. The only label from outside is the probe's
 * name, which is the administrator's own and escaped. */
#ifndef DPU_AGENT_DPU_METRICS_H
#define DPU_AGENT_DPU_METRICS_H

#include "dpu-agent/lease_writer.h"
#include "probe/probe_set.h"

/* The values that the metrics are made of. */
struct dpu_snapshot {
    struct mono now;
    const struct probe_state *verdict;      /* borrowed */
    const struct lease_writer_stats *lease; /* NULL: the health check is disabled; borrowed */
};

void dpu_metrics_write(const struct dpu_snapshot *s, struct buf *page);

#endif
