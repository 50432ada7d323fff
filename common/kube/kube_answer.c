/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_answer.h"

#include "base/json_text.h"
#include "base/text.h"

#include <curl/curl.h>
#include <string.h>

bool kube_is_not_found(const struct kube_response *response)
{
    return response->http_status == 404 && text_equal(response->reason, "NotFound");
}

bool kube_is_denied(const struct kube_response *response)
{
    const char *said = json_text_get(response->body, "message");
    const char *why =
        said ? strstr(said, " is forbidden: User ") : NULL; /* an authorizer's words */
    return response->http_status == 403 ||
           (response->http_status == 422 && why && strstr(why, " cannot "));
}

bool kube_is_unreachable(const struct kube_response *response)
{
    return response->transport_error == KUBE_TRANSPORT_CONNECT ||
           response->transport_error == KUBE_TRANSPORT_TLS;
}

const char *kube_object_uid(const json_t *object)
{
    const char *uid = json_text_get(json_object_get(object, "metadata"), "uid");
    return text_is_empty(uid) || strlen(uid) >= KUBE_UID_BYTES ? NULL : uid;
}

uint64_t kube_object_version(const json_t *object)
{
    uint64_t version;
    const char *text = json_text_get(json_object_get(object, "metadata"), "resourceVersion");
    return text && text_to_u64(text, strlen(text), &version, NULL) == 0 ? version : 0;
}

bool kube_may_be_servers_own(const struct kube_response *response)
{
    bool is_paced = response->http_status == 429 && response->retry_after_ns > 0;
    return response->transport_error == KUBE_TRANSPORT_OK && response->http_status != 0 &&
           response->outcome != KUBE_ANSWERED && !is_paced;
}

json_t *kube_list_find(const json_t *list, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(list, "items"), i, item)
    {
        if (text_equal(json_text_get(json_object_get(item, "metadata"), "name"), name)) {
            return item;
        }
    }
    return NULL;
}

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
                                        [KUBE_STRATEGIC_PATCH] = "PATCH"};
    return names[method];
}

enum kube_transport_error kube_status_transport_error(int curl_code)
{
    static const struct {
        enum kube_transport_error error;
        CURLcode codes[9]; /* 0 is none */
    } rows[] = {
        {KUBE_TRANSPORT_OK, {CURLE_WRITE_ERROR}}, /* ours: the answer is too large */
        {KUBE_TRANSPORT_TIMEOUT, {CURLE_OPERATION_TIMEDOUT}},
        {KUBE_TRANSPORT_RESOLVE, {CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY}},
        {KUBE_TRANSPORT_CONNECT, {CURLE_COULDNT_CONNECT, CURLE_PROXY}},
        {KUBE_TRANSPORT_TLS,
         {CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM,
          CURLE_SSL_CIPHER, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR,
          CURLE_SSL_INVALIDCERTSTATUS, CURLE_SSL_CLIENTCERT}},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t c = 0; c < ARRAY_LEN(rows[i].codes); c++) {
            if (curl_code == (int)rows[i].codes[c]) {
                return rows[i].error; /* CURLE_OK with the first */
            }
        }
    }
    return KUBE_TRANSPORT_OTHER;
}

/* curl quotes the URL of a proxy that it does not understand, and cuts it somewhere. */
const char *kube_status_failure(const char *said, int curl_code)
{
    if (strstr(said, "Unsupported proxy")) {
        return "the proxy's URL is not supported (not logged, because it may contain a password)";
    }
    return said[0] == '\0' || strchr(said, '@') ? curl_easy_strerror((CURLcode)curl_code) : said;
}

void kube_status_fill(struct kube_response *r, enum kube_method method, const char *path,
                      const char *failure)
{
    const char *said = json_text_get(r->body, "message");
    const char *reason = json_text_get(r->body, "reason");
    char detail[KUBE_MESSAGE_BYTES - 40]; /* leaves room for the status, or the verb */
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

/* ---- for the metrics page ---------------------------------------------------------------------
 */

#define REQUESTS  "dpu_heartbeat_api_requests_total"
#define DURATIONS "dpu_heartbeat_api_request_duration_seconds"

/* In the order of the counters. */
static const char *const verbs[KUBE_METRICS_VERBS] = {"GET", "POST", "PUT", "PATCH", "WATCH"};

static const char *const codes[KUBE_METRICS_CODES] = {
    "none", "200", "201", "202", "400", "401", "403", "404", "405", "409",
    "410",  "413", "415", "422", "429", "500", "502", "503", "504", "other"};

void kube_metrics_count(struct kube_metrics *m, const char *verb,
                        const struct kube_response *response)
{
    size_t v = 0;
    size_t c = 0;
    char code[16] = "none";
    if (response->http_status != 0) {
        text_format(code, sizeof(code), "%d", response->http_status);
    }
    while (v < KUBE_METRICS_VERBS - 1 && !text_equal(verbs[v], verb)) {
        v++;
    }
    while (c < KUBE_METRICS_CODES - 1 && !text_equal(codes[c], code)) {
        c++;
    }
    m->requests[v][c]++;
    metrics_histogram_observe(&m->durations[v],
                              mono_since(response->received_at, response->sent_at));
    if (response->has_server_date) {
        m->has_skew = true;
        m->skew_ns = wall_since(response->server_date, response->received_wall);
    }
}

static void write_requests(const struct kube_metrics *m, struct buf *page)
{
    metrics_family(page, REQUESTS, "counter",
                   "Requests to the API server by HTTP method (WATCH: an opened watch) and "
                   "status code (\"other\": an unusual one, \"none\": no answer).");
    for (size_t v = 0; v < KUBE_METRICS_VERBS; v++) {
        for (size_t c = 0; c < KUBE_METRICS_CODES; c++) {
            if (m->requests[v][c] > 0) {
                metrics_sample(page, REQUESTS, (double)m->requests[v][c], "verb=\"%s\",code=\"%s\"",
                               verbs[v], codes[c]);
            }
        }
    }
}

static void write_durations(const struct kube_metrics *m, struct buf *page)
{
    metrics_family(
        page, DURATIONS, "histogram",
        "Time from sending a request to its whole answer or failure; of a watch, until the API "
        "server accepts it.");
    for (size_t v = 0; v < KUBE_METRICS_VERBS; v++) {
        char labels[32];
        uint64_t count = 0;
        for (size_t c = 0; c < KUBE_METRICS_CODES; c++) {
            count += m->requests[v][c];
        }
        text_format(labels, sizeof(labels), "verb=\"%s\"", verbs[v]);
        if (count > 0) {
            metrics_histogram_write(page, DURATIONS, labels, &m->durations[v]);
        }
    }
}

void kube_metrics_write(const struct kube_metrics *m, struct buf *page)
{
    const struct metrics_row rows[] = {
        {"api_server_clock_skew_seconds", NULL, METRICS_SPAN, m->has_skew ? &m->skew_ns : NULL,
         "The API server's clock minus the agent's, by the Date of the last answer (whole "
         "seconds). No verdict depends on it."},
        {"api_requests_delayed_total", NULL, METRICS_COUNT, &m->delayed,
         "Requests that waited for the agent's own rate limit: 10 at once, then one per second. "
         "Renewals and the verdict's requests never wait."},
        {"api_connections_left_total", NULL, METRICS_COUNT, &m->left,
         "Connections that the agent gave up because the API server on them answered with an error "
         "that may be its own (5xx, 401, 403, 429 without Retry-After) or showed an old state."},
        {"api_credential_unusable", NULL, METRICS_FLAG, &m->is_credential_unusable,
         "1 while a kubeconfig, token, key or certificate on the disk cannot be used, so that the "
         "last good one stays in force. A restart of the agent would lose that."},
        {"api_credential_issued_timestamp_seconds", NULL, METRICS_SPAN,
         m->has_expiry ? &m->expiry.from.ns : NULL,
         "When the validity of the token or client certificate for the API server began; absent "
         "if it does not say."},
        {"api_credential_expiry_timestamp_seconds", NULL, METRICS_SPAN,
         m->has_expiry ? &m->expiry.until.ns : NULL, "When it expires; of both, the earlier one."},
    };
    write_requests(m, page);
    write_durations(m, page);
    metrics_rows(page, rows, ARRAY_LEN(rows));
}
