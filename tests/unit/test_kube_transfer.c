/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_transfer.h"

#include "base/json_text.h"
#include "base/mem.h"

#include <curl/curl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void status_tells_what_to_do(void **state)
{
    static const struct {
        int http;
        int code;
    } rows[] = {
        {200, 0},         {201, 0},
        {0, ERR_RETRY},   {301, ERR_PARSE},
        {400, ERR_PARSE}, {401, ERR_AUTH},
        {403, ERR_AUTH},  {404, ERR_NOTFOUND},
        {405, ERR_PARSE}, {409, ERR_CONFLICT},
        {410, ERR_GONE},  {422, ERR_PARSE},
        {429, ERR_RETRY}, {500, ERR_RETRY},
        {503, ERR_RETRY}, {504, ERR_RETRY},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(kube_status_code(rows[i].http), rows[i].code);
    }
}

static void an_answer_is_worth_what_it_says(void **state)
{
    static const struct {
        int http;
        bool is_json;
        const char *body;
        enum kube_outcome outcome;
    } rows[] = {
        {200, true, "{}", KUBE_ANSWERED},
        {201, false, "{}", KUBE_ANSWERED},
        {200, true, "[]", KUBE_UNREADABLE},
        {200, true, "{", KUBE_UNREADABLE},
        {200, true, "", KUBE_NO_CONTACT},
        {200, false, "<html>", KUBE_NO_CONTACT},
        {404, true, "{\"kind\":\"Status\"}", KUBE_ANSWERED},
        {409, true, "{\"kind\":\"Status\"}", KUBE_ANSWERED},
        {410, true, "{\"kind\":\"Status\"}", KUBE_ANSWERED},
        {422, true, "{\"kind\":\"Status\"}", KUBE_ANSWERED},
        {404, true, "{}", KUBE_NO_CONTACT},
        {404, true, "{", KUBE_NO_CONTACT},
        {404, false, "page not found", KUBE_NO_CONTACT},
        {302, true, "{\"kind\":\"Status\"}", KUBE_NO_CONTACT},
        {401, true, "{\"kind\":\"Status\"}", KUBE_NO_CONTACT},
        {403, true, "{\"kind\":\"Status\"}", KUBE_NO_CONTACT},
        {429, true, "{\"kind\":\"Status\"}", KUBE_NO_CONTACT},
        {500, true, "{\"kind\":\"Status\"}", KUBE_NO_CONTACT},
        {0, false, "", KUBE_NO_CONTACT},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len = strlen(rows[i].body);
        CLEANUP(json) json_t *body = json_text_parse_stored(rows[i].body, len, 4096, NULL);
        assert_int_equal(kube_status_outcome(rows[i].http, rows[i].is_json, len, body),
                         rows[i].outcome);
    }
}

static struct kube_response fill(int http, const char *body, const char *failure)
{
    struct kube_response r = {.http_status = http, .code = kube_status_code(http)};
    CLEANUP(json) json_t *json = body ? json_text_parse(body, strlen(body), 4096, NULL) : NULL;
    r.body = json;
    kube_status_fill(&r, KUBE_PUT, "/apis/x", failure);
    r.body = NULL;
    return r;
}

static void message_of_the_server_is_passed_on(void **state)
{
    (void)state;
    struct kube_response r =
        fill(403, "{\"reason\":\"Forbidden\",\"message\":\"User \\\"u\\\" cannot update\"}", NULL);
    assert_string_equal(r.reason, "Forbidden");
    assert_string_equal(r.message, "HTTP 403: User \"u\" cannot update");
}

static void answer_without_a_message_names_the_request(void **state)
{
    (void)state;
    assert_string_equal(fill(502, NULL, NULL).message, "PUT /apis/x: HTTP 502");
    assert_string_equal(fill(500, "{\"message\":7}", NULL).message, "PUT /apis/x: HTTP 500");
    assert_string_equal(fill(0, NULL, "Connection refused").message,
                        "PUT /apis/x: Connection refused");
}

static void success_needs_no_words(void **state)
{
    (void)state;
    struct kube_response r = fill(200, "{\"message\":\"x\",\"reason\":\"y\"}", NULL);
    assert_string_equal(r.message, "");
    assert_string_equal(r.reason, "");
}

static void hostile_texts_are_cut_and_made_printable(void **state)
{
    char body[2048] = "{\"reason\":\"";
    (void)state;
    memset(body + strlen(body), 'r', 500);
    (void)strcat(body, "\",\"message\":\"a\\nb\\u0000");
    memset(body + strlen(body), 'm', 500);
    (void)strcat(body, "\"}");
    struct kube_response r = fill(500, body, NULL);
    assert_true(strlen(r.reason) < sizeof(r.reason));
    assert_null(strchr(r.message, '\n'));
    assert_true(strlen(r.message) < sizeof(r.message));
}

static void the_words_of_curl_are_passed_on_unless_they_may_hold_a_secret(void **state)
{
    static const struct {
        const char *said;
        int code;
        const char *shown;
    } rows[] = {
        {"Connection refused", CURLE_COULDNT_CONNECT, "Connection refused"},
        {"", CURLE_OPERATION_TIMEDOUT, "Timeout was reached"},
        {"Unsupported proxy scheme for 'foo://user:S3CRET@h'", CURLE_COULDNT_CONNECT,
         "the proxy's URL is not supported (not shown: it may hold a password)"},
        {"Unsupported proxy syntax in 'http://user:S3C", CURLE_COULDNT_RESOLVE_PROXY,
         "the proxy's URL is not supported (not shown: it may hold a password)"},
        {"what of 'http://user:S3CRET@h'?", CURLE_RECV_ERROR,
         "Failure when receiving data from the peer"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_string_equal(kube_status_failure(rows[i].said, rows[i].code), rows[i].shown);
    }
}

static void a_lost_answer_has_a_cause(void **state)
{
    static const struct {
        int code;
        enum kube_transport_error error;
    } rows[] = {
        {CURLE_OK, KUBE_TRANSPORT_OK},
        {CURLE_OPERATION_TIMEDOUT, KUBE_TRANSPORT_TIMEOUT},
        {CURLE_COULDNT_RESOLVE_HOST, KUBE_TRANSPORT_RESOLVE},
        {CURLE_COULDNT_CONNECT, KUBE_TRANSPORT_CONNECT},
        {CURLE_PEER_FAILED_VERIFICATION, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_CONNECT_ERROR, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_CERTPROBLEM, KUBE_TRANSPORT_TLS},
        {CURLE_GOT_NOTHING, KUBE_TRANSPORT_OTHER},
        {CURLE_RECV_ERROR, KUBE_TRANSPORT_OTHER},
        {CURLE_PARTIAL_FILE, KUBE_TRANSPORT_OTHER},
        {-1, KUBE_TRANSPORT_OTHER},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(kube_status_transport_error(rows[i].code), rows[i].error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_tells_what_to_do),
        cmocka_unit_test(an_answer_is_worth_what_it_says),
        cmocka_unit_test(message_of_the_server_is_passed_on),
        cmocka_unit_test(answer_without_a_message_names_the_request),
        cmocka_unit_test(success_needs_no_words),
        cmocka_unit_test(hostile_texts_are_cut_and_made_printable),
        cmocka_unit_test(a_lost_answer_has_a_cause),
        cmocka_unit_test(the_words_of_curl_are_passed_on_unless_they_may_hold_a_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
