/* SPDX-License-Identifier: Apache-2.0 */
/* The whole plugin under a kubelet root of its own; the API server never answers. */
#include "dra-driver/dra/dra_service.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "grpc_proto/health.pb-c.h"
#include "grpc_proto/registration.pb-c.h"
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
    w->options = (struct dra_options){.driver = w->driver,
                                      .device = w->device,
                                      .kubelet_root = w->root,
                                      .health_timeout_ns = 30 * NS_PER_SEC};
    assert_int_equal(dra_options_check(&w->options, NULL), 0);
    w->config = (struct dra_config){
        .loop = w->loop,
        .client = &w->client,
        .node_name = "node1",
        .record_path = "/run/r.json",
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

/* What a kubelet says when it has taken the plugin. */
static void registers(struct world *w, const char *name)
{
    char path[160];
    uint8_t out[16];
    Registration__Status status = REGISTRATION__STATUS__INIT;
    status.plugin_registered = true;
    size_t len = registration__status__pack(&status, out);
    path_of(w, name, path);
    struct h2_client *c = h2_client_new(w->loop, path, false);
    const struct h2_stream *s = h2_client_stream(
        c,
        h2_client_call(c, "/pluginregistration.Registration/NotifyRegistrationStatus", out, len));
    assert_int_equal(h2_client_pump(c), 0);
    assert_int_equal(s->grpc_status, 0);
    h2_client_free(c);
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
    assert_int_equal(w->client.requests, 0); /* no kubelet has registered it: nothing is on offer */
    registers(w, "plugins_registry/" DRIVER "-reg.sock");
    assert_true(w->client.requests > 0); /* the slice is on its way */
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

/* ---- two instances of a rolling update ------------------------------------------------------- */

#define OLD "11111111-aaaa"
#define NEW "22222222-bbbb"

struct second {
    struct dra_options options;
    struct dra_config config;
    struct dra_service *service;
};

static void prepare_rolling(const struct world *w, struct second *s, const char *uid)
{
    s->options = w->options;
    s->options.rolling_uid = (char *)(uintptr_t)uid;
    assert_int_equal(dra_options_check(&s->options, NULL), 0);
    s->config = w->config;
    s->config.options = &s->options;
}

static void start_rolling(const struct world *w, struct second *s, const char *uid)
{
    prepare_rolling(w, s, uid);
    assert_int_equal(dra_service_start(&s->config, &s->service, NULL), 0);
}

static void turn_until_leading(const struct world *w, const struct dra_service *s)
{
    struct mono begin = clock_mono_now();
    while (!dra_service_stats(s)->is_leading) {
        (void)ev_run(w->loop, EVRUN_ONCE);
        assert_true(mono_since(clock_mono_now(), begin) < 10 * NS_PER_SEC);
    }
}

/* A health stream of the instance with that UID, and what it says of the DPU. */
static struct h2_client *watch_health(struct world *w, const char *uid, struct h2_stream **out)
{
    char name[96];
    (void)snprintf(name, sizeof(name), "plugins/" DRIVER "/dra-%s.sock", uid);
    return call(w, name, "/v1.DRAResourceHealth/NodeWatchResources", out);
}

/* An instance that was told to stop does so; `c` is the kubelet that hears its last word. */
static void turn_until_stopped(const struct world *w, struct h2_client *c)
{
    while (w->stopped == 0) {
        (void)ev_run(w->loop, EVRUN_ONCE);
        (void)h2_client_pump(c);
    }
}

static const struct readiness READY = {
    .state = READINESS_READY, .admit = true, .reason = REASON_LEASE_RENEWED, .message = "well"};

TEST_IN(a_registered_successor_takes_over_without_an_unknown)
{
    struct second old;
    struct second new;
    struct h2_stream *on_old;
    struct h2_stream *on_new;
    char message[256];
    make_dirs(w);
    start_rolling(w, &old, OLD);
    assert_true(dra_service_stats(old.service)->is_leading);
    start_rolling(w, &new, NEW);
    assert_false(dra_service_stats(new.service)->is_leading);
    registers(w, "plugins_registry/" DRIVER "-" NEW "-reg.sock");
    dra_service_publish(old.service, &READY);
    dra_service_publish(new.service, &READY);
    assert_int_equal(w->client.requests, 0); /* neither: one is not registered, one does not lead */
    struct h2_client *c = watch_health(w, OLD, &on_old);
    struct h2_client *d = watch_health(w, NEW, &on_new);
    dra_service_stop(old.service);
    turn_until_leading(w, new.service);
    assert_true(w->client.requests > 0);
    assert_false(on_old->is_closed); /* it serves until the other one surely leads */
    uint64_t reports = dra_service_stats(new.service)->health_reports;
    turn_until_stopped(w, c);
    assert_true(on_old->is_closed);
    assert_int_equal(last_health(on_old, message, sizeof(message)), HEALTH__STATUS__HEALTHY);
    assert_string_equal(message, "LeaseRenewed: well");
    /* A kubelet forgets all reports when the old stream ends: the new one repeats its own. */
    assert_true(dra_service_stats(new.service)->health_reports >= reports + 3);
    (void)h2_client_pump(d);
    assert_int_equal(last_health(on_new, message, sizeof(message)), HEALTH__STATUS__HEALTHY);
    h2_client_free(c);
    h2_client_free(d);
    dra_service_free(old.service);
    dra_service_free(new.service);
}

/* As by a rollback: a kubelet forgets what the leader said when the other one's stream ends. */
TEST_IN(the_leader_repeats_its_report_when_the_other_instance_goes)
{
    struct second old;
    struct second new;
    struct h2_stream *on_old;
    make_dirs(w);
    start_rolling(w, &old, OLD);
    start_rolling(w, &new, NEW);
    registers(w, "plugins_registry/" DRIVER "-" OLD "-reg.sock");
    dra_service_publish(old.service, &READY);
    struct h2_client *c = watch_health(w, OLD, &on_old);
    dra_service_stop(new.service);
    while (w->stopped == 0) {
        (void)ev_run(w->loop, EVRUN_ONCE);
    }
    dra_service_free(new.service);
    uint64_t reports = dra_service_stats(old.service)->health_reports;
    struct mono begin = clock_mono_now();
    while (dra_service_stats(old.service)->health_reports < reports + 3 &&
           mono_since(clock_mono_now(), begin) < 5 * NS_PER_SEC) {
        (void)ev_run(w->loop, EVRUN_ONCE);
        (void)h2_client_pump(c);
    }
    assert_true(dra_service_stats(old.service)->health_reports >= reports + 3);
    h2_client_free(c);
    dra_service_free(old.service);
}

TEST_IN(a_successor_that_no_kubelet_has_registered_yet_is_waited_for)
{
    struct second old;
    struct second new;
    struct h2_stream *on_old;
    char message[256];
    make_dirs(w);
    start_rolling(w, &old, OLD);
    start_rolling(w, &new, NEW);
    dra_service_publish(old.service, &READY);
    struct h2_client *c = watch_health(w, OLD, &on_old);
    dra_service_stop(old.service);
    struct mono begin = clock_mono_now();
    while (mono_since(clock_mono_now(), begin) < 2 * DRA_LEAVE_MIN_NS) {
        (void)ev_run(w->loop, EVRUN_ONCE);
    }
    assert_int_equal(w->stopped, 0);
    assert_true(dra_service_stats(old.service)->is_leading);
    registers(w, "plugins_registry/" DRIVER "-" NEW "-reg.sock");
    turn_until_leading(w, new.service);
    turn_until_stopped(w, c);
    assert_int_equal(last_health(on_old, message, sizeof(message)), HEALTH__STATUS__HEALTHY);
    h2_client_free(c);
    dra_service_free(old.service);
    dra_service_free(new.service);
}

TEST_IN(without_another_instance_the_last_word_is_unknown)
{
    struct second old;
    struct second new;
    struct h2_stream *on_old;
    char message[256];
    make_dirs(w);
    start_rolling(w, &old, OLD);
    start_rolling(w, &new, NEW);
    registers(w, "plugins_registry/" DRIVER "-" NEW "-reg.sock");
    dra_service_free(new.service); /* it goes, too */
    dra_service_publish(old.service, &READY);
    struct h2_client *c = watch_health(w, OLD, &on_old);
    dra_service_stop(old.service);
    turn_until_stopped(w, c);
    assert_int_equal(last_health(on_old, message, sizeof(message)), HEALTH__STATUS__UNKNOWN);
    h2_client_free(c);
    dra_service_free(old.service);
}

TEST_IN(what_a_killed_instance_left_is_removed_and_what_somebody_serves_is_not)
{
    struct second new;
    char path[160];
    make_dirs(w);
    assert_true(scratch_run("mkdir -p %s/plugins/" DRIVER, w->root));
    scratch_put(w->root, "plugins/" DRIVER "/instance-" OLD ".lock", "registered");
    scratch_put(w->root, "plugins/" DRIVER "/dra-" OLD ".sock", "");
    scratch_put(w->root, "plugins_registry/" DRIVER "-" OLD "-reg.sock", "");
    scratch_put(w->root, "plugins_registry/other-reg.sock", "");
    start_rolling(w, &new, NEW);
    path_of(w, "plugins_registry/" DRIVER "-" OLD "-reg.sock", path);
    for (int i = 0; i < 200 && access(path, F_OK) == 0; i++) {
        (void)ev_run(w->loop, EVRUN_ONCE); /* the check timer ends each turn */
    }
    assert_true(scratch_run("cd %s && ! ls plugins/" DRIVER "/*" OLD "* plugins_registry/*" OLD "*",
                            w->root));
    assert_true(scratch_run("rm %s/plugins_registry/other-reg.sock", w->root));
    assert_true(appears(w, "plugins_registry/" DRIVER "-" NEW "-reg.sock"));
    dra_service_free(new.service);
}

TEST_IN(two_records_for_one_driver_are_an_error_in_a_rolling_update_too)
{
    struct second old;
    struct second new;
    struct err e = ERR_INIT;
    make_dirs(w);
    start_rolling(w, &old, OLD);
    prepare_rolling(w, &new, NEW);
    new.config.record_path = "/run/another.json";
    assert_int_equal(dra_service_start(&new.config, &new.service, &e), ERR_CONFLICT);
    assert_non_null(strstr(e.msg, "--dra-driver-name"));
    /* One that leads and could note nothing, on a full disk, keeps no successor out. */
    assert_true(scratch_run(": >%s/plugins/" DRIVER "/driver.lock", w->root));
    assert_int_equal(dra_service_start(&new.config, &new.service, NULL), 0);
    assert_false(dra_service_stats(new.service)->is_leading);
    dra_service_free(new.service);
    dra_service_free(old.service);
}

TEST_IN(a_second_driver_of_one_name_is_refused_and_touches_nothing)
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
