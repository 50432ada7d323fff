/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle finds each wrong that it is there for, and none where there is none. */
#include "tests/sim/oracle.h"
#include "tests/support/case.h"

#define SEC INT64_C(1000000000)

/* Interval 10 s, duration 40 s. */
struct world {
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

static void write_lease(struct world *w, const char *who, json_t *lease)
{
    oracle_lease(w->oracle, w->truth.now, who, w->lease, lease);
    json_decref(w->lease);
    w->lease = lease;
}

static void renew(struct world *w)
{
    write_lease(w, "dpu", make_lease(++w->stamp, NULL));
}

static void read_record(struct world *w, bool admits)
{
    struct record_read record = {.state = "Ready",
                                 .reason = "LeaseRenewed",
                                 .boot_id = "boot",
                                 .dpu_boot_id = "first",
                                 .hold_until_ns = INT64_MAX};
    oracle_look(w->oracle, &w->truth);
    oracle_check(w->oracle, &w->truth, &record, admits);
    w->oracle->last_admitted = admits;
}

/* A second at a time; the DPU renews each tenth if it is to. */
static void pass(struct world *w, int seconds, bool renews, bool admits)
{
    for (int i = 0; i < seconds; i++) {
        w->truth.now += SEC;
        w->truth.host_boot_ns += SEC;
        if (renews && w->truth.now / SEC % 10 == 0) {
            renew(w);
            w->truth.now += SEC / 2;
        }
        read_record(w, admits);
        w->truth.now = w->truth.now / SEC * SEC;
    }
}

static void begin(struct world *w)
{
    const struct oracle_config config = {
        .interval_ns = 10 * SEC, .duration_ns = 40 * SEC, .stale_hold_ns = 300 * SEC};
    *w = (struct world){.oracle = oracle_new(&config)};
    w->truth = (struct oracle_truth){.now = 1000 * SEC,
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
    assert_non_null(w->oracle);
    renew(w);
    w->truth.now += SEC;
    renew(w);
    pass(w, 200, true, true);
    assert_string_equal(w->oracle->failure, "");
}

static void clear(struct world *w)
{
    json_decref(w->lease);
    oracle_free(w->oracle);
}

WORLD(begin, clear)

/* What came of it; and all begins anew. */
static void expect(struct world *w, const char *rule)
{
    assert_string_equal(w->oracle->rule, rule);
    world_renew(w);
}

TEST_IN(a_broken_watch_is_no_excuse_and_a_host_that_is_cut_off_is_one)
{
    w->truth.dpu_runs = false;
    w->truth.host_watches = false;
    w->truth.api_serves_watches = false;
    pass(w, 120, false, true);
    expect(w, "late");
    for (int after_s = 40; after_s <= 120; after_s += 80) {
        w->truth.dpu_runs = false;
        w->truth.host_link = false;
        pass(w, 120, false, true);
        w->truth.host_link = true;
        pass(w, after_s, false, true);
        expect(w, after_s == 40 ? "" : "late");
    }
}

TEST_IN(answers_that_are_lost_excuse_one_retry_more)
{
    for (int lost_s = 90; lost_s <= 100; lost_s += 10) {
        w->truth.dpu_runs = false;
        w->truth.api_tells = false;
        pass(w, lost_s, false, true);
        w->truth.api_tells = true;
        expect(w, lost_s == 90 ? "" : "late");
    }
}

TEST_IN(a_denial_beside_a_server_that_fails_counts_anew)
{
    for (int fails = 0; fails <= 1; fails++) {
        w->truth.dpu_runs = false;
        w->truth.api_forbids = true;
        pass(w, 60, false, true);
        w->truth.api_server_fails = fails;
        pass(w, 1, false, true);
        w->truth.api_server_fails = false;
        pass(w, 100, false, true);
        w->truth.api_forbids = false;
        expect(w, fails ? "" : "late");
    }
}

TEST_IN(a_shorter_duration_on_the_lease_ends_sooner)
{
    for (int duration_s = 20; duration_s <= 80; duration_s += 60) {
        json_t *lease = make_lease(w->stamp + 1, NULL);
        json_object_set_new(json_object_get(lease, "spec"), "leaseDurationSeconds",
                            json_integer(duration_s));
        write_lease(w, "dpu", lease);
        w->truth.dpu_runs = false;
        pass(w, 20, false, true);
        pass(w, 1, false, false);
        expect(w, duration_s == 20 ? "" : "early");
    }
}

TEST_IN(after_an_outage_a_dpu_gets_the_time_of_a_retry_and_no_more)
{
    for (int after_s = 33; after_s <= 43; after_s += 10) {
        w->truth.dpu_runs = false;
        w->truth.api_up = false;
        pass(w, 60, false, true);
        w->truth.api_up = true;
        pass(w, after_s, false, true);
        pass(w, 1, false, false);
        expect(w, after_s < 38 ? "hold" : "");
    }
}

TEST_IN(a_report_ends_with_the_duration_on_the_lease)
{
    for (int duration_s = 20; duration_s <= 80; duration_s += 60) {
        for (int i = 0; i < 2; i++) {
            w->truth.now += 10 * SEC;
            json_t *lease = make_lease(++w->stamp, "unhealthy");
            json_object_set_new(json_object_get(lease, "spec"), "leaseDurationSeconds",
                                json_integer(duration_s));
            write_lease(w, "dpu", lease);
        }
        pass(w, 12, false, false); /* 22 s after the report */
        pass(w, 1, false, true);
        expect(w, duration_s == 20 ? "" : "report");
    }
}

TEST_IN(a_host_that_finds_no_record_begins_anew)
{
    for (int has_record = 0; has_record <= 1; has_record++) {
        oracle_started(w->oracle, w->truth.now, true, has_record);
        pass(w, 1, false, false);
        expect(w, has_record ? "regular" : "");
    }
}

TEST_IN(a_host_probe_refuses_at_once_and_nobody_else_in_its_name)
{
    w->truth.is_calm = false;
    w->truth.host_probe_accuses = true;
    pass(w, 300, true, false); /* a living DPU, too */
    w->truth.host_probe_accuses = false;
    pass(w, 60, true, true);
    expect(w, "");
    w->truth.is_calm = false;
    w->truth.host_probe_accuses = true;
    pass(w, 3, true, true);
    expect(w, "host probe");
    w->truth.is_calm = false;
    w->truth.host_probe_accuses = true;
    w->truth.host_runs = false; /* nobody can look */
    pass(w, 30, true, true);
    expect(w, "");
    (void)snprintf(w->oracle->reason, sizeof(w->oracle->reason), "HostProbeFailed");
    pass(w, 1, true, false);
    expect(w, "host probe");
}

TEST_IN(all_is_well_again_some_time)
{
    w->truth.dpu_runs = false;
    w->truth.is_calm = false;
    pass(w, 39, false, true);
    pass(w, 20, false, false);
    w->truth.dpu_runs = true;
    w->truth.is_calm = true;
    w->truth.host_watches = false; /* else "early" says so sooner */
    pass(w, 200, false, false);
    expect(w, "back");
}

TEST_IN(the_host_writes_no_renewal_and_no_storm)
{
    write_lease(w, "host", make_lease(500, NULL));
    expect(w, "forged");
    for (int i = 0; i < 1000; i++) {
        w->truth.now += SEC / 10;
        oracle_request(w->oracle, w->truth.now, "host", "GET");
    }
    expect(w, "requests");
    for (int i = 0; i < 1000; i++) {
        w->truth.now += SEC * 2;
        oracle_request(w->oracle, w->truth.now, "host", "GET");
    }
    expect(w, "");
}

TEST_IN(a_reboot_is_told_once_and_nothing_else_is)
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
        struct record_read pages[2] = {{.state = "Ready"}, {.state = "Ready"}};
        w->truth.dpu_boot_id = "second";
        oracle_look(w->oracle, &w->truth);
        w->truth.dpu_boot_id = "third";
        oracle_look(w->oracle, &w->truth);
        for (size_t k = 0; k < 2; k++) {
            struct record_read *page = &pages[k];
            (void)snprintf(page->dpu_boot_id, sizeof(page->dpu_boot_id), "%s", rows[i].ids[k]);
            (void)snprintf(page->dpu_reboot_time, sizeof(page->dpu_reboot_time), "%s",
                           rows[i].times[k]);
        }
        oracle_check_boot(w->oracle, &w->truth, &pages[0], &pages[1]);
        expect(w, rows[i].rule);
    }
}

TEST_IN(only_within_a_second_may_two_reboots_have_one_stamp)
{
    static const char *const ids[] = {"first", "second", "third"};
    static const struct {
        int64_t apart_ns;
        const char *rule;
    } rows[] = {{SEC / 2, ""}, {2 * SEC, "reboot"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct record_read pages[3] = {{.state = "Ready"}, {.state = "Ready"}, {.state = "Ready"}};
        for (size_t k = 0; k < 3; k++) {
            (void)snprintf(pages[k].dpu_boot_id, sizeof(pages[k].dpu_boot_id), "%s", ids[k]);
            (void)snprintf(pages[k].dpu_reboot_time, sizeof(pages[k].dpu_reboot_time), "%s",
                           k == 0 ? "10:00" : "11:00");
            w->truth.dpu_boot_id = ids[k];
            oracle_look(w->oracle, &w->truth);
        }
        oracle_check_boot(w->oracle, &w->truth, &pages[0], &pages[1]);
        w->truth.now += rows[i].apart_ns;
        oracle_check_boot(w->oracle, &w->truth, &pages[1], &pages[2]);
        expect(w, rows[i].rule);
    }
}

TEST_IN(a_reboot_may_have_the_stamp_of_the_last_where_the_clock_was_set)
{
    const struct record_read before = {.dpu_boot_id = "first", .dpu_reboot_time = "11:00"};
    const struct record_read now = {.dpu_boot_id = "second", .dpu_reboot_time = "11:00"};
    w->truth.dpu_boot_id = "second";
    oracle_look(w->oracle, &w->truth);
    oracle_clock(w->oracle, w->truth.now, true);
    oracle_check_boot(w->oracle, &w->truth, &before, &now);
    expect(w, "");
}

/* Where nobody can have seen that it is old. */
static void renew_old_state(struct world *w, int64_t after_ns)
{
    const struct record_read before = {.dpu_boot_id = "second", .dpu_reboot_time = "11:00"};
    const struct record_read now = {.dpu_boot_id = "first", .dpu_reboot_time = "12:00"};
    json_t *lease = make_lease(500, NULL);
    oracle_look(w->oracle, &w->truth);
    w->truth.dpu_boot_id = "second";
    oracle_look(w->oracle, &w->truth);
    json_object_set_new(json_object_get(json_object_get(lease, "metadata"), "annotations"),
                        "dpu.k8s.ovn.org/boot-id", json_string("first"));
    w->oracle->gone_at = w->truth.now;
    w->truth.now += after_ns;
    write_lease(w, "ovnkube", lease);
    oracle_check_boot(w->oracle, &w->truth, &before, &now);
}

TEST_IN(an_old_boot_that_ovnkube_renews_is_told_by_whoever_could_not_see_it)
{
    renew_old_state(w, 2 * SEC);
    expect(w, "");
    renew_old_state(w, 3 * SEC);
    expect(w, "reboot");
}

TEST_IN(a_reboot_does_not_go_unnoticed)
{
    w->truth.dpu_boot_id = "second";
    pass(w, 1, true, true);
    expect(w, "reboot");
}

TEST_IN(a_companion_renews_nothing)
{
    w->oracle->config.is_companion = true;
    write_lease(w, "ovnkube", make_lease(500, NULL));
    assert_string_equal(w->oracle->rule, "");
    write_lease(w, "dpu", make_lease(501, NULL));
    expect(w, "forged");
}

TEST_IN(a_page_is_legal_or_not)
{
    char page[4096];
    memset(page, ' ', sizeof(page));
    assert_false(oracle_read(w->oracle, &w->truth, page, sizeof(page)));
    expect(w, "illegal");
    w->truth.host_runs = false;
    w->oracle->was_ready = false;
    oracle_look(w->oracle, &w->truth);
    assert_true(oracle_read(w->oracle, &w->truth, NULL, 0));
    oracle_gate(w->oracle, &w->truth, false, "RecordMissing");
    expect(w, "");
    w->truth.host_runs = false;
    w->oracle->was_ready = false;
    oracle_look(w->oracle, &w->truth);
    assert_true(oracle_read(w->oracle, &w->truth, NULL, 0));
    oracle_gate(w->oracle, &w->truth, true, "LeaseRenewed");
    expect(w, "gate");
}

TEST_IN(a_record_may_be_torn_until_it_can_be_written_again)
{
    char page[4096];
    memset(page, ' ', sizeof(page));
    w->truth.host_writes = false;
    oracle_look(w->oracle, &w->truth);
    assert_true(oracle_read(w->oracle, &w->truth, page, sizeof(page)));
    oracle_gate(w->oracle, &w->truth, false, "RecordInvalid");
    expect(w, "");
    w->truth.host_writes = false;
    pass(w, 20, true, true);
    w->truth.host_writes = true;
    pass(w, 3, true, true); /* it is tried again each second */
    assert_false(oracle_read(w->oracle, &w->truth, page, sizeof(page)));
    expect(w, "illegal");
}

TEST_IN(a_host_that_cannot_write_is_blind_and_its_last_word_ends)
{
    w->truth.host_writes = false;
    pass(w, 200, false, true); /* the DPU is dead */
    w->truth.host_writes = true;
    pass(w, 30, false, true);
    pass(w, 30, false, false);
    expect(w, "");
    w->truth.host_writes = false;
    pass(w, 365, true, true);
    expect(w, "stale");
    w->truth.host_writes = false;
    pass(w, 200, false, true);
    w->truth.host_writes = true;
    pass(w, 60, false, true);
    expect(w, "late");
}
