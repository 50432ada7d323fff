/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/dra/claim.h"

#include "base/clock.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"
#include "tests/unit/api_client.h"

#include <dirent.h>

static const struct claim_ref REF = {.ns = "default", .uid = "uid-1", .name = "claim-1"};
static const struct dra_device DEVICE = {
    .driver = "dpu.example.com", .pool = "node1", .name = "dpu0"};

#define RESULT(request, driver, pool, device, more)                                                \
    "{\"request\":\"" request "\",\"driver\":\"" driver "\",\"pool\":\"" pool                      \
    "\",\"device\":\"" device "\"" more "}"
#define OURS(request, more) RESULT(request, "dpu.example.com", "node1", "dpu0", more)
#define CLAIM(results)                                                                             \
    "{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"uid-1\"},\"status\":{\"allocation\":"     \
    "{\"devices\":{\"results\":[" results "]}}}}"

static int read_text(const char *text, struct claim_allocation *out, struct err *e)
{
    CLEANUP(json) json_t *json = json_text_parse(text, strlen(text), 1 << 20, NULL);
    assert_non_null(json);
    const struct kube_response answer = {.http_status = 200, .body = json};
    return claim_read(&answer, &REF, &DEVICE, out, e);
}

TEST(results_of_our_driver_are_taken)
{
    struct claim_allocation a;
    assert_int_equal(
        read_text(CLAIM(OURS("dpu", ",\"shareID\":\"s-1\"") "," RESULT(
                      "gpu", "gpu.example.com", "x", "gpu7", "") "," OURS("other/sub", "")),
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
        {CLAIM(OURS("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "")),
         ERR_LIMIT, "more than 63 bytes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct claim_allocation a = {.count = 99};
        struct err e = ERR_INIT;
        assert_int_equal(read_text(rows[i].text, &a, &e), rows[i].rc);
        assert_non_null(strstr(e.msg, rows[i].words));
        assert_int_equal(a.count, 99); /* untouched */
    }
}

TEST(results_are_bounded)
{
    char text[8192] = "{\"kind\":\"ResourceClaim\",\"metadata\":{\"uid\":\"uid-1\"},\"status\":"
                      "{\"allocation\":{\"devices\":{\"results\":[";
    for (int i = 0; i <= CLAIM_RESULTS_MAX; i++) {
        (void)strcat(strcat(text, i ? "," : ""), OURS("r", ""));
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

static int looks; /* into directories */

/* By the linker (--wrap). */
DIR *__real_opendir(const char *name);
DIR *__wrap_opendir(const char *name);
DIR *__wrap_opendir(const char *name)
{
    looks++;
    return __real_opendir(name);
}

struct world {
    char dir[SCRATCH_BYTES];
};

static void up(struct world *w)
{
    scratch_make(w->dir);
}

static void down(struct world *w)
{
    scratch_remove(w->dir);
}

WORLD(up, down)

static int take(const char *s, const char *uid, enum claim_use use, struct err *e)
{
    struct stored_claim other;
    const struct claim_ref ref = {.ns = "shop", .uid = uid, .name = uid};
    return claim_store_take(s, &ref, use, &other, e);
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
    const char *s = w->dir;
    struct stored_claim claim;
    assert_string_equal(all(s), "");
    assert_int_equal(take(s, "u2", CLAIM_USE_SHARED, NULL), 0);
    assert_int_equal(take(s, "u1", CLAIM_USE_SHARED, NULL), 0);
    assert_int_equal(take(s, "u1", CLAIM_USE_SHARED, NULL), 0);
    assert_string_equal(all(s), "u1 u2 ");
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
    const char *s = w->dir;
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

TEST_IN(one_look_shows_who_is_in_the_way)
{
    const char *s = w->dir;
    char uid[] = "u0";
    for (; uid[1] <= '9'; uid[1]++) {
        looks = 0;
        assert_int_equal(take(s, uid, CLAIM_USE_SHARED, NULL), 0);
        assert_int_equal(looks, 1);
    }
}

TEST_IN(uid_that_names_no_file_is_not_kept)
{
    static const char *const uids[] = {"", "..", "../u", "a/b", "a b"};
    const char *s = w->dir;
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
    const char *s = w->dir;
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
