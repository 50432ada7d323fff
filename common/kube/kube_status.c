/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_status.h"

#include "base/json_text.h"
#include "base/text.h"

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

enum kube_loss kube_status_loss(int curl_code)
{
    static const struct {
        CURLcode code;
        enum kube_loss loss;
    } rows[] = {
        {CURLE_OK, KUBE_LOSS_NONE},
        {CURLE_WRITE_ERROR, KUBE_LOSS_NONE}, /* ours: the answer is too large */
        {CURLE_OPERATION_TIMEDOUT, KUBE_LOSS_TIMEOUT},
        {CURLE_COULDNT_RESOLVE_HOST, KUBE_LOSS_RESOLVE},
        {CURLE_COULDNT_RESOLVE_PROXY, KUBE_LOSS_RESOLVE},
        {CURLE_COULDNT_CONNECT, KUBE_LOSS_CONNECT},
        {CURLE_PROXY, KUBE_LOSS_CONNECT},
        {CURLE_SSL_CONNECT_ERROR, KUBE_LOSS_TLS},
        {CURLE_PEER_FAILED_VERIFICATION, KUBE_LOSS_TLS},
        {CURLE_SSL_CERTPROBLEM, KUBE_LOSS_TLS},
        {CURLE_SSL_CIPHER, KUBE_LOSS_TLS},
        {CURLE_SSL_CACERT_BADFILE, KUBE_LOSS_TLS},
        {CURLE_SSL_ISSUER_ERROR, KUBE_LOSS_TLS},
        {CURLE_SSL_INVALIDCERTSTATUS, KUBE_LOSS_TLS},
        {CURLE_SSL_CLIENTCERT, KUBE_LOSS_TLS},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if ((int)rows[i].code == curl_code) {
            return rows[i].loss;
        }
    }
    return KUBE_LOSS_OTHER;
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
