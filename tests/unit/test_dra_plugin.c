/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/dra/plugin.h"

#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "grpc_proto/health.pb-c.h"
#include "grpc_proto/plugin.pb-c.h"
#include "grpc_proto/registration.pb-c.h"
#include "tests/support/case.h"
#include "tests/support/h2_client.h"
#include "tests/support/scratch.h"

#define V1(method) "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/" method

#define HEALTH       "/v1.DRAResourceHealth/NodeWatchResources"
#define HEALTH_ALPHA "/v1alpha1.DRAResourceHealth/NodeWatchResources"

#define GET_INFO "/pluginregistration.Registration/GetInfo"
#define NOTIFY   "/pluginregistration.Registration/NotifyRegistrationStatus"

enum { LOOKUPS_MAX = 8 };

/* Lookups wait until the test answers them. */
struct kube_call {
    kube_done_fn *done; /* NULL: answered or cancelled */
    void *user;
    char path[128];
    bool is_cancelled;
};

struct kube_client {
    struct kube_call lookups[LOOKUPS_MAX];
    size_t count;
};

struct kube_call *kube_client_start(struct kube_client *client, const struct kube_request *request,
                                    kube_done_fn *done, void *user)
{
    assert_true(client->count < LOOKUPS_MAX);
    struct kube_call *l = &client->lookups[client->count++];
    *l = (struct kube_call){.done = done, .user = user};
    (void)snprintf(l->path, sizeof(l->path), "%s", request->path);
    return l;
}

void kube_call_cancel(struct kube_call *call)
{
    if (call) {
        assert_non_null(call->done);
        call->done = NULL;
        call->is_cancelled = true;
    }
}

struct world {
    struct ev_loop *loop; /* of the claims, which outlive the servers */
    struct h2_peer peer;
    struct plugin plugin;
    struct kube_client client;
    char dir[SCRATCH_BYTES];
    struct dra_options options;
    struct dra_config config;
    struct mono now;
};

static struct wall wall; /* as of the last word */

static const struct dra_device DEVICE = {
    .driver = "dpu.example.com", .pool = "node1", .name = "dpu0"};

static void up(struct world *w)
{
    w->options.health_timeout_ns = 30 * NS_PER_SEC;
    (void)strcpy(w->options.names.dra, "/p/dra.sock");
    scratch_make(w->dir);
    (void)strcpy(w->options.names.plugin_dir, w->dir);
    w->now = (struct mono){1000 * NS_PER_SEC};
    w->loop = ev_loop_new(EVFLAG_AUTO);
    w->config = (struct dra_config){.loop = w->loop, .client = &w->client, .options = &w->options};
    w->plugin = (struct plugin){
        .config = &w->config, .device = &DEVICE, .claims = claim_events_new(&w->config, &DEVICE)};
    plugin_init(&w->plugin);
    wall = w->plugin.wall = (struct wall){1700000000 * NS_PER_SEC};
    h2_peer_start(&w->peer, plugin_methods, ARRAY_LEN(plugin_methods), &w->plugin);
    log_setup(LOG_ERROR, LOG_TEXT, "");
}

static void down(struct world *w)
{
    h2_peer_stop(&w->peer);
    claim_events_free(w->plugin.claims);
    ev_loop_destroy(w->loop);
    scratch_remove(w->dir);
}

WORLD(up, down)

/* A request for claims "c<uid>" in namespace "ns". */
static int32_t ask(struct world *w, const char *path, const char *const *uids, size_t count)
{
    uint8_t out[4096];
    Dra__Claim claims[8];
    Dra__Claim *list[8];
    char names[8][64];
    Dra__ClaimsRequest request = DRA__CLAIMS_REQUEST__INIT;
    for (size_t i = 0; i < count; i++) {
        dra__claim__init(&claims[i]);
        (void)snprintf(names[i], sizeof(names[i]), "c%s", uids[i]);
        claims[i].namespace_ = (char *)(uintptr_t) "ns";
        claims[i].uid = (char *)(uintptr_t)uids[i];
        claims[i].name = names[i];
        list[i] = &claims[i];
    }
    request.claims = list;
    request.n_claims = count;
    size_t len = dra__claims_request__pack(&request, out);
    int32_t id = h2_client_call(w->peer.client, path, out, len);
    assert_int_equal(h2_client_pump(w->peer.client), 0);
    return id;
}

static struct h2_stream *stream(struct world *w, int32_t id)
{
    assert_int_equal(h2_client_pump(w->peer.client), 0);
    return h2_client_stream(w->peer.client, id);
}

static void respond(struct world *w, size_t index, const struct kube_response *response)
{
    struct kube_call *l = &w->client.lookups[index];
    kube_done_fn *done = l->done;
    l->done = NULL;
    done(l->user, response);
}

static void answer(struct world *w, size_t index, const char *uid, const char *extra)
{
    char text[512];
    (void)snprintf(text, sizeof(text),
                   "{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"%s\"},\"status\":"
                   "{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"dpu/sub\","
                   "\"driver\":\"dpu.example.com\",\"pool\":\"node1\",\"device\":\"dpu0\"%s}]}}}}",
                   uid, extra);
    CLEANUP(json) json_t *json = json_text_parse(text, strlen(text), NULL);
    assert_non_null(json);
    respond(w, index, &(struct kube_response){.http_status = 200, .body = json});
}

static void answer_failure(struct world *w, size_t index, const char *why)
{
    struct kube_response r = {.code = ERR_RETRY};
    (void)snprintf(r.message, sizeof(r.message), "%s", why);
    respond(w, index, &r);
}

static Dra__PrepareResponse *prepared(struct h2_stream *s)
{
    const uint8_t *bytes = NULL;
    assert_int_equal(s->grpc_status, 0);
    int len = h2_stream_message(s, 0, &bytes);
    Dra__PrepareResponse *r = dra__prepare_response__unpack(NULL, (size_t)len, bytes);
    assert_non_null(r);
    return r;
}

static void cleanup_prepared(Dra__PrepareResponse **r)
{
    dra__prepare_response__free_unpacked(*r, NULL);
}

static const Dra__Prepared *entry(const Dra__PrepareResponse *r, const char *uid)
{
    const Dra__Prepared *found = NULL;
    for (size_t i = 0; i < r->n_claims; i++) {
        if (strcmp(r->claims[i]->key, uid) == 0) {
            assert_null(found); /* exactly one */
            found = r->claims[i]->value;
        }
    }
    assert_non_null(found);
    return found;
}

TEST_IN(prepared_claim_names_device_request_and_share)
{
    for (size_t i = 0; i < 2; i++) { /* the kubelet asks again after its own restart */
        int32_t id = ask(w, V1("NodePrepareResources"), (const char *const[]){"u1"}, 1);
        assert_string_equal(w->client.lookups[i].path,
                            "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/cu1");
        answer(w, i, "u1", ",\"shareID\":\"share-7\"");
        CLEANUP(prepared) Dra__PrepareResponse *r = prepared(stream(w, id));
        const Dra__Prepared *p = entry(r, "u1");
        assert_string_equal(p->error, "");
        assert_int_equal(p->n_devices, 1);
        assert_string_equal(p->devices[0]->pool_name, "node1");
        assert_string_equal(p->devices[0]->device_name, "dpu0");
        assert_string_equal(p->devices[0]->share_id, "share-7");
        assert_int_equal(p->devices[0]->n_request_names, 1);
        assert_string_equal(p->devices[0]->request_names[0], "dpu");
    }
    assert_int_equal(w->plugin.stats.claims_prepared, 2);
}

TEST_IN(each_claim_gets_one_entry_of_its_own)
{
    int32_t id = ask(w, V1("NodePrepareResources"), (const char *const[]){"u1", "u2", "u3"}, 3);
    answer(w, 2, "u3", "");
    answer_failure(w, 1, "refused: caf\xc3");
    assert_int_equal(stream(w, id)->grpc_status, -1); /* waits for the last one */
    answer(w, 0, "somebody-else", "");
    CLEANUP(prepared) Dra__PrepareResponse *r = prepared(stream(w, id));
    assert_int_equal(r->n_claims, 3);
    assert_non_null(strstr(entry(r, "u1")->error, "replaced"));
    assert_non_null(strstr(entry(r, "u2")->error, "refused: caf?") /* Go wants UTF-8 */);
    assert_int_equal(entry(r, "u3")->n_devices, 1);
    assert_int_equal(w->plugin.stats.claim_failures, 2);
}

TEST_IN(claim_that_cannot_be_asked_for_gets_its_error)
{
    int32_t id = ask(w, V1("NodePrepareResources"), (const char *const[]){"U/.."}, 1);
    CLEANUP(prepared) Dra__PrepareResponse *r = prepared(stream(w, id));
    assert_non_null(strstr(entry(r, "U/..")->error, "not a valid name of a claim"));
}

TEST_IN(cancelled_prepare_stops_its_lookups)
{
    int32_t id = ask(w, V1("NodePrepareResources"), (const char *const[]){"u1", "u2"}, 2);
    answer(w, 0, "u1", "");
    h2_client_cancel(w->peer.client, id);
    assert_int_equal(h2_client_pump(w->peer.client), 0);
    assert_false(w->client.lookups[0].is_cancelled);
    assert_true(w->client.lookups[1].is_cancelled);
}

TEST_IN(prepared_claim_gets_the_condition_of_now)
{
    static const struct readiness dead = {.state = READINESS_NOT_READY,
                                          .reason = REASON_LEASE_EXPIRED};
    w->options.claim_conditions = true;
    w->config.events = (struct events *)&w->client; /* there are Events: nobody is told here */
    plugin_publish(&w->plugin, &dead, (struct mono){0}, (struct wall){0});
    claim_events_show(w->plugin.claims, &dead); /* as the service does */
    int32_t id = ask(w, V1("NodePrepareResources"), (const char *const[]){"u1"}, 1);
    answer(w, 0, "u1", "");
    assert_int_equal(stream(w, id)->grpc_status, 0);
    assert_int_equal(w->client.count, 2); /* as it is now that it is kept */
    answer(w, 1, "u1", "");
    assert_int_equal(w->client.count, 3);
    assert_string_equal(w->client.lookups[2].path,
                        "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/cu1/status");
}

TEST_IN(unprepare_succeeds_for_any_claim_and_asks_nobody)
{
    for (size_t i = 0; i < 2; i++) {
        struct h2_stream *s = stream(w, ask(w, V1("NodeUnprepareResources"),
                                            (const char *const[]){"gone", "never-seen"}, 2));
        const uint8_t *bytes = NULL;
        assert_int_equal(s->grpc_status, 0);
        int len = h2_stream_message(s, 0, &bytes);
        Dra__UnprepareResponse *r = dra__unprepare_response__unpack(NULL, (size_t)len, bytes);
        assert_non_null(r);
        assert_int_equal(r->n_claims, 2);
        assert_string_equal(r->claims[0]->key, "gone");
        assert_string_equal(r->claims[0]->value->error, "");
        assert_string_equal(r->claims[1]->key, "never-seen");
        dra__unprepare_response__free_unpacked(r, NULL);
    }
    assert_int_equal(w->client.count, 0);
    assert_int_equal(w->plugin.stats.claims_unprepared, 4);
}

/* The answer for one claim that has the device alone: "" or why not. */
static void prepare_alone(struct world *w, const char *uid, char out[static 256])
{
    size_t asked = w->client.count;
    int32_t id = ask(w, V1("NodePrepareResources"), (const char *const[]){uid}, 1);
    answer(w, asked, uid, "");
    CLEANUP(prepared) Dra__PrepareResponse *r = prepared(stream(w, id));
    const Dra__Prepared *p = entry(r, uid);
    assert_int_equal(p->n_devices, p->error[0] == '\0');
    (void)snprintf(out, 256, "%s", p->error);
}

TEST_IN(second_claim_is_refused_until_the_first_is_unprepared)
{
    char error[256];
    for (int i = 0; i < 2; i++) { /* the kubelet asks again */
        prepare_alone(w, "u1", error);
        assert_string_equal(error, "");
    }
    prepare_alone(w, "u2", error);
    assert_non_null(strstr(error, "claim 'ns/cu1', which does not share it"));
    assert_non_null(strstr(w->client.lookups[w->client.count - 1].path, "/cu1")); /* is it there? */
    assert_int_equal(w->plugin.stats.claim_failures, 1);
    int32_t id = ask(w, V1("NodeUnprepareResources"), (const char *const[]){"u1"}, 1);
    assert_int_equal(stream(w, id)->grpc_status, 0);
    prepare_alone(w, "u2", error);
    assert_string_equal(error, "");
}

TEST_IN(claim_that_cannot_be_remembered_is_prepared_all_the_same)
{
    char error[256];
    (void)strcpy(w->options.names.plugin_dir, "/proc");
    prepare_alone(w, "u1", error);
    assert_string_equal(error, "");
}

/* Another instance, as the kernel sees it: the same file opened once more. */
TEST_IN(two_instances_answer_one_after_the_other)
{
    struct file_lock theirs;
    char uid[] = "pod-uid";
    const char *const uids[] = {"u1"};
    const char *dir = w->options.names.plugin_dir;
    assert_int_equal(file_lock_init(&w->plugin.lock, dir, "/serialize.lock", NULL), 0);
    assert_int_equal(file_lock_init(&theirs, dir, "/serialize.lock", NULL), 0);
    w->options.rolling_uid = uid;
    assert_int_equal(file_lock_take(&theirs, NULL), 0);
    int32_t prepare = ask(w, V1("NodePrepareResources"), uids, 1);
    answer(w, 0, "u1", ""); /* the lookup needs no lock */
    assert_int_equal(stream(w, prepare)->grpc_status, GRPC_UNAVAILABLE);
    assert_int_equal(stream(w, ask(w, V1("NodeUnprepareResources"), uids, 1))->grpc_status,
                     GRPC_UNAVAILABLE);
    file_lock_release(&theirs);
    assert_int_equal(stream(w, ask(w, V1("NodeUnprepareResources"), uids, 1))->grpc_status, 0);
    assert_int_equal(file_lock_take(&theirs, NULL), 0); /* we gave it back */
    file_lock_release(&theirs);                         /* as its death would */
    prepare = ask(w, V1("NodePrepareResources"), uids, 1);
    answer(w, 1, "u1", "");
    assert_int_equal(stream(w, prepare)->grpc_status, 0);
    assert_int_equal(file_lock_take(&theirs, NULL), 0);
    file_lock_release(&theirs);
}

TEST_IN(malformed_request_and_one_with_too_many_claims_are_refused)
{
    static const char *const paths[] = {V1("NodePrepareResources"), V1("NodeUnprepareResources")};
    uint8_t many[2 * (PLUGIN_CLAIMS_MAX + 1)];
    for (size_t i = 0; i < sizeof(many); i++) {
        many[i] = i % 2 ? 0 : 0x0a; /* field 1, an empty claim */
    }
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        assert_int_equal(h2_peer_call(&w->peer, paths[i], "\x0a\x7f", 2)->grpc_status,
                         GRPC_INVALID_ARGUMENT);
        assert_int_equal(h2_peer_call(&w->peer, paths[i], many, sizeof(many))->grpc_status,
                         GRPC_RESOURCE_EXHAUSTED);
        assert_int_equal(h2_peer_call(&w->peer, paths[i], many, sizeof(many) - 2)->grpc_status, 0);
    }
}

/* ---- registration ---- */

static void assert_info_is_ours(const struct h2_stream *s)
{
    static const char *const versions[] = {"v1.DRAPlugin", "v1.DRAResourceHealth",
                                           "v1alpha1.DRAResourceHealth"};
    const uint8_t *bytes = NULL;
    assert_int_equal(s->grpc_status, 0);
    int len = h2_stream_message(s, 0, &bytes);
    Registration__PluginInfo *info = registration__plugin_info__unpack(NULL, (size_t)len, bytes);
    assert_non_null(info);
    assert_string_equal(info->type, "DRAPlugin");
    assert_string_equal(info->name, "dpu.example.com");
    assert_string_equal(info->endpoint, "/p/dra.sock");
    assert_int_equal(info->n_supported_versions, ARRAY_LEN(versions));
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        assert_string_equal(info->supported_versions[i], versions[i]);
    }
    registration__plugin_info__free_unpacked(info, NULL);
}

static struct h2_stream *notify(struct world *w, bool registered, const char *error)
{
    uint8_t out[256];
    Registration__Status status = REGISTRATION__STATUS__INIT;
    status.plugin_registered = registered;
    status.error = (char *)(uintptr_t)error;
    size_t len = registration__status__pack(&status, out);
    return h2_peer_call(&w->peer, NOTIFY, out, len);
}

TEST_IN(each_start_of_a_kubelet_gets_driver_endpoint_and_versions_newest_first)
{
    for (int i = 1; i <= 3; i++) {
        /* A newer one sends a field 15. */
        assert_info_is_ours(h2_peer_call(&w->peer, GET_INFO, "\x7a\x03new", i == 1 ? 0 : 5));
        assert_int_equal(notify(w, true, "")->grpc_status, 0);
        assert_int_equal(w->plugin.stats.registrations, i);
    }
}

TEST_IN(rejection_is_answered_and_serving_goes_on)
{
    struct h2_stream *s = notify(w, false, "no handler registered for plugin type: DRAPlugin");
    assert_string_equal(w->plugin.stats.refusal,
                        "no handler registered for plugin type: DRAPlugin");
    assert_int_equal(s->grpc_status, 0);
    assert_int_equal(s->body_len, GRPC_PREFIX_BYTES); /* an empty message is a message */
    assert_false(w->plugin.stats.is_registered);
    assert_int_equal(w->plugin.stats.rejections, 1);
    assert_string_equal(w->plugin.stats.driver, "dpu.example.com");
    assert_int_equal(notify(w, true, "of no matter")->grpc_status, 0);
    assert_true(w->plugin.stats.is_registered);
    assert_string_equal(w->plugin.stats.refusal, "");
}

TEST_IN(malformed_status_is_an_invalid_argument)
{
    assert_int_equal(h2_peer_call(&w->peer, NOTIFY, "\xff\xff\xff", 3)->grpc_status,
                     GRPC_INVALID_ARGUMENT);
    assert_int_equal(w->plugin.stats.registrations + w->plugin.stats.rejections, 0);
}

/* ---- health ---------------------------------------------------------------------------------- */

static void publish(struct world *w, enum health_status status, const char *message)
{
    static const enum readiness_state states[] = {[HEALTH_UNKNOWN] = READINESS_UNKNOWN,
                                                  [HEALTH_HEALTHY] = READINESS_READY,
                                                  [HEALTH_UNHEALTHY] = READINESS_NOT_READY};
    struct readiness verdict = {.state = states[status], .reason = REASON_LEASE_RENEWED};
    (void)snprintf(verdict.message, sizeof(verdict.message), "%s", message);
    wall.ns += NS_PER_SEC;
    plugin_publish(&w->plugin, &verdict, w->now, wall);
    assert_int_equal(h2_client_pump(w->peer.client), 0);
}

static void tick_after(struct world *w, int64_t ns)
{
    w->now = mono_add(w->now, ns);
    wall.ns += NS_PER_SEC;
    plugin_tick(&w->plugin, w->now, wall);
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
    assert_int_equal(r->devices[0]->last_updated_time, wall.ns / NS_PER_SEC);
    assert_int_equal(r->devices[0]->health_check_timeout_seconds, 30);
    health__watch_response__free_unpacked(r, NULL);
}

TEST_IN(verdict_goes_to_every_stream_at_once)
{
    struct h2_stream *a = h2_peer_call(&w->peer, HEALTH, "", 0);
    struct h2_stream *b = h2_peer_call(&w->peer, HEALTH_ALPHA, "", 0);
    assert_last(a, HEALTH_UNKNOWN, "no verdict yet");
    assert_true(mono_is_never(w->plugin.next_beat));
    assert_int_equal(message_count(a), 1); /* what a stream begins with is for it alone */
    assert_int_equal(w->plugin.stats.health_streams, 2);
    assert_int_equal(w->plugin.stats.health_reports, 2);
    publish(w, HEALTH_UNHEALTHY, "lease expired");
    assert_last(a, HEALTH_UNHEALTHY, "LeaseRenewed: lease expired");
    assert_last(b, HEALTH_UNHEALTHY, "LeaseRenewed: lease expired");
    publish(w, HEALTH_HEALTHY, "back\nwith \xff");
    assert_last(a, HEALTH_HEALTHY, "LeaseRenewed: back with ?"); /* Go wants UTF-8 */
    assert_false(a->is_closed);
}

TEST_IN(heartbeat_comes_at_exactly_a_third_of_the_timeout)
{
    struct h2_stream *s = h2_peer_call(&w->peer, HEALTH, "", 0);
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

TEST_IN(reports_are_repeated_quickly_while_another_instance_goes)
{
    struct h2_stream *s = h2_peer_call(&w->peer, HEALTH, "", 0);
    publish(w, HEALTH_HEALTHY, "well");
    plugin_hurry(&w->plugin, w->now, mono_add(w->now, NS_PER_SEC));
    int told = message_count(s);
    tick_after(w, 0);
    assert_int_equal(message_count(s), told + 1); /* at once */
    for (int i = 0; i < 20; i++) {
        tick_after(w, PLUGIN_QUICK_NS);
    }
    assert_int_equal(message_count(s), told + 21);
    assert_last(s, HEALTH_HEALTHY, "LeaseRenewed: well");
    assert_int_equal(mono_since(w->plugin.next_beat, w->now), 10 * NS_PER_SEC);
}

TEST_IN(an_instance_that_is_succeeded_says_nothing_more)
{
    publish(w, HEALTH_HEALTHY, "well");
    struct h2_stream *s = h2_peer_call(&w->peer, HEALTH, "", 0);
    int told = message_count(s);
    plugin_hush(&w->plugin);
    plugin_hurry(&w->plugin, w->now, mono_add(w->now, NS_PER_SEC));
    tick_after(w, 60 * NS_PER_SEC);
    assert_false(s->is_closed);
    assert_int_equal(h2_peer_call(&w->peer, HEALTH, "", 0)->grpc_status, GRPC_UNAVAILABLE);
    plugin_stop(&w->plugin, wall);
    assert_int_equal(h2_client_pump(w->peer.client), 0);
    assert_int_equal(message_count(s), told);
    assert_true(s->is_closed);
    assert_int_equal(s->grpc_status, 0);
}

TEST_IN(stop_sends_a_last_unknown_and_ends_the_streams)
{
    publish(w, HEALTH_HEALTHY, "well");
    struct h2_stream *s = h2_peer_call(&w->peer, HEALTH, "", 0);
    wall.ns += NS_PER_SEC;
    plugin_stop(&w->plugin, wall);
    assert_int_equal(h2_client_pump(w->peer.client), 0);
    assert_last(s, HEALTH_UNKNOWN, "the DRA driver on this node is stopping");
    assert_true(s->is_closed);
    assert_int_equal(s->grpc_status, 0);
    assert_int_equal(w->plugin.stats.health_streams, 0);
    assert_true(mono_is_never(w->plugin.next_beat));
    assert_int_equal(h2_peer_call(&w->peer, HEALTH, "", 0)->grpc_status, GRPC_UNAVAILABLE);
}

TEST_IN(cancelled_stream_is_forgotten)
{
    int32_t id = h2_client_call(w->peer.client, HEALTH, "", 0);
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
        assert_int_equal(h2_peer_call(&w->peer, HEALTH, "", 0)->grpc_status, -1);
    }
    assert_int_equal(h2_peer_call(&w->peer, HEALTH, "", 0)->grpc_status, GRPC_RESOURCE_EXHAUSTED);
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
