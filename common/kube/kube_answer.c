/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_answer.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <curl/curl.h>
#include <string.h>

int kube_status_code(int http_status)
{
    if (http_status >= 200 && http_status < 300) {
        return 0;
    }
    switch (http_status) {
    case 401:
    case 403:
        return ERR_AUTH;
    case 404:
        return ERR_NOTFOUND;
    case 409:
        return ERR_CONFLICT;
    case 410:
        return ERR_GONE;
    case 429:
        return ERR_RETRY;
    default:
        /* 5xx may pass; any other 3xx or 4xx says that the request itself is wrong. */
        return http_status == 0 || http_status >= 500 ? ERR_RETRY : ERR_PARSE;
    }
}

enum kube_outcome kube_status_outcome(int http_status, bool is_json, size_t body_len,
                                      const json_t *body)
{
    if (kube_status_code(http_status) == 0) {
        return json_is_object(body)      ? KUBE_ANSWERED
               : is_json && body_len > 0 ? KUBE_UNREADABLE
                                         : KUBE_NO_CONTACT;
    }
    bool is_fact =
        http_status == 404 || http_status == 409 || http_status == 410 || http_status == 422;
    return is_fact && text_equal(json_text_get(body, "kind"), "Status") ? KUBE_ANSWERED
                                                                        : KUBE_NO_CONTACT;
}

const char *kube_status_verb(enum kube_method method)
{
    static const char *const names[] = {[KUBE_GET] = "GET",
                                        [KUBE_POST] = "POST",
                                        [KUBE_PUT] = "PUT",
                                        [KUBE_MERGE_PATCH] = "PATCH",
                                        [KUBE_STRATEGIC_PATCH] = "PATCH",
                                        [KUBE_DELETE] = "DELETE"};
    return names[method];
}

enum kube_transport_error kube_status_transport_error(int curl_code)
{
    static const struct {
        CURLcode code;
        enum kube_transport_error error;
    } rows[] = {
        {CURLE_OK, KUBE_TRANSPORT_OK},
        {CURLE_WRITE_ERROR, KUBE_TRANSPORT_OK}, /* ours: the answer is too large */
        {CURLE_OPERATION_TIMEDOUT, KUBE_TRANSPORT_TIMEOUT},
        {CURLE_COULDNT_RESOLVE_HOST, KUBE_TRANSPORT_RESOLVE},
        {CURLE_COULDNT_RESOLVE_PROXY, KUBE_TRANSPORT_RESOLVE},
        {CURLE_COULDNT_CONNECT, KUBE_TRANSPORT_CONNECT},
        {CURLE_PROXY, KUBE_TRANSPORT_CONNECT},
        {CURLE_SSL_CONNECT_ERROR, KUBE_TRANSPORT_TLS},
        {CURLE_PEER_FAILED_VERIFICATION, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_CERTPROBLEM, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_CIPHER, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_CACERT_BADFILE, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_ISSUER_ERROR, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_INVALIDCERTSTATUS, KUBE_TRANSPORT_TLS},
        {CURLE_SSL_CLIENTCERT, KUBE_TRANSPORT_TLS},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if ((int)rows[i].code == curl_code) {
            return rows[i].error;
        }
    }
    return KUBE_TRANSPORT_OTHER;
}

/* curl quotes the URL of a proxy that it does not understand, and cuts it somewhere. */
const char *kube_status_failure(const char *said, int curl_code)
{
    if (strstr(said, "Unsupported proxy")) {
        return "the proxy's URL is not supported (not shown: it may hold a password)";
    }
    return said[0] == '\0' || strchr(said, '@') ? curl_easy_strerror((CURLcode)curl_code) : said;
}

void kube_status_fill(struct kube_response *r, enum kube_method method, const char *path,
                      const char *failure)
{
    const char *said = json_text_get(r->body, "message");
    const char *reason = json_text_get(r->body, "reason");
    char detail[150]; /* leaves room for the verb, the path or the status */
    if (r->code == 0) {
        return;
    }
    if (reason) {
        text_sanitize(r->reason, sizeof(r->reason), reason, strlen(reason));
    }
    if (failure) {
        text_sanitize(detail, sizeof(detail), failure, strlen(failure));
        text_format(r->message, sizeof(r->message), "%s %s: %s", kube_status_verb(method), path,
                    detail);
    } else if (said) {
        text_sanitize(detail, sizeof(detail), said, strlen(said));
        text_format(r->message, sizeof(r->message), "HTTP %d: %s", r->http_status,
                    detail); /* the server names verb and object itself */
    } else {
        text_format(r->message, sizeof(r->message), "%s %s: HTTP %d", kube_status_verb(method),
                    path, r->http_status);
    }
}

/* ---- one that may come late ------------------------------------------------------------------ */

static struct kube_question_call *other_call(struct kube_question *q,
                                             const struct kube_question_call *call)
{
    return call == &q->calls[0] ? &q->calls[1] : &q->calls[0];
}

static void on_done(void *user, const struct kube_response *r)
{
    struct kube_question_call *call = user;
    struct kube_question *q = call->question;
    bool is_answer = r->outcome != KUBE_NO_CONTACT;
    call->call = NULL;
    if (call != q->awaited) {
        if (is_answer) {
            q->late(q->user, r);
        }
        return;
    }
    q->awaited = NULL;
    ev_timer_stop(q->loop, &q->due);
    if (is_answer) {
        kube_call_cancel(TAKE(other_call(q, call)->call));
    }
    q->done(q->user, r);
}

/* What is told of a request that was not answered in time. */
static struct kube_response no_answer(const struct kube_question *q)
{
    struct kube_response r = {.code = ERR_RETRY,
                              .transport_error = KUBE_TRANSPORT_TIMEOUT,
                              .retry_after_ms = -1,
                              .sent_at = q->asked_at,
                              .received_at = clock_mono_now(),
                              .received_wall = clock_wall_now()};
    char span[32];
    text_from_duration(mono_since(r.received_at, r.sent_at) / NS_PER_MS * NS_PER_MS, span,
                       sizeof(span));
    text_format(r.message, sizeof(r.message), "no answer within %s", span);
    return r;
}

static void on_due(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct kube_question *q = timer->data;
    struct kube_question_call *call = TAKE(q->awaited);
    struct kube_response r = no_answer(q);
    (void)loop;
    (void)events;
    if (other_call(q, call)->call) {
        kube_call_cancel(TAKE(call->call));
        kube_client_observe(q->client, kube_status_verb(q->method), &r);
    }
    q->done(q->user, &r);
}

void kube_question_init(struct kube_question *q, struct ev_loop *loop, struct kube_client *client,
                        kube_done_fn *done, kube_done_fn *late, void *user)
{
    *q = (struct kube_question){
        .loop = loop, .client = client, .done = done, .late = late, .user = user};
    q->calls[0].question = q;
    q->calls[1].question = q;
    ev_timer_init(&q->due, on_due, 0., 0.);
    q->due.data = q;
}

int kube_question_ask(struct kube_question *q, const struct kube_request *request, uint32_t due_ms,
                      struct err *e)
{
    struct kube_question_call *call = q->calls[0].call ? &q->calls[1] : &q->calls[0];
    struct kube_request awaited = *request;
    assert(!q->awaited && !call->call);
    awaited.awaited_ms = due_ms;
    int rc = kube_client_start(q->client, &awaited, on_done, call, &call->call, e);
    if (rc != 0) {
        return rc;
    }
    q->awaited = call;
    q->method = request->method;
    q->asked_at = clock_mono_now();
    ev_now_update(q->loop); /* the loop's time may be old after a long callback */
    ev_timer_set(&q->due, (double)due_ms / 1e3, 0.);
    ev_timer_start(q->loop, &q->due);
    return 0;
}

bool kube_question_is_awaited(const struct kube_question *q)
{
    return q->awaited;
}

void kube_question_drop(struct kube_question *q)
{
    ev_timer_stop(q->loop, &q->due);
    q->awaited = NULL;
    kube_call_cancel(TAKE(q->calls[0].call));
    kube_call_cancel(TAKE(q->calls[1].call));
}
