/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/metrics.h"

#include "base/time.h"
#include "tests/support/case.h"

TEST(family_and_samples_are_written_in_exposition_format)
{
    struct buf page = {.max_bytes = METRICS_PAGE_MAX_BYTES};
    metrics_family(&page, "x_total", "counter", "Things.");
    metrics_sample(&page, "x_total", 123456789012345, "kind=\"%s\"", "a");
    metrics_sample(&page, "x_total", 0.5, "%s", "");
    assert_string_equal(buf_text(&page), "# HELP x_total Things.\n# TYPE x_total counter\n"
                                         "x_total{kind=\"a\"} 123456789012345\n"
                                         "x_total 0.5\n");
    buf_fini(&page);
}

TEST(histogram_buckets_are_cumulative_and_end_in_infinity)
{
    struct buf page = {.max_bytes = METRICS_PAGE_MAX_BYTES};
    struct metrics_histogram h = {0};
    metrics_histogram_observe(&h, 0);
    metrics_histogram_observe(&h, 1 * NS_PER_MS); /* the bound itself belongs to its bucket */
    metrics_histogram_observe(&h, 3 * NS_PER_MS);
    metrics_histogram_observe(&h, 60 * NS_PER_SEC);
    metrics_histogram_write(&page, "d_seconds", "verb=\"get\"", &h);
    const char *text = buf_text(&page);
    assert_non_null(strstr(text, "d_seconds_bucket{verb=\"get\",le=\"0.001\"} 2\n"));
    assert_non_null(strstr(text, "d_seconds_bucket{verb=\"get\",le=\"0.005\"} 3\n"));
    assert_non_null(strstr(text, "d_seconds_bucket{verb=\"get\",le=\"10\"} 3\n"));
    assert_non_null(strstr(text, "d_seconds_bucket{verb=\"get\",le=\"+Inf\"} 4\n"));
    assert_non_null(strstr(text, "d_seconds_count{verb=\"get\"} 4\n"));
    assert_non_null(strstr(text, "d_seconds_sum{verb=\"get\"} 60.004\n"));
    buf_fini(&page);
}

TEST(process_metrics_describe_this_process)
{
    struct buf page = {.max_bytes = METRICS_PAGE_MAX_BYTES};
    metrics_common(&page);
    const char *text = buf_text(&page);
    assert_non_null(strstr(text, "dpu_heartbeat_build_info{version=\"" DPU_VERSION "\"} 1\n"));
    assert_non_null(strstr(text, "\nprocess_open_fds "));
    assert_null(strstr(text, "\nprocess_resident_memory_bytes 0\n"));
    assert_null(strstr(text, "\nprocess_start_time_seconds 0\n"));
    static const char name[] = "\nprocess_start_time_seconds ";
    const char *value = strstr(text, name) + sizeof(name) - 1;
    const char *dot = memchr(value, '.', strcspn(value, "\n"));
    /* Finer than the kernel's tick it would tell how long two clocks took to read. */
    assert_true(!dot || strcspn(dot + 1, "\n") <= 2);
    buf_fini(&page);
}
