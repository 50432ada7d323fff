/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/record.h"

#include "base/text.h"
#include "tests/support/case.h"

#define BOOT        "8a7c1f00-1111-2222-3333-444455556666"
#define PATH        "/run/x/readiness.json"
#define NS(seconds) (INT64_C(1000000000) * (seconds))
#define S(seconds)  ((struct mono){NS(seconds)})

/* Renewed at 1000 s: the lease runs out at 1040; promised until 1015, held until 1340. */
static struct record sample(void)
{
    return (struct record){
        .node = "worker-1",
        .readiness = {.state = READINESS_READY,
                      .admit = true,
                      .reason = REASON_LEASE_RENEWED,
                      .message = "the DPU renews its lease",
                      .observed = S(1000),
                      .lease_until = S(1040),
                      .transition = {NS(1795166084)},
                      .lease = {.ns = "ovn-kubernetes",
                                .name = "ovn-dpu-worker-1",
                                .renew_stamp = "2026-11-20T10:00:00.000000Z"}},
        .boot_id = BOOT,
        .written = {NS(1795169000)},
        .writer_until = S(1015),
        .hold_until = S(1340),
        .pid = 4711,
    };
}

static struct gate_decision judge(const struct record *r, struct mono now)
{
    struct gate_decision decision;
    gate_judge(r, BOOT, now, PATH, &decision);
    return decision;
}

enum outcome { PASS, HELD, FAIL };

static void assert_outcome(const struct gate_decision *d, enum outcome outcome,
                           enum readiness_reason reason)
{
    assert_int_equal(d->admit, outcome != FAIL);
    assert_int_equal(d->reason, reason);
    assert_int_equal(d->note[0] != '\0', outcome == HELD);
    assert_int_equal(d->message[0] != '\0', outcome == FAIL);
    assert_non_null(strstr(d->details, PATH));
    assert_non_null(strstr(d->details, readiness_reason_name(reason)));
}

TEST(each_instant_has_its_answer)
{
    static const struct {
        const char *name;
        int64_t now_ns, writer_s;
        enum outcome outcome;
        enum readiness_reason reason;
    } rows[] = {
        {"fresh", NS(1001), 1015, PASS, REASON_LEASE_RENEWED},
        {"at the observation", NS(1000), 1015, PASS, REASON_LEASE_RENEWED},
        {"a little before it", NS(999), 1015, PASS, REASON_LEASE_RENEWED},
        {"more than a second before it", NS(999) - 1, 1015, FAIL, REASON_RECORD_INVALID},
        {"writer alive to the last", NS(1015) - 1, 1015, PASS, REASON_LEASE_RENEWED},
        {"at the writer's deadline", NS(1015), 1015, HELD, REASON_LEASE_RENEWED},
        {"the lease runs out: its writer alone tells", NS(1040), 1055, PASS, REASON_LEASE_RENEWED},
        {"later, too", NS(1055) - 1, 1055, PASS, REASON_LEASE_RENEWED},
        {"the lease ran out, writer dead", NS(1055), 1055, HELD, REASON_LEASE_RENEWED},
        {"a nanosecond before the end of the hold", NS(1340) - 1, 1015, HELD, REASON_LEASE_RENEWED},
        {"at the end of the hold", NS(1340), 1015, FAIL, REASON_RECORD_STALE},
        {"long after", INT64_MAX, 1015, FAIL, REASON_RECORD_STALE},
        {"boot", 0, 1015, FAIL, REASON_RECORD_INVALID},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct record r = sample();
        r.writer_until = S(rows[i].writer_s);
        struct gate_decision d = judge(&r, (struct mono){rows[i].now_ns});
        print_message("%s: %s%s\n", rows[i].name, d.message, d.note);
        assert_outcome(&d, rows[i].outcome, rows[i].reason);
    }
}

TEST(each_verdict_has_its_answer)
{
    static const struct {
        enum readiness_state state;
        bool admit;
        enum readiness_reason reason;
        enum outcome fresh;
    } rows[] = {
        {READINESS_READY, true, REASON_LEASE_RENEWED, PASS},
        {READINESS_READY, true, REASON_HEALTH_CHECK_DISABLED, PASS},
        {READINESS_NOT_READY, false, REASON_LEASE_EXPIRED, FAIL},
        {READINESS_NOT_READY, false, REASON_LEASE_NOT_FOUND, FAIL},
        {READINESS_NOT_READY, false, REASON_LEASE_INVALID, FAIL},
        {READINESS_NOT_READY, false, REASON_DPU_REPORTED_UNHEALTHY, FAIL},
        {READINESS_NOT_READY, false, REASON_DPU_SHUTDOWN, FAIL},
        {READINESS_UNKNOWN, false, REASON_AWAITING_FIRST_RENEWAL, FAIL},
        {READINESS_UNKNOWN, true, REASON_API_SERVER_UNREACHABLE, PASS},
        {READINESS_UNKNOWN, false, REASON_API_SERVER_UNREACHABLE, FAIL},
        /* Contradictions: the stricter half counts. */
        {READINESS_NOT_READY, true, REASON_LEASE_EXPIRED, FAIL},
        {READINESS_READY, false, REASON_LEASE_RENEWED, FAIL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct record r = sample();
        r.readiness.state = rows[i].state;
        r.readiness.admit = rows[i].admit;
        r.readiness.reason = rows[i].reason;
        struct gate_decision d = judge(&r, S(1001));
        assert_outcome(&d, rows[i].fresh, rows[i].reason);
        if (rows[i].fresh == FAIL) {
            assert_string_equal(d.message, r.readiness.message);
            /* At any age, in the same words. */
            static const int64_t ages_s[] = {1039, 1040, 1200, 1340, 100000};
            for (size_t a = 0; a < ARRAY_LEN(ages_s); a++) {
                d = judge(&r, S(ages_s[a]));
                assert_outcome(&d, FAIL, rows[i].reason);
                assert_string_equal(d.message, r.readiness.message);
            }
        }
    }
}

TEST(the_status_is_that_of_cni)
{
    static const struct {
        bool admit;
        enum readiness_reason reason;
        int code;
    } rows[] = {{true, REASON_LEASE_RENEWED, 0},
                {false, REASON_LEASE_EXPIRED, 50},
                {false, REASON_RECORD_MISSING, 50},
                {false, REASON_POD_NETWORK_LOST, 51}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct gate_decision d = {.admit = rows[i].admit, .reason = rows[i].reason};
        assert_int_equal(gate_status_code(&d), rows[i].code);
    }
}

TEST(record_of_another_boot_counts_for_nothing)
{
    static const char *const ids[] = {"", "8a7c1f00-1111-2222-3333-444455556667"};
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        struct record r = sample();
        (void)text_copy(r.boot_id, sizeof(r.boot_id), ids[i]);
        struct gate_decision d = judge(&r, S(1001));
        assert_outcome(&d, FAIL, REASON_RECORD_INVALID);
        assert_non_null(strstr(d.message, "since this host booted"));
    }
}

TEST(refusals_say_what_to_do)
{
    struct record r = sample();
    struct gate_decision d;
    d = judge(&r, S(2000));
    assert_non_null(strstr(d.message, "dpu-host-agent last wrote at 2026-11-20T10:03:20Z"));
    assert_non_null(strstr(d.message, "systemctl status dpu-host-agent"));
    gate_refuse(REASON_RECORD_MISSING, "", PATH, &d);
    assert_outcome(&d, FAIL, REASON_RECORD_MISSING);
    assert_non_null(strstr(d.message, "systemctl status dpu-host-agent"));
    assert_non_null(strstr(d.message, PATH));
    gate_refuse(REASON_RECORD_INVALID, "it is torn: remove it", PATH, &d);
    assert_outcome(&d, FAIL, REASON_RECORD_INVALID);
    assert_non_null(strstr(d.message, "it is torn: remove it"));
}

/* The kubelet compares texts: what differs at each call writes the Node at each of its looks. */
TEST(the_same_verdict_gives_the_same_bytes)
{
    static const struct {
        const char *name;
        enum readiness_state state;
        enum readiness_reason reason;
        int64_t writer_s;
        int64_t from_s, to_s;
    } rows[] = {
        {"dead for long", READINESS_NOT_READY, REASON_LEASE_EXPIRED, 1015, 1041, 900000},
        {"unhealthy", READINESS_NOT_READY, REASON_DPU_REPORTED_UNHEALTHY, 1015, 1001, 5000},
        {"awaited", READINESS_UNKNOWN, REASON_AWAITING_FIRST_RENEWAL, 1015, 1001, 5000},
        {"run out while the agent is busy", READINESS_READY, REASON_LEASE_RENEWED, 1055, 1041,
         1054},
        {"held", READINESS_READY, REASON_LEASE_RENEWED, 1015, 1041, 1339},
        {"stale", READINESS_READY, REASON_LEASE_RENEWED, 1015, 1340, 900000},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct record r = sample();
        r.readiness.state = rows[i].state;
        r.readiness.admit = rows[i].state == READINESS_READY;
        r.readiness.reason = rows[i].reason;
        r.writer_until = S(rows[i].writer_s);
        struct gate_decision first = judge(&r, S(rows[i].from_s));
        struct gate_decision later = judge(&r, S(rows[i].to_s));
        print_message("%s: %s%s; %s\n", rows[i].name, first.message, first.note, first.details);
        assert_string_equal(first.message, later.message);
        assert_string_equal(first.details, later.details);
        assert_string_equal(first.note, later.note);
        if (!r.readiness.admit) { /* its writer goes on, and so may the DPU */
            r.written = (struct wall){NS(1795169010)};
            r.writer_until = S(rows[i].to_s + 15);
            r.readiness.observed = S(rows[i].to_s);
            r.readiness.lease_until = S(rows[i].to_s + 40);
            (void)text_copy(r.readiness.lease.renew_stamp, sizeof(r.readiness.lease.renew_stamp),
                            "2026-11-20T11:00:00.000000Z");
            later = judge(&r, S(rows[i].to_s + 1));
            assert_string_equal(first.message, later.message);
            assert_string_equal(first.details, later.details);
        }
    }
}

TEST(details_say_since_when_and_a_refusal_what_to_do_next)
{
    const char *const stale = "reason RecordStale, record " PATH
                              "; run 'dpuctl doctor' on this node or in dpu-host-agent's Pod";
    struct record r = sample();
    struct gate_decision d = judge(&r, S(1001));
    assert_string_equal(d.details, "reason LeaseRenewed, since 2026-11-20T09:14:44Z, record " PATH);
    r.readiness.transition = (struct wall){0}; /* another writer need not say */
    d = judge(&r, S(1001));
    assert_string_equal(d.details, "reason LeaseRenewed, record " PATH);
    d = judge(&r, S(2000)); /* our own word, not the record's */
    assert_string_equal(d.details, stale);
    assert_non_null(strstr(d.message, "; if it is gone for good, take the gate out: "
                                      "'dpu-host-agent uninstall-cni', or remove "));
    r.written = (struct wall){0};
    d = judge(&r, S(2000));
    assert_non_null(strstr(d.message, "dpu-host-agent has stopped writing"));
}

TEST(the_note_names_the_writer)
{
    struct record r = sample();
    struct gate_decision d = judge(&r, S(1045));
    assert_non_null(strstr(d.note, "pid 4711"));
    assert_non_null(strstr(d.note, "2026-11-20T10:03:20Z"));
    assert_non_null(strstr(d.note, "Ready"));
}

TEST(long_words_are_cut_not_overrun)
{
    static char path[4096];
    struct record r = sample();
    struct gate_decision d;
    memset(path, 'p', sizeof(path) - 1);
    gate_judge(&r, BOOT, S(1340), path, &d);
    assert_int_equal(d.reason, REASON_RECORD_STALE);
    assert_int_equal(strlen(d.details), sizeof(d.details) - 1);
    gate_refuse(REASON_RECORD_INVALID, path, path, &d);
    assert_int_equal(strlen(d.message), sizeof(d.message) - 1);
    gate_refuse(REASON_RECORD_MISSING, "", path, &d);
    assert_non_null(strstr(d.message, "systemctl"));
}
