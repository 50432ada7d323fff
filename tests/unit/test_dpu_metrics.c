/* SPDX-License-Identifier: Apache-2.0 */
#include "dpu-agent/dpu_metrics.h"

#include "tests/support/case.h"
#include "tests/unit/metrics_view.h"

#define AT(seconds) ((struct mono){(int64_t)((seconds)*1e9)})

static void write_page(const struct probe_state *v, const struct lease_writer_stats *lease,
                       struct buf *page)
{
    *page = (struct buf){.max_bytes = METRICS_PAGE_MAX_BYTES};
    dpu_metrics_write(v, lease, AT(103), page);
    view_check(page);
}

TEST_WITH(renewals_and_failures_are_counted, NULL, NULL)
{
    static const char *const causes[LEASE_FAILURES] = {
        "no_answer", "timeout",   "resolve",  "connect",   "tls",          "unauthorized",
        "forbidden", "not_found", "conflict", "throttled", "server_error", "other",
    };
    const struct probe_state verdict = {.state = PROBE_HEALTHY};
    struct lease_writer_stats lease = {
        .renewals = 5, .retries = 6, .renewed_at = AT(100), .interval_ns = 10 * NS_PER_SEC};
    struct buf page;
    for (size_t i = 0; i < LEASE_FAILURES; i++) {
        lease.failures[i] = 40 + i;
    }
    metrics_histogram_observe(&lease.durations, 4 * NS_PER_MS);
    write_page(&verdict, &lease, &page);
    assert_true(view_value(&page, "lease_renewals_total") == 5);
    assert_true(view_value(&page, "lease_renewal_retries_total") == 6);
    assert_true(view_value(&page, "last_renewal_age_seconds") == 3);
    assert_true(view_value(&page, "lease_renew_interval_seconds") == 10);
    assert_true(view_value(&page, "lease_renewal_duration_seconds_count") == 1);
    assert_true(view_value(&page, "lease_renewal_duration_seconds_sum") == 0.004);
    for (size_t i = 0; i < LEASE_FAILURES; i++) {
        char sample[128];
        (void)snprintf(sample, sizeof(sample), "lease_renewal_failures_total{cause=\"%s\"}",
                       causes[i]);
        assert_true(view_value(&page, sample) == (double)(40 + i));
    }
    buf_fini(&page);
}

TEST_WITH(what_was_never_done_has_no_sample, NULL, NULL)
{
    const struct probe_state verdict = {.state = PROBE_HEALTH_UNKNOWN};
    const struct lease_writer_stats lease = {.renewals = 0};
    struct buf page;
    write_page(&verdict, &lease, &page);
    assert_false(view_has(&page, "last_renewal_age_seconds"));
    assert_false(view_has(&page, "dpu_healthy"));
    assert_null(strstr(buf_text(&page), "_probe_"));
    assert_true(view_value(&page, "lease_renewals_total") == 0);
    assert_true(view_value(&page, "probes") == 0);
    buf_fini(&page);
    write_page(&verdict, NULL, &page); /* the health check is disabled */
    assert_int_equal(page.len, 0);
    buf_fini(&page);
}

TEST_WITH(probes_alike_in_name_are_kept_apart, NULL, NULL)
{
    const struct probe_state verdict = {
        .state = PROBE_UNHEALTHY,
        .probe_count = 3,
        .probes = {{.name = "exec:test \"$A\" \\x",
                    .ran = true,
                    .failing = true,
                    .runs = {[PROBE_PASSED] = 1, [PROBE_SILENT] = 2},
                    .last_ns = NS_PER_SEC / 2},
                   {.name = "exec:true", .ran = true, .runs = {[PROBE_PASSED] = 3}},
                   {.name = "exec:true"}}};
    struct buf page;
    write_page(&verdict, NULL, &page);
    assert_true(view_value(&page, "dpu_healthy") == 0);
    assert_true(view_value(&page,
                           "probe_runs_total{probe=\"exec:test \\\"$A\\\" \\\\x\",index=\"0\","
                           "result=\"silent\"}") == 2);
    assert_true(
        view_value(&page, "probe_success{probe=\"exec:test \\\"$A\\\" \\\\x\",index=\"0\"}") == 0);
    assert_true(
        view_value(&page,
                   "probe_duration_seconds{probe=\"exec:test \\\"$A\\\" \\\\x\",index=\"0\"}") ==
        0.5);
    assert_true(view_value(&page, "probe_success{probe=\"exec:true\",index=\"1\"}") == 1);
    assert_false(view_has(&page, "probe_success{probe=\"exec:true\",index=\"2\"}"));
    assert_true(view_sum(&page, "probe_runs_total") == 6);
    buf_fini(&page);
}

TEST_WITH(longest_names_fit_and_are_one_line_each, NULL, NULL)
{
    struct probe_state verdict = {.state = PROBE_HEALTHY, .probe_count = PROBES_MAX};
    struct buf page;
    for (size_t i = 0; i < PROBES_MAX; i++) {
        memset(verdict.probes[i].name, i % 2 ? '"' : '\n', PROBE_NAME_BYTES - 1);
        verdict.probes[i].ran = true;
    }
    write_page(&verdict, NULL, &page);
    assert_true(view_sum(&page, "probe_success") == PROBES_MAX);
    buf_fini(&page);
}
