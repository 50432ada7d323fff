/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host agent's HTTP page (loop/agent_page.h). Its /readyz speaks of the agent, not of the DPU:
 * an update of the agents must not wait for a dead DPU. Loop thread only.
 */
#ifndef HOST_AGENT_HOST_PAGE_H
#define HOST_AGENT_HOST_PAGE_H

#include "base/attr.h"
#include "base/err.h"
#include "host-agent/host_metrics.h"
#include "kube/kube_metrics.h"
#include "loop/agent_options.h"

struct ev_loop;
struct host_page;

/* What the page speaks of; all borrowed, and must outlive it. */
struct host_page_config {
    const struct agent_config *agent; /* also its address */
    const struct monitor *monitor;
    const struct dra_service *dra;  /* NULL: off */
    const struct kube_metrics *api; /* NULL: no client */
    const struct podnet *pods;      /* NULL: off */
};

/* Without an address `*out` does nothing. Errors: ERR_PARSE for the address, ERR_NOMEM. */
NODISCARD int host_page_start(struct ev_loop *loop, const struct host_page_config *config,
                              struct host_page **out, struct err *e);
void host_page_stop(struct host_page *page); /* accepts NULL */

#endif
