/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/dra/slice.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/text.h"
#include "outputs/kube_sync.h"
#include "tests/support/case.h"
#include "tests/unit/api_world.h"

#define FLIP_NS (2 * NS_PER_SEC)
#define NODE    "{\"metadata\":{\"uid\":\"node-uid\"}}"
#define SLICES  "/apis/resource.k8s.io/v1/resourceslices"
#define SLICE   SLICES "/dpu.example.com-node1"

struct world {
    struct slice_publisher *publisher;
    struct dra_config config;
    struct dra_device device;
    struct dra_stats stats;
};

static void up(struct world *w)
{
    loop_world_start();
    w->config = (struct dra_config){.client = &world.client};
    w->device = (struct dra_device){.driver = "dpu.example.com",
                                    .node_name = "node1",
                                    .pool = "node1",
                                    .name = "dpu0",
                                    .attributes = json_object()};
    w->publisher = slice_publisher_new(&w->config, &w->device, &w->stats);
}

static void down(struct world *w)
{
    slice_publisher_free(w->publisher);
    json_decref(w->device.attributes);
    assert_false(world.client.is_busy || world.client.is_watching);
}

WORLD(up, down)

/* By the reason why pods are refused; NULL: they are admitted, for a reason that need not be good.
 */
static struct readiness verdict_of(const char *value)
{
    struct readiness verdict = {.admit = !value,
                                .reason = REASON_API_SERVER_UNREACHABLE,
                                .lease.duration_s = 4 * FLIP_NS / NS_PER_SEC};
    assert_true(!value || readiness_reason_from_name(value, &verdict.reason));
    return verdict;
}

static void publish(struct world *w, const char *value)
{
    const struct readiness verdict = verdict_of(value);
    slice_publisher_publish(w->publisher, &verdict);
}

static void respond_json(int status, json_t *body)
{
    CLEANUP(json) json_t *copy = json_deep_copy(body);
    const struct kube_response r = loop_world_response(status, copy);
    client_answer(&world.client, &r);
}

/* The server stores what was sent. Returns owned. */
static json_t *respond_stored(const char *version)
{
    json_t *stored = json_deep_copy(world.client.body);
    assert_non_null(stored);
    (void)json_object_set_new(json_object_get(stored, "metadata"), "resourceVersion",
                              json_string(version));
    respond_json(200, stored);
    return stored;
}

/* Waits until something is asked for, as the publisher itself plans it. */
static int64_t wait_asked(void)
{
    struct mono start = world.now;
    while (!world.client.is_busy) {
        assert_false(mono_is_never(world.timer.deadline));
        world_pass(mono_since(mono_max(world.timer.deadline, world.now), world.now));
    }
    return mono_since(world.now, start);
}

static bool rests(void)
{
    return !world.client.is_busy && mono_is_never(world.timer.deadline);
}

/* The same, and there is nothing more to do. */
static void store(const char *version)
{
    json_decref(respond_stored(version));
    assert_true(rests());
}

/* NULL: it is gone. */
static void watch_shows(const json_t *object)
{
    world.client.watch.on_object(world.client.watch.user, object, (struct mono){0});
}

/* From nothing to a created, untainted slice. Returns what is stored; owned. */
static json_t *settle(struct world *w)
{
    publish(w, NULL);
    world_expect(KUBE_GET, "/api/v1/nodes/node1");
    world_answer(200, NODE);
    world_expect(KUBE_GET, SLICE);
    world_answer_reason(404, NULL, "NotFound"); /* the object, not the version */
    world_expect(KUBE_POST, SLICES);
    json_t *stored = respond_stored("1");
    assert_true(rests());
    return stored;
}

TEST_IN(slice_is_created_once_and_then_left_alone)
{
    world_pass(1000 * NS_PER_SEC);
    assert_int_equal(world.client.requests, 0); /* before the first verdict */
    CLEANUP(json) json_t *stored = settle(w);
    const json_t *owner =
        json_array_get(json_object_get(json_object_get(stored, "metadata"), "ownerReferences"), 0);
    assert_string_equal(json_text_get(owner, "uid"), "node-uid");
    publish(w, NULL);
    world_pass(3600 * NS_PER_SEC);
    assert_int_equal(world.client.requests, 3);
    assert_int_equal(w->stats.slice->written, 1);
    assert_true(w->stats.is_slice_published);
}

TEST_IN(slice_removed_by_a_kubelet_is_created_again)
{
    json_decref(settle(w));
    for (int i = 0; i < 10; i++) {
        watch_shows(NULL);
        world_expect(KUBE_GET, "/api/v1/nodes/node1"); /* which may be another one */
        world_answer(200, NODE);
        assert_false(world.client.is_busy); /* each time a little later */
        int64_t most_ns = i < 6 ? SLICE_REPAIR_MIN_NS << i : SLICE_CREATE_MAX_NS;
        int64_t waited_ns = wait_asked();
        assert_between(waited_ns, most_ns / 4 * 3 - 1, most_ns);
        world_expect(KUBE_POST, SLICES);
        store("5");
    }
    world_pass(SLICE_QUIET_NS + NS_PER_SEC);
    watch_shows(NULL);
    world_answer(200, NODE);
    assert_between(wait_asked(), 0, SLICE_REPAIR_MIN_NS);
}

/* However often the verdict has changed before. */
TEST_IN(foreign_change_is_undone)
{
    json_t *stored = settle(w);
    for (int i = 0; i < 6; i++) {
        publish(w, "LeaseExpired");
        publish(w, NULL); /* while it is under way */
        json_decref(respond_stored("2"));
        assert_int_equal(wait_asked(), FLIP_NS);
        json_decref(stored);
        stored = respond_stored("3");
        world_pass(FLIP_NS);
    }
    (void)json_object_set_new(json_object_get(stored, "spec"), "devices", json_array());
    watch_shows(stored);
    json_decref(stored);
    assert_true(world.client.is_busy || wait_asked() <= SLICE_REPAIR_MIN_NS);
    world_expect(KUBE_PUT, SLICE);
    store("9");
    assert_int_equal(loop_world_said("stores something else"), 0);
}

TEST_IN(cluster_without_the_api_is_asked_again_later)
{
    publish(w, NULL);
    world_answer(200, NODE);
    for (int i = 0; i < 3; i++) {
        world_expect(KUBE_GET, SLICE);
        world_answer(404, NULL);
        world_expect(KUBE_POST, SLICES);
        world_answer(404, NULL); /* of no object: it is not served */
        assert_int_equal(wait_asked(), 300 * NS_PER_SEC);
        assert_int_equal(loop_world_said("the API server serves no resource.k8s.io"), 1);
    }
    world_answer_reason(404, NULL, "NotFound"); /* the object, not the version */
    world_expect(KUBE_POST, SLICES);
    json_decref(respond_stored("1"));
    publish(w, "LeaseExpired");
    world_expect(KUBE_PUT, SLICE);
    world_answer(404, NULL); /* it is served no more */
    wait_asked();
    world_answer(200, NODE);
    world_expect(KUBE_POST, SLICES);
}

/* Answers each write without `member`. */
static void respond_without(const char *member)
{
    world_expect(KUBE_PUT, SLICE);
    CLEANUP(json) json_t *stored = json_deep_copy(world.client.body);
    json_t *spec = json_object_get(stored, "spec");
    (void)json_object_del(json_array_get(json_object_get(spec, "devices"), 0), member);
    (void)json_object_del(spec, member);
    respond_json(200, stored);
}

static size_t device_count(void)
{
    const json_t *spec = json_object_get(world.client.body, "spec");
    return json_array_size(json_object_get(spec, "devices"));
}

TEST_IN(dropped_fields_are_tried_again_with_a_later_verdict)
{
    json_decref(settle(w));
    for (int i = 0; i < 4; i++) {
        bool is_tried = i != 1; /* so soon after the first time */
        bool is_kept = i == 3;  /* the gate is on now */
        publish(w, "LeaseExpired");
        assert_int_equal(device_count(), is_tried);
        if (is_tried && !is_kept) {
            respond_without("taints");
        }
        assert_int_equal(device_count(), is_kept); /* else it is withdrawn instead */
        store("3");
        world_pass(FLIP_NS);
        publish(w, NULL);
        store("4");
        world_pass(i == 0 ? FLIP_NS : SLICE_DROPPED_AGAIN_NS - FLIP_NS);
    }
    assert_int_equal(loop_world_said("drops device taints"), 1);
}

TEST_IN(sharing_that_is_dropped_is_left_out_at_once)
{
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    respond_without("allowMultipleAllocations");
    assert_true(rests() && w->stats.is_slice_published);
    assert_int_equal(loop_world_said("drops allowMultipleAllocations"), 1);
    assert_int_equal(loop_world_said("drops device taints"), 0);
}

TEST_IN(slice_of_our_name_that_is_anothers_is_left_alone)
{
    CLEANUP(json) json_t *stored = settle(w);
    (void)json_object_set_new(json_object_get(stored, "spec"), "driver",
                              json_string("gpu.example.com"));
    watch_shows(stored);
    int before = world.client.requests;
    for (int i = 0; i < 130; i++) { /* for more than an hour */
        publish(w, i % 2 ? NULL : "LeaseExpired");
        world_pass(SLICE_RETRY_MAX_NS);
    }
    assert_int_equal(world.client.requests, before);
    assert_int_equal(loop_world_said("belongs to another driver or node"), 2);
    assert_false(w->stats.is_slice_published);
}

TEST_IN(answer_that_differs_is_not_argued_with)
{
    static const char *const members[] = {"attributes", "name", "pool"};
    assert_int_equal(attribute_add(w->device.attributes, "model=bf3", NULL), 0);
    json_decref(settle(w));
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        world_pass(FLIP_NS);
        publish(w, i % 2 ? NULL : "LeaseExpired"); /* goes out at once */
        for (int again = 0; again < 3; again++) {
            respond_without(members[i]);
            assert_false(w->stats.is_slice_published);
            publish(w, i % 2 ? NULL : "LeaseExpired");
            assert_int_equal(wait_asked(), SLICE_REPAIR_MAX_NS);
        }
        json_decref(respond_stored("9")); /* nobody does it any more */
        assert_true(rests() && w->stats.is_slice_published);
    }
}

TEST_IN(verdict_that_toggles_is_written_once_per_interval_last_state_last)
{
    json_decref(settle(w));
    uint64_t before = w->stats.slice->written;
    for (int i = 0; i < 201; i++) { /* 50 ms apart: for 5 intervals */
        publish(w, i % 2 ? NULL : "DPUReportedUnhealthy");
        world_pass(50 * NS_PER_MS);
        if (world.client.is_busy) {
            json_decref(respond_stored("7"));
        }
    }
    world_pass(FLIP_NS);
    if (world.client.is_busy) {
        json_decref(respond_stored("8"));
    }
    assert_between(w->stats.slice->written - before, 5, 7);
    assert_true(rests());
    publish(w, "DPUReportedUnhealthy"); /* the last one, of 201: nothing is left to be written */
    assert_true(rests());
}

static const char *taint_in(const json_t *slice)
{
    const json_t *devices = json_object_get(json_object_get(slice, "spec"), "devices");
    const json_t *taints = json_object_get(json_array_get(devices, 0), "taints");
    return json_text_get(json_array_get(taints, 0), "value");
}

TEST_IN(a_taint_keeps_its_reason_when_the_judge_dies)
{
    json_decref(settle(w));
    publish(w, "RecordStale"); /* it was admitted until now */
    (void)wait_asked();
    json_t *stored = respond_stored("2");
    assert_string_equal(taint_in(stored), "RecordStale");
    json_decref(stored);
    publish(w, "LeaseExpired");
    (void)wait_asked();
    stored = respond_stored("3");
    assert_string_equal(taint_in(stored), "LeaseExpired");
    json_decref(stored);
    publish(w, "RecordStale");
    world_pass(60 * NS_PER_SEC);
    assert_true(rests());
}

TEST_IN(what_is_forbidden_waits_for_an_admin)
{
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    for (int64_t waited_ns = 0; waited_ns < 4000 * NS_PER_SEC; waited_ns += SLICE_RETRY_MAX_NS) {
        bool is_hour_over = waited_ns >= 3600 * NS_PER_SEC;
        world_answer(403, NULL);
        assert_int_equal(loop_world_said("apply rbac/dra-driver.yaml"), is_hour_over ? 2 : 1);
        assert_int_equal(wait_asked(), SLICE_RETRY_MAX_NS);
    }
    json_decref(respond_stored("2"));
    assert_int_equal(loop_world_said("dpu.example.com-node1' is as it should be again"), 1);
}

/* Where the API server checks a right while it validates the object, the status is 422. */
TEST_IN(what_is_invalid_has_the_hint_only_where_a_right_is_missing)
{
    static const char wrong[] = "{\"message\":\"spec.pool: Required value\"}";
    static const char denied[] = "{\"message\":\"spec.devices[0]: Forbidden: x is forbidden: User "
                                 "\\\"host\\\" cannot update "
                                 "resource \\\"resourceslices\\\"\"}";
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    for (int i = 0; i < 20; i++) { /* an hour, until it may be said again */
        world_answer(422, wrong);
        assert_int_equal(loop_world_said("apply rbac/dra-driver.yaml"), 0);
        assert_int_equal(wait_asked(), SLICE_RETRY_MAX_NS);
    }
    for (int i = 0; i < 3600 / (SLICE_RETRY_MAX_NS / NS_PER_SEC); i++) {
        world_answer(422, denied);
        assert_int_equal(wait_asked(), SLICE_RETRY_MAX_NS);
    }
    assert_int_equal(loop_world_said("apply rbac/dra-driver.yaml"), 1);
}

TEST_IN(failures_back_off_and_a_new_verdict_does_not_wait_for_that)
{
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    for (int i = 0; i < 12; i++) {
        world_answer(500, NULL);
        assert_false(world.client.is_busy);
        int64_t most_ns = i < 7 ? SLICE_RETRY_MIN_NS << i : SLICE_RETRY_MAX_NS;
        most_ns = most_ns < FLIP_NS || i > 0 ? most_ns : FLIP_NS;
        assert_between(wait_asked(), most_ns / 10, most_ns);
        world_expect(KUBE_PUT, SLICE);
    }
    world_answer(500, NULL);
    world_pass(1); /* now it waits for long, most probably */
    publish(w, "DPUShutdown");
    world_expect(KUBE_PUT, SLICE);
    struct kube_response busy = loop_world_response(429, NULL);
    busy.retry_after_ns = 20 * NS_PER_SEC;
    client_answer(&world.client, &busy);
    world_pass(FLIP_NS);
    publish(w, NULL); /* but what the server asks for it gets */
    assert_false(world.client.is_busy);
    assert_int_equal(w->stats.slice->failed, 14);
}

/* The watch is tried again and again; each time the slice is read in its place. */
TEST_IN(forbidden_watch_is_replaced_by_reads)
{
    CLEANUP(json) json_t *stored = settle(w);
    const struct kube_watch_config *watch = &world.client.watch;
    const struct kube_response denied = {.http_status = 403, .message = "no"};
    const struct kube_response broken = {.http_status = 500, .message = "no"};
    for (int i = 0; i < 4; i++) {
        watch->on_failure(watch->user, &broken);
        assert_true(rests());
        watch->on_failure(watch->user, &denied);
        world_expect(KUBE_GET, SLICE);
        watch->on_failure(watch->user, &denied); /* one read at a time */
        respond_json(200, stored);
        assert_true(rests());
        if (i == 1) {
            assert_int_equal(loop_world_said("watching ResourceSlices is forbidden"), 1);
            watch->on_contact(watch->user); /* it was granted, and is taken away again */
        }
    }
    assert_int_equal(loop_world_said("watching ResourceSlices is forbidden"), 2);
}
