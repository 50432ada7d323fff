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

struct ev_loop;
struct lease_keeper;
struct sink_condition;
struct sink_event;
struct host_page;

/* What the page speaks of; all borrowed, and must outlive it. */
struct host_page_config {
    const char *address; /* "": no page */
    const char *node;
    const struct fanout *fanout;
    const struct sink_record *record;
    const struct lease_watch *watch;        /* NULL: the health check is disabled */
    const struct lease_keeper *keeper;      /* NULL with the watch */
    const struct dra_service *dra;          /* NULL: off */
    const struct sink_event *events;        /* NULL: off */
    const struct sink_condition *condition; /* NULL: off */
    const struct kube_metrics *api;         /* NULL: no client */
};

/* Without an address `*out` does nothing. Errors: ERR_PARSE for the address, ERR_NOMEM. */
NODISCARD int host_page_start(struct ev_loop *loop, const struct host_page_config *config,
                              struct host_page **out, struct err *e);
void host_page_stop(struct host_page *page); /* accepts NULL */

#endif
