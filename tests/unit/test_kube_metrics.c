/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_metrics.h"

#include "base/mem.h"
#include "tests/support/case.h"
#include "tests/unit/metrics_view.h"

#include <ev.h>

/* One that sends nothing. */
static struct kube_client *new_client(void)
{
    struct kube_conf conf = {.server = mem_strdup("http://127.0.0.1:1")};
    struct kube_client *client = NULL;
    assert_int_equal(kube_client_new(ev_default_loop(0), &conf, &client, NULL), 0);
    return client;
}

static void answer(struct kube_client *client, const char *verb, int http_status, int64_t took_ns)
{
    const struct kube_response response = {
        .http_status = http_status, .sent_at = {NS_PER_SEC}, .received_at = {NS_PER_SEC + took_ns}};
    kube_client_observe(client, verb, &response);
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
        {"DELETE", 404, "verb=\"DELETE\",code=\"404\""},
        {"WATCH", 504, "verb=\"WATCH\",code=\"504\""},
        {"GET", 0, "verb=\"GET\",code=\"none\""},
        {"GET", 418, "verb=\"GET\",code=\"other\""},
        {"GET", 599, "verb=\"GET\",code=\"other\""},
    };
    struct kube_client *client = new_client();
    struct metrics_page page;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        answer(client, rows[i].verb, rows[i].http_status, NS_PER_MS);
    }
    metrics_page_init(&page);
    kube_metrics_write(client, &page);
    view_check(&page);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char sample[128];
        bool is_other = strstr(rows[i].sample, "other") != NULL;
        (void)snprintf(sample, sizeof(sample), "api_requests_total{%s}", rows[i].sample);
        assert_true(view_value(&page, sample) == (is_other ? 2 : 1));
    }
    assert_true(view_sum(&page, "api_requests_total") == ARRAY_LEN(rows));
    assert_true(view_sum(&page, "api_request_duration_seconds_count") == ARRAY_LEN(rows));
    metrics_page_fini(&page);
    kube_client_free(client);
}

TEST(durations_are_kept_apart_by_verb)
{
    struct kube_client *client = new_client();
    struct metrics_page page;
    answer(client, "GET", 200, 3 * NS_PER_MS);
    answer(client, "PUT", 200, 2 * NS_PER_SEC);
    answer(client, "PUT", 0, 20 * NS_PER_SEC);
    metrics_page_init(&page);
    kube_metrics_write(client, &page);
    assert_true(view_value(&page, "api_request_duration_seconds_sum{verb=\"GET\"}") == 0.003);
    assert_true(view_value(&page, "api_request_duration_seconds_sum{verb=\"PUT\"}") == 22);
    assert_true(view_value(&page, "api_request_duration_seconds_bucket{verb=\"PUT\",le=\"5\"}") ==
                1);
    assert_false(view_has(&page, "api_request_duration_seconds_count{verb=\"DELETE\"}"));
    metrics_page_fini(&page);
    kube_client_free(client);
}

TEST(any_codes_make_no_more_series_than_there_are_places)
{
    struct kube_client *client = new_client();
    struct metrics_page page;
    size_t samples = 0;
    for (int status = 0; status < 1000; status++) {
        answer(client, "GET", status, 0);
    }
    metrics_page_init(&page);
    kube_metrics_write(client, &page);
    for (const char *at = buf_text(&page.text); (at = strstr(at, "api_requests_total{")); at++) {
        samples++;
    }
    assert_int_equal(samples, KUBE_METRICS_CODES);
    assert_true(view_sum(&page, "api_requests_total") == 1000);
    metrics_page_fini(&page);
    kube_client_free(client);
}

TEST(skew_is_shown_once_an_answer_had_a_date)
{
    static const char skew[] = "api_server_clock_skew_seconds";
    struct kube_client *client = new_client();
    struct metrics_page page;
    const struct kube_response dated = {.http_status = 200,
                                        .has_server_date = true,
                                        .server_date = {100 * NS_PER_SEC},
                                        .received_wall = {130 * NS_PER_SEC}};
    answer(client, "GET", 200, 0);
    metrics_page_init(&page);
    kube_metrics_write(client, &page);
    assert_false(view_has(&page, skew));
    metrics_page_fini(&page);
    kube_client_observe(client, "GET", &dated);
    answer(client, "GET", 0, 0); /* an answer that failed to come takes nothing back */
    metrics_page_init(&page);
    kube_metrics_write(client, &page);
    assert_true(view_value(&page, skew) == -30);
    metrics_page_fini(&page);
    kube_client_free(client);
}
