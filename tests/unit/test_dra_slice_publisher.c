/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher against an API client of our own, put in place of the real one when linking. */
#include "host-agent/dra/slice_publisher.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "json/json_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LIST_QUERY "?fieldSelector=spec.driver%3Ddpu.example.com%2Cspec.nodeName%3Dnode1"
#define SLICES     "/apis/resource.k8s.io/v1/resourceslices"
#define SLICE      SLICES "/dpu.example.com-node1"

/* The one client, call and watch there are in a test. */
struct kube_client {
    bool is_busy;
    enum kube_method method;
    char path[512];
    json_t *body;
    kube_done_fn *done;
    void *user;
    int requests;
    bool is_watching;
    struct kube_watch_config watch;
};

struct world {
    struct kube_client client;
    struct slice_publisher *publisher;
    struct attribute_list attributes;
    int rearmed;
};

int kube_client_start(struct kube_client *client, const struct kube_request *request,
                      kube_done_fn *done, void *user, struct kube_call **out, struct err *e)
{
    (void)e;
    assert_false(client->is_busy); /* one at a time */
    client->is_busy = true;
    client->method = request->method;
    (void)snprintf(client->path, sizeof(client->path), "%s", request->path);
    client->body = request->body ? json_deep_copy(request->body) : NULL;
    client->done = done;
    client->user = user;
    client->requests++;
    *out = (struct kube_call *)client;
    return 0;
}

void kube_call_cancel(struct kube_call *call)
{
    struct kube_client *client = (struct kube_client *)call;
    if (client) {
        client->is_busy = false;
        json_decref(client->body);
    }
}

int kube_watch_start(struct kube_client *client, const struct kube_watch_config *config,
                     struct kube_watch **out, struct err *e)
{
    (void)e;
    assert_false(client->is_watching);
    client->is_watching = true;
    client->watch = *config;
    *out = (struct kube_watch *)client;
    return 0;
}

void kube_watch_stop(struct kube_watch *watch)
{
    if (watch) {
        ((struct kube_client *)watch)->is_watching = false;
    }
}

static void on_rearm(void *user)
{
    ((struct world *)user)->rearmed++;
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    struct slice_publisher_config config = {
        .client = &w->client,
        .spec = {.driver = "dpu.example.com",
                 .node_name = "node1",
                 .pool = "node1",
                 .device = "dpu0",
                 .attributes = &w->attributes},
        .on_rearm = on_rearm,
        .user = w,
    };
    log_setup(LOG_ERROR, LOG_TEXT, "");
    assert_int_equal(slice_publisher_new(&config, &w->publisher, NULL), 0);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    slice_publisher_free(w->publisher);
    assert_false(w->client.is_busy || w->client.is_watching);
    free(w);
    return 0;
}

static void publish(struct world *w, const char *value)
{
    struct slice_taint taint = {.is_set = value != NULL};
    if (value) {
        (void)text_copy(taint.value, sizeof(taint.value), value);
    }
    slice_publisher_publish(w->publisher, &taint, clock_mono_now());
}

static void assert_asked(struct world *w, enum kube_method method, const char *path)
{
    if (!w->client.is_busy) {
        fail_msg("'%s' was not asked for", path);
    }
    assert_int_equal(w->client.method, method);
    assert_string_equal(w->client.path, path);
}

static void respond_json(struct world *w, int status, const json_t *body, int64_t retry_after_ms)
{
    struct kube_response r = {
        .code = status < 300    ? 0
                : status == 403 ? ERR_AUTH
                : status == 404 ? ERR_NOTFOUND
                : status == 409 ? ERR_CONFLICT
                                : ERR_RETRY,
        .http_status = status,
        .message = "as the test says",
        .retry_after_ms = retry_after_ms,
        .body = body,
        .received_at = clock_mono_now(),
    };
    assert_true(w->client.is_busy);
    w->client.is_busy = false;
    CLEANUP(json) json_t *sent = w->client.body;
    w->client.body = NULL;
    w->client.done(w->client.user, &r);
}

static void respond(struct world *w, int status, const char *body)
{
    CLEANUP(json) json_t *json = body ? json_text_parse(body, strlen(body), 1 << 16, NULL) : NULL;
    respond_json(w, status, json, -1);
}

/* The server stores what was sent. Returns owned. */
static json_t *respond_stored(struct world *w, const char *version)
{
    json_t *stored = json_deep_copy(w->client.body);
    assert_non_null(stored);
    (void)json_object_set_new(json_object_get(stored, "metadata"), "resourceVersion",
                              json_string(version));
    respond_json(w, 200, stored, -1);
    return stored;
}

static void tick_after(struct world *w, int64_t ns)
{
    slice_publisher_tick(w->publisher, mono_add(clock_mono_now(), ns));
}

static bool rests(struct world *w)
{
    return !w->client.is_busy && mono_is_never(slice_publisher_next_tick(w->publisher));
}

/* From nothing to a created, untainted slice. Returns what is stored; owned. */
static json_t *settle(struct world *w)
{
    publish(w, NULL);
    assert_asked(w, KUBE_GET, "/api/v1/nodes/node1");
    respond(w, 200, "{\"metadata\":{\"uid\":\"node-uid\"}}");
    assert_asked(w, KUBE_GET, SLICES LIST_QUERY);
    respond(w, 200, "{\"items\":[]}");
    assert_asked(w, KUBE_POST, SLICES);
    json_t *stored = respond_stored(w, "1");
    assert_true(rests(w));
    return stored;
}

static void nothing_is_asked_before_the_first_verdict(void **state)
{
    struct world *w = *state;
    tick_after(w, 1000 * NS_PER_SEC);
    assert_int_equal(w->client.requests, 0);
}

static void slice_is_created_once_and_then_left_alone(void **state)
{
    struct world *w = *state;
    CLEANUP(json) json_t *stored = settle(w);
    const json_t *owner =
        json_array_get(json_object_get(json_object_get(stored, "metadata"), "ownerReferences"), 0);
    assert_string_equal(json_text_get(owner, "uid"), "node-uid");
    publish(w, NULL);
    tick_after(w, 3600 * NS_PER_SEC);
    assert_int_equal(w->client.requests, 3);
    assert_int_equal(slice_publisher_stats(w->publisher).writes, 1);
    assert_true(slice_publisher_stats(w->publisher).is_published);
}

static void slice_that_is_right_already_is_taken_over(void **state)
{
    struct world *w = *state;
    CLEANUP(json) json_t *stored = settle(w);
    CLEANUP(json) json_t *item = json_deep_copy(stored);
    (void)json_object_del(item, "kind"); /* a list names them once, for all of its items */
    (void)json_object_del(item, "apiVersion");
    CLEANUP(json) json_t *list = json_pack("{s:[O]}", "items", item);
    void *second = NULL;
    assert_int_equal(setup(&second), 0);
    struct world *successor = second;
    publish(successor, NULL);
    respond(successor, 200, "{\"metadata\":{\"uid\":\"node-uid\"}}");
    respond_json(successor, 200, list, -1);
    assert_true(rests(successor));
    assert_int_equal(slice_publisher_stats(successor->publisher).writes, 0);
    (void)teardown(&second);
}

static void verdict_is_one_put_in_place(void **state)
{
    struct world *w = *state;
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    assert_asked(w, KUBE_PUT, SLICE);
    assert_string_equal(
        json_text_get(json_object_get(w->client.body, "metadata"), "resourceVersion"), "1");
    json_decref(respond_stored(w, "2"));
    assert_true(rests(w));
    publish(w, NULL);
    assert_asked(w, KUBE_PUT, SLICE);
    json_decref(respond_stored(w, "3"));
    assert_true(rests(w));
}

static void verdict_that_changes_during_a_write_is_written_next(void **state)
{
    struct world *w = *state;
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    publish(w, "DPUShutdown");
    publish(w, NULL);
    json_decref(respond_stored(w, "2")); /* the first one */
    assert_asked(w, KUBE_PUT, SLICE);
    json_decref(respond_stored(w, "3")); /* the last one; those between never mattered */
    assert_true(rests(w));
    assert_int_equal(slice_publisher_stats(w->publisher).writes, 3);
}

static void slice_removed_by_a_kubelet_is_created_again(void **state)
{
    struct world *w = *state;
    json_decref(settle(w));
    for (int i = 0; i < 4; i++) {
        w->client.watch.on_object(w->publisher, KUBE_WATCH_ABSENT, NULL, false, (struct mono){0});
        assert_false(w->client.is_busy); /* each time a little later */
        int64_t wait_ns = (NS_PER_SEC << i) - NS_PER_SEC / 2;
        tick_after(w, wait_ns);
        assert_false(w->client.is_busy);
        tick_after(w, wait_ns + NS_PER_SEC / 2);
        assert_asked(w, KUBE_POST, SLICES);
        json_decref(respond_stored(w, "5"));
        assert_true(rests(w));
    }
}

static void echo_of_our_own_write_is_no_news(void **state)
{
    struct world *w = *state;
    CLEANUP(json) json_t *stored = settle(w);
    w->client.watch.on_object(w->publisher, KUBE_WATCH_PRESENT, stored, false, (struct mono){0});
    assert_true(rests(w));
    (void)json_object_del(stored, "kind"); /* as the watch's own list shows it */
    (void)json_object_del(stored, "apiVersion");
    w->client.watch.on_object(w->publisher, KUBE_WATCH_PRESENT, stored, true, (struct mono){0});
    assert_true(rests(w));
}

static void foreign_change_is_undone(void **state)
{
    struct world *w = *state;
    CLEANUP(json) json_t *stored = settle(w);
    CLEANUP(json) json_t *changed = json_deep_copy(stored);
    (void)json_object_set_new(json_object_get(changed, "spec"), "devices", json_array());
    w->client.watch.on_object(w->publisher, KUBE_WATCH_PRESENT, changed, false, (struct mono){0});
    tick_after(w, SLICE_REPAIR_MIN_NS);
    assert_asked(w, KUBE_PUT, SLICE);
    json_decref(respond_stored(w, "9"));
    assert_true(rests(w));
}

static void older_api_versions_are_tried_in_turn(void **state)
{
    struct world *w = *state;
    enum slice_version version;
    publish(w, NULL);
    respond(w, 200, "{\"metadata\":{\"uid\":\"node-uid\"}}");
    assert_asked(w, KUBE_GET, SLICES LIST_QUERY);
    respond(w, 404, NULL);
    assert_asked(w, KUBE_GET, "/apis/resource.k8s.io/v1beta2/resourceslices" LIST_QUERY);
    respond(w, 404, NULL);
    assert_asked(w, KUBE_GET, "/apis/resource.k8s.io/v1beta1/resourceslices" LIST_QUERY);
    assert_false(slice_publisher_version(w->publisher, &version));
    respond(w, 200, "{\"items\":[]}");
    assert_asked(w, KUBE_POST, "/apis/resource.k8s.io/v1beta1/resourceslices");
    assert_true(slice_publisher_version(w->publisher, &version));
    assert_int_equal(version, SLICE_V1BETA1);
    json_decref(respond_stored(w, "1"));
    assert_true(rests(w));
}

static void cluster_without_the_api_is_asked_again_later(void **state)
{
    struct world *w = *state;
    publish(w, NULL);
    respond(w, 200, "{\"metadata\":{\"uid\":\"node-uid\"}}");
    for (int i = 0; i < SLICE_VERSION_COUNT; i++) {
        respond(w, 404, NULL);
    }
    assert_false(w->client.is_busy);
    tick_after(w, SLICE_NO_API_NS - NS_PER_SEC);
    assert_false(w->client.is_busy);
    tick_after(w, SLICE_NO_API_NS);
    assert_asked(w, KUBE_GET, SLICES LIST_QUERY);
}

static void slice_that_exists_already_is_read_and_adopted(void **state)
{
    struct world *w = *state;
    publish(w, NULL);
    respond(w, 200, "{\"metadata\":{\"uid\":\"node-uid\"}}");
    respond(w, 200, "{\"items\":[]}");
    CLEANUP(json) json_t *same = json_deep_copy(w->client.body);
    respond(w, 409, NULL);
    assert_asked(w, KUBE_GET, SLICE);
    respond_json(w, 200, same, -1);
    tick_after(w, SLICE_RETRY_MIN_NS);
    assert_true(rests(w));
}

static void conflict_is_read_and_written_again(void **state)
{
    struct world *w = *state;
    CLEANUP(json) json_t *stored = settle(w);
    publish(w, "LeaseExpired");
    respond(w, 409, NULL);
    assert_asked(w, KUBE_GET, SLICE);
    (void)json_object_set_new(json_object_get(stored, "metadata"), "resourceVersion",
                              json_string("77"));
    respond_json(w, 200, stored, -1);
    tick_after(w, SLICE_RETRY_MIN_NS);
    assert_asked(w, KUBE_PUT, SLICE);
    assert_string_equal(
        json_text_get(json_object_get(w->client.body, "metadata"), "resourceVersion"), "77");
}

static void slice_that_vanishes_under_a_put_is_created(void **state)
{
    struct world *w = *state;
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    respond(w, 404, NULL);
    tick_after(w, SLICE_RETRY_MAX_NS);
    assert_asked(w, KUBE_POST, SLICES);
}

static void dropped_fields_do_not_cause_endless_writes(void **state)
{
    struct world *w = *state;
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    CLEANUP(json) json_t *stored = json_deep_copy(w->client.body);
    json_t *devices = json_object_get(json_object_get(stored, "spec"), "devices");
    (void)json_object_del(json_array_get(devices, 0), "taints");
    respond_json(w, 200, stored, -1);
    assert_asked(w, KUBE_PUT, SLICE); /* withdrawn instead */
    devices = json_object_get(json_object_get(w->client.body, "spec"), "devices");
    assert_int_equal(json_array_size(devices), 0);
    json_decref(respond_stored(w, "3"));
    assert_true(rests(w));
}

static void obsolete_slices_of_ours_are_removed_first(void **state)
{
    struct world *w = *state;
    publish(w, NULL);
    respond(w, 200, "{\"metadata\":{\"uid\":\"node-uid\"}}");
    respond(w, 200, "{\"items\":[{\"metadata\":{\"name\":\"00000-old-abcde\"}}]}");
    assert_asked(w, KUBE_DELETE, SLICES "/00000-old-abcde");
    respond(w, 200, NULL);
    assert_asked(w, KUBE_GET, SLICES LIST_QUERY);
    respond(w, 200, "{\"items\":[]}");
    assert_asked(w, KUBE_POST, SLICES);
}

static void node_that_may_not_be_read_gives_a_slice_without_owner(void **state)
{
    struct world *w = *state;
    publish(w, NULL);
    respond(w, 403, NULL);
    respond(w, 200, "{\"items\":[]}");
    assert_asked(w, KUBE_POST, SLICES);
    assert_null(json_object_get(json_object_get(w->client.body, "metadata"), "ownerReferences"));
}

static void failures_back_off_and_a_new_verdict_does_not_wait(void **state)
{
    struct world *w = *state;
    json_decref(settle(w));
    publish(w, "LeaseExpired");
    for (int i = 0; i < 12; i++) {
        respond(w, 500, NULL);
        assert_false(w->client.is_busy);
        tick_after(w, SLICE_RETRY_MIN_NS / 2);
        assert_false(w->client.is_busy);
        tick_after(w, SLICE_RETRY_MIN_NS + SLICE_RETRY_MAX_NS);
        assert_asked(w, KUBE_PUT, SLICE);
    }
    respond_json(w, 429, NULL, 20000);
    tick_after(w, 19 * NS_PER_SEC);
    assert_false(w->client.is_busy);
    publish(w, "DPUShutdown");
    assert_asked(w, KUBE_PUT, SLICE);
    assert_int_equal(slice_publisher_stats(w->publisher).failures, 13);
}

static void forbidden_watch_is_replaced_by_polling(void **state)
{
    struct world *w = *state;
    CLEANUP(json) json_t *stored = settle(w);
    struct kube_response denied = {.message = "no", .received_at = clock_mono_now()};
    w->client.watch.on_denied(w->publisher, &denied);
    for (int i = 0; i < 3; i++) {
        tick_after(w, SLICE_POLL_NS - NS_PER_SEC);
        assert_false(w->client.is_busy);
        tick_after(w, 2 * SLICE_POLL_NS);
        assert_asked(w, KUBE_GET, SLICES LIST_QUERY);
        CLEANUP(json) json_t *list = json_pack("{s:[O]}", "items", stored);
        respond_json(w, 200, list, -1);
    }
}

static void request_under_way_is_given_up_on_free(void **state)
{
    struct world *w = *state;
    publish(w, NULL);
    assert_true(w->client.is_busy); /* teardown checks */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_asked_before_the_first_verdict),
        TEST(slice_is_created_once_and_then_left_alone),
        TEST(slice_that_is_right_already_is_taken_over),
        TEST(verdict_is_one_put_in_place),
        TEST(verdict_that_changes_during_a_write_is_written_next),
        TEST(slice_removed_by_a_kubelet_is_created_again),
        TEST(echo_of_our_own_write_is_no_news),
        TEST(foreign_change_is_undone),
        TEST(older_api_versions_are_tried_in_turn),
        TEST(cluster_without_the_api_is_asked_again_later),
        TEST(slice_that_exists_already_is_read_and_adopted),
        TEST(conflict_is_read_and_written_again),
        TEST(slice_that_vanishes_under_a_put_is_created),
        TEST(dropped_fields_do_not_cause_endless_writes),
        TEST(obsolete_slices_of_ours_are_removed_first),
        TEST(node_that_may_not_be_read_gives_a_slice_without_owner),
        TEST(failures_back_off_and_a_new_verdict_does_not_wait),
        TEST(forbidden_watch_is_replaced_by_polling),
        TEST(request_under_way_is_given_up_on_free),
    };
    return cmocka_run_group_tests_name("dra_slice_publisher", tests, NULL, NULL);
}
