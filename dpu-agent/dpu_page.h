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
#include "dpu-agent/dpu_metrics.h"
#include "kube/kube_metrics.h"
#include "loop/agent_options.h"

struct ev_loop;
struct dpu_page;

/* What the page speaks of; all borrowed, and must outlive it. */
struct dpu_page_config {
    const struct agent_config *agent; /* also its address */
    const struct probe_set *probes;
    struct lease_writer *const *writer; /* NULL there: disabled, or the node is not known */
    const char *awaited;                /* why the node is not known, if it is not */
    const struct kube_metrics *api;     /* NULL if the health check is disabled */
    const char *no_probe;               /* what is to be known where nothing is asked */
};

/* Without an address `*out` does nothing. Errors: ERR_PARSE for the address, ERR_NOMEM. */
NODISCARD int dpu_page_start(struct ev_loop *loop, const struct dpu_page_config *config,
                             struct dpu_page **out, struct err *e);
void dpu_page_stop(struct dpu_page *page); /* accepts NULL */

#endif
