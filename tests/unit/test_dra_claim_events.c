/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/claim.h"

#include "host-agent/outputs/events.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"
#include "tests/unit/api_world.h"

#define CLAIMS "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims/"
#define EVENTS "/apis/events.k8s.io/v1/namespaces/shop/events"

struct world {
    struct kube_client client; /* of the look-ups; the Events have that of the world */
    struct events *events;
    struct dra_options options; /* of which only the directory counts */
    struct dra_config config;
    struct claim_events *teller;
};

/* By which the Events tell what they wrote about the Node; its user is the teller. */
static events_written_fn *written;

void __wrap_events_on_written(struct events *x, events_written_fn *on_written, void *user);
void __wrap_events_on_written(struct events *x, events_written_fn *on_written, void *user)
{
    written = on_written;
}

static const struct readiness DEAD = {.state = READINESS_NOT_READY,
                                      .reason = REASON_LEASE_EXPIRED,
                                      .message = "silent",
                                      .transition = {.ns = 1785500000000000000}};
static const struct readiness ALIVE = {
    .state = READINESS_READY, .admit = true, .reason = REASON_LEASE_RENEWED, .message = "well"};
static const struct readiness HELD = {.state = READINESS_UNKNOWN,
                                      .admit = true,
                                      .reason = REASON_API_SERVER_UNREACHABLE,
                                      .message = "who knows"};

static const struct dra_device DEVICE = {
    .driver = "dpu.example.com", .pool = "node1", .name = "dpu0"};

static void up(struct world *w)
{
    scratch_make(w->options.names.plugin_dir);
    world_start();
    world.now = (struct mono){NS_PER_SEC};
    w->events = events_new(NULL, &world.client, "node1");
    w->config =
        (struct dra_config){.client = &w->client, .events = w->events, .options = &w->options};
    w->teller = claim_events_new(&w->config, &DEVICE);
}

static void down(struct world *w)
{
    claim_events_free(w->teller);
    events_free(w->events);
    assert_false(w->client.is_busy);
    scratch_remove(w->options.names.plugin_dir);
}

WORLD(up, down)

/* A claim "c<uid>" of namespace "shop". */
static void is_prepared(const struct world *w, const char *uid)
{
    char name[64];
    struct stored_claim other;
    (void)snprintf(name, sizeof(name), "c%s", uid);
    const struct claim_ref ref = {.ns = "shop", .uid = uid, .name = name};
    assert_int_equal(
        claim_store_take(w->options.names.plugin_dir, &ref, CLAIM_USE_SHARED, &other, NULL), 0);
}

/* As the service does: the verdict is shown, then written as an Event, which tells it. */
static void tell(struct world *w, const struct readiness *verdict)
{
    claim_events_show(w->teller, verdict);
    written(w->teller, verdict);
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

static const char *sent(const char *key)
{
    assert_true(world.client.is_busy);
    return json_text_get(world.client.body, key);
}

static const char *told(const char *key)
{
    assert_true(world.client.is_busy);
    return json_text_get(json_object_get(world.client.body, "regarding"), key);
}

#define TWO_PODS                                                                                   \
    "[{\"resource\":\"pods\",\"name\":\"a\",\"uid\":\"ua\"},"                                      \
    "{\"apiGroup\":\"x\",\"resource\":\"others\",\"name\":\"o\",\"uid\":\"uo\"},"                  \
    "{\"resource\":\"pods\",\"name\":\"b\",\"uid\":\"ub\"}]"

TEST_IN(each_pod_of_each_claim_is_told_once)
{
    is_prepared(w, "u1");
    is_prepared(w, "u2");
    tell(w, &DEAD);
    assert_string_equal(w->client.path, CLAIMS "cu1");
    respond_claim(w, "u1", TWO_PODS);
    assert_string_equal(w->client.path, CLAIMS "cu2");
    respond_claim(w, "u2", "[]");
    assert_false(w->client.is_busy);
    assert_string_equal(world.client.path, EVENTS);
    assert_string_equal(told("kind"), "Pod");
    assert_string_equal(told("namespace"), "shop");
    assert_string_equal(told("name"), "a");
    assert_string_equal(told("uid"), "ua");
    assert_string_equal(sent("reason"), "DPUUnhealthy");
    assert_string_equal(sent("type"), "Warning");
    assert_string_equal(sent("note"), "LeaseExpired: silent");
    assert_string_equal(sent("reportingInstance"), "node1");
    assert_string_equal(json_text_get(json_object_get(world.client.body, "metadata"), "name"),
                        "a.18c75eca3e75c000");
    assert_string_equal(sent("eventTime"), "2026-07-31T12:13:20.000000Z");
    world_answer(201, NULL);
    assert_string_equal(told("name"), "b");
    world_answer(201, NULL);
    assert_false(world.client.is_busy);
    tell(w, &DEAD);
    assert_false(w->client.is_busy || world.client.is_busy);
}

TEST_IN(newer_verdict_begins_anew)
{
    is_prepared(w, "u1");
    is_prepared(w, "u2");
    tell(w, &DEAD);
    respond_claim(w, "u1", TWO_PODS);
    tell(w, &ALIVE);
    respond_claim(w, "u2", TWO_PODS); /* what was under way */
    assert_string_equal(w->client.path, CLAIMS "cu1");
    respond_claim(w, "u1", TWO_PODS);
    respond_claim(w, "u2", "[]");
    assert_string_equal(sent("reason"), "DPUUnhealthy"); /* that too; what waited is not told */
    world_answer(201, NULL);
    assert_string_equal(told("name"), "a");
    assert_string_equal(sent("reason"), "DPUHealthy");
    assert_string_equal(sent("type"), "Normal");
    world_answer(201, NULL);
    assert_string_equal(told("name"), "b");
    world_answer(201, NULL);
    assert_false(w->client.is_busy || world.client.is_busy);
}

TEST_IN(what_nobody_can_know_is_no_news)
{
    is_prepared(w, "u1");
    tell(w, &ALIVE);
    respond_claim(w, "u1", "[]");
    tell(w, &HELD);
    tell(w, &ALIVE); /* nobody was told of anything else */
    assert_int_equal(w->client.requests, 1);
}

TEST_IN(claim_that_is_prepared_no_longer_is_forgotten)
{
    struct stored_claim claim;
    is_prepared(w, "u1");
    is_prepared(w, "u2");
    is_prepared(w, "u3");
    tell(w, &DEAD);
    respond(w, 404, "NotFound", NULL);
    respond_claim(w, "another", "[]"); /* a namesake */
    respond(w, 503, "", NULL);         /* that one nobody knows */
    assert_false(w->client.is_busy);
    assert_true(claim_store_next(w->options.names.plugin_dir, "", &claim));
    assert_string_equal(claim.uid, "u3");
    claim_events_check(w->teller, &claim);
    claim_events_check(w->teller, &claim); /* once */
    respond(w, 200, "", NULL);             /* an answer that makes no sense */
    assert_false(w->client.is_busy);
    assert_true(claim_store_next(w->options.names.plugin_dir, "", &claim));
    claim_events_check(w->teller, &claim);
    respond(w, 404, "NotFound", NULL);
    assert_false(claim_store_next(w->options.names.plugin_dir, "", &claim));
}

/* ---- the condition of its devices ------------------------------------------------------------ */

#define OTHERS "{\"conditions\":[],\"device\":\"d\",\"driver\":\"other\",\"pool\":\"node1\"}"
#define OURS(status, time, reason, message)                                                        \
    "{\"conditions\":[{\"lastTransitionTime\":\"" time "\",\"message\":\"" reason ": " message     \
    "\",\"reason\":\"" reason "\",\"status\":\"" status "\",\"type\":\"Ready\"}],\"device\":"      \
    "\"dpu0\",\"driver\":\"dpu.example.com\",\"pool\":\"node1\",\"shareID\":\"s\"}"
#define NOW   "2026-07-31T12:13:20Z"
#define LATER "2026-07-31T12:13:21Z"

/* A claim with these entries, which a pod uses. */
static void respond_devices(struct world *w, const char *devices)
{
    char users[1024];
    (void)snprintf(users, sizeof(users), TWO_PODS ",\"devices\":[%s]", devices);
    respond_claim(w, "u1", users);
}

static void assert_written(struct world *w, const char *wanted)
{
    assert_true(w->client.is_busy);
    assert_int_equal(w->client.method, KUBE_PUT);
    assert_string_equal(w->client.path, CLAIMS "cu1/status");
    json_t *devices = json_object_get(json_object_get(w->client.body, "status"), "devices");
    CLEANUP(free) char *text = json_dumps(devices, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, wanted);
    assert_non_null(json_object_get(json_object_get(w->client.body, "status"), "allocation"));
}

TEST_IN(a_claim_has_the_condition_of_our_device_beside_those_of_others)
{
    struct readiness other = DEAD;
    other.reason = REASON_HOST_PROBE_FAILED;
    other.transition.ns += NS_PER_SEC;
    w->options.claim_conditions = true;
    is_prepared(w, "u1");
    tell(w, &DEAD);
    respond_devices(w, "");
    assert_written(w, "[" OURS("False", NOW, "LeaseExpired", "silent") "]");
    respond(w, 200, "", NULL);
    assert_false(w->client.is_busy);
    tell(w, &other); /* the same status: since then */
    respond_devices(w, OURS("False", NOW, "LeaseExpired", "silent") "," OTHERS);
    assert_written(w, "[" OTHERS "," OURS("False", NOW, "HostProbeFailed", "silent") "]");
    respond(w, 503, "", NULL); /* dropped */
    assert_false(w->client.is_busy);
    other.state = READINESS_READY;
    other.admit = true;
    other.reason = REASON_LEASE_RENEWED;
    tell(w, &other);
    respond_devices(w, "");
    assert_written(w, "[" OURS("True", LATER, "LeaseRenewed", "silent") "]");
    respond(w, 200, "", NULL);
}

TEST_IN(a_claim_that_another_writes_meanwhile_is_read_once_more)
{
    w->options.claim_conditions = true;
    is_prepared(w, "u1");
    is_prepared(w, "u2");
    tell(w, &DEAD);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(w->client.path, CLAIMS "cu1");
        respond_devices(w, "");
        assert_written(w, "[" OURS("False", NOW, "LeaseExpired", "silent") "]");
        respond(w, 409, "Conflict", NULL);
    }
    world_answer(201, NULL); /* two pods, each once */
    world_answer(201, NULL);
    assert_false(world.client.is_busy);
    assert_string_equal(w->client.path, CLAIMS "cu2");
    respond_claim(w, "u2", "[]");
    tell(w, &ALIVE); /* while it is written */
    respond(w, 409, "Conflict", NULL);
    assert_string_equal(w->client.path, CLAIMS "cu1");
    respond(w, 404, "NotFound", NULL);
    respond(w, 404, "NotFound", NULL);
    assert_false(w->client.is_busy);
}

TEST_IN(a_prepared_claim_gets_the_condition_of_now)
{
    static const char *const uids[] = {"u0", "u1", "u2"};
    struct stored_claim claim = {.ns = "shop"};
    w->options.claim_conditions = true;
    for (size_t i = 0; i < ARRAY_LEN(uids); i++) {
        (void)snprintf(claim.name, sizeof(claim.name), "c%s", uids[i]);
        (void)snprintf(claim.uid, sizeof(claim.uid), "%s", uids[i]);
        is_prepared(w, uids[i]);
        claim_events_prepared(w->teller, &claim);
    }
    respond_claim(w, "u0", TWO_PODS); /* there was no verdict yet */
    claim_events_show(w->teller, &DEAD);
    claim_events_show(w->teller, &HELD); /* never shown */
    assert_string_equal(w->client.path, CLAIMS "cu2");
    respond(w, 503, "", NULL);
    respond_devices(w, OTHERS);
    assert_written(w, "[" OTHERS "," OURS("False", NOW, "LeaseExpired", "silent") "]");
    respond(w, 409, "Conflict", NULL);
    respond_devices(w, OURS("False", NOW, "LeaseExpired", "silent")); /* says it already */
    assert_false(w->client.is_busy || world.client.is_busy);          /* no Event of it */
}

TEST_IN(what_waits_to_be_checked_is_bounded_and_a_round_looks_at_it)
{
    struct stored_claim claim = {.ns = "shop", .name = "cu1", .uid = "u1"};
    is_prepared(w, "u1");
    claim_events_prepared(w->teller, &claim); /* without conditions there is nothing to write */
    assert_false(w->client.is_busy);
    for (int i = 0; i < CLAIM_CHECKS_MAX + 3; i++) {
        (void)snprintf(claim.uid, sizeof(claim.uid), "v%d", i);
        claim_events_check(w->teller, &claim);
        claim_events_check(w->teller, &claim);
    }
    for (int i = 0; i < CLAIM_CHECKS_MAX + 1; i++) { /* with the one that was begun */
        assert_int_equal(w->client.requests, i + 1);
        respond(w, 503, "", NULL);
    }
    assert_false(w->client.is_busy);
    claim_events_check(w->teller, &claim);
    claim.uid[0] = 'w';
    claim_events_check(w->teller, &claim);
    tell(w, &DEAD);
    respond(w, 503, "", NULL);
    respond_claim(w, "u1", "[]");
    assert_false(w->client.is_busy);
}
