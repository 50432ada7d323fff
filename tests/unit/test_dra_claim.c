/* SPDX-License-Identifier: Apache-2.0 */
#include "dra-driver/dra/claim.h"

#include "outputs/events.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"
#include "tests/unit/api_world.h"

#include <sys/stat.h>

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

/* ---- at the API server ----------------------------------------------------------------------- */

static const struct claim_ref REF = {.ns = "default", .uid = "uid-1", .name = "claim-1"};

#define RESULT(request, driver, pool, device, more)                                                \
    "{\"request\":\"" request "\",\"driver\":\"" driver "\",\"pool\":\"" pool                      \
    "\",\"device\":\"" device "\"" more "}"
#define OUR_RESULT(request, more) RESULT(request, "dpu.example.com", "node1", "dpu0", more)
#define CLAIM(results)                                                                             \
    "{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"uid-1\"},\"status\":{\"allocation\":"     \
    "{\"devices\":{\"results\":[" results "]}}}}"

static int read_text(const char *text, struct claim_allocation *out, struct err *e)
{
    CLEANUP(json) json_t *json = json_text_parse(text, strlen(text), NULL);
    assert_non_null(json);
    const struct kube_response answer = {.http_status = 200, .body = json};
    return claim_read(&answer, &REF, &DEVICE, out, e);
}

TEST(results_of_our_driver_are_taken)
{
    struct claim_allocation a;
    assert_int_equal(
        read_text(CLAIM(OUR_RESULT("dpu", ",\"shareID\":\"s-1\"") "," RESULT(
                      "gpu", "gpu.example.com", "x", "gpu7", "") "," OUR_RESULT("other/sub", "")),
                  &a, NULL),
        0);
    assert_int_equal(a.count, 2);
    assert_string_equal(a.shares[0].request, "dpu");
    assert_string_equal(a.shares[0].share_id, "s-1");
    assert_string_equal(a.shares[1].request, "other"); /* base name */
    assert_string_equal(a.shares[1].share_id, "");
}

TEST(claims_that_do_not_fit_are_told_apart)
{
    static const struct {
        const char *text;
        int rc;
        const char *words;
    } rows[] = {
        {"{}", ERR_PARSE, "not a ResourceClaim"},
        {"[]", ERR_PARSE, "not a ResourceClaim"},
        {"{\"kind\":\"Status\",\"metadata\":{\"uid\":\"uid-1\"}}", ERR_PARSE,
         "not a ResourceClaim"},
        {"{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"uid-2\"}}", ERR_GONE, "replaced"},
        {"{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"uid-1\"}}", ERR_NOTFOUND,
         "not allocated"},
        {"{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"uid-1\"},\"status\":{}}",
         ERR_NOTFOUND, "not allocated"},
        {CLAIM(""), ERR_NOTFOUND, "nothing of driver"},
        {CLAIM(RESULT("r", "gpu.example.com", "node1", "dpu0", "")), ERR_NOTFOUND,
         "nothing of driver"},
        {CLAIM(RESULT("r", "dpu.example.com", "node2", "dpu0", "")), ERR_CONFLICT, "'node2/dpu0'"},
        {CLAIM(RESULT("r", "dpu.example.com", "node1", "dpu1", "")), ERR_CONFLICT, "'node1/dpu1'"},
        {CLAIM("{\"driver\":\"dpu.example.com\"}"), ERR_CONFLICT, "not on this node"},
        {CLAIM("1,null,\"x\""), ERR_NOTFOUND, "nothing of driver"},
        {CLAIM(OUR_RESULT("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "")),
         ERR_LIMIT, "too long"},
        {CLAIM(OUR_RESULT("r", ",\"shareID\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"")),
         ERR_LIMIT, "too long"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct claim_allocation a = {.count = 99};
        struct err e = ERR_INIT;
        assert_int_equal(read_text(rows[i].text, &a, &e), rows[i].rc);
        assert_non_null(strstr(e.msg, rows[i].words));
        assert_ptr_equal(strstr(e.msg, "claim 'default/claim-1': "), e.msg);
        assert_int_equal(a.count, 99); /* untouched */
    }
}

TEST(results_are_bounded)
{
    char text[8192] = "{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"uid-1\"},\"status\":"
                      "{\"allocation\":{\"devices\":{\"results\":[";
    for (int i = 0; i <= CLAIM_RESULTS_MAX; i++) {
        (void)strcat(strcat(text, i ? "," : ""), OUR_RESULT("r", ""));
    }
    (void)strcat(text, "]}}}}");
    struct claim_allocation a;
    assert_int_equal(read_text(text, &a, NULL), ERR_LIMIT);
}

static void on_answer(void *user, const struct kube_response *answer)
{
}

TEST(reference_that_is_no_name_is_refused)
{
    static const struct claim_ref rows[] = {
        {.ns = "", .uid = "u", .name = "n"},       {.ns = "ns", .uid = "u", .name = ""},
        {.ns = "ns", .uid = "", .name = "n"},      {.ns = "a/../b", .uid = "u", .name = "n"},
        {.ns = "ns", .uid = "u", .name = "n?x=y"}, {.ns = "ns", .uid = "u", .name = "%2e"},
        {.ns = "ns", .uid = "u", .name = "Upper"},
    };
    struct kube_client client = {.requests = 0};
    struct kube_call *call;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(claim_ask(&client, KUBE_URGENT, &rows[i], on_answer, &client, &call, NULL),
                         ERR_PARSE);
    }
    assert_int_equal(client.requests, 0);
    assert_int_equal(claim_ask(&client, KUBE_URGENT, &REF, on_answer, &client, &call, NULL), 0);
    assert_string_equal(client.path,
                        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/claim-1");
}

/* An API that is not served says nothing about a claim. */
TEST(missing_claim_is_told_from_a_missing_api)
{
    static const struct {
        int code;
        int http_status;
        const char *reason;
        int rc;
    } rows[] = {
        {ERR_NOTFOUND, 404, "NotFound", ERR_NOTFOUND},
        {ERR_NOTFOUND, 404, "", ERR_RETRY},
        {ERR_RETRY, 503, "", ERR_RETRY},
        {ERR_AUTH, 403, "Forbidden", ERR_AUTH},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_response r = {.code = rows[i].code,
                                  .http_status = rows[i].http_status,
                                  .message = "as the test says"};
        struct claim_allocation a;
        struct err e = ERR_INIT;
        (void)snprintf(r.reason, sizeof(r.reason), "%s", rows[i].reason);
        assert_int_equal(claim_read(&r, &REF, &DEVICE, &a, &e), rows[i].rc);
        assert_string_equal(e.msg, "looking up claim 'default/claim-1': as the test says");
    }
}

/* ---- on disk --------------------------------------------------------------------------------- */

static int take(const char *s, const char *uid, enum claim_use use, struct err *e)
{
    struct stored_claim other;
    struct claim_holders holders = {.is_read = false};
    const struct claim_ref ref = {.ns = "shop", .uid = uid, .name = uid};
    return claim_store_take(s, &holders, &ref, use, &other, e);
}

/* "uid uid ..." */
static const char *all(const char *s)
{
    static char out[256];
    struct stored_claim claim = {.uid = ""};
    out[0] = '\0';
    while (claim_store_next(s, claim.uid, &claim)) {
        (void)strcat(out, claim.uid);
        (void)strcat(out, " ");
    }
    return out;
}

TEST_IN(what_is_taken_is_there_until_it_is_dropped)
{
    const char *s = w->options.names.plugin_dir;
    char path[128];
    struct stat st;
    struct stored_claim claim;
    assert_string_equal(all(s), "");
    assert_int_equal(take(s, "u2", CLAIM_USE_SHARED, NULL), 0);
    assert_int_equal(take(s, "u1", CLAIM_USE_SHARED, NULL), 0);
    assert_int_equal(take(s, "u1", CLAIM_USE_SHARED, NULL), 0);
    assert_string_equal(all(s), "u1 u2 ");
    (void)snprintf(path, sizeof(path), "%s/claims", s);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_true(claim_store_next(s, "u1", &claim));
    assert_string_equal(claim.ns, "shop");
    assert_string_equal(claim.name, "u2");
    assert_int_equal(claim.use, CLAIM_USE_SHARED);
    claim_store_drop(s, "u1");
    claim_store_drop(s, "u1");
    assert_string_equal(all(s), "u2 ");
}

TEST_IN(claim_that_has_the_device_alone_keeps_others_out)
{
    static const struct {
        enum claim_use first;
        enum claim_use second;
        int rc;
    } rows[] = {
        {CLAIM_USE_ALONE, CLAIM_USE_ALONE, ERR_CONFLICT},
        {CLAIM_USE_ALONE, CLAIM_USE_SHARED, ERR_CONFLICT},
        {CLAIM_USE_SHARED, CLAIM_USE_ALONE, ERR_CONFLICT},
        {CLAIM_USE_SHARED, CLAIM_USE_SHARED, 0},
        {CLAIM_USE_ALONE, CLAIM_USE_ADMIN, 0},
        {CLAIM_USE_ADMIN, CLAIM_USE_ALONE, 0},
    };
    const char *s = w->options.names.plugin_dir;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(take(s, "first", rows[i].first, NULL), 0);
        assert_int_equal(take(s, "first", rows[i].first, NULL), 0); /* never in its own way */
        struct err e = ERR_INIT;
        assert_int_equal(take(s, "second", rows[i].second, &e), rows[i].rc);
        assert_true(rows[i].rc == 0 || strstr(e.msg, "claim 'shop/first', ")); /* whose it is */
        assert_string_equal(all(s), rows[i].rc == 0 ? "first second " : "first ");
        claim_store_drop(s, "first");
        assert_int_equal(take(s, "second", rows[i].second, NULL), 0);
        claim_store_drop(s, "second");
    }
}

/* The claims of one request see each other, though the store is read but once for all. */
TEST_IN(claims_that_share_a_look_keep_each_other_out)
{
    static const struct {
        const char *uid;
        enum claim_use use;
        const char *other; /* in the way; NULL: none */
    } rows[] = {
        {"m", CLAIM_USE_SHARED, NULL}, {"k", CLAIM_USE_SHARED, NULL}, {"p", CLAIM_USE_SHARED, NULL},
        {"a", CLAIM_USE_ALONE, "k"},   {"k", CLAIM_USE_ALONE, "m"},   {"z", CLAIM_USE_ADMIN, NULL},
        {"k", CLAIM_USE_ADMIN, NULL}, /* no longer a share: read anew */
        {"m", CLAIM_USE_ALONE, "p"},   {"m", CLAIM_USE_ADMIN, NULL},  {"p", CLAIM_USE_ALONE, NULL},
        {"b", CLAIM_USE_SHARED, "p"},  {"b", CLAIM_USE_ALONE, "p"},   {"p", CLAIM_USE_SHARED, NULL},
        {"b", CLAIM_USE_SHARED, NULL}, {"b", CLAIM_USE_SHARED, NULL}, {"c", CLAIM_USE_ALONE, "b"},
    };
    const char *s = w->options.names.plugin_dir;
    struct claim_holders holders = {.is_read = false};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct stored_claim seen;
        const struct claim_ref ref = {.ns = "shop", .uid = rows[i].uid, .name = rows[i].uid};
        int rc = claim_store_take(s, &holders, &ref, rows[i].use, &seen, NULL);
        assert_int_equal(rc, rows[i].other ? ERR_CONFLICT : 0);
        assert_string_equal(seen.uid, rows[i].other ? rows[i].other : rows[i].uid);
    }
    assert_string_equal(all(s), "b k m p z ");
    char path[160];
    struct stored_claim seen;
    const struct claim_ref ref = {.ns = "shop", .uid = "c", .name = "c"};
    (void)snprintf(path, sizeof(path), "%s/claims/a", s);
    assert_int_equal(symlink("alone shop/a", path), 0); /* behind our back: nobody looks */
    assert_int_equal(claim_store_take(s, &holders, &ref, CLAIM_USE_SHARED, &seen, NULL), 0);
    holders.is_read = false;
    assert_int_equal(claim_store_take(s, &holders, &ref, CLAIM_USE_SHARED, &seen, NULL),
                     ERR_CONFLICT);
    assert_string_equal(seen.uid, "a");
}

TEST_IN(look_at_the_store_is_bounded_and_says_so)
{
    const char *s = w->options.names.plugin_dir;
    for (int i = 0; i < CLAIM_STORE_ENTRIES_MAX; i++) {
        char uid[16];
        (void)snprintf(uid, sizeof(uid), "s%d", i);
        assert_true(i > 0 || take(s, uid, CLAIM_USE_SHARED, NULL) == 0);
        char path[160];
        (void)snprintf(path, sizeof(path), "%s/claims/%s", s, uid);
        assert_true(i == 0 || symlink("shared gone/gone", path) == 0);
    }
    struct stored_claim seen;
    struct claim_holders holders = {.is_read = false};
    const struct claim_ref ref = {.ns = "shop", .uid = "u", .name = "u"};
    for (int i = 0; i < 2; i++) { /* "." and ".." are entries, too */
        assert_int_equal(claim_store_take(s, &holders, &ref, CLAIM_USE_SHARED, &seen, NULL), 0);
        assert_true(holders.is_cut);
    }
}

TEST_IN(uid_that_names_no_file_is_not_kept)
{
    static const char *const uids[] = {"", "..", "../u", "a/b", "a b"};
    const char *s = w->options.names.plugin_dir;
    for (size_t i = 0; i < ARRAY_LEN(uids); i++) {
        assert_int_equal(take(s, uids[i], CLAIM_USE_SHARED, NULL), ERR_PARSE);
        claim_store_drop(s, uids[i]);
    }
    assert_string_equal(all(s), "");
    assert_int_equal(take("/proc", "u", CLAIM_USE_ALONE, NULL), ERR_IO);
}

TEST_IN(what_is_no_claim_is_passed_over)
{
    static const char *const targets[] = {"shared",      "shared ",    "shared x",  "shared /x",
                                          "shared x/",   "shared X/y", "other x/y", "sharedx x/y",
                                          "/etc/passwd", "alone x/y/z"};
    const char *s = w->options.names.plugin_dir;
    char path[128];
    assert_int_equal(take(s, "m", CLAIM_USE_SHARED, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        (void)snprintf(path, sizeof(path), "%s/claims/a%zu", s, i);
        assert_int_equal(symlink(targets[i], path), 0);
    }
    (void)snprintf(path, sizeof(path), "%s/claims/file", s);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(all(s), "m ");
}

/* ---- Events on the pods that have them ------------------------------------------------------- */

/* A claim "c<uid>" of namespace "shop". */
static void is_prepared(const struct world *w, const char *uid)
{
    char name[64];
    struct stored_claim other;
    (void)snprintf(name, sizeof(name), "c%s", uid);
    struct claim_holders holders = {.is_read = false};
    const struct claim_ref ref = {.ns = "shop", .uid = uid, .name = name};
    assert_int_equal(claim_store_take(w->options.names.plugin_dir, &holders, &ref, CLAIM_USE_SHARED,
                                      &other, NULL),
                     0);
}

/* As the service does: the verdict is shown, then written as an Event, which tells it. */
static void tell(struct world *w, const struct readiness *verdict)
{
    claim_events_show(w->teller, verdict);
    written(w->teller, verdict);
}

static void respond(struct world *w, int status, const char *reason, json_t *body)
{
    struct kube_response r = loop_world_response(status, body);
    (void)text_copy(r.reason, sizeof(r.reason), reason);
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
    CLEANUP(json) json_t *json = json_text_parse(text, strlen(text), NULL);
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
                        "a.18c75eca3e75c003");
    assert_string_equal(sent("eventTime"), "2026-07-31T12:13:20.000000Z");
    world_answer(201, NULL);
    assert_string_equal(told("name"), "b");
    world_answer(201, NULL);
    assert_false(world.client.is_busy);
    tell(w, &DEAD);
    assert_false(w->client.is_busy || world.client.is_busy);
}

TEST_IN(two_changes_in_one_second_are_two_events)
{
    struct readiness back = ALIVE;
    back.transition = DEAD.transition;
    is_prepared(w, "u1");
    tell(w, &DEAD);
    respond_claim(w, "u1", "[{\"resource\":\"pods\",\"name\":\"a\",\"uid\":\"ua\"}]");
    char first[64];
    (void)snprintf(first, sizeof(first), "%s",
                   json_text_get(json_object_get(world.client.body, "metadata"), "name"));
    world_answer(201, NULL);
    tell(w, &back);
    respond_claim(w, "u1", "[{\"resource\":\"pods\",\"name\":\"a\",\"uid\":\"ua\"}]");
    assert_string_not_equal(json_text_get(json_object_get(world.client.body, "metadata"), "name"),
                            first);
    world_answer(201, NULL);
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
    respond(w, 503, "", NULL); /* tried again later */
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
    static const char *const uids[] = {"u0", "u2", "u1"};
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

/* Answers the look at u1, whose status is empty, and then the write. */
static void respond_write(struct world *w, int status)
{
    assert_string_equal(w->client.path, CLAIMS "cu1");
    respond_devices(w, "");
    assert_written(w, "[" OURS("False", NOW, "LeaseExpired", "silent") "]");
    respond(w, status, "", NULL);
}

static void anew(struct world *w)
{
    down(w);
    *w = (struct world){.options.claim_conditions = true};
    up(w);
}

/* Lets time pass until something is asked for; how long that took. */
static int64_t await_request(struct world *w)
{
    struct mono before = world.now;
    while (!w->client.is_busy) {
        while (world.client.is_busy) { /* Events of pods */
            world_answer(201, NULL);
        }
        world_pass(NS_PER_SEC / 10);
        assert_true(mono_since(world.now, before) < 600 * NS_PER_SEC);
    }
    return mono_since(world.now, before);
}

TEST_IN(a_condition_that_could_not_be_written_is_tried_again_with_backoff)
{
    static const int statuses[] = {403, 422, 503, 429, 404, 409, 0};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        int64_t waited_ns = 0;
        int tries = 0;
        anew(w);
        is_prepared(w, "u1");
        tell(w, &DEAD);
        while (waited_ns < 600 * NS_PER_SEC) {
            int64_t pause_ns = await_request(w);
            assert_between(pause_ns, 0, CLAIM_RETRY_MAX_NS + NS_PER_SEC);
            waited_ns += pause_ns;
            tries++;
            respond_write(w, statuses[i]);
            if (statuses[i] == 409) {
                respond_write(w, 409); /* read again at once, but once */
            }
            assert_false(w->client.is_busy);
        }
        assert_between(tries, 600 / 60, 60);
        (void)await_request(w);
        respond_write(w, 200); /* the right was given, the server is back */
        world_pass(600 * NS_PER_SEC);
        assert_false(w->client.is_busy);
    }
}

TEST_IN(a_look_that_failed_is_tried_again_for_the_condition_alone)
{
    anew(w);
    is_prepared(w, "u1");
    tell(w, &DEAD);
    respond(w, 503, "", NULL);
    (void)await_request(w);
    respond_write(w, 200);
    assert_false(w->client.is_busy || world.client.is_busy);
}

/* Where a right is missing, one claim a pause shows whether it was given. Then all follow. */
TEST_IN(claims_that_fail_together_are_tried_one_by_one_until_one_does_not)
{
    enum { CLAIMS_COUNT = CLAIM_CHECKS_MAX + 6 };
    char uid[16];
    anew(w);
    for (int i = 0; i < CLAIMS_COUNT; i++) {
        (void)snprintf(uid, sizeof(uid), "v%02d", i);
        is_prepared(w, uid);
    }
    tell(w, &DEAD);
    for (int i = 0; i < CLAIMS_COUNT; i++) {
        (void)snprintf(uid, sizeof(uid), "v%02d", i);
        respond_claim(w, uid, "[]");
        respond(w, 403, "", NULL);
    }
    for (int i = 0; i < 5; i++) {
        (void)await_request(w);
        assert_int_equal(w->client.method, KUBE_GET);
        respond_claim(w, w->client.path + strlen(CLAIMS "c"), "[]");
        respond(w, 403, "", NULL);
        assert_false(w->client.is_busy);
    }
    (void)await_request(w);
    struct mono given = world.now;
    int written_count = 0;
    while (w->client.is_busy) {
        char path[512];
        (void)snprintf(path, sizeof(path), "%s", w->client.path);
        respond_claim(w, path + strlen(CLAIMS "c"), "[]");
        assert_int_equal(w->client.method, KUBE_PUT);
        respond(w, 200, "", NULL);
        written_count++;
    }
    assert_true(written_count >= CLAIMS_COUNT - 5 && world.now.ns == given.ns);
}

/* The right to write Events may be missing, or the agent may have been started anew. */
TEST_IN(conditions_follow_a_verdict_that_no_event_tells)
{
    struct readiness well = ALIVE;
    anew(w);
    is_prepared(w, "u1");
    claim_events_show(w->teller, &DEAD);
    assert_between(await_request(w), 1, CLAIM_SETTLE_NS + NS_PER_SEC);
    respond_write(w, 200);
    claim_events_show(w->teller, &DEAD); /* no news */
    claim_events_show(w->teller, &HELD);
    world_pass(600 * NS_PER_SEC);
    assert_false(w->client.is_busy);
    claim_events_show(w->teller, &well);
    tell(w, &well); /* it did come */
    respond_devices(w, "");
    respond(w, 200, "", NULL);
    world_pass(600 * NS_PER_SEC);
    assert_false(w->client.is_busy); /* once is enough */
    while (world.client.is_busy) {
        world_answer(201, NULL);
    }
}

TEST_IN(a_missing_right_has_the_same_hint_whatever_its_status)
{
    static const struct {
        int status;
        const char *body;
        bool is_denial;
    } rows[] = {
        {403, "{\"message\":\"forbidden\"}", true},
        {422,
         "{\"message\":\"ResourceClaim.resource.k8s.io \\\"c\\\" is invalid: status.devices: "
         "Forbidden: "
         "changing status.devices requires resource=\\\"resourceclaims/driver\\\" permission: "
         "resourceclaims.resource.k8s.io \\\"dpu.k8s.ovn.org\\\" is forbidden: User \\\"h\\\" "
         "cannot "
         "arbitrary-node:update resource \\\"resourceclaims/driver\\\"\"}",
         true},
        {422, "{\"message\":\"status.devices[0].pool: Required value\"}", false},
        {503, "{\"message\":\"busy\"}", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        anew(w);
        world.log_fd = memfd_create("log", MFD_CLOEXEC);
        log_setup(LOG_INFO, LOG_TEXT, "");
        log_set_fd(world.log_fd);
        is_prepared(w, "u1");
        tell(w, &DEAD);
        respond_devices(w, "");
        CLEANUP(json) json_t *body = json_loads(rows[i].body, 0, NULL);
        respond(w, rows[i].status, "", body);
        assert_int_equal(loop_world_said("writing the condition of claim 'shop/cu1'"), 1);
        assert_int_equal(loop_world_said("rbac/dra-driver-claims.yaml"), rows[i].is_denial);
        log_set_fd(STDERR_FILENO);
        assert_int_equal(close(world.log_fd), 0);
        while (world.client.is_busy) {
            world_answer(201, NULL);
        }
    }
}

TEST_IN(what_waits_to_be_checked_is_bounded_and_a_round_looks_at_it)
{
    struct stored_claim claim = {.ns = "shop", .name = "cu1", .uid = "u1"};
    is_prepared(w, "u1");
    claim_events_prepared(w->teller, &claim); /* without conditions there is nothing to write */
    assert_false(w->client.is_busy);
    for (int i = 0; i < CLAIM_CHECKS_MAX + 3; i++) {
        (void)snprintf(claim.uid, sizeof(claim.uid), "v%d", i);
        (void)snprintf(claim.name, sizeof(claim.name), "v%d", i);
        claim_events_check(w->teller, &claim);
        claim_events_check(w->teller, &claim);
    }
    for (int i = 0; i < CLAIM_CHECKS_MAX + 1; i++) { /* with the one that was begun */
        assert_int_equal(w->client.requests, i + 1);
        assert_true(i != 1 || text_equal(w->client.path, CLAIMS "v1")); /* each once */
        respond(w, 503, "", NULL);
    }
    assert_string_equal(w->client.path, CLAIMS "cu1"); /* there were more: all are looked at */
    respond(w, 503, "", NULL);
    assert_false(w->client.is_busy);
    claim_events_check(w->teller, &claim);
    claim.uid[0] = 'w';
    claim_events_check(w->teller, &claim);
    tell(w, &DEAD);
    respond(w, 503, "", NULL);
    respond_claim(w, "u1", "[]");
    assert_false(w->client.is_busy);
}
