/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DRAResourceHealth (v1, v1alpha1) and the KEP text's NodeHealth: one health stream per kubelet,
 * all fed from the latest report.
 *
 * A new stream gets a report at once, every change goes out at once, and in between the report is
 * repeated three times per timeout, because the kubelet reads an older one as Unknown, but does so
 * only when it happens to look (KEP-4680). Where the monitor behind the report makes no progress
 * any more, one last Unknown says so and the heartbeats stop: silence must not vouch for anything.
 *
 * Knows no clock and no loop: the owner calls health_tick at health_next_tick.
 */
#ifndef DRA_HEALTH_H
#define DRA_HEALTH_H

#include "base/attr.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
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
    char message[HEALTH_MESSAGE_BYTES]; /* made valid UTF-8 on the way out */
};

struct health_config {
    const char *pool;   /* borrowed */
    const char *device; /* borrowed */
    int64_t timeout_ns; /* after which a kubelet reads Unknown; whole seconds, at least 3 */
    /* Does the monitor that makes the reports still work? NULL: always. */
    bool (*is_monitor_alive)(void *user, struct mono now);
    void *user;
};

/* Caller-owned. */
struct health {
    struct health_config config;
    struct health_report report;
    bool is_stalled; /* the monitor is; told once */
    bool is_stopped;
    struct mono now; /* of the last call from the owner */
    struct wall wall;
    struct mono next_beat;
    struct health_stream {
        struct grpc_call *call; /* NULL: free */
        bool speaks_kep;
    } streams[HEALTH_STREAMS_MAX];
    struct buf packed; /* the report on the wire */
    struct log_repeat send_failures;
    uint64_t sent_count; /* messages handed to streams */
};

/* Until the first report the device is Unknown. */
void health_init(struct health *h, const struct health_config *config);
void health_fini(struct health *h);

/* Adds the three methods; `h` is borrowed for the router's life. */
void health_serve(struct health *h, struct grpc_router *router);

/* The verdict has changed (or is confirmed): out to every stream. */
void health_publish(struct health *h, const struct health_report *report, struct mono now,
                    struct wall wall);

struct mono health_next_tick(const struct health *h);
void health_tick(struct health *h, struct mono now, struct wall wall);

/* A last Unknown on every stream, then their end; later streams are refused. A kubelet tells pods
 * of a report, not of a stream's end. */
void health_stop(struct health *h, struct mono now, struct wall wall);

size_t health_stream_count(const struct health *h);

#endif
