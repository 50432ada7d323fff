/* SPDX-License-Identifier: Apache-2.0 */
#include "host-agent/host_page.h"

#include "base/text.h"
#include "tests/support/case.h"
#include "tests/unit/metrics_view.h"

#define AT(seconds) ((struct mono){(int64_t)((seconds)*1e9)})

/* What the page is made of, and the page. */
struct world {
    struct host_snapshot s;
    struct readiness verdict;
    struct record_writer_stats record;
    struct lease_watch_stats watch;
    struct kube_sync_stats keeper;
    struct buf page;
};

static void up(struct world *w)
{
    w->verdict = (struct readiness){.state = READINESS_READY,
                                    .admit = true,
                                    .reason = REASON_LEASE_RENEWED,
                                    .observed = AT(1000),
                                    .lease_until = AT(1040),
                                    .lease = {.duration_s = 40}};
    w->record = (struct record_writer_stats){.writes = 9, .is_current = true};
    w->s = (struct host_snapshot){
        .now = AT(1005.5),
        .verdict = &w->verdict,
        .monitor = {.renewals = 7, .api_reachable = true},
        .record = &w->record,
        .watch = &w->watch,
        .keeper = &w->keeper,
    };
}

static void down(struct world *w)
{
    buf_fini(&w->page);
}

WORLD(up, down)

static void write_page(struct world *w)
{
    buf_fini(&w->page);
    w->page = (struct buf){.max_bytes = METRICS_PAGE_MAX_BYTES};
    host_metrics_write(&w->s, &w->page);
    view_check(&w->page);
}

static void expect(const struct world *w, const char *sample, double value)
{
    if (view_value(&w->page, sample) != value) {
        fail_msg("%s is %g, not %g", sample, view_value(&w->page, sample), value);
    }
}

TEST_IN(each_verdict_sets_its_own_place)
{
    for (enum readiness_reason r = 0; r < REASON_RECORD_MISSING; r++) {
        char labels[128];
        char sample[256];
        w->verdict.state = readiness_reason_traits(r)->state;
        w->verdict.reason = r;
        w->verdict.admit = r % 2 == 0;
        memset(w->s.monitor.changes, 0, sizeof(w->s.monitor.changes));
        w->s.monitor.changes[r] = 3;
        write_page(w);
        text_format(labels, sizeof(labels), "reason=\"%s\"}", readiness_reason_name(r));
        text_format(sample, sizeof(sample), "readiness{state=\"%s\",%s",
                    readiness_state_name(w->verdict.state), labels);
        expect(w, sample, 1);
        assert_true(view_sum(&w->page, "readiness") == 1);
        expect(w, "readiness_admit", w->verdict.admit);
        text_format(sample, sizeof(sample), "readiness_changes_total{%s", labels);
        expect(w, sample, 3);
        assert_true(view_sum(&w->page, "readiness_changes_total") == 3);
    }
}

TEST_IN(each_host_probe_has_one_word)
{
    w->verdict.host_probes = (struct readiness_host_probes){
        .count = 2,
        .each = {{.probe = "exec:\"a\"", .says = HOST_PROBE_FAILED}, {.probe = "netdev:p0"}}};
    write_page(w);
    expect(w, "host_probe{probe=\"exec:\\\"a\\\"\",says=\"failed\"}", 1);
    expect(w, "host_probe{probe=\"netdev:p0\",says=\"none\"}", 1);
    expect(w, "host_probe{probe=\"netdev:p0\",says=\"well\"}", 0);
    assert_true(view_sum(&w->page, "host_probe") == 2);
}

TEST_IN(ages_are_counted_at_the_time_of_the_scrape)
{
    write_page(w);
    expect(w, "last_renewal_age_seconds", 5.5);
    expect(w, "readiness_valid_seconds", 34.5);
    expect(w, "lease_duration_seconds", 40);
    expect(w, "renewals_observed_total", 7);
    w->s.now = AT(1050);
    write_page(w);
    expect(w, "last_renewal_age_seconds", 50);
    expect(w, "readiness_valid_seconds", -10);
}

TEST_IN(what_was_never_seen_has_no_sample)
{
    w->verdict.observed = (struct mono){0};
    w->verdict.lease_until = (struct mono){0};
    write_page(w);
    assert_false(view_has(&w->page, "last_renewal_age_seconds"));
    assert_false(view_has(&w->page, "readiness_valid_seconds"));
    assert_false(view_has(&w->page, "dpu_clock_skew_seconds"));
    w->s.monitor.has_skew = true;
    w->s.monitor.skew_ns = -NS_PER_SEC / 4;
    write_page(w);
    expect(w, "dpu_clock_skew_seconds", -0.25);
}

TEST_IN(parts_that_are_off_have_no_families)
{
    w->s.watch = NULL;
    write_page(w);
    assert_false(view_has(&w->page, "renewals_observed_total"));
    assert_false(view_has(&w->page, "api_reachable"));
    assert_null(strstr(buf_text(&w->page), "_events_"));
    assert_null(strstr(buf_text(&w->page), "_condition_"));
    expect(w, "record_writes_total", 9);
}

TEST_IN(each_counter_has_its_own_sample)
{
    static const struct {
        const char *sample;
        double value;
    } rows[] = {
        {"confirming_reads_total{result=\"answered\"}", 11},
        {"confirming_reads_total{result=\"failed\"}", 12},
        {"lease_marks_total{outcome=\"taken\"}", 4},
        {"lease_marks_total{outcome=\"denied\"}", 2},
        {"lease_write_forbidden", 1},
        {"watches_opened_total", 13},
        {"lease_polling", 1},
        {"lease_repairs_total", 14},
        {"api_reachable", 0},
        {"api_outage_seconds_total", 1.5},
        {"record_write_failures_total", 15},
        {"events_total{result=\"created\"}", 31},
        {"events_total{result=\"suppressed\"}", 33},
        {"events_total{result=\"failed\"}", 34},
        {"node_condition_writes_total{result=\"written\"}", 41},
        {"node_condition_writes_total{result=\"failed\"}", 42},
    };
    w->watch = (struct lease_watch_stats){
        .confirmed = 11,
        .confirm_failed = 12,
        .marks = {[MARK_TAKEN] = 4, [MARK_DENIED] = 2},
        .may_not_write = true,
        .watches = 13,
        .is_polling = true,
    };
    w->keeper.written = 14;
    w->s.monitor.api_reachable = false;
    w->s.monitor.outage_ns = 1500 * NS_PER_MS;
    w->record.failures = 15;
    w->s.events = &(struct event_stats){.created = 31, .suppressed = 33, .failed = 34};
    w->s.condition = &(struct kube_sync_stats){.written = 41, .failed = 42};
    write_page(w);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        expect(w, rows[i].sample, rows[i].value);
    }
    assert_true(view_sum(&w->page, "lease_marks_total") == 6);
}
