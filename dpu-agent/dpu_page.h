/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The DPU agent's HTTP page (loop/agent_page.h). Its /readyz speaks of the agent: it is ready once
 * the lease was renewed and stays so while a DPU is unhealthy, which it says. /servingz is the
 * opposite: it speaks of the DPU's services, and knows of no lease. Loop thread only.
 */
#ifndef DPU_AGENT_DPU_PAGE_H
#define DPU_AGENT_DPU_PAGE_H

#include "base/attr.h"
#include "base/err.h"
#include "dpu-agent/lease_writer.h"
#include "kube/kube_answer.h"
#include "loop/agent_options.h"
#include "loop/agent_page.h"
#include "loop/metrics.h"
#include "probe/probe_set.h"

struct ev_loop;

/* What the page speaks of; all borrowed, and must outlive it. */
struct dpu_page {
    const struct agent_config *agent; /* also its address */
    const struct probe_set *probes;
    struct lease_writer *const *writer; /* NULL there: disabled, or the node is not known */
    const char *awaited;                /* why the node is not known, if it is not */
    const struct kube_client *api;      /* NULL if the health check is disabled */
    const char *no_probe;               /* what is to be known where nothing is asked */
    struct agent_page *page;            /* made here: end it with agent_page_stop */
};

/* Without an address it does nothing. Errors: ERR_PARSE for the address. */
NODISCARD int dpu_page_start(struct dpu_page *p, struct ev_loop *loop, struct err *e);

/* What its metrics are made of; docs/metrics.md is the reference. The only label from outside is
 * the probe's name, which is the administrator's own and escaped. */
struct dpu_snapshot {
    struct mono now;
    const struct probe_state *verdict;      /* borrowed */
    const struct probe_stats *probes;       /* as many as the verdict has; borrowed */
    const struct lease_writer_stats *lease; /* NULL: the health check is disabled; borrowed */
};

void dpu_metrics_write(const struct dpu_snapshot *s, struct buf *page);

#endif
