/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/slice.h"

#include "base/clock.h"
#include "base/text.h"
#include "tests/support/case.h"
#include "tests/unit/api_world.h"

#define FLIP_NS (2 * NS_PER_SEC)
#define NODE    "{\"metadata\":{\"uid\":\"node-uid\"}}"
#define SLICES  "/apis/resource.k8s.io/v1/resourceslices"
#define SLICE   SLICES "/dpu.example.com-node1"

struct world {
    struct kube_client *client;
    struct slice_publisher *publisher;
    struct dra_config config;
    struct dra_device device;
};

static void up(struct world *w)
{
    loop_world_start();
    w->client = &world.client;
    w->config = (struct dra_config){.client = w->client, .renew_interval_ns = FLIP_NS};
    w->device = (struct dra_device){.driver = "dpu.example.com",
                                    .node_name = "node1",
                                    .pool = "node1",
                                    .name = "dpu0",
                                    .attributes = json_object()};
    w->publisher = slice_publisher_new(&w->config, &w->device);
}

static void down(struct world *w)
{
    slice_publisher_free(w->publisher);
    json_decref(w->device.attributes);
    assert_false(w->client->is_busy || w->client->is_watching);
}

WORLD(up, down)

static void publish(struct world *w, const char *value)
{
    slice_publisher_publish(w->publisher, value);
}

static struct dra_stats stats(const struct world *w)
{
    struct dra_stats out = {.slice_writes = 0};
    slice_publisher_count(w->publisher, &out);
    return out;
}

static void assert_asked(struct world *w, enum kube_method method, const char *path)
{
    if (!w->client->is_busy) {
        fail_msg("'%s' was not asked for", path);
    }
    assert_int_equal(w->client->method, method);
    assert_string_equal(w->client->path, path);
}

/* "NotFound" is a Status object's: the object is missing, not the version. */
static void respond_json(struct world *w, int status, json_t *body, int64_t retry_after_ms)
{
    CLEANUP(json) json_t *copy = json_deep_copy(body);
    struct kube_response r = {
        .code = status < 300    ? 0
                : status == 403 ? ERR_AUTH
                : status == 404 ? ERR_NOTFOUND
                : status == 409 ? ERR_CONFLICT
                                : ERR_RETRY,
        .http_status = status,
        .message = "as the test says",
        .retry_after_ns = retry_after_ms * NS_PER_MS,
        .body = copy,
        .received_at = world.now,
    };
    client_answer(w->client, &r);
}

static void respond(struct world *w, int status, const char *body)
{
    CLEANUP(json) json_t *json = body ? json_text_parse(body, strlen(body), 1 << 16, NULL) : NULL;
    respond_json(w, status, json, 0);
}

/* The server stores what was sent. Returns owned. */
static json_t *respond_stored(struct world *w, const char *version)
{
    json_t *stored = json_deep_copy(w->client->body);
    assert_non_null(stored);
    (void)json_object_set_new(json_object_get(stored, "metadata"), "resourceVersion",
                              json_string(version));
    respond_json(w, 200, stored, 0);
    return stored;
}

static void respond_not_found(struct world *w)
{
    struct kube_response r = {.code = ERR_NOTFOUND,
                              .http_status = 404,
                              .message = "as the test says",
                              .reason = "NotFound",
                              .received_at = world.now};
    client_answer(w->client, &r);
}

static void pass(struct world *w, int64_t ns)
{
    world_pass(ns);
}

/* Waits until something is asked for, as the publisher itself plans it. */
static int64_t wait_asked(struct world *w)
{
    struct mono start = world.now;
    while (!w->client->is_busy) {
        assert_false(mono_is_never(world.timer.deadline));
        world_pass(mono_since(mono_max(world.timer.deadline, world.now), world.now));
    }
    return mono_since(world.now, start);
}

static bool rests(struct world *w)
{
    return !w->client->is_busy && mono_is_never(world.timer.deadline);
}

/* The same, and there is nothing more to do. */
static void store(struct world *w, const char *version)
{
    json_decref(respond_stored(w, version));
    assert_true(rests(w));
}

/* NULL: it is gone. */
static void watch_shows(struct world *w, const json_t *object)
{
    w->client->watch.on_object(w->client->watch.user, object, (struct mono){0});
}

/* From nothing to a created, untainted slice. Returns what is stored; owned. */
static json_t *settle(struct world *w)
{
    publish(w, NULL);
    assert_asked(w, KUBE_GET, "/api/v1/nodes/node1");
    respond(w, 200, NODE);
    assert_asked(w, KUBE_GET, SLICE);
    respond_not_found(w);
    assert_asked(w, KUBE_POST, SLICES);
    json_t *stored = respond_stored(w, "1");
    assert_true(rests(w));
    return stored;
}

TEST_IN(slice_is_created_once_and_then_left_alone)
{
    pass(w, 1000 * NS_PER_SEC);
    assert_int_equal(w->client->requests, 0); /* before the first verdict */
    CLEANUP(json) json_t *stored = settle(w);
    const json_t *owner =
        json_array_get(json_object_get(json_object_get(stored, "metadata"), "ownerReferences"), 0);
    assert_string_equal(json_text_get(owner, "uid"), "node-uid");
    publish(w, NULL);
    pass(w, 3600 * NS_PER_SEC);
    assert_int_equal(w->client->requests, 3);
    assert_int_equal(stats(w).slice_writes, 1);
    assert_true(stats(w).is_slice_published);
}

TEST_IN(slice_that_is_right_already_is_taken_over)
{
    CLEANUP(json) json_t *item = settle(w);
    world_renew(w);
    publish(w, NULL);
    respond(w, 200, NODE);
    respond_json(w, 200, item, 0);
    assert_true(rests(w));
    assert_int_equal(stats(w).slice_writes, 0);
}

TEST_IN(verdict_is_one_put_in_place)
{
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    assert_asked(w, KUBE_PUT, SLICE);
    assert_string_equal(
        json_text_get(json_object_get(w->client->body, "metadata"), "resourceVersion"), "1");
    store(w, "2");
    pass(w, FLIP_NS);
    publish(w, NULL);
    assert_asked(w, KUBE_PUT, SLICE);
    store(w, "3");
}

TEST_IN(slice_removed_by_a_kubelet_is_created_again)
{
    json_decref(settle(w));
    for (int i = 0; i < 10; i++) {
        watch_shows(w, NULL);
        assert_asked(w, KUBE_GET, "/api/v1/nodes/node1"); /* which may be another one */
        respond(w, 200, NODE);
        assert_false(w->client->is_busy); /* each time a little later */
        int64_t most_ns = i < 6 ? SLICE_REPAIR_MIN_NS << i : SLICE_CREATE_MAX_NS;
        int64_t waited_ns = wait_asked(w);
        assert_in_range(waited_ns, most_ns / 4 * 3 - 1, most_ns);
        assert_asked(w, KUBE_POST, SLICES);
        store(w, "5");
    }
    pass(w, SLICE_QUIET_NS + NS_PER_SEC);
    watch_shows(w, NULL);
    respond(w, 200, NODE);
    assert_in_range(wait_asked(w), 0, SLICE_REPAIR_MIN_NS);
}

TEST_IN(echo_of_our_own_write_is_no_news)
{
    CLEANUP(json) json_t *stored = settle(w);
    watch_shows(w, stored);
    assert_true(rests(w));
}

/* However often the verdict has changed before. */
TEST_IN(foreign_change_is_undone)
{
    json_t *stored = settle(w);
    for (int i = 0; i < 6; i++) {
        publish(w, "LeaseExpired");
        publish(w, NULL); /* while it is under way */
        json_decref(respond_stored(w, "2"));
        assert_int_equal(wait_asked(w), FLIP_NS);
        json_decref(stored);
        stored = respond_stored(w, "3");
        pass(w, FLIP_NS);
    }
    (void)json_object_set_new(json_object_get(stored, "spec"), "devices", json_array());
    watch_shows(w, stored);
    json_decref(stored);
    assert_true(w->client->is_busy || wait_asked(w) <= SLICE_REPAIR_MIN_NS);
    assert_asked(w, KUBE_PUT, SLICE);
    store(w, "9");
    assert_int_equal(loop_world_said("stores something else"), 0);
}

TEST_IN(cluster_without_the_api_is_asked_again_later)
{
    publish(w, NULL);
    respond(w, 200, NODE);
    for (int i = 0; i < 3; i++) {
        assert_asked(w, KUBE_GET, SLICE);
        respond(w, 404, NULL);
        assert_asked(w, KUBE_POST, SLICES);
        respond(w, 404, NULL); /* of no object: it is not served */
        assert_int_equal(wait_asked(w), 300 * NS_PER_SEC);
        assert_int_equal(loop_world_said("the API server serves no resource.k8s.io"), 1);
    }
    respond_not_found(w);
    assert_asked(w, KUBE_POST, SLICES);
    json_decref(respond_stored(w, "1"));
    publish(w, "LeaseExpired");
    assert_asked(w, KUBE_PUT, SLICE);
    respond(w, 404, NULL); /* it is served no more */
    wait_asked(w);
    respond(w, 200, NODE);
    assert_asked(w, KUBE_POST, SLICES);
}

TEST_IN(slice_that_exists_already_is_read_and_adopted)
{
    publish(w, NULL);
    respond(w, 200, NODE);
    respond_not_found(w);
    CLEANUP(json) json_t *same = json_deep_copy(w->client->body);
    respond(w, 409, NULL);
    wait_asked(w);
    assert_asked(w, KUBE_GET, SLICE);
    respond_json(w, 200, same, 0);
    assert_true(rests(w));
}

TEST_IN(conflict_is_read_and_written_again)
{
    CLEANUP(json) json_t *stored = settle(w);
    publish(w, "LeaseExpired");
    respond(w, 409, NULL);
    assert_in_range(wait_asked(w), SLICE_RETRY_MIN_NS / 10, SLICE_RETRY_MIN_NS);
    assert_asked(w, KUBE_GET, SLICE);
    (void)json_object_set_new(json_object_get(stored, "metadata"), "resourceVersion",
                              json_string("77"));
    respond_json(w, 200, stored, 0);
    assert_asked(w, KUBE_PUT, SLICE);
    assert_string_equal(
        json_text_get(json_object_get(w->client->body, "metadata"), "resourceVersion"), "77");
}

TEST_IN(slice_that_vanishes_under_a_put_is_created)
{
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    respond_not_found(w);
    wait_asked(w);
    assert_asked(w, KUBE_GET, "/api/v1/nodes/node1"); /* it may be another one */
    respond(w, 200, NODE);
    assert_asked(w, KUBE_POST, SLICES);
}

/* Answers each write without `member`. */
static void respond_without(struct world *w, const char *member)
{
    assert_asked(w, KUBE_PUT, SLICE);
    CLEANUP(json) json_t *stored = json_deep_copy(w->client->body);
    json_t *spec = json_object_get(stored, "spec");
    (void)json_object_del(json_array_get(json_object_get(spec, "devices"), 0), member);
    (void)json_object_del(spec, member);
    respond_json(w, 200, stored, 0);
}

static size_t device_count(const struct world *w)
{
    const json_t *spec = json_object_get(w->client->body, "spec");
    return json_array_size(json_object_get(spec, "devices"));
}

TEST_IN(dropped_fields_are_tried_again_with_a_later_verdict)
{
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    respond_without(w, "taints");
    assert_int_equal(device_count(w), 0); /* withdrawn instead */
    store(w, "3");
    pass(w, SLICE_DROPPED_AGAIN_NS - NS_PER_SEC);
    publish(w, NULL);
    json_decref(respond_stored(w, "4"));
    pass(w, FLIP_NS);
    publish(w, "LeaseExpired");
    assert_int_equal(device_count(w), 1); /* is the gate on now? */
    respond_without(w, "taints");
    assert_int_equal(device_count(w), 0); /* not yet */
    json_decref(respond_stored(w, "5"));
    pass(w, SLICE_DROPPED_AGAIN_NS);
    publish(w, NULL);
    json_decref(respond_stored(w, "6"));
    pass(w, FLIP_NS);
    publish(w, "LeaseExpired");
    assert_int_equal(device_count(w), 1);
    store(w, "7"); /* tainted, not withdrawn */
}

TEST_IN(slice_of_our_name_that_is_anothers_is_left_alone)
{
    CLEANUP(json) json_t *stored = settle(w);
    (void)json_object_set_new(json_object_get(stored, "spec"), "driver",
                              json_string("gpu.example.com"));
    watch_shows(w, stored);
    int before = w->client->requests;
    for (int i = 0; i < 100; i++) {
        publish(w, i % 2 ? NULL : "LeaseExpired");
        pass(w, SLICE_POLL_NS / 50);
        while (w->client->is_busy) {
            assert_asked(w, KUBE_GET, SLICE);
            respond_json(w, 200, stored, 0);
        }
    }
    assert_in_range(w->client->requests - before, 1, 2);
    assert_false(stats(w).is_slice_published);
}

TEST_IN(answer_that_differs_is_not_argued_with)
{
    static const char *const members[] = {"attributes", "name", "pool"};
    assert_int_equal(attribute_add(w->device.attributes, "model=bf3", NULL), 0);
    json_decref(settle(w));
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        pass(w, FLIP_NS);
        publish(w, i % 2 ? NULL : "LeaseExpired"); /* goes out at once */
        for (int again = 0; again < 3; again++) {
            respond_without(w, members[i]);
            assert_false(stats(w).is_slice_published);
            publish(w, i % 2 ? NULL : "LeaseExpired");
            assert_int_equal(wait_asked(w), SLICE_REPAIR_MAX_NS);
        }
        json_decref(respond_stored(w, "9")); /* nobody does it any more */
        assert_true(rests(w) && stats(w).is_slice_published);
    }
}

TEST_IN(slice_that_a_finalizer_holds_is_made_anew_when_it_is_gone)
{
    CLEANUP(json) json_t *stored = settle(w);
    (void)json_object_set_new(json_object_get(stored, "metadata"), "deletionTimestamp",
                              json_string("2026-01-01T00:00:00Z"));
    watch_shows(w, stored);
    pass(w, 0);
    assert_true(rests(w));
    pass(w, 3600 * NS_PER_SEC);
    watch_shows(w, NULL);
    respond(w, 200, NODE);
    assert_asked(w, KUBE_POST, SLICES);
    assert_null(json_object_get(json_object_get(w->client->body, "metadata"), "deletionTimestamp"));
}

TEST_IN(verdict_that_toggles_is_written_once_per_interval_last_state_last)
{
    json_decref(settle(w));
    uint64_t before = stats(w).slice_writes;
    for (int i = 0; i < 201; i++) { /* 50 ms apart: for 5 intervals */
        publish(w, i % 2 ? NULL : "DPUReportedUnhealthy");
        pass(w, 50 * NS_PER_MS);
        if (w->client->is_busy) {
            json_decref(respond_stored(w, "7"));
        }
    }
    pass(w, FLIP_NS);
    if (w->client->is_busy) {
        json_decref(respond_stored(w, "8"));
    }
    assert_in_range(stats(w).slice_writes - before, 5, 7);
    assert_true(rests(w));
    publish(w, "DPUReportedUnhealthy"); /* the last one, of 201: nothing is left to be written */
    assert_true(rests(w));
}

TEST_IN(node_that_may_not_be_read_gives_a_slice_without_owner)
{
    publish(w, NULL);
    respond(w, 403, NULL);
    respond_not_found(w);
    assert_asked(w, KUBE_POST, SLICES);
    assert_null(json_object_get(json_object_get(w->client->body, "metadata"), "ownerReferences"));
}

TEST_IN(what_is_forbidden_waits_for_an_admin)
{
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    for (int64_t waited_ns = 0; waited_ns < 4000 * NS_PER_SEC; waited_ns += SLICE_RETRY_MAX_NS) {
        bool is_hour_over = waited_ns >= 3600 * NS_PER_SEC;
        respond(w, 403, NULL);
        assert_int_equal(loop_world_said("apply rbac/host-agent-dra.yaml"), is_hour_over ? 2 : 1);
        assert_int_equal(wait_asked(w), SLICE_RETRY_MAX_NS);
    }
    json_decref(respond_stored(w, "2"));
    assert_int_equal(loop_world_said("dpu.example.com-node1' is as it should be again"), 1);
}

TEST_IN(failures_back_off_and_a_new_verdict_does_not_wait_for_that)
{
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    for (int i = 0; i < 12; i++) {
        respond(w, 500, NULL);
        assert_false(w->client->is_busy);
        int64_t most_ns = i < 7 ? SLICE_RETRY_MIN_NS << i : SLICE_RETRY_MAX_NS;
        most_ns = most_ns < FLIP_NS || i > 0 ? most_ns : FLIP_NS;
        assert_in_range(wait_asked(w), most_ns / 10, most_ns);
        assert_asked(w, KUBE_PUT, SLICE);
    }
    respond(w, 500, NULL);
    pass(w, 1); /* now it waits for long, most probably */
    publish(w, "DPUShutdown");
    assert_asked(w, KUBE_PUT, SLICE);
    respond_json(w, 429, NULL, 20000);
    pass(w, FLIP_NS);
    publish(w, NULL); /* but what the server asks for it gets */
    assert_false(w->client->is_busy);
    assert_int_equal(stats(w).slice_failures, 14);
}

TEST_IN(forbidden_watch_is_replaced_by_polling)
{
    CLEANUP(json) json_t *stored = settle(w);
    struct kube_response denied = {.http_status = 403, .message = "no", .received_at = world.now};
    pass(w, 60 * NS_PER_SEC);
    w->client->watch.on_failure(w->client->watch.user, &denied);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(wait_asked(w), SLICE_POLL_NS);
        assert_asked(w, KUBE_GET, SLICE);
        respond_json(w, 200, stored, 0);
    }
    publish(w, "LeaseExpired");
    assert_asked(w, KUBE_PUT, SLICE); /* no verdict waits for that */
    json_decref(respond_stored(w, "2"));
    w->client->watch.on_contact(w->client->watch.user);
    assert_true(rests(w));
}

/* ---- the devices of another driver ----------------------------------------------------------- */

#define RULE     "dpu.example.com-node1"
#define RULES(v) "/apis/resource.k8s.io/" v "/devicetaintrules"
#define RULE_BODY(selector, value)                                                                 \
    "{\"metadata\":{\"name\":\"" RULE "\",\"ownerReferences\":[{\"apiVersion\":\"v1\","            \
    "\"kind\":\"Node\",\"name\":\"node1\",\"uid\":\"node-uid\"}]},\"spec\":{" selector             \
    "\"taint\":{\"key\":\"dpu.example.com/unhealthy\",\"value\":\"" value                          \
    "\",\"effect\":\"NoSchedule\"}}}"

/* In place of the slice's publisher: the world has one timer. */
static struct taint_rule *start_rule(struct world *w, const char *devices)
{
    slice_publisher_free(TAKE(w->publisher));
    return taint_rule_new(NULL, w->client, devices, &w->device);
}

static void assert_body(struct world *w, const char *wanted)
{
    CLEANUP(free) char *text = json_dumps(w->client->body, JSON_COMPACT);
    assert_string_equal(text, wanted);
}

/* It selects no device while the DPU is ready, and is never removed. */
TEST_IN(a_rule_taints_the_devices_of_another_driver)
{
    struct taint_rule *rule = start_rule(w, "vf.example.com");
    taint_rule_publish(rule, NULL);
    respond(w, 200, NODE);
    assert_asked(w, KUBE_GET, RULES("v1") "/" RULE);
    respond_not_found(w);
    assert_asked(w, KUBE_POST, RULES("v1"));
    assert_body(w, RULE_BODY("", "ready"));
    json_decref(respond_stored(w, "1"));
    taint_rule_publish(rule, NULL);
    assert_false(w->client->is_busy);
    pass(w, TAINT_RULE_GAP_NS);
    taint_rule_publish(rule, "LeaseExpired");
    assert_asked(w, KUBE_PUT, RULES("v1") "/" RULE);
    CLEANUP(json) json_t *stored = json_deep_copy(w->client->body);
    json_t *spec = json_object_get(stored, "spec");
    assert_string_equal(json_text_get(json_object_get(spec, "deviceSelector"), "pool"), "node1");
    (void)json_object_set_new(json_object_get(spec, "taint"), "timeAdded", json_string("then"));
    respond_json(w, 200, stored, -1);
    assert_false(w->client->is_busy); /* what the server adds is no reason to write */
    taint_rule_free(rule);
}

TEST_IN(a_rule_is_tried_in_older_versions_of_its_api)
{
    static const char *const served[] = {RULES("v1"), RULES("v1beta2"), RULES("v1alpha3"),
                                         RULES("v1")};
    struct taint_rule *rule = start_rule(w, "vf.example.com/east");
    taint_rule_publish(rule, "LeaseExpired");
    respond(w, 200, NODE);
    for (size_t i = 0; i < ARRAY_LEN(served); i++) {
        respond_not_found(w);
        assert_asked(w, KUBE_POST, served[i]);
        respond_not_found(w); /* as of a group that has other resources */
        int64_t waited_ns = wait_asked(w);
        assert_int_equal(waited_ns >= 10 * SLICE_RETRY_MAX_NS, i == 2); /* all were tried */
    }
    assert_asked(w, KUBE_GET, RULES("v1beta2") "/" RULE);
    respond_not_found(w);
    assert_asked(w, KUBE_POST, RULES("v1beta2"));
    assert_body(w,
                RULE_BODY("\"deviceSelector\":{\"driver\":\"vf.example.com\",\"pool\":\"east\"},",
                          "LeaseExpired"));
    taint_rule_free(rule);
}

TEST(devices_to_be_tainted_are_named_by_driver_and_pool)
{
    static const char *const good[] = {"", "a", "vf.example.com", "vf.example.com/node1.x"};
    static const char *const bad[] = {"/", "A", "a/", "/a", "a/B", "a/b/c"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(taint_rule_check(good[i], NULL), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(taint_rule_check(bad[i], NULL), ERR_PARSE);
    }
}
