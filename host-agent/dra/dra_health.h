/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DRAResourceHealth (v1, v1alpha1): one health stream per kubelet, all fed from the latest verdict.
 *
 * A new stream gets a report at once, every change goes out at once, and in between the report is
 * repeated three times per timeout, because the kubelet reads an older one as Unknown, but does so
 * only when it happens to look (KEP-4680). Where the monitor behind the verdicts makes no progress
 * any more, one last Unknown says so and the heartbeats stop: silence must not vouch for anything.
 *
 * Knows no clock and no loop: the owner calls dra_health_tick when next_beat is reached.
 */
#ifndef DRA_DRA_HEALTH_H
#define DRA_DRA_HEALTH_H

#include "base/time.h"
#include "contract/readiness.h"
#include "host-agent/dra/claim.h"
#include "host-agent/grpc/conn.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    HEALTH_STREAMS_MAX = 32,
    HEALTH_MESSAGE_BYTES = 1025, /* a kubelet cuts longer ones, in the middle of a character */
};

/* The numbers of the wire. */
enum health_status { HEALTH_UNKNOWN = 0, HEALTH_HEALTHY = 1, HEALTH_UNHEALTHY = 2 };

struct health_report {
    enum health_status status;
    char message[HEALTH_MESSAGE_BYTES];
};

/* Caller-owned. Zero-initialise, fill the first part, and dra_health_serve. */
struct dra_health {
    struct claim_target target; /* borrowed */
    int64_t timeout_ns;         /* after which a kubelet reads Unknown; whole seconds, at least 3 */
    /* Does the monitor that makes the verdicts still work? NULL: always. */
    bool (*is_monitor_alive)(void *user, struct mono now);
    void *user;

    struct health_report report;
    bool is_stalled; /* the monitor is; told once */
    bool is_stopped;
    struct wall wall; /* of the last call from the owner */
    struct mono next_beat;
    struct grpc_call *streams[HEALTH_STREAMS_MAX]; /* NULL: free */
    uint64_t sent_count;                           /* messages handed to streams */
};

/* What of a verdict goes to the kubelet: Ready is Healthy, NotReady is Unhealthy; Unknown, and
 * Ready without a health check, is Unknown. The message is the verdict's sentence with its reason
 * in front. */
struct health_report dra_health_report(const struct readiness *verdict);

/* Adds the methods; `h` is borrowed for the router's life. Until the first verdict the device is
 * Unknown. */
void dra_health_serve(struct dra_health *h, struct grpc_router *router);

/* The verdict has changed (or is confirmed): out to every stream. */
void dra_health_publish(struct dra_health *h, const struct readiness *verdict, struct mono now,
                        struct wall wall);

/* At next_beat, or any time. */
void dra_health_tick(struct dra_health *h, struct mono now, struct wall wall);

/* A last Unknown on every stream, then their end; later streams are refused. A kubelet tells pods
 * of a report, not of a stream's end. */
void dra_health_stop(struct dra_health *h, struct mono now, struct wall wall);

size_t dra_health_stream_count(const struct dra_health *h);

#endif
