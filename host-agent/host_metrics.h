/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host agent's metrics: Prometheus text from a snapshot of what its parts have counted.
 * docs/metrics.md is the reference. No I/O, no clock; label values come from our own enums.
 */
#ifndef HOST_AGENT_HOST_METRICS_H
#define HOST_AGENT_HOST_METRICS_H

#include "host-agent/condition.h"
#include "host-agent/dra/dra_service.h"
#include "host-agent/lease_watch.h"
#include "host-agent/monitor.h"
#include "host-agent/outputs/events.h"
#include "host-agent/podnet/podnet.h"
#include "host-agent/record_writer.h"
#include "loop/metrics_text.h"

struct host_snapshot {
    struct mono now;
    struct readiness verdict;
    struct monitor_stats monitor;
    struct record_writer_stats record;
    bool has_lease; /* the health check is on: the next two count */
    struct lease_watch_stats watch;
    uint64_t lease_writes;
    bool has_dra;
    struct dra_stats dra;
    bool has_events;
    struct event_stats events;
    bool has_condition;
    bool has_pods;
    struct kube_sync_stats condition;
    struct podnet_stats pods;
};

void host_metrics_write(const struct host_snapshot *s, struct metrics_page *page);

#endif
