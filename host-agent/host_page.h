/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host agent's HTTP page (loop/agent_page.h). Its /readyz is about the agent, not the DPU: an
 * update of the agents must not wait for a dead DPU. Loop thread only.
 */
#ifndef HOST_AGENT_HOST_PAGE_H
#define HOST_AGENT_HOST_PAGE_H

#include "base/err.h"
#include "host-agent/condition.h"
#include "host-agent/lease_keeper.h"
#include "host-agent/lease_watch.h"
#include "host-agent/monitor.h"
#include "host-agent/podnet/podnet.h"
#include "host-agent/record.h"
#include "kube/kube_answer.h"
#include "loop/agent_options.h"
#include "loop/agent_page.h"
#include "loop/metrics.h"
#include "outputs/events.h"

struct ev_loop;

/* The sources of the page; all borrowed, and must outlive it. */
struct host_page {
    const struct agent_config *agent; /* also its address */
    const struct monitor *monitor;
    const struct kube_client *api; /* NULL: no client */
    const struct podnet *pods;     /* NULL: off */
    struct agent_page *page;       /* made here: end it with agent_page_stop */
};

/* Without an address it does nothing. Errors: ERR_PARSE for the address. */
NODISCARD int host_page_start(struct host_page *p, struct ev_loop *loop, struct err *e);

/* The values of the metrics; docs/metrics.md is the reference. Label values come from our own
 * enums, but for the names of probes, which are escaped. */
struct host_snapshot {
    struct mono now;
    const struct readiness *verdict; /* all borrowed; NULL of the others: off */
    struct monitor_stats monitor;
    const struct record_writer_stats *record;
    const struct lease_watch_stats *watch;
    const struct kube_sync_stats *keeper; /* with the watch */
    const struct event_stats *events;
    const struct kube_sync_stats *condition;
    const struct podnet_stats *pods;
};

void host_metrics_write(const struct host_snapshot *s, struct buf *page);

#endif
