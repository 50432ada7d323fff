/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_answer.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "tests/support/case.h"
#include "tests/unit/metrics_view.h"

#include <curl/curl.h>

#define STATUS "{\"kind\":\"Status\"}"

TEST(an_answer_tells_what_to_do_and_what_it_is_worth)
{
    static const struct {
        int http;
        bool is_json;
        const char *body;
        int code;
        enum kube_outcome outcome;
    } rows[] = {
        {200, true, "{}", 0, KUBE_ANSWERED},
        {201, false, "{}", 0, KUBE_ANSWERED},
        {200, true, "[]", 0, KUBE_UNREADABLE},
        {200, true, "{", 0, KUBE_UNREADABLE},
        {200, true, "", 0, KUBE_NO_CONTACT},
        {200, false, "<html>", 0, KUBE_NO_CONTACT},
        {404, true, STATUS, ERR_NOTFOUND, KUBE_ANSWERED},
        {409, true, STATUS, ERR_CONFLICT, KUBE_ANSWERED},
        {410, true, STATUS, ERR_GONE, KUBE_ANSWERED},
        {422, true, STATUS, ERR_PARSE, KUBE_ANSWERED},
        {404, true, "{}", ERR_NOTFOUND, KUBE_NO_CONTACT},
        {404, true, "{", ERR_NOTFOUND, KUBE_NO_CONTACT},
        {404, false, "page not found", ERR_NOTFOUND, KUBE_NO_CONTACT},
        {302, true, STATUS, ERR_PARSE, KUBE_NO_CONTACT},
        {400, true, STATUS, ERR_PARSE, KUBE_NO_CONTACT},
        {401, true, STATUS, ERR_AUTH, KUBE_NO_CONTACT},
        {403, true, STATUS, ERR_AUTH, KUBE_NO_CONTACT},
        {429, true, STATUS, ERR_RETRY, KUBE_NO_CONTACT},
        {500, true, STATUS, ERR_RETRY, KUBE_NO_CONTACT},
        {504, true, STATUS, ERR_RETRY, KUBE_NO_CONTACT},
        {0, false, "", ERR_RETRY, KUBE_NO_CONTACT},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len = strlen(rows[i].body);
        CLEANUP(json) json_t *body = json_text_parse(rows[i].body, len, NULL);
        assert_int_equal(kube_status_code(rows[i].http), rows[i].code);
        assert_int_equal(kube_status_outcome(rows[i].http, rows[i].is_json, len, body),
                         rows[i].outcome);
    }
}

static struct kube_response fill(int http, const char *body, const char *failure)
{
    struct kube_response r = {.http_status = http, .code = kube_status_code(http)};
    CLEANUP(json) json_t *json = body ? json_text_parse(body, strlen(body), NULL) : NULL;
    r.body = json;
    kube_status_fill(&r, KUBE_PUT, "/apis/x", failure);
    r.body = NULL;
    return r;
}

TEST(a_failure_is_told_in_the_servers_words_or_by_the_request)
{
    static const struct {
        int http_status;
        const char *body;
        const char *failure;
        const char *reason;
        const char *message;
    } rows[] = {
        {403, "{\"reason\":\"Forbidden\",\"message\":\"User \\\"u\\\" cannot update\"}", NULL,
         "Forbidden", "HTTP 403: User \"u\" cannot update"},
        {502, NULL, NULL, "", "PUT /apis/x: HTTP 502"},
        {500, "{\"message\":7}", NULL, "", "PUT /apis/x: HTTP 500"},
        {0, NULL, "Connection refused", "", "PUT /apis/x: Connection refused"},
        {200, "{\"message\":\"x\",\"reason\":\"y\"}", NULL, "", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_response r = fill(rows[i].http_status, rows[i].body, rows[i].failure);
        assert_string_equal(r.reason, rows[i].reason);
        assert_string_equal(r.message, rows[i].message);
    }
}

#define DENIED(resource)                                                                           \
    resource                                                                                       \
        " is forbidden: User \\\"system:serviceaccount:ovn-kubernetes:dpu-host-agent\\\" cannot "  \
        "associated-node:update resource \\\"" resource "\\\" in API group "                       \
        "\\\"resource.k8s.io\\\" in the namespace \\\"shop\\\""

TEST(a_missing_right_is_told_from_a_wrong_object_and_to_its_end)
{
    static const struct {
        int http_status;
        const char *message;
        bool is_denied;
    } rows[] = {
        {403, DENIED("leases"), true},
        {403, "", true},
        /* As Kubernetes 1.37 has it. */
        {422,
         "ResourceClaim.resource.k8s.io \\\"a-claim-with-a-name-of-the-usual-length\\\" is "
         "invalid: "
         "status.devices: Forbidden: changing status.devices requires "
         "resource=\\\"resourceclaims/driver\\\", verb=\\\"[associated-node:update "
         "arbitrary-node:update]\\\" permission: " DENIED("resourceclaims/driver"),
         true},
        {422, "spec.holderIdentity: Invalid value: User says that it is forbidden", false},
        {422, "status.devices[0]: Forbidden: may not be set", false},
        {401, DENIED("leases"), false},
        {500, "x: Forbidden: " DENIED("leases"), false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(free) char *body = mem_format("{\"message\":\"%s\"}", rows[i].message);
        CLEANUP(json) json_t *json = json_text_parse(body, strlen(body), NULL);
        assert_non_null(json);
        struct kube_response r = fill(rows[i].http_status, body, NULL);
        r.body = json;
        assert_int_equal(kube_is_denied(&r), rows[i].is_denied);
        assert_true(!strstr(body, "shop") || strstr(r.message, "in the namespace \"shop\""));
    }
    assert_false(kube_is_denied(&(struct kube_response){.http_status = 422}));
}

TEST(hostile_texts_are_cut_and_made_printable)
{
    char body[2048] = "{\"reason\":\"";
    memset(body + strlen(body), 'r', 500);
    (void)strcat(body, "\",\"message\":\"a\\nb\\u0000");
    memset(body + strlen(body), 'm', 1000);
    (void)strcat(body, "\"}");
    struct kube_response r = fill(500, body, NULL);
    assert_true(strlen(r.reason) < sizeof(r.reason));
    assert_null(strchr(r.message, '\n'));
    assert_true(strlen(r.message) < sizeof(r.message));
}

TEST(the_words_of_curl_are_passed_on_unless_they_may_hold_a_secret)
{
    static const struct {
        const char *said;
        int code;
        const char *shown;
    } rows[] = {
        {"Connection refused", CURLE_COULDNT_CONNECT, "Connection refused"},
        {"", CURLE_OPERATION_TIMEDOUT, "Timeout was reached"},
        {"Unsupported proxy scheme for 'foo://user:S3CRET@h'", CURLE_COULDNT_CONNECT,
         "the proxy's URL is not supported (not logged, because it may contain a password)"},
        {"Unsupported proxy syntax in 'http://user:S3C", CURLE_COULDNT_RESOLVE_PROXY,
         "the proxy's URL is not supported (not logged, because it may contain a password)"},
        {"what of 'http://user:S3CRET@h'?", CURLE_RECV_ERROR,
         "Failure when receiving data from the peer"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_string_equal(kube_status_failure(rows[i].said, rows[i].code), rows[i].shown);
    }
}

/* ---- for the metrics page -------------------------------------------------------------------- */

static void count(struct kube_metrics *metrics, const char *verb, int http_status, int64_t took_ns)
{
    const struct kube_response response = {
        .http_status = http_status, .sent_at = {NS_PER_SEC}, .received_at = {NS_PER_SEC + took_ns}};
    kube_metrics_count(metrics, verb, &response);
}

static struct buf written(const struct kube_metrics *metrics)
{
    struct buf page = {.max_bytes = METRICS_PAGE_MAX_BYTES};
    kube_metrics_write(metrics, &page);
    view_check(&page);
    return page;
}

TEST(requests_are_counted_by_verb_and_code)
{
    static const struct {
        const char *verb;
        int http_status;
        const char *sample;
    } rows[] = {
        {"GET", 200, "verb=\"GET\",code=\"200\""},
        {"POST", 201, "verb=\"POST\",code=\"201\""},
        {"PUT", 409, "verb=\"PUT\",code=\"409\""},
        {"PATCH", 422, "verb=\"PATCH\",code=\"422\""},
        {"PATCH", 404, "verb=\"PATCH\",code=\"404\""},
        {"WATCH", 504, "verb=\"WATCH\",code=\"504\""},
        {"GET", 0, "verb=\"GET\",code=\"none\""},
        {"GET", 418, "verb=\"GET\",code=\"other\""},
        {"GET", 599, "verb=\"GET\",code=\"other\""}, /* as the one before: series are bounded */
    };
    struct kube_metrics metrics = {.delayed = 0};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        count(&metrics, rows[i].verb, rows[i].http_status, (int64_t)i * NS_PER_SEC);
    }
    CLEANUP(buf) struct buf page = written(&metrics);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char sample[128];
        bool is_other = strstr(rows[i].sample, "other") != NULL;
        (void)snprintf(sample, sizeof(sample), "api_requests_total{%s}", rows[i].sample);
        assert_true(view_value(&page, sample) == (is_other ? 2 : 1));
    }
    assert_true(view_sum(&page, "api_requests_total") == ARRAY_LEN(rows));
    assert_true(view_sum(&page, "api_request_duration_seconds_count") == ARRAY_LEN(rows));
    assert_true(view_value(&page, "api_request_duration_seconds_sum{verb=\"PATCH\"}") == 3 + 4);
    assert_true(view_value(&page, "api_request_duration_seconds_bucket{verb=\"GET\",le=\"5\"}") ==
                1);
}

TEST(series_are_bounded)
{
    struct kube_metrics metrics = {.delayed = 0};
    for (int http_status = 100; http_status < 600; http_status++) {
        count(&metrics, "PUT", http_status, 0);
    }
    CLEANUP(buf) struct buf page = written(&metrics);
    assert_true(view_value(&page, "api_requests_total{verb=\"PUT\",code=\"other\"}") ==
                500 - (KUBE_METRICS_CODES - 2));
    assert_false(view_has(&page, "api_requests_total{verb=\"PUT\",code=\"none\"}"));
    assert_false(view_has(&page, "api_request_duration_seconds_count{verb=\"GET\"}"));
}

TEST(skew_is_shown_once_an_answer_had_a_date)
{
    static const char skew[] = "api_server_clock_skew_seconds";
    struct kube_metrics metrics = {.delayed = 0};
    const struct kube_response dated = {.http_status = 200,
                                        .has_server_date = true,
                                        .server_date = {100 * NS_PER_SEC},
                                        .received_wall = {130 * NS_PER_SEC}};
    count(&metrics, "GET", 200, 0);
    CLEANUP(buf) struct buf page = written(&metrics);
    assert_false(view_has(&page, skew));
    buf_fini(&page);
    kube_metrics_count(&metrics, "GET", &dated);
    count(&metrics, "GET", 0, 0); /* an answer that failed to come takes nothing back */
    page = written(&metrics);
    assert_true(view_value(&page, skew) == -30);
}
