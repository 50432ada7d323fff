/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/claim_teller.h"

#include "base/clock.h"
#include "tests/unit/api_client.h"

#include <unistd.h>

#define CLAIMS "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims/"
#define EVENTS "/apis/events.k8s.io/v1/namespaces/shop/events"

struct world {
    struct kube_client client;
    struct claim_store store;
    struct claim_teller *teller;
};

static const struct readiness DEAD = {
    .state = READINESS_NOT_READY, .reason = REASON_LEASE_EXPIRED, .message = "silent"};
static const struct readiness ALIVE = {
    .state = READINESS_READY, .admit = true, .reason = REASON_LEASE_RENEWED, .message = "well"};
static const struct readiness HELD = {.state = READINESS_UNKNOWN,
                                      .admit = true,
                                      .reason = REASON_API_SERVER_UNREACHABLE,
                                      .message = "who knows"};
static const struct wall AT = {.ns = 1785500000000000000};

static int setup(void **state)
{
    char dir[] = "/tmp/claim-teller-XXXXXX";
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    assert_non_null(mkdtemp(dir));
    assert_int_equal(claim_store_init(&w->store, dir, NULL), 0);
    const struct claim_teller_config config = {
        .client = &w->client,
        .store = &w->store,
        .target = {.driver = "dpu.example.com", .pool = "node1", .device = "dpu0"},
        .node = "node1",
    };
    assert_int_equal(claim_teller_new(&config, &w->teller, NULL), 0);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    char command[PATH_MAX + 16];
    struct world *w = *state;
    claim_teller_free(w->teller);
    assert_false(w->client.is_busy);
    w->store.dir[strlen(w->store.dir) - strlen("/claims")] = '\0';
    (void)snprintf(command, sizeof(command), "rm -r %s", w->store.dir);
    assert_int_equal(system(command), 0);
    free(w);
    return 0;
}

/* A claim "c<uid>" of namespace "shop". */
static void is_prepared(const struct world *w, const char *uid)
{
    char name[64];
    struct stored_claim other;
    (void)snprintf(name, sizeof(name), "c%s", uid);
    const struct claim_ref ref = {.ns = "shop", .uid = uid, .name = name};
    assert_int_equal(claim_store_take(&w->store, &ref, CLAIM_USE_SHARED, &other, NULL), 0);
}

static void respond(struct world *w, int status, const char *reason, json_t *body)
{
    struct kube_response r = {.code = status < 300    ? 0
                                      : status == 404 ? ERR_NOTFOUND
                                                      : ERR_RETRY,
                              .http_status = status,
                              .message = "as the test says",
                              .body = body,
                              .received_at = clock_mono_now()};
    (void)snprintf(r.reason, sizeof(r.reason), "%s", reason);
    client_answer(&w->client, &r);
}

/* The claim with that UID, used by `users`: a JSON list. */
static void respond_claim(struct world *w, const char *uid, const char *users)
{
    char text[1024];
    (void)snprintf(text, sizeof(text),
                   "{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"%s\"},\"status\":"
                   "{\"reservedFor\":%s,\"allocation\":{\"devices\":{\"results\":[{\"request\":"
                   "\"dpu\",\"driver\":\"dpu.example.com\",\"pool\":\"node1\",\"device\":\"dpu0\","
                   "\"shareID\":\"s\"}]}}}}",
                   uid, users);
    CLEANUP(json) json_t *json = json_text_parse(text, strlen(text), sizeof(text), NULL);
    assert_non_null(json);
    respond(w, 200, "", json);
}

static const char *sent(const struct world *w, const char *key)
{
    return json_text_get(w->client.body, key);
}

static const char *told(const struct world *w, const char *key)
{
    return json_text_get(json_object_get(w->client.body, "regarding"), key);
}

#define TWO_PODS                                                                                   \
    "[{\"resource\":\"pods\",\"name\":\"a\",\"uid\":\"ua\"},"                                      \
    "{\"apiGroup\":\"x\",\"resource\":\"others\",\"name\":\"o\",\"uid\":\"uo\"},"                  \
    "{\"resource\":\"pods\",\"name\":\"b\",\"uid\":\"ub\"}]"

static void each_pod_of_each_claim_is_told_once(void **state)
{
    struct world *w = *state;
    is_prepared(w, "u1");
    is_prepared(w, "u2");
    claim_teller_tell(w->teller, &DEAD, AT);
    assert_string_equal(w->client.path, CLAIMS "cu1");
    respond_claim(w, "u1", TWO_PODS);
    assert_string_equal(w->client.path, EVENTS);
    assert_string_equal(told(w, "kind"), "Pod");
    assert_string_equal(told(w, "namespace"), "shop");
    assert_string_equal(told(w, "name"), "a");
    assert_string_equal(told(w, "uid"), "ua");
    assert_string_equal(sent(w, "reason"), "DPUUnhealthy");
    assert_string_equal(sent(w, "type"), "Warning");
    assert_string_equal(sent(w, "note"), "LeaseExpired: silent");
    assert_string_equal(sent(w, "reportingInstance"), "node1");
    respond(w, 201, "", NULL);
    assert_string_equal(told(w, "name"), "b");
    respond(w, 409, "AlreadyExists", NULL);
    assert_string_equal(w->client.path, CLAIMS "cu2");
    respond_claim(w, "u2", "[]");
    assert_false(w->client.is_busy);
    claim_teller_tell(w->teller, &DEAD, AT);
    assert_false(w->client.is_busy);
}

static void pod_that_cannot_be_told_keeps_nobody_waiting(void **state)
{
    struct world *w = *state;
    is_prepared(w, "u1");
    claim_teller_tell(w->teller, &DEAD, AT);
    respond_claim(w, "u1", TWO_PODS);
    respond(w, 403, "Forbidden", NULL);
    assert_string_equal(told(w, "name"), "b");
    respond(w, 0, "", NULL);
    assert_false(w->client.is_busy);
    w->client.refuses = true;
    claim_teller_tell(w->teller, &ALIVE, AT);
    assert_false(w->client.is_busy);
}

static void newer_verdict_begins_anew(void **state)
{
    struct world *w = *state;
    is_prepared(w, "u1");
    is_prepared(w, "u2");
    claim_teller_tell(w->teller, &DEAD, AT);
    respond_claim(w, "u1", TWO_PODS);
    claim_teller_tell(w->teller, &ALIVE, AT);
    respond(w, 201, "", NULL); /* what was under way */
    assert_string_equal(w->client.path, CLAIMS "cu1");
    respond_claim(w, "u1", TWO_PODS);
    assert_string_equal(told(w, "name"), "a");
    assert_string_equal(sent(w, "reason"), "DPUHealthy");
    assert_string_equal(sent(w, "type"), "Normal");
}

static void what_nobody_can_know_is_no_news(void **state)
{
    struct world *w = *state;
    is_prepared(w, "u1");
    claim_teller_tell(w->teller, &ALIVE, AT);
    respond_claim(w, "u1", "[]");
    claim_teller_tell(w->teller, &HELD, AT);
    claim_teller_tell(w->teller, &ALIVE, AT); /* nobody was told of anything else */
    assert_int_equal(w->client.requests, 1);
}

static void claim_that_is_prepared_no_longer_is_forgotten(void **state)
{
    struct world *w = *state;
    struct stored_claim claim;
    is_prepared(w, "u1");
    is_prepared(w, "u2");
    is_prepared(w, "u3");
    claim_teller_tell(w->teller, &DEAD, AT);
    respond(w, 404, "NotFound", NULL);
    respond_claim(w, "another", "[]"); /* a namesake */
    respond(w, 503, "", NULL);         /* that one nobody knows */
    assert_false(w->client.is_busy);
    assert_true(claim_store_next(&w->store, "", &claim));
    assert_string_equal(claim.uid, "u3");
    claim_teller_check(w->teller, &claim);
    claim_teller_check(w->teller, &claim); /* one at a time */
    respond(w, 200, "", NULL);             /* an answer that makes no sense */
    assert_true(claim_store_next(&w->store, "", &claim));
    claim_teller_check(w->teller, &claim);
    respond(w, 404, "NotFound", NULL);
    assert_false(claim_store_next(&w->store, "", &claim));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_pod_of_each_claim_is_told_once),
        TEST(pod_that_cannot_be_told_keeps_nobody_waiting),
        TEST(newer_verdict_begins_anew),
        TEST(what_nobody_can_know_is_no_news),
        TEST(claim_that_is_prepared_no_longer_is_forgotten),
    };
    return cmocka_run_group_tests_name("dra_claim_teller", tests, NULL, NULL);
}
