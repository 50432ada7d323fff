/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle finds each wrong that it is there for, and none where there is none. */
#include "tests/sim/oracle.h"
#include "tests/support/case.h"

#define SEC INT64_C(1000000000)

/* Interval 10 s, duration 40 s. */
struct story {
    struct oracle *oracle;
    struct oracle_truth truth;
    json_t *lease;
    int stamp;
};

static json_t *make_lease(int stamp, const char *health)
{
    char text[64];
    json_t *lease =
        json_pack("{s:{s:s,s:{}},s:{s:s,s:i}}", "metadata", "uid", "uid-1", "annotations", "spec",
                  "holderIdentity", "ovnkube-dpu-node", "leaseDurationSeconds", 40);
    (void)snprintf(text, sizeof(text), "2026-01-01T00:%02d:%02d.000000Z", stamp / 60, stamp % 60);
    json_object_set_new(json_object_get(lease, "spec"), "renewTime", json_string(text));
    if (health) {
        json_object_set_new(json_object_get(json_object_get(lease, "metadata"), "annotations"),
                            "dpu.k8s.ovn.org/health", json_string(health));
    }
    return lease;
}

static void write_lease(struct story *s, const char *who, json_t *lease)
{
    oracle_lease(s->oracle, s->truth.now, who, s->lease, lease);
    json_decref(s->lease);
    s->lease = lease;
}

static void renew(struct story *s)
{
    write_lease(s, "dpu", make_lease(++s->stamp, NULL));
}

static void read_record(struct story *s, bool admits)
{
    struct record_read record = {.state = "Ready",
                                 .reason = "LeaseRenewed",
                                 .boot_id = "boot",
                                 .dpu_boot_id = "first",
                                 .hold_until_ns = INT64_MAX};
    oracle_look(s->oracle, &s->truth);
    oracle_check(s->oracle, &s->truth, &record, admits);
    s->oracle->last_admitted = admits;
}

/* A second at a time; the DPU renews each tenth if it is to. */
static void pass(struct story *s, int seconds, bool renews, bool admits)
{
    for (int i = 0; i < seconds; i++) {
        s->truth.now += SEC;
        s->truth.host_boot_ns += SEC;
        if (renews && s->truth.now / SEC % 10 == 0) {
            renew(s);
            s->truth.now += SEC / 2;
        }
        read_record(s, admits);
        s->truth.now = s->truth.now / SEC * SEC;
    }
}

static void begin(struct story *s)
{
    const struct oracle_config config = {
        .interval_ns = 10 * SEC, .duration_ns = 40 * SEC, .stale_hold_ns = 300 * SEC};
    *s = (struct story){.oracle = oracle_new(&config)};
    s->truth = (struct oracle_truth){.now = 1000 * SEC,
                                     .host_boot_ns = 500 * SEC,
                                     .host_boot_id = "boot",
                                     .dpu_boot_id = "first",
                                     .dpu_runs = true,
                                     .dpu_healthy = true,
                                     .dpu_link = true,
                                     .host_runs = true,
                                     .host_writes = true,
                                     .host_link = true,
                                     .host_watches = true,
                                     .api_up = true,
                                     .api_writes = true,
                                     .api_tells = true,
                                     .api_reads_well = true,
                                     .api_serves_watches = true,
                                     .is_calm = true};
    assert_non_null(s->oracle);
    renew(s);
    s->truth.now += SEC;
    renew(s);
    pass(s, 200, true, true);
    assert_string_equal(s->oracle->failure, "");
}

static void end(struct story *s, const char *rule)
{
    assert_string_equal(s->oracle->rule, rule);
    json_decref(s->lease);
    oracle_free(s->oracle);
}

TEST(a_dead_dpu_may_be_admitted_for_its_lease_and_no_longer)
{
    struct story s;
    begin(&s);
    s.truth.dpu_runs = false;
    pass(&s, 39, false, true);
    pass(&s, 100, false, false);
    end(&s, "");
    begin(&s);
    s.truth.dpu_runs = false;
    pass(&s, 60, false, true);
    end(&s, "late");
}

TEST(a_broken_watch_is_no_excuse_and_a_host_that_is_cut_off_is_one)
{
    struct story s;
    begin(&s);
    s.truth.dpu_runs = false;
    s.truth.host_watches = false;
    s.truth.api_serves_watches = false;
    pass(&s, 120, false, true);
    end(&s, "late");
    begin(&s);
    s.truth.dpu_runs = false;
    s.truth.host_link = false;
    pass(&s, 120, false, true);
    s.truth.host_link = true;
    pass(&s, 40, false, true);
    end(&s, "");
    begin(&s);
    s.truth.dpu_runs = false;
    s.truth.host_link = false;
    pass(&s, 120, false, true);
    s.truth.host_link = true;
    pass(&s, 120, false, true);
    end(&s, "late");
}

TEST(a_visible_renewal_admits)
{
    struct story s;
    begin(&s);
    s.oracle->was_ready = false;
    pass(&s, 1, false, false);
    end(&s, "early");
}

TEST(a_shorter_duration_on_the_lease_ends_sooner)
{
    for (int duration_s = 20; duration_s <= 80; duration_s += 60) {
        struct story s;
        begin(&s);
        json_t *lease = make_lease(s.stamp + 1, NULL);
        json_object_set_new(json_object_get(lease, "spec"), "leaseDurationSeconds",
                            json_integer(duration_s));
        write_lease(&s, "dpu", lease);
        s.truth.dpu_runs = false;
        pass(&s, 20, false, true);
        pass(&s, 1, false, false);
        end(&s, duration_s == 20 ? "" : "early");
    }
}

TEST(nobody_is_condemned_in_an_outage)
{
    struct story s;
    begin(&s);
    s.truth.api_up = false;
    s.truth.host_watches = false;
    pass(&s, 300, false, true);
    end(&s, "");
    begin(&s);
    s.truth.api_up = false;
    s.truth.host_watches = false;
    pass(&s, 100, false, true);
    pass(&s, 1, false, false);
    end(&s, "hold");
}

TEST(a_dpu_that_renews_unseen_is_not_condemned)
{
    struct story s;
    begin(&s);
    s.truth.host_runs = false;
    pass(&s, 100, true, true);
    pass(&s, 1, false, false);
    end(&s, "regular");
}

TEST(a_report_ends_with_the_duration_on_the_lease)
{
    for (int duration_s = 20; duration_s <= 80; duration_s += 60) {
        struct story s;
        begin(&s);
        for (int i = 0; i < 2; i++) {
            s.truth.now += 10 * SEC;
            json_t *lease = make_lease(++s.stamp, "unhealthy");
            json_object_set_new(json_object_get(lease, "spec"), "leaseDurationSeconds",
                                json_integer(duration_s));
            write_lease(&s, "dpu", lease);
        }
        pass(&s, 12, false, false); /* 22 s after the report */
        pass(&s, 1, false, true);
        end(&s, duration_s == 20 ? "" : "report");
    }
}

TEST(a_host_that_finds_no_record_begins_anew)
{
    for (int has_record = 0; has_record <= 1; has_record++) {
        struct story s;
        begin(&s);
        oracle_started(s.oracle, s.truth.now, true, has_record);
        pass(&s, 1, false, false);
        end(&s, has_record ? "regular" : "");
    }
}

TEST(a_report_refuses_at_once)
{
    struct story s;
    begin(&s);
    write_lease(&s, "dpu", make_lease(s.stamp, "unhealthy"));
    pass(&s, 3, false, false);
    end(&s, "");
    begin(&s);
    write_lease(&s, "dpu", make_lease(s.stamp, "unhealthy"));
    pass(&s, 3, false, true);
    end(&s, "report");
}

TEST(a_host_probe_refuses_at_once_and_nobody_else_in_its_name)
{
    struct story s;
    begin(&s);
    s.truth.is_calm = false;
    s.truth.host_probe_accuses = true;
    pass(&s, 300, true, false); /* a living DPU, too */
    s.truth.host_probe_accuses = false;
    pass(&s, 60, true, true);
    end(&s, "");
    begin(&s);
    s.truth.is_calm = false;
    s.truth.host_probe_accuses = true;
    pass(&s, 3, true, true);
    end(&s, "host probe");
    begin(&s);
    s.truth.is_calm = false;
    s.truth.host_probe_accuses = true;
    s.truth.host_runs = false; /* nobody can look */
    pass(&s, 30, true, true);
    end(&s, "");
    begin(&s);
    (void)snprintf(s.oracle->reason, sizeof(s.oracle->reason), "HostProbeFailed");
    pass(&s, 1, true, false);
    end(&s, "host probe");
}

TEST(all_is_well_again_some_time)
{
    struct story s;
    begin(&s);
    s.truth.dpu_runs = false;
    s.truth.is_calm = false;
    pass(&s, 39, false, true);
    pass(&s, 20, false, false);
    s.truth.dpu_runs = true;
    s.truth.is_calm = true;
    s.truth.host_watches = false; /* else "early" says so sooner */
    pass(&s, 200, false, false);
    end(&s, "back");
}

TEST(the_host_writes_no_renewal_and_no_storm)
{
    struct story s;
    begin(&s);
    write_lease(&s, "host", make_lease(500, NULL));
    end(&s, "forged");
    begin(&s);
    for (int i = 0; i < 1000; i++) {
        s.truth.now += SEC / 10;
        oracle_request(s.oracle, s.truth.now, "host", "GET");
    }
    end(&s, "requests");
    begin(&s);
    for (int i = 0; i < 1000; i++) {
        s.truth.now += SEC * 2;
        oracle_request(s.oracle, s.truth.now, "host", "GET");
    }
    end(&s, "");
}

TEST_WITH(a_reboot_is_told_once_and_nothing_else_is, NULL, NULL)
{
    static const struct {
        const char *ids[2];
        const char *times[2];
        const char *rule;
    } rows[] = {{{"first", "second"}, {"", "12:00"}, ""},
                {{"first", "third"}, {"11:00", "12:00"}, ""},
                {{"", "second"}, {"", ""}, ""},
                {{"second", "second"}, {"12:00", ""}, ""},
                {{"first", "second"}, {"11:00", "11:00"}, "reboot"},
                {{"second", "second"}, {"11:00", "12:00"}, "reboot"},
                {{"second", "first"}, {"11:00", "12:00"}, "reboot"},
                {{"first", "never"}, {"11:00", "12:00"}, "reboot"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct story s;
        struct record_read pages[2] = {{.state = "Ready"}, {.state = "Ready"}};
        begin(&s);
        s.truth.dpu_boot_id = "second";
        oracle_look(s.oracle, &s.truth);
        s.truth.dpu_boot_id = "third";
        oracle_look(s.oracle, &s.truth);
        for (size_t k = 0; k < 2; k++) {
            struct record_read *page = &pages[k];
            (void)snprintf(page->dpu_boot_id, sizeof(page->dpu_boot_id), "%s", rows[i].ids[k]);
            (void)snprintf(page->dpu_reboot_time, sizeof(page->dpu_reboot_time), "%s",
                           rows[i].times[k]);
        }
        oracle_check_boot(s.oracle, &s.truth, &pages[0], &pages[1]);
        end(&s, rows[i].rule);
    }
}

TEST(a_reboot_does_not_go_unnoticed)
{
    struct story s;
    begin(&s);
    s.truth.dpu_boot_id = "second";
    pass(&s, 1, true, true);
    end(&s, "reboot");
}

TEST(a_companion_renews_nothing)
{
    struct story s;
    begin(&s);
    s.oracle->config.is_companion = true;
    write_lease(&s, "ovnkube", make_lease(500, NULL));
    assert_string_equal(s.oracle->rule, "");
    write_lease(&s, "dpu", make_lease(501, NULL));
    end(&s, "forged");
}

TEST(a_page_is_legal_or_not)
{
    struct story s;
    char page[4096];
    memset(page, ' ', sizeof(page));
    begin(&s);
    assert_false(oracle_read(s.oracle, &s.truth, page, sizeof(page)));
    end(&s, "illegal");
    begin(&s);
    s.truth.host_runs = false;
    s.oracle->was_ready = false;
    oracle_look(s.oracle, &s.truth);
    assert_true(oracle_read(s.oracle, &s.truth, NULL, 0));
    oracle_gate(s.oracle, &s.truth, false, "RecordMissing");
    end(&s, "");
    begin(&s);
    s.truth.host_runs = false;
    s.oracle->was_ready = false;
    oracle_look(s.oracle, &s.truth);
    assert_true(oracle_read(s.oracle, &s.truth, NULL, 0));
    oracle_gate(s.oracle, &s.truth, true, "LeaseRenewed");
    end(&s, "gate");
}

TEST(a_record_may_be_torn_until_it_can_be_written_again)
{
    struct story s;
    char page[4096];
    memset(page, ' ', sizeof(page));
    begin(&s);
    s.truth.host_writes = false;
    oracle_look(s.oracle, &s.truth);
    assert_true(oracle_read(s.oracle, &s.truth, page, sizeof(page)));
    oracle_gate(s.oracle, &s.truth, false, "RecordInvalid");
    end(&s, "");
    begin(&s);
    s.truth.host_writes = false;
    pass(&s, 20, true, true);
    s.truth.host_writes = true;
    pass(&s, 3, true, true); /* it is tried again each second */
    assert_false(oracle_read(s.oracle, &s.truth, page, sizeof(page)));
    end(&s, "illegal");
}

TEST(a_host_that_cannot_write_is_blind_and_its_last_word_ends)
{
    struct story s;
    begin(&s);
    s.truth.host_writes = false;
    pass(&s, 200, false, true); /* the DPU is dead */
    s.truth.host_writes = true;
    pass(&s, 30, false, true);
    pass(&s, 30, false, false);
    end(&s, "");
    begin(&s);
    s.truth.host_writes = false;
    pass(&s, 365, true, true);
    end(&s, "stale");
    begin(&s);
    s.truth.host_writes = false;
    pass(&s, 200, false, true);
    s.truth.host_writes = true;
    pass(&s, 60, false, true);
    end(&s, "late");
}
