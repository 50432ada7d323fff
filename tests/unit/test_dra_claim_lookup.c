/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/claim_lookup.h"

#include "base/clock.h"
#include "tests/unit/api_client.h"

struct outcome {
    int calls;
    bool has_claim;
    int code;
    char message[ERR_MSG_BYTES];
};

static void found(void *user, const json_t *claim, const struct err *why)
{
    struct outcome *o = user;
    o->calls++;
    o->has_claim = claim != NULL;
    if (!claim) {
        o->code = why->code;
        memcpy(o->message, why->msg, sizeof(o->message));
    }
}

static const struct claim_ref REF = {.ns = "ns", .uid = "u", .name = "c"};

static void respond(struct kube_client *client, int http_status, const char *reason, json_t *body)
{
    struct kube_response r = {
        .code = http_status < 300    ? 0
                : http_status == 404 ? ERR_NOTFOUND
                                     : ERR_RETRY,
        .http_status = http_status,
        .message = "as the test says",
        .body = body,
        .received_at = clock_mono_now(),
    };
    (void)snprintf(r.reason, sizeof(r.reason), "%s", reason);
    client_answer(client, &r);
}

static void claim_is_handed_on(void **state)
{
    (void)state;
    struct kube_client client = {.requests = 0};
    struct claim_lookup lookup = {.client = &client};
    struct plugin_claim_source source = claim_lookup_source(&lookup);
    struct outcome o = {.calls = 0};
    void *handle;
    assert_int_equal(source.start(source.user, &REF, found, &o, &handle, NULL), 0);
    assert_string_equal(client.path, "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c");
    json_t *body = json_object();
    respond(&client, 200, "", body);
    json_decref(body);
    assert_int_equal(o.calls, 1);
    assert_true(o.has_claim);
}

#define PATH(version) "/apis/resource.k8s.io/" version "/namespaces/ns/resourceclaims/c"

static void older_version_is_tried_and_remembered(void **state)
{
    (void)state;
    struct kube_client client = {.requests = 0};
    struct claim_lookup lookup = {.client = &client};
    struct plugin_claim_source source = claim_lookup_source(&lookup);
    struct outcome o = {.calls = 0};
    void *handle;
    json_t *body = json_object();
    assert_int_equal(source.start(source.user, &REF, found, &o, &handle, NULL), 0);
    respond(&client, 404, "", NULL);
    assert_int_equal(o.calls, 0);
    respond(&client, 404, "", NULL);
    assert_string_equal(client.path, PATH("v1beta1"));
    respond(&client, 200, "", body);
    json_decref(body);
    assert_true(o.has_claim);
    assert_int_equal(source.start(source.user, &REF, found, &o, &handle, NULL), 0);
    assert_string_equal(client.path, PATH("v1beta1"));
    respond(&client, 404, "NotFound", NULL);
    assert_int_equal(o.calls, 2);
    assert_false(o.has_claim);
}

static void version_that_is_gone_costs_one_round(void **state)
{
    (void)state;
    struct kube_client client = {.requests = 0};
    struct claim_lookup lookup = {
        .client = &client, .version = SLICE_V1BETA1, .newest_again = MONO_NEVER};
    struct plugin_claim_source source = claim_lookup_source(&lookup);
    struct outcome o = {.calls = 0};
    void *handle;
    json_t *body = json_object();
    assert_int_equal(source.start(source.user, &REF, found, &o, &handle, NULL), 0);
    assert_string_equal(client.path, PATH("v1beta1"));
    respond(&client, 404, "", NULL);
    assert_string_equal(client.path, PATH("v1"));
    respond(&client, 200, "", body);
    assert_true(o.has_claim);
    assert_int_equal(lookup.version, SLICE_V1);
    assert_int_equal(source.start(source.user, &REF, found, &o, &handle, NULL), 0);
    for (int i = 0; i < 3; i++) { /* and where none is served, it ends */
        assert_int_equal(o.calls, 1);
        respond(&client, 404, "", NULL);
    }
    assert_int_equal(o.calls, 2);
    assert_int_equal(client.requests, 5);
    assert_int_equal(o.code, ERR_RETRY); /* which says nothing about the claim */
    json_decref(body);
}

static void newest_version_is_tried_again_after_a_while_once(void **state)
{
    (void)state;
    struct kube_client client = {.requests = 0};
    struct claim_lookup lookup = {.client = &client, .version = SLICE_V1BETA2};
    struct plugin_claim_source source = claim_lookup_source(&lookup);
    struct outcome o = {.calls = 0};
    void *handle;
    json_t *body = json_object();
    assert_int_equal(source.start(source.user, &REF, found, &o, &handle, NULL), 0);
    assert_string_equal(client.path, PATH("v1"));
    respond(&client, 404, "", NULL); /* not yet */
    assert_string_equal(client.path, PATH("v1beta2"));
    respond(&client, 200, "", body);
    assert_true(o.has_claim);
    assert_int_equal(source.start(source.user, &REF, found, &o, &handle, NULL), 0);
    assert_string_equal(client.path, PATH("v1beta2")); /* for a while */
    respond(&client, 200, "", body);
    lookup.newest_again = (struct mono){0};
    assert_int_equal(source.start(source.user, &REF, found, &o, &handle, NULL), 0);
    assert_string_equal(client.path, PATH("v1"));
    respond(&client, 200, "", body);
    assert_int_equal(lookup.version, SLICE_V1);
    json_decref(body);
}

static void missing_claim_is_told_from_missing_version(void **state)
{
    (void)state;
    struct kube_client client = {.requests = 0};
    struct claim_lookup lookup = {.client = &client};
    struct plugin_claim_source source = claim_lookup_source(&lookup);
    struct outcome o = {.calls = 0};
    void *handle;
    assert_int_equal(source.start(source.user, &REF, found, &o, &handle, NULL), 0);
    respond(&client, 404, "NotFound", NULL);
    assert_int_equal(client.requests, 1);
    assert_int_equal(o.code, ERR_NOTFOUND);
    assert_string_equal(o.message, "as the test says");
}

static void failure_to_ask_is_an_error(void **state)
{
    (void)state;
    struct kube_client client = {.refuses = true};
    struct claim_lookup lookup = {.client = &client};
    struct plugin_claim_source source = claim_lookup_source(&lookup);
    struct outcome o = {.calls = 0};
    void *handle;
    assert_int_equal(source.start(source.user, &REF, found, &o, &handle, NULL), ERR_LIMIT);
    client.refuses = false;
    assert_int_equal(source.start(source.user, &REF, found, &o, &handle, NULL), 0);
    client.refuses = true;
    respond(&client, 404, "", NULL);
    assert_int_equal(o.code, ERR_LIMIT);
}

static void cancelled_lookup_cancels_its_request(void **state)
{
    (void)state;
    struct kube_client client = {.requests = 0};
    struct claim_lookup lookup = {.client = &client};
    struct plugin_claim_source source = claim_lookup_source(&lookup);
    struct outcome o = {.calls = 0};
    void *handle;
    assert_int_equal(source.start(source.user, &REF, found, &o, &handle, NULL), 0);
    source.cancel(source.user, handle);
    assert_false(client.is_busy);
    assert_int_equal(o.calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claim_is_handed_on),
        cmocka_unit_test(older_version_is_tried_and_remembered),
        cmocka_unit_test(version_that_is_gone_costs_one_round),
        cmocka_unit_test(newest_version_is_tried_again_after_a_while_once),
        cmocka_unit_test(missing_claim_is_told_from_missing_version),
        cmocka_unit_test(failure_to_ask_is_an_error),
        cmocka_unit_test(cancelled_lookup_cancels_its_request),
    };
    return cmocka_run_group_tests_name("dra_claim_lookup", tests, NULL, NULL);
}
