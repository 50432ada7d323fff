/* SPDX-License-Identifier: Apache-2.0 */
/* The whole plugin under a kubelet root of its own; the API server never answers. */
#include "host-agent/dra/dra_service.h"

#include "base/log.h"
#include "base/mem.h"
#include "grpc_proto/health.pb-c.h"
#include "tests/support/case.h"
#include "tests/support/h2_client.h"
#include "tests/support/scratch.h"
#include "tests/unit/api_client.h"

#include <ev.h>
#include <sys/socket.h>

#define DRIVER "dpu.example.com"

struct world {
    struct ev_loop *loop;
    char root[SCRATCH_BYTES];
    struct kube_client client;
    char driver[32];
    char device[8];
    struct dra_options options;
    struct dra_config config;
    struct dra_service *service;
    int stopped;
};

static void on_stopped(void *user)
{
    ((struct world *)user)->stopped++;
}

static void path_of(const struct world *w, const char *name, char out[static 160])
{
    (void)snprintf(out, 160, "%s/%s", w->root, name);
}

/* As a kubelet does. */
static void make_dirs(const struct world *w)
{
    assert_true(scratch_run("cd %s && mkdir plugins plugins_registry", w->root));
}

static void up(struct world *w)
{
    w->loop = ev_loop_new(EVFLAG_AUTO);
    scratch_make(w->root);
    (void)snprintf(w->driver, sizeof(w->driver), "%s", DRIVER);
    (void)snprintf(w->device, sizeof(w->device), "dpu0");
    w->options = (struct dra_options){.mode = DRA_ON,
                                      .driver = w->driver,
                                      .device = w->device,
                                      .dirs.kubelet_root = w->root,
                                      .health_timeout_ns = 30 * NS_PER_SEC};
    assert_int_equal(dra_options_check(&w->options, NULL), 0);
    w->config = (struct dra_config){
        .loop = w->loop,
        .client = &w->client,
        .node_name = "node1",
        .options = &w->options,
        .check_interval_ns = 10 * NS_PER_MS,
        .on_stopped = on_stopped,
        .user = w,
    };
    log_setup(LOG_ERROR, LOG_TEXT, "");
}

static void start_service(struct world *w)
{
    struct err e = ERR_INIT;
    make_dirs(w);
    if (dra_service_start(&w->config, &w->service, &e) != 0) {
        fail_msg("%s", e.msg);
    }
}

static void down(struct world *w)
{
    dra_service_free(w->service);
    ev_loop_destroy(w->loop);
    /* No socket is left behind. Locks are, for whoever comes next. */
    assert_true(scratch_run("! find %s ! -type d ! -name '*.lock' | grep .", w->root));
    scratch_remove(w->root);
}

WORLD(up, down)

static int dial(const struct world *w, const char *name)
{
    char path[160];
    path_of(w, name, path);
    return h2_dial(path);
}

/* A call of the server at that socket. */
static struct h2_client *call(const struct world *w, const char *name, const char *method,
                              struct h2_stream **out)
{
    char path[160];
    path_of(w, name, path);
    struct h2_client *c = h2_client_new(w->loop, path, false);
    *out = h2_client_stream(c, h2_client_call(c, method, "", 0));
    assert_int_equal(h2_client_pump(c), 0);
    return c;
}

static int last_health(const struct h2_stream *s, char *message, size_t message_bytes)
{
    const uint8_t *bytes = NULL;
    int index = 0;
    while (h2_stream_message(s, index + 1, &bytes) >= 0) {
        index++;
    }
    int len = h2_stream_message(s, index, &bytes);
    assert_true(len > 0);
    Health__WatchResponse *r = health__watch_response__unpack(NULL, (size_t)len, bytes);
    assert_non_null(r);
    int health = (int)r->devices[0]->health;
    assert_string_equal(r->devices[0]->device->pool_name, "node1");
    (void)snprintf(message, message_bytes, "%s", r->devices[0]->message);
    health__watch_response__free_unpacked(r, NULL);
    return health;
}

TEST_IN(verdict_reaches_the_stream_in_the_same_turn)
{
    start_service(w);
    char message[256];
    struct h2_stream *s;
    struct h2_client *c =
        call(w, "plugins/" DRIVER "/dra.sock", "/v1.DRAResourceHealth/NodeWatchResources", &s);
    assert_int_equal(last_health(s, message, sizeof(message)), HEALTH__STATUS__UNKNOWN);

    struct readiness ready = {.state = READINESS_READY,
                              .admit = true,
                              .reason = REASON_LEASE_RENEWED,
                              .message = "DPU renewed its lease"};
    dra_service_publish(w->service, &ready);
    (void)ev_run(w->loop, EVRUN_NOWAIT); /* one turn writes it */
    (void)h2_client_pump(c);
    assert_int_equal(last_health(s, message, sizeof(message)), HEALTH__STATUS__HEALTHY);
    assert_string_equal(message, "LeaseRenewed: DPU renewed its lease");
    assert_int_equal(dra_service_stats(w->service)->health_streams, 1);
    assert_true(w->client.requests > 0); /* the slice is on its way, too */
    h2_client_free(c);
}

TEST_IN(stop_says_unknown_removes_the_sockets_and_tells)
{
    start_service(w);
    char message[256];
    struct h2_stream *s;
    struct h2_client *c = call(w, "plugins/" DRIVER "/dra.sock",
                               "/v1alpha1.DRAResourceHealth/NodeWatchResources", &s);
    dra_service_stop(w->service);
    assert_int_equal(w->stopped, 0);
    assert_int_equal(dial(w, "plugins/" DRIVER "/dra.sock"), -1);
    assert_int_equal(dial(w, "plugins_registry/" DRIVER "-reg.sock"), -1);
    (void)h2_client_pump(c);
    assert_int_equal(last_health(s, message, sizeof(message)), HEALTH__STATUS__UNKNOWN);
    assert_true(s->is_closed);
    assert_true(c->got_goaway);
    assert_int_equal(w->stopped, 1);
    h2_client_free(c);
}

TEST_IN(peer_that_hangs_on_does_not_hold_up_the_stop)
{
    start_service(w);
    CLEANUP(fd) int fd = dial(w, "plugins/" DRIVER "/dra.sock");
    (void)ev_run(w->loop, EVRUN_NOWAIT);
    dra_service_stop(w->service);
    for (int i = 0; i < 100 && !w->stopped; i++) {
        (void)ev_run(w->loop, EVRUN_ONCE);
    }
    assert_int_equal(w->stopped, 1);
}

/* Runs the loop until `name` can be dialled, at most a second or two. */
static bool appears(struct world *w, const char *name)
{
    for (int i = 0; i < 200; i++) {
        (void)ev_run(w->loop, EVRUN_ONCE); /* the check timer ends each turn */
        int fd = dial(w, name);
        if (fd >= 0) {
            (void)close(fd);
            return true;
        }
    }
    return false;
}

TEST_IN(removed_sockets_come_back)
{
    start_service(w);
    char path[160];
    path_of(w, "plugins_registry/" DRIVER "-reg.sock", path);
    assert_int_equal(unlink(path), 0);
    assert_true(appears(w, "plugins_registry/" DRIVER "-reg.sock"));
}

TEST_IN(kubelet_that_comes_later_is_waited_for)
{
    assert_int_equal(dra_service_start(&w->config, &w->service, NULL), 0);
    make_dirs(w);
    assert_true(appears(w, "plugins_registry/" DRIVER "-reg.sock"));
}

TEST_IN(stop_without_sockets_tells_as_well)
{
    assert_int_equal(dra_service_start(&w->config, &w->service, NULL), 0);
    dra_service_stop(w->service);
    (void)ev_run(w->loop, EVRUN_ONCE);
    assert_int_equal(w->stopped, 1);
}

TEST_IN(two_instances_share_the_directories_in_a_rolling_update)
{
    start_service(w);
    struct dra_service *second = NULL;
    struct dra_config config = w->config;
    struct dra_options options = w->options;
    char uid[] = "11111111-2222";
    options.rolling_uid = uid;
    assert_int_equal(dra_options_check(&options, NULL), 0);
    config.options = &options;
    config.is_second = true;
    assert_int_equal(dra_service_start(&config, &second, NULL), 0);
    assert_int_equal(dra_service_lead(second, NULL), ERR_CONFLICT);
    for (int i = 0; i < 2; i++) {
        CLEANUP(fd) int old = dial(w, "plugins/" DRIVER "/dra.sock");
        CLEANUP(fd) int new = dial(w, "plugins/" DRIVER "/dra-11111111-2222.sock");
        assert_true(new >= 0);
        assert_int_equal(old >= 0, i == 0);
        dra_service_free(w->service);
        w->service = NULL;
    }
    assert_int_equal(dra_service_lead(second, NULL), 0);
    dra_service_free(second);
}

TEST_IN(a_second_agent_of_one_driver_is_refused_and_touches_nothing)
{
    start_service(w);
    struct err e = ERR_INIT;
    struct dra_service *second = NULL;
    char path[160];
    path_of(w, "plugins/" DRIVER "/dra.sock", path);
    struct h2_client *c = h2_client_new(w->loop, path, false);
    assert_int_equal(dra_service_start(&w->config, &second, &e), ERR_CONFLICT);
    assert_non_null(strstr(e.msg, "'" DRIVER "'"));
    assert_non_null(strstr(e.msg, "--dra-driver-name"));
    assert_int_equal(h2_client_pump(c), 0);
    assert_false(c->got_goaway);
    h2_client_free(c);
    dra_service_free(w->service);
    w->service = NULL;
    assert_int_equal(dra_service_start(&w->config, &w->service, NULL), 0);
}

/* Neither found a kubelet at its start: who comes second stops, to be told at its next. */
TEST_IN(a_clash_that_shows_later_stops_the_second)
{
    struct dra_service *second = NULL;
    assert_int_equal(dra_service_start(&w->config, &w->service, NULL), 0);
    assert_int_equal(dra_service_start(&w->config, &second, NULL), 0);
    make_dirs(w);
    for (int i = 0; i < 200 && w->stopped == 0; i++) {
        (void)ev_run(w->loop, EVRUN_ONCE);
    }
    assert_int_equal(w->stopped, 1);
    assert_true(appears(w, "plugins_registry/" DRIVER "-reg.sock"));
    dra_service_free(second);
}
