/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_metrics.h"

#include "base/attr.h"
#include "base/text.h"

#include <stddef.h>

#define REQUESTS  "dpu_heartbeat_api_requests_total"
#define DURATIONS "dpu_heartbeat_api_request_duration_seconds"

/* In the order of the counters. A watch counts when it is accepted or refused. */
static const char *const verbs[KUBE_METRICS_VERBS] = {"GET",   "POST",   "PUT",
                                                      "PATCH", "DELETE", "WATCH"};

enum { CODE_NONE, CODE_OTHER, CODES_NAMED };

/* From index CODES_NAMED on. */
static const int codes[KUBE_METRICS_CODES - CODES_NAMED] = {
    200, 201, 202, 400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504};

static size_t verb_index(const char *verb)
{
    size_t i = 0;
    while (i < KUBE_METRICS_VERBS - 1 && !text_equal(verbs[i], verb)) {
        i++;
    }
    return i;
}

static size_t code_index(int http_status)
{
    if (http_status == 0) {
        return CODE_NONE;
    }
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        if (codes[i] == http_status) {
            return CODES_NAMED + i;
        }
    }
    return CODE_OTHER;
}

void kube_metrics_count(struct kube_metrics *m, const char *verb,
                        const struct kube_response *response)
{
    size_t v = verb_index(verb);
    m->requests[v][code_index(response->http_status)]++;
    metrics_histogram_observe(&m->durations[v],
                              mono_since(response->received_at, response->sent_at));
    if (response->has_server_date) {
        m->has_skew = true;
        m->skew_ns = wall_since(response->server_date, response->received_wall);
    }
}

static bool is_used(const struct kube_metrics *m, size_t verb)
{
    uint64_t sum = 0;
    for (size_t c = 0; c < KUBE_METRICS_CODES; c++) {
        sum += m->requests[verb][c];
    }
    return sum > 0;
}

static void write_requests(const struct kube_metrics *m, struct metrics_page *page)
{
    char labels[64];
    metrics_family(page, REQUESTS, "counter",
                   "Requests to the API server by HTTP method (WATCH for an opened watch) and "
                   "status code; \"other\": one that is in no fixed set, \"none\": no answer.");
    for (size_t v = 0; v < KUBE_METRICS_VERBS; v++) {
        for (size_t c = 0; c < KUBE_METRICS_CODES; c++) {
            char number[16] = "none";
            if (c == CODE_OTHER) {
                text_format(number, sizeof(number), "%s", "other");
            } else if (c >= CODES_NAMED) {
                text_format(number, sizeof(number), "%d", codes[c - CODES_NAMED]);
            }
            text_format(labels, sizeof(labels), "verb=\"%s\",code=\"%s\"", verbs[v], number);
            if (m->requests[v][c] > 0) {
                metrics_sample_u64(page, REQUESTS, labels, m->requests[v][c]);
            }
        }
    }
}

void kube_metrics_write(const struct kube_client *client, struct metrics_page *page)
{
    const struct kube_metrics *metrics = kube_client_metrics(client);
    struct view {
        bool has_skew;
        bool has_expiry;
        int64_t skew_ns;
        uint64_t delayed;
        int64_t from_ns;
        int64_t until_ns;
    };
    static const struct metrics_row rows[] = {
        {"api_server_clock_skew_seconds", NULL, METRICS_SPAN, offsetof(struct view, skew_ns),
         offsetof(struct view, has_skew),
         "The API server's clock minus ours, by its last answer's Date, which has whole seconds. "
         "Judges nothing."},
        {"api_requests_delayed_total", NULL, METRICS_COUNT, offsetof(struct view, delayed),
         METRICS_ALWAYS,
         "Requests that waited because this agent had sent too many: 10 at once, then one per "
         "second. A renewal and the read that confirms a deadline never wait."},
        {"api_credential_issued_timestamp_seconds", NULL, METRICS_SPAN,
         offsetof(struct view, from_ns), offsetof(struct view, has_expiry),
         "From when on the token or client certificate for the API server holds; absent if it does "
         "not say."},
        {"api_credential_expiry_timestamp_seconds", NULL, METRICS_SPAN,
         offsetof(struct view, until_ns), offsetof(struct view, has_expiry),
         "Until when it holds; of both, the one that runs out first."},
    };
    char labels[32];
    struct kube_expiry expiry = {.from = {0}};
    struct view view = {.has_skew = metrics->has_skew,
                        .has_expiry = kube_client_expiry(client, &expiry),
                        .skew_ns = metrics->skew_ns,
                        .delayed = kube_client_delayed(client)};
    view.from_ns = expiry.from.ns;
    view.until_ns = expiry.until.ns;
    write_requests(metrics, page);
    metrics_family(
        page, DURATIONS, "histogram",
        "From sending a request to its whole answer, or to its failure; of a watch until "
        "it is accepted.");
    for (size_t v = 0; v < KUBE_METRICS_VERBS; v++) {
        text_format(labels, sizeof(labels), "verb=\"%s\"", verbs[v]);
        if (is_used(metrics, v)) {
            metrics_histogram_write(page, DURATIONS, labels, &metrics->durations[v]);
        }
    }
    metrics_rows(page, rows, ARRAY_LEN(rows), &view);
}
