/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_answer.h"

#include "tests/support/case.h"
#include "tests/unit/loop_world.h"

#include <curl/curl.h>

enum { DUE_MS = 5000, LASTS_MS = 30000, TOLD_MAX = 4 };

#define DUE_NS (DUE_MS * NS_PER_MS)

static struct {
    struct kube_question question;
    struct kube_response told[TOLD_MAX];
    int count;
    int late;
} t;

static void on_done(void *user, const struct kube_response *r)
{
    assert_ptr_equal(user, &t);
    assert_false(kube_question_is_awaited(&t.question));
    t.told[t.count++ % TOLD_MAX] = *r;
}

static void on_late(void *user, const struct kube_response *r)
{
    assert_ptr_equal(user, &t);
    assert_int_equal(r->http_status, 200);
    t.late++;
}

static void ask(void)
{
    const struct kube_request request = {
        .method = KUBE_PUT, .channel = KUBE_FRESH, .path = "/x", .deadline_ms = LASTS_MS};
    assert_int_equal(kube_question_ask(&t.question, &request, DUE_MS, NULL), 0);
    assert_true(kube_question_is_awaited(&t.question));
    assert_int_equal(world.client.deadline_ms, LASTS_MS);
}

static void start(void)
{
    memset(&t, 0, sizeof(t));
    loop_world_start();
    world.client.may_be_fresh = true;
    kube_question_init(&t.question, LOOP_WORLD, &world.client, on_done, on_late, &t);
    ask();
}

static void stop(void)
{
    kube_question_drop(&t.question);
    assert_true(!world.client.calls[0].client && !world.client.calls[1].client);
    assert_true(loop_world_wait_ns() < 0);
}

static void answer(struct kube_call *call, int http_status)
{
    struct kube_response r = loop_world_response(http_status, NULL);
    client_answer_call(call, &r);
}

TEST(an_answer_in_time_is_all)
{
    start();
    loop_world_pass(DUE_NS - 1);
    answer(world.client.newest, 200);
    assert_int_equal(t.told[0].http_status, 200);
    loop_world_pass(DUE_NS);
    assert_int_equal(t.count, 1);
    stop();
}

TEST(what_is_not_answered_in_time_goes_on_beside_the_next)
{
    start();
    struct mono asked = world.now;
    loop_world_pass(DUE_NS);
    assert_int_equal(t.told[0].transport_error, KUBE_TRANSPORT_TIMEOUT);
    assert_int_equal(t.told[0].outcome, KUBE_NO_CONTACT);
    assert_int_equal(t.told[0].code, ERR_RETRY);
    assert_int_equal(t.told[0].sent_at.ns, asked.ns);
    assert_string_equal(t.told[0].message, "no answer within 5s");
    ask();
    answer(&world.client.calls[0], 200);
    assert_int_equal(t.late, 1);
    assert_int_equal(t.count, 1);
    answer(&world.client.calls[1], 200); /* it is waited for still */
    assert_int_equal(t.count, 2);
    stop();
}

TEST(there_is_one_late_one_the_oldest)
{
    start();
    for (int i = 1; i < 4; i++) {
        loop_world_pass(DUE_NS);
        assert_int_equal(t.count, i);
        assert_non_null(world.client.calls[0].client);
        assert_null(world.client.calls[1].client);
        ask();
    }
    answer(&world.client.calls[0], 200);
    assert_int_equal(t.late, 1);
    stop();
}

TEST(an_answer_ends_the_late_one_and_a_failure_does_not)
{
    static const struct {
        int http_status;
        bool is_left;
    } rows[] = {{200, false}, {409, false}, {404, false}, {0, true}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        start();
        loop_world_pass(DUE_NS);
        ask();
        answer(&world.client.calls[1], rows[i].http_status);
        assert_int_equal(t.count, 2);
        assert_true((world.client.calls[0].client != NULL) == rows[i].is_left);
        stop();
        assert_int_equal(t.late, 0);
    }
}

TEST(a_late_failure_is_no_news)
{
    start();
    loop_world_pass(DUE_NS);
    answer(&world.client.calls[0], 0);
    assert_int_equal(t.late, 0);
    assert_int_equal(t.count, 1);
    ask();
    loop_world_pass(DUE_NS);
    answer(&world.client.calls[0], 200); /* there is room for a late one again */
    assert_int_equal(t.late, 1);
    stop();
}

TEST(one_that_cannot_start_is_none)
{
    const struct kube_request request = {.path = "/x"};
    start();
    loop_world_pass(DUE_NS);
    world.client.refuses = true;
    assert_int_not_equal(kube_question_ask(&t.question, &request, DUE_MS, NULL), 0);
    assert_false(kube_question_is_awaited(&t.question));
    loop_world_pass(DUE_NS);
    assert_int_equal(t.count, 1);
    stop();
}

/* ---- what an answer means -------------------------------------------------------------------- */

TEST(status_tells_what_to_do)
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
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(kube_status_code(rows[i].http), rows[i].code);
    }
}

TEST(an_answer_is_worth_what_it_says)
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

TEST(message_of_the_server_is_passed_on)
{
    struct kube_response r =
        fill(403, "{\"reason\":\"Forbidden\",\"message\":\"User \\\"u\\\" cannot update\"}", NULL);
    assert_string_equal(r.reason, "Forbidden");
    assert_string_equal(r.message, "HTTP 403: User \"u\" cannot update");
}

TEST(answer_without_a_message_names_the_request)
{
    assert_string_equal(fill(502, NULL, NULL).message, "PUT /apis/x: HTTP 502");
    assert_string_equal(fill(500, "{\"message\":7}", NULL).message, "PUT /apis/x: HTTP 500");
    assert_string_equal(fill(0, NULL, "Connection refused").message,
                        "PUT /apis/x: Connection refused");
}

TEST(success_needs_no_words)
{
    struct kube_response r = fill(200, "{\"message\":\"x\",\"reason\":\"y\"}", NULL);
    assert_string_equal(r.message, "");
    assert_string_equal(r.reason, "");
}

TEST(hostile_texts_are_cut_and_made_printable)
{
    char body[2048] = "{\"reason\":\"";
    memset(body + strlen(body), 'r', 500);
    (void)strcat(body, "\",\"message\":\"a\\nb\\u0000");
    memset(body + strlen(body), 'm', 500);
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
         "the proxy's URL is not supported (not shown: it may hold a password)"},
        {"Unsupported proxy syntax in 'http://user:S3C", CURLE_COULDNT_RESOLVE_PROXY,
         "the proxy's URL is not supported (not shown: it may hold a password)"},
        {"what of 'http://user:S3CRET@h'?", CURLE_RECV_ERROR,
         "Failure when receiving data from the peer"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_string_equal(kube_status_failure(rows[i].said, rows[i].code), rows[i].shown);
    }
}

TEST(a_lost_answer_has_a_cause)
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
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(kube_status_transport_error(rows[i].code), rows[i].error);
    }
}
