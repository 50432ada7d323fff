/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/host_page.h"

#include "tests/support/case.h"
#include "tests/unit/metrics_view.h"

#define AT(seconds) ((struct mono){(int64_t)((seconds)*1e9)})

/* What the page is made of. */
static struct readiness verdict;
static struct record_writer_stats record;
static struct lease_watch_stats watch;
static const struct kube_sync_stats keeper = {.written = 14};

static struct host_snapshot living(void)
{
    verdict = (struct readiness){.state = READINESS_READY,
                                 .admit = true,
                                 .reason = REASON_LEASE_RENEWED,
                                 .observed = AT(1000),
                                 .lease_until = AT(1040),
                                 .lease = {.duration_s = 40}};
    record = (struct record_writer_stats){.writes = 9, .is_current = true};
    watch = (struct lease_watch_stats){.confirmed = 0};
    return (struct host_snapshot){
        .now = AT(1005.5),
        .verdict = &verdict,
        .monitor = {.renewals = 7, .api_reachable = true},
        .record = &record,
        .watch = &watch,
        .keeper = &keeper,
    };
}

static void write_page(const struct host_snapshot *s, struct buf *page)
{
    buf_init(page, METRICS_PAGE_MAX_BYTES);
    host_metrics_write(s, page);
    view_check(page);
}

TEST_WITH(each_verdict_sets_its_own_place_of_ten, NULL, NULL)
{
    static const struct {
        enum readiness_state state;
        enum readiness_reason reason;
        bool admit;
        const char *sample;
    } rows[] = {
        {READINESS_READY, REASON_LEASE_RENEWED, true, "state=\"Ready\",reason=\"LeaseRenewed\""},
        {READINESS_READY, REASON_HEALTH_CHECK_DISABLED, true,
         "state=\"Ready\",reason=\"HealthCheckDisabled\""},
        {READINESS_NOT_READY, REASON_LEASE_EXPIRED, false,
         "state=\"NotReady\",reason=\"LeaseExpired\""},
        {READINESS_NOT_READY, REASON_LEASE_NOT_FOUND, false,
         "state=\"NotReady\",reason=\"LeaseNotFound\""},
        {READINESS_NOT_READY, REASON_LEASE_INVALID, false,
         "state=\"NotReady\",reason=\"LeaseInvalid\""},
        {READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, false,
         "state=\"NotReady\",reason=\"DPUReportedUnhealthy\""},
        {READINESS_NOT_READY, REASON_DPU_SHUTDOWN, false,
         "state=\"NotReady\",reason=\"DPUShutdown\""},
        {READINESS_UNKNOWN, REASON_AWAITING_FIRST_RENEWAL, false,
         "state=\"Unknown\",reason=\"AwaitingFirstRenewal\""},
        {READINESS_UNKNOWN, REASON_API_SERVER_UNREACHABLE, true,
         "state=\"Unknown\",reason=\"ApiServerUnreachable\""},
        {READINESS_UNKNOWN, REASON_API_SERVER_NOT_WRITING, true,
         "state=\"Unknown\",reason=\"ApiServerNotWriting\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf page;
        char sample[128];
        struct host_snapshot s = living();
        verdict.state = rows[i].state;
        verdict.reason = rows[i].reason;
        verdict.admit = rows[i].admit;
        s.monitor.changes[rows[i].reason] = 3;
        write_page(&s, &page);
        (void)snprintf(sample, sizeof(sample), "readiness{%s}", rows[i].sample);
        assert_true(view_value(&page, sample) == 1);
        assert_true(view_sum(&page, "readiness") == 1);
        assert_true(view_value(&page, "readiness_admit") == rows[i].admit);
        (void)snprintf(sample, sizeof(sample), "readiness_changes_total{%s}",
                       strstr(rows[i].sample, "reason="));
        assert_true(view_value(&page, sample) == 3);
        assert_true(view_sum(&page, "readiness_changes_total") == 3);
        buf_fini(&page);
    }
}

TEST(each_host_probe_has_one_word)
{
    struct buf page;
    struct host_snapshot s = living();
    verdict.host_probes = (struct readiness_host_probes){
        .count = 2,
        .each = {{.probe = "exec:\"a\"", .says = HOST_PROBE_FAILED}, {.probe = "netdev:p0"}}};
    write_page(&s, &page);
    assert_true(view_value(&page, "host_probe{probe=\"exec:\\\"a\\\"\",says=\"failed\"}") == 1);
    assert_true(view_value(&page, "host_probe{probe=\"netdev:p0\",says=\"none\"}") == 1);
    assert_true(view_value(&page, "host_probe{probe=\"netdev:p0\",says=\"well\"}") == 0);
    assert_true(view_sum(&page, "host_probe") == 2);
    buf_fini(&page);
}

TEST(marks_are_counted_by_their_outcome)
{
    struct buf page;
    struct host_snapshot s = living();
    watch.marks[CHAIN_TAKEN] = 4;
    watch.marks[CHAIN_DENIED] = 2;
    watch.may_not_write = true;
    write_page(&s, &page);
    assert_true(view_value(&page, "lease_marks_total{outcome=\"taken\"}") == 4);
    assert_true(view_value(&page, "lease_marks_total{outcome=\"denied\"}") == 2);
    assert_true(view_sum(&page, "lease_marks_total") == 6);
    assert_true(view_value(&page, "lease_write_forbidden") == 1);
    buf_fini(&page);
}

TEST(ages_are_counted_at_the_time_of_the_scrape)
{
    struct buf page;
    struct host_snapshot s = living();
    write_page(&s, &page);
    assert_true(view_value(&page, "last_renewal_age_seconds") == 5.5);
    assert_true(view_value(&page, "readiness_valid_seconds") == 34.5);
    assert_true(view_value(&page, "lease_duration_seconds") == 40);
    assert_true(view_value(&page, "renewals_observed_total") == 7);
    buf_fini(&page);
    s.now = AT(1050);
    write_page(&s, &page);
    assert_true(view_value(&page, "last_renewal_age_seconds") == 50);
    assert_true(view_value(&page, "readiness_valid_seconds") == -10);
    buf_fini(&page);
}

TEST(what_was_never_seen_has_no_sample)
{
    struct buf page;
    struct host_snapshot s = living();
    verdict.observed = (struct mono){0};
    verdict.lease_until = (struct mono){0};
    write_page(&s, &page);
    assert_false(view_has(&page, "last_renewal_age_seconds"));
    assert_false(view_has(&page, "readiness_valid_seconds"));
    assert_false(view_has(&page, "dpu_clock_skew_seconds"));
    buf_fini(&page);
    s.monitor.has_skew = true;
    s.monitor.skew_ns = -NS_PER_SEC / 4;
    write_page(&s, &page);
    assert_true(view_value(&page, "dpu_clock_skew_seconds") == -0.25);
    buf_fini(&page);
}

TEST(parts_that_are_off_have_no_families)
{
    struct buf page;
    struct host_snapshot s = living();
    s.watch = NULL;
    write_page(&s, &page);
    assert_false(view_has(&page, "renewals_observed_total"));
    assert_false(view_has(&page, "api_reachable"));
    assert_null(strstr(buf_text(&page), "_dra_"));
    assert_null(strstr(buf_text(&page), "_events_"));
    assert_null(strstr(buf_text(&page), "_condition_"));
    assert_true(view_value(&page, "record_writes_total") == 9);
    buf_fini(&page);
}

TEST(each_counter_has_its_own_sample)
{
    static const struct {
        const char *sample;
        double value;
    } rows[] = {
        {"confirming_reads_total{result=\"answered\"}", 11},
        {"confirming_reads_total{result=\"failed\"}", 12},
        {"watches_opened_total", 13},
        {"lease_polling", 1},
        {"lease_repairs_total", 14},
        {"api_reachable", 0},
        {"api_outage_seconds_total", 1.5},
        {"record_write_failures_total", 15},
        {"dra_registered", 1},
        {"dra_registrations_total", 21},
        {"dra_registration_failures_total", 22},
        {"dra_health_streams", 23},
        {"dra_health_reports_total", 24},
        {"dra_claims_prepared_total", 25},
        {"dra_claim_failures_total", 26},
        {"dra_claims_unprepared_total", 27},
        {"dra_slice_published", 1},
        {"dra_slice_updates_total", 28},
        {"dra_slice_failures_total", 29},
        {"events_total{result=\"created\"}", 31},
        {"events_total{result=\"suppressed\"}", 33},
        {"events_total{result=\"failed\"}", 34},
        {"node_condition_writes_total{result=\"written\"}", 41},
        {"node_condition_writes_total{result=\"failed\"}", 42},
    };
    struct buf page;
    struct host_snapshot s = living();
    watch = (struct lease_watch_stats){
        .confirmed = 11, .confirm_failed = 12, .watches = 13, .is_polling = true};
    s.monitor.api_reachable = false;
    s.monitor.outage_ns = 1500 * NS_PER_MS;
    record.failures = 15;
    s.has_dra = true;
    s.dra = (struct dra_stats){.is_registered = true,
                               .is_slice_published = true,
                               .registrations = 21,
                               .rejections = 22,
                               .health_streams = 23,
                               .health_reports = 24,
                               .claims_prepared = 25,
                               .claim_failures = 26,
                               .claims_unprepared = 27,
                               .slice_writes = 28,
                               .slice_failures = 29};
    s.events = &(struct event_stats){.created = 31, .suppressed = 33, .failed = 34};
    s.condition = &(struct kube_sync_stats){.written = 41, .failed = 42};
    write_page(&s, &page);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_true(view_value(&page, rows[i].sample) == rows[i].value);
    }
    buf_fini(&page);
}
