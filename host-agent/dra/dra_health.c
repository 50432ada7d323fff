/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/dra_health.h"

#include "base/log.h"
#include "base/text.h"
#include "dra_proto/health.pb-c.h"

#include <assert.h>
#include <string.h>

enum { BEATS_PER_TIMEOUT = 3, PACKED_MAX_BYTES = 2048 /* a message and two names */ };

struct health_report dra_health_report(const struct readiness *verdict)
{
    struct health_report report = {.status = HEALTH_UNKNOWN};
    if (verdict->state == READINESS_NOT_READY) {
        report.status = HEALTH_UNHEALTHY;
    } else if (verdict->state == READINESS_READY &&
               verdict->reason != REASON_HEALTH_CHECK_DISABLED) {
        report.status = HEALTH_HEALTHY;
    }
    text_format(report.message, sizeof(report.message), "%s: %s",
                readiness_reason_name(verdict->reason), verdict->message);
    return report;
}

static char *mutable(const char *text)
{
    return (char *)(uintptr_t)text; /* protobuf-c packs from non-const pointers, writing nothing */
}

/* What there is to say now, for the wire: the verdict, unless we cannot vouch for it. */
static size_t pack_report(const struct dra_health *h, uint8_t out[static PACKED_MAX_BYTES])
{
    char message[HEALTH_MESSAGE_BYTES];
    Health__DeviceIdentifier id = HEALTH__DEVICE_IDENTIFIER__INIT;
    Health__Device device = HEALTH__DEVICE__INIT;
    Health__Device *devices[] = {&device};
    Health__WatchResponse response = HEALTH__WATCH_RESPONSE__INIT;
    const char *text = h->is_stopped   ? "the agent that watches the DPU on this node is stopping"
                       : h->is_stalled ? "the lease watcher on this node makes no progress"
                                       : h->report.message;
    /* Go refuses a message with invalid UTF-8 and ends the stream, every five seconds anew. */
    text_sanitize(message, sizeof(message), text, strlen(text));
    id.pool_name = mutable(h->target.pool);
    id.device_name = mutable(h->target.device);
    device.device = &id;
    device.health = text == h->report.message ? (Health__Status)h->report.status
                                              : (Health__Status)HEALTH_UNKNOWN;
    device.last_updated_time = h->wall.ns / NS_PER_SEC;
    device.health_check_timeout_seconds = h->timeout_ns / NS_PER_SEC;
    device.message = message;
    response.devices = devices;
    response.n_devices = ARRAY_LEN(devices);
    assert(health__watch_response__get_packed_size(&response) <= PACKED_MAX_BYTES);
    return health__watch_response__pack(&response, out);
}

/* To one stream, or with NULL to all. */
static void send_report(struct dra_health *h, const struct grpc_call *only)
{
    uint8_t packed[PACKED_MAX_BYTES];
    size_t len = pack_report(h, packed);
    for (size_t i = 0; i < HEALTH_STREAMS_MAX; i++) {
        struct grpc_call *call = h->streams[i];
        if (call && (!only || call == only)) {
            grpc_call_send(call, packed, len);
            h->sent_count++;
        }
    }
}

static void send_to_all(struct dra_health *h, struct mono now, struct wall wall)
{
    h->wall = wall;
    h->next_beat = mono_add(now, h->timeout_ns / BEATS_PER_TIMEOUT);
    send_report(h, NULL);
}

static void forget_stream(void *user, struct grpc_call *call)
{
    struct dra_health *h = user;
    for (size_t i = 0; i < HEALTH_STREAMS_MAX; i++) {
        if (h->streams[i] == call) {
            h->streams[i] = NULL;
        }
    }
}

static void open_stream(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    struct dra_health *h = user;
    size_t at = 0;
    (void)message; /* the request has no fields */
    (void)len;
    if (h->is_stopped) {
        grpc_call_fail(call, GRPC_UNAVAILABLE, "stopping");
        return;
    }
    while (at < HEALTH_STREAMS_MAX && h->streams[at]) {
        at++;
    }
    if (at == HEALTH_STREAMS_MAX) {
        grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "%d health streams are open",
                       HEALTH_STREAMS_MAX);
        return;
    }
    h->streams[at] = call;
    grpc_call_on_cancel(call, forget_stream, h);
    send_report(h, call);
}

void dra_health_serve(struct dra_health *h, struct grpc_router *router)
{
    const struct grpc_method methods[] = {
        {"/v1.DRAResourceHealth/NodeWatchResources", GRPC_SERVER_STREAM, open_stream, h},
        {"/v1alpha1.DRAResourceHealth/NodeWatchResources", GRPC_SERVER_STREAM, open_stream, h},
    };
    assert(h->timeout_ns >= BEATS_PER_TIMEOUT * NS_PER_SEC);
    h->next_beat = MONO_NEVER;
    text_format(h->report.message, sizeof(h->report.message), "%s", "no verdict yet");
    grpc_router_add(router, methods, ARRAY_LEN(methods));
}

void dra_health_publish(struct dra_health *h, const struct readiness *verdict, struct mono now,
                        struct wall wall)
{
    h->report = dra_health_report(verdict);
    h->is_stalled = false;
    send_to_all(h, now, wall);
}

/* A stalled monitor gets one Unknown, then silence until it works again. */
void dra_health_tick(struct dra_health *h, struct mono now, struct wall wall)
{
    if (h->is_stopped || mono_before(now, h->next_beat)) {
        return;
    }
    bool is_alive = !h->is_monitor_alive || h->is_monitor_alive(h->user, now);
    bool is_news = h->is_stalled == is_alive;
    h->is_stalled = !is_alive;
    if (is_news && !is_alive) {
        log_error("dra", "the lease watcher makes no progress: health heartbeats stop");
    } else if (is_news) {
        log_info("dra", "the lease watcher works again: health heartbeats go on");
    }
    if (is_alive || is_news) {
        send_to_all(h, now, wall);
    } else {
        h->wall = wall;
        h->next_beat = mono_add(now, h->timeout_ns / BEATS_PER_TIMEOUT);
    }
}

void dra_health_stop(struct dra_health *h, struct mono now, struct wall wall)
{
    h->is_stopped = true;
    send_to_all(h, now, wall);
    h->next_beat = MONO_NEVER;
    for (size_t i = 0; i < HEALTH_STREAMS_MAX; i++) {
        struct grpc_call *call = h->streams[i];
        if (call) {
            h->streams[i] = NULL;
            grpc_call_end(call, GRPC_OK, "");
        }
    }
}

size_t dra_health_stream_count(const struct dra_health *h)
{
    size_t count = 0;
    for (size_t i = 0; i < HEALTH_STREAMS_MAX; i++) {
        count += h->streams[i] != NULL;
    }
    return count;
}
