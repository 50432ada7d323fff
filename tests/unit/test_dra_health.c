/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/plugin.h"

#include "base/log.h"
#include "grpc_proto/health.pb-c.h"
#include "tests/support/case.h"
#include "tests/support/h2_client.h"

#define V1    "/v1.DRAResourceHealth/NodeWatchResources"
#define ALPHA "/v1alpha1.DRAResourceHealth/NodeWatchResources"

struct world {
    struct h2_peer peer;
    struct dra_options options;
    struct dra_config config;
    struct plugin plugin;
    bool is_alive;
    struct mono now;
};

static bool is_alive(void *user, struct mono now)
{
    return ((struct world *)user)->is_alive;
}

static const struct wall WALL = {1700000000 * NS_PER_SEC};

static const struct dra_device DEVICE = {.pool = "node1", .name = "dpu0"};

static void up(struct world *w)
{
    w->is_alive = true;
    w->now = (struct mono){1000 * NS_PER_SEC};
    w->options.health_timeout_ns = 30 * NS_PER_SEC;
    w->config =
        (struct dra_config){.options = &w->options, .is_monitor_alive = is_alive, .user = w};
    w->plugin = (struct plugin){
        .config = &w->config, .device = &DEVICE, .claims = claim_events_new(&w->config, &DEVICE)};
    plugin_init(&w->plugin);
    h2_peer_start(&w->peer, plugin_methods, ARRAY_LEN(plugin_methods), &w->plugin);
    log_setup(LOG_ERROR, LOG_TEXT, "");
}

static void down(struct world *w)
{
    h2_peer_stop(&w->peer);
    claim_events_free(w->plugin.claims);
}

WORLD(up, down)

static void publish(struct world *w, enum health_status status, const char *message)
{
    static const enum readiness_state states[] = {[HEALTH_UNKNOWN] = READINESS_UNKNOWN,
                                                  [HEALTH_HEALTHY] = READINESS_READY,
                                                  [HEALTH_UNHEALTHY] = READINESS_NOT_READY};
    struct readiness verdict = {.state = states[status], .reason = REASON_LEASE_RENEWED};
    (void)snprintf(verdict.message, sizeof(verdict.message), "%s", message);
    plugin_publish(&w->plugin, &verdict, w->now, WALL);
    assert_int_equal(h2_client_pump(w->peer.client), 0);
}

static void tick_after(struct world *w, int64_t ns)
{
    w->now = mono_add(w->now, ns);
    plugin_tick(&w->plugin, w->now, WALL);
    assert_int_equal(h2_client_pump(w->peer.client), 0);
}

static int message_count(const struct h2_stream *s)
{
    const uint8_t *bytes;
    int count = 0;
    while (h2_stream_message(s, count, &bytes) >= 0) {
        count++;
    }
    return count;
}

/* The last message on the stream. */
static void assert_last(const struct h2_stream *s, enum health_status status, const char *message)
{
    const uint8_t *bytes = NULL;
    int len = h2_stream_message(s, message_count(s) - 1, &bytes);
    assert_true(len > 0);
    Health__WatchResponse *r = health__watch_response__unpack(NULL, (size_t)len, bytes);
    assert_non_null(r);
    assert_int_equal(r->n_devices, 1);
    assert_string_equal(r->devices[0]->device->pool_name, "node1");
    assert_string_equal(r->devices[0]->device->device_name, "dpu0");
    assert_int_equal(r->devices[0]->health, status);
    assert_string_equal(r->devices[0]->message, message);
    assert_int_equal(r->devices[0]->last_updated_time, WALL.ns / NS_PER_SEC);
    assert_int_equal(r->devices[0]->health_check_timeout_seconds, 30);
    health__watch_response__free_unpacked(r, NULL);
}

TEST_IN(stream_begins_with_headers_and_a_full_report)
{
    publish(w, HEALTH_HEALTHY, "all well");
    static const char *const paths[] = {V1, ALPHA};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct h2_stream *s = h2_peer_call(&w->peer, paths[i], "", 0);
        assert_int_equal(s->header_frames, 1);
        assert_int_equal(message_count(s), 1);
        assert_last(s, HEALTH_HEALTHY, "LeaseRenewed: all well");
        assert_false(s->is_closed);
    }
    assert_int_equal(w->plugin.stats.health_streams, 2);
}

TEST_IN(device_is_unknown_before_the_first_verdict)
{
    const struct h2_stream *s = h2_peer_call(&w->peer, V1, "", 0);
    const uint8_t *bytes = NULL;
    int len = h2_stream_message(s, 0, &bytes);
    Health__WatchResponse *r = health__watch_response__unpack(NULL, (size_t)len, bytes);
    assert_int_equal(r->devices[0]->health, HEALTH__STATUS__UNKNOWN);
    assert_string_equal(r->devices[0]->message, "no verdict yet");
    health__watch_response__free_unpacked(r, NULL);
    assert_true(mono_is_never(w->plugin.next_beat));
}

TEST_IN(verdict_goes_to_every_stream_at_once)
{
    struct h2_stream *a = h2_peer_call(&w->peer, V1, "", 0);
    struct h2_stream *b = h2_peer_call(&w->peer, ALPHA, "", 0);
    publish(w, HEALTH_UNHEALTHY, "lease expired");
    assert_last(a, HEALTH_UNHEALTHY, "LeaseRenewed: lease expired");
    assert_last(b, HEALTH_UNHEALTHY, "LeaseRenewed: lease expired");
    publish(w, HEALTH_HEALTHY, "back\nwith \xff");
    assert_last(a, HEALTH_HEALTHY, "LeaseRenewed: back with ?"); /* Go wants UTF-8 */
}

TEST_IN(heartbeat_comes_at_exactly_a_third_of_the_timeout)
{
    struct h2_stream *s = h2_peer_call(&w->peer, V1, "", 0);
    publish(w, HEALTH_HEALTHY, "well");
    assert_int_equal(message_count(s), 2);
    assert_int_equal(mono_since(w->plugin.next_beat, w->now), 10 * NS_PER_SEC);
    tick_after(w, 10 * NS_PER_SEC - 1);
    assert_int_equal(message_count(s), 2);
    tick_after(w, 1);
    assert_int_equal(message_count(s), 3);
    assert_last(s, HEALTH_HEALTHY, "LeaseRenewed: well");
    publish(w, HEALTH_HEALTHY, "well"); /* a report counts as a heartbeat */
    assert_int_equal(mono_since(w->plugin.next_beat, w->now), 10 * NS_PER_SEC);
}

TEST_IN(stalled_monitor_is_told_once_and_then_silence)
{
    struct h2_stream *s = h2_peer_call(&w->peer, V1, "", 0);
    publish(w, HEALTH_HEALTHY, "well");
    w->is_alive = false;
    tick_after(w, 10 * NS_PER_SEC);
    int told = message_count(s);
    assert_last(s, HEALTH_UNKNOWN, "the agent that watches the DPU on this node makes no progress");
    tick_after(w, 10 * NS_PER_SEC);
    tick_after(w, 10 * NS_PER_SEC);
    assert_int_equal(message_count(s), told);
    struct h2_stream *late = h2_peer_call(&w->peer, V1, "", 0);
    assert_last(late, HEALTH_UNKNOWN,
                "the agent that watches the DPU on this node makes no progress");
    w->is_alive = true;
    tick_after(w, 10 * NS_PER_SEC);
    assert_last(s, HEALTH_HEALTHY, "LeaseRenewed: well");
}

TEST_IN(stop_sends_a_last_unknown_and_ends_the_streams)
{
    publish(w, HEALTH_HEALTHY, "well");
    struct h2_stream *s = h2_peer_call(&w->peer, V1, "", 0);
    plugin_stop(&w->plugin, w->now, WALL);
    assert_int_equal(h2_client_pump(w->peer.client), 0);
    assert_last(s, HEALTH_UNKNOWN, "the agent that watches the DPU on this node is stopping");
    assert_true(s->is_closed);
    assert_int_equal(s->grpc_status, 0);
    assert_int_equal(h2_peer_call(&w->peer, V1, "", 0)->grpc_status, GRPC_UNAVAILABLE);
}

TEST_IN(cancelled_stream_is_forgotten)
{
    int32_t id = h2_client_call(w->peer.client, V1, "", 0);
    assert_int_equal(h2_client_pump(w->peer.client), 0);
    assert_int_equal(w->plugin.stats.health_streams, 1);
    h2_client_cancel(w->peer.client, id);
    assert_int_equal(h2_client_pump(w->peer.client), 0);
    assert_int_equal(w->plugin.stats.health_streams, 0);
    publish(w, HEALTH_HEALTHY, "nobody listens");
}

TEST_IN(streams_are_bounded)
{
    for (int i = 0; i < HEALTH_STREAMS_MAX; i++) {
        assert_int_equal(h2_peer_call(&w->peer, V1, "", 0)->grpc_status, -1);
    }
    assert_int_equal(h2_peer_call(&w->peer, V1, "", 0)->grpc_status, GRPC_RESOURCE_EXHAUSTED);
}

TEST_IN(verdict_is_projected_as_the_table_says)
{
    static const struct {
        enum readiness_state state;
        enum readiness_reason reason;
        enum health_status status;
    } rows[] = {
        {READINESS_READY, REASON_LEASE_RENEWED, HEALTH_HEALTHY},
        {READINESS_READY, REASON_HEALTH_CHECK_DISABLED, HEALTH_UNKNOWN},
        {READINESS_NOT_READY, REASON_LEASE_EXPIRED, HEALTH_UNHEALTHY},
        {READINESS_NOT_READY, REASON_LEASE_NOT_FOUND, HEALTH_UNHEALTHY},
        {READINESS_NOT_READY, REASON_LEASE_INVALID, HEALTH_UNHEALTHY},
        {READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, HEALTH_UNHEALTHY},
        {READINESS_NOT_READY, REASON_DPU_SHUTDOWN, HEALTH_UNHEALTHY},
        {READINESS_UNKNOWN, REASON_AWAITING_FIRST_RENEWAL, HEALTH_UNKNOWN},
        {READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, HEALTH_UNKNOWN},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct readiness verdict = {
            .state = rows[i].state, .reason = rows[i].reason, .message = "one sentence"};
        struct health_report report = health_report_of(&verdict);
        char want[128];
        (void)snprintf(want, sizeof(want), "%s: one sentence",
                       readiness_reason_name(rows[i].reason));
        assert_int_equal(report.status, rows[i].status);
        assert_string_equal(report.message, want);
    }
}
