/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/health.h"

#include "base/log.h"
#include "base/text.h"
#include "dra_proto/health.pb-c.h"
#include "host-agent/dra/message.h"

#include <assert.h>
#include <string.h>

enum { BEATS_PER_TIMEOUT = 3, PACKED_MAX_BYTES = 4096 };

static int64_t beat_ns(const struct health *h)
{
    return h->config.timeout_ns / BEATS_PER_TIMEOUT;
}

static char *mutable(const char *text)
{
    return (char *)(uintptr_t)text; /* protobuf-c packs from non-const pointers, writing nothing */
}

static const char *kep_word(enum health_status status)
{
    switch (status) {
    case HEALTH_HEALTHY:
        return "Healthy";
    case HEALTH_UNHEALTHY:
        return "Unhealthy";
    case HEALTH_UNKNOWN:
        return "Unknown";
    }
    return "Unknown";
}

/* What there is to say now: the verdict, unless we cannot vouch for it. */
static struct health_report current_report(const struct health *h)
{
    struct health_report r = {.status = HEALTH_UNKNOWN};
    if (h->is_stopped) {
        text_format(r.message, sizeof(r.message), "%s",
                    "the agent that watches the DPU on this node is stopping");
    } else if (h->is_stalled) {
        text_format(r.message, sizeof(r.message), "%s",
                    "the lease watcher on this node makes no progress");
    } else {
        /* Go refuses a message with invalid UTF-8 and ends the stream, every five seconds anew. */
        r.status = h->report.status;
        text_sanitize(r.message, sizeof(r.message), h->report.message, strlen(h->report.message));
    }
    return r;
}

static int pack_shipped(struct health *h, const struct health_report *report, struct err *e)
{
    Health__DeviceIdentifier id = HEALTH__DEVICE_IDENTIFIER__INIT;
    Health__Device device = HEALTH__DEVICE__INIT;
    Health__Device *devices[] = {&device};
    Health__WatchResponse response = HEALTH__WATCH_RESPONSE__INIT;
    id.pool_name = mutable(h->config.pool);
    id.device_name = mutable(h->config.device);
    device.device = &id;
    device.health = (Health__Status)report->status;
    device.last_updated_time = h->wall.ns / NS_PER_SEC;
    device.health_check_timeout_seconds = h->config.timeout_ns / NS_PER_SEC;
    device.message = mutable(report->message);
    response.devices = devices;
    response.n_devices = ARRAY_LEN(devices);
    return message_pack(&response.base, &h->packed, e);
}

static int pack_kep(struct health *h, const struct health_report *report, struct err *e)
{
    Health__KepDevice device = HEALTH__KEP_DEVICE__INIT;
    Health__KepDevice *devices[] = {&device};
    Health__KepWatchResponse response = HEALTH__KEP_WATCH_RESPONSE__INIT;
    device.pool_name = mutable(h->config.pool);
    device.device_name = mutable(h->config.device);
    device.health_status = mutable(kep_word(report->status));
    device.last_updated_timestamp = h->wall.ns / NS_PER_SEC;
    device.health_check_timeout_seconds = h->config.timeout_ns / NS_PER_SEC;
    response.devices = devices;
    response.n_devices = ARRAY_LEN(devices);
    return message_pack(&response.base, &h->packed, e);
}

/* The report in the words of one of the two services. */
static int pack(struct health *h, bool speaks_kep, struct err *e)
{
    struct health_report report = current_report(h);
    return speaks_kep ? pack_kep(h, &report, e) : pack_shipped(h, &report, e);
}

static int send_packed(struct health *h, const struct health_stream *stream, struct err *e)
{
    int rc = grpc_call_send(stream->call, buf_text(&h->packed), h->packed.len, e);
    h->sent_count += rc == 0;
    return rc;
}

static void complain(struct health *h, const struct err *e)
{
    log_limited(&h->send_failures, LOG_AGAIN_NS, LOG_WARN, "dra",
                "sending a health report: %s, continuing", e->msg);
}

static void send_to(struct health *h, const struct health_stream *stream)
{
    struct err e = ERR_INIT;
    if (pack(h, stream->speaks_kep, &e) != 0 || send_packed(h, stream, &e) != 0) {
        complain(h, &e);
    }
}

/* Packed once for all streams of that kind. */
static void send_to_kind(struct health *h, bool speaks_kep)
{
    struct err e = ERR_INIT;
    bool is_packed = false;
    for (size_t i = 0; i < HEALTH_STREAMS_MAX; i++) {
        const struct health_stream *stream = &h->streams[i];
        if (!stream->call || stream->speaks_kep != speaks_kep) {
            continue;
        }
        if (!is_packed && pack(h, speaks_kep, &e) != 0) {
            complain(h, &e);
            return;
        }
        is_packed = true;
        if (send_packed(h, stream, &e) != 0) {
            complain(h, &e);
        }
    }
}

static void send_to_all(struct health *h)
{
    send_to_kind(h, false);
    send_to_kind(h, true);
    h->next_beat = mono_add(h->now, beat_ns(h));
}

static void forget_stream(void *user, struct grpc_call *call)
{
    struct health *h = user;
    for (size_t i = 0; i < HEALTH_STREAMS_MAX; i++) {
        if (h->streams[i].call == call) {
            h->streams[i].call = NULL;
        }
    }
}

static void open_stream(struct health *h, struct grpc_call *call, bool speaks_kep)
{
    if (h->is_stopped) {
        grpc_call_fail(call, GRPC_UNAVAILABLE, "stopping");
        return;
    }
    for (size_t i = 0; i < HEALTH_STREAMS_MAX; i++) {
        struct health_stream *stream = &h->streams[i];
        if (!stream->call) {
            *stream = (struct health_stream){.call = call, .speaks_kep = speaks_kep};
            grpc_call_on_cancel(call, forget_stream, h);
            send_to(h, stream);
            return;
        }
    }
    grpc_call_fail(call, GRPC_RESOURCE_EXHAUSTED, "%d health streams are open", HEALTH_STREAMS_MAX);
}

static void watch(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    (void)message; /* the request has no fields */
    (void)len;
    open_stream(user, call, false);
}

static void watch_kep(void *user, struct grpc_call *call, const uint8_t *message, size_t len)
{
    (void)message;
    (void)len;
    open_stream(user, call, true);
}

void health_init(struct health *h, const struct health_config *config)
{
    assert(config->timeout_ns >= BEATS_PER_TIMEOUT * NS_PER_SEC);
    *h = (struct health){.config = *config, .next_beat = MONO_NEVER};
    text_format(h->report.message, sizeof(h->report.message), "%s", "no verdict yet");
    buf_init(&h->packed, PACKED_MAX_BYTES);
}

void health_fini(struct health *h)
{
    buf_fini(&h->packed);
}

void health_serve(struct health *h, struct grpc_router *router)
{
    const struct grpc_method methods[] = {
        {"/v1.DRAResourceHealth/NodeWatchResources", GRPC_SERVER_STREAM, watch, h},
        {"/v1alpha1.DRAResourceHealth/NodeWatchResources", GRPC_SERVER_STREAM, watch, h},
        {"/v1alpha1.NodeHealth/WatchResources", GRPC_SERVER_STREAM, watch_kep, h},
    };
    grpc_router_add(router, methods, ARRAY_LEN(methods));
}

void health_publish(struct health *h, const struct health_report *report, struct mono now,
                    struct wall wall)
{
    h->report = *report;
    h->is_stalled = false;
    h->now = now;
    h->wall = wall;
    send_to_all(h);
}

struct mono health_next_tick(const struct health *h)
{
    return h->next_beat;
}

/* A stalled monitor gets one Unknown, then silence until it works again. */
void health_tick(struct health *h, struct mono now, struct wall wall)
{
    if (h->is_stopped || mono_before(now, h->next_beat)) {
        return;
    }
    bool is_alive = !h->config.is_monitor_alive || h->config.is_monitor_alive(h->config.user, now);
    bool is_news = h->is_stalled == is_alive;
    h->now = now;
    h->wall = wall;
    h->is_stalled = !is_alive;
    if (is_news && !is_alive) {
        log_error("dra", "the lease watcher makes no progress: health heartbeats stop");
    } else if (is_news) {
        log_info("dra", "the lease watcher works again: health heartbeats go on");
    }
    if (is_alive || is_news) {
        send_to_all(h);
    } else {
        h->next_beat = mono_add(now, beat_ns(h));
    }
}

void health_stop(struct health *h, struct mono now, struct wall wall)
{
    h->is_stopped = true;
    h->now = now;
    h->wall = wall;
    send_to_all(h);
    h->next_beat = MONO_NEVER;
    for (size_t i = 0; i < HEALTH_STREAMS_MAX; i++) {
        struct grpc_call *call = h->streams[i].call;
        if (call) {
            h->streams[i].call = NULL;
            grpc_call_end(call, GRPC_OK, "");
        }
    }
}

size_t health_stream_count(const struct health *h)
{
    size_t count = 0;
    for (size_t i = 0; i < HEALTH_STREAMS_MAX; i++) {
        count += h->streams[i].call != NULL;
    }
    return count;
}
