/* SPDX-License-Identifier: Apache-2.0 */
#include "dpuctl/fleet.h"

#include "base/text.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HOLDER "ovnkube-dpu-node"
#define NOW_NS (INT64_C(1000000) * NS_PER_SEC)

/* Renewed `age_s` ago by the API server's clock, for 40 s. */
static struct fleet_row renewed(int64_t age_s)
{
    return (struct fleet_row){.node = "n",
                              .now = {NOW_NS},
                              .has_lease = true,
                              .lease = {.holder = HOLDER,
                                        .renew_stamp = "then",
                                        .renew_time_valid = true,
                                        .renew_time = {NOW_NS - age_s * NS_PER_SEC},
                                        .duration_s = 40}};
}

static struct fleet_word word(enum fleet_teller teller, enum readiness_state state,
                              const char *reason)
{
    struct fleet_word w = {.teller = teller, .state = state, .since = {NOW_NS - 1}};
    text_format(w.reason, sizeof(w.reason), "%s", reason);
    return w;
}

static void expect(struct fleet_row row, enum readiness_state state, const char *reason)
{
    fleet_judge(&row, HOLDER);
    assert_string_equal(row.reason, reason);
    assert_int_equal(row.state, state);
    assert_true(row.message[0] != '\0' || row.word.teller != FLEET_NOBODY);
}

TEST(a_lease_alone_is_judged_by_the_servers_clock)
{
    expect(renewed(3), READINESS_READY, "LeaseRenewed");
    expect(renewed(40), READINESS_READY, "LeaseRenewed");
    expect(renewed(41), READINESS_NOT_READY, "LeaseExpired");
    expect(renewed(-3600), READINESS_READY, "LeaseRenewed"); /* the DPU's clock is ahead */
    struct fleet_row row = renewed(100);
    fleet_judge(&row, HOLDER);
    assert_int_equal(row.since.ns, NOW_NS - 60 * NS_PER_SEC);
}

TEST(what_the_lease_says_counts_before_its_age)
{
    struct fleet_row row = renewed(3);
    row.lease.health = LEASE_HEALTH_UNHEALTHY;
    expect(row, READINESS_NOT_READY, "DPUReportedUnhealthy");
    row.lease.health = LEASE_HEALTH_SHUTDOWN;
    expect(row, READINESS_NOT_READY, "DPUShutdown");
    row = renewed(3);
    text_format(row.lease.holder, sizeof(row.lease.holder), "somebody");
    expect(row, READINESS_NOT_READY, "LeaseInvalid");
    row = renewed(3);
    row.lease.holder[0] = '\0';
    expect(row, READINESS_READY, "LeaseRenewed");
}

TEST(nothing_is_claimed_of_what_cannot_be_known)
{
    struct fleet_row row = renewed(3);
    row.now = (struct wall){0}; /* no Date */
    expect(row, READINESS_UNKNOWN, "AwaitingFirstRenewal");
    row = renewed(3);
    row.lease.renew_time_valid = false;
    row.lease.renew_stamp[0] = '\0';
    expect(row, READINESS_UNKNOWN, "AwaitingFirstRenewal");
    expect((struct fleet_row){.has_node = true, .is_marked = true}, READINESS_UNKNOWN,
           "LeaseNotFound");
}

TEST(the_hosts_word_counts_but_makes_no_silent_dpu_ready)
{
    struct fleet_row row = renewed(3);
    row.word = word(FLEET_TAINT, READINESS_NOT_READY, "LeaseExpired");
    expect(row, READINESS_NOT_READY, "LeaseExpired");
    row.word = word(FLEET_CONDITION, READINESS_UNKNOWN, "ApiServerUnreachable");
    expect(row, READINESS_UNKNOWN, "ApiServerUnreachable");
    row.word = word(FLEET_CONDITION, READINESS_READY, "LeaseRenewed");
    expect(row, READINESS_READY, "LeaseRenewed");
    struct fleet_row silent = renewed(100);
    silent.word = row.word;
    expect(silent, READINESS_UNKNOWN, "LeaseExpired");
    silent.word = word(FLEET_CONDITION, READINESS_READY, "HealthCheckDisabled");
    expect(silent, READINESS_READY, "HealthCheckDisabled");
}

TEST(the_more_telling_word_is_kept)
{
    struct fleet_row row = renewed(3);
    const struct fleet_word gate = word(FLEET_GATE, READINESS_NOT_READY, "RecordStale");
    const struct fleet_word taint = word(FLEET_TAINT, READINESS_NOT_READY, "LeaseExpired");
    fleet_hear(&row, &taint);
    fleet_hear(&row, &gate);
    fleet_hear(&row, &taint);
    assert_string_equal(row.word.reason, "RecordStale");
}

TEST_WITH(what_is_broken_comes_first, NULL, NULL)
{
    (void)state;
    struct fleet_row rows[] = {
        {.node = "a", .state = READINESS_READY, .reason = "LeaseRenewed"},
        {.node = "d", .state = READINESS_UNKNOWN, .reason = "LeaseNotFound"},
        {.node = "c", .state = READINESS_NOT_READY, .reason = "LeaseExpired"},
        {.node = "b", .state = READINESS_NOT_READY, .reason = "LeaseExpired"},
        {.node = "z", .state = READINESS_NOT_READY, .reason = "DPUShutdown"},
    };
    qsort(rows, ARRAY_LEN(rows), sizeof(rows[0]), fleet_compare);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(rows[i].node[0], "zbcda"[i]);
    }
}

TEST(each_reason_has_a_cure)
{
    assert_non_null(strstr(readiness_reason_fix("LeaseNotFound"), "dpu-host-agent"));
    assert_non_null(strstr(readiness_reason_fix("RecordStale"), "dpu-host-agent"));
    assert_non_null(strstr(readiness_reason_fix("of a newer agent"), "docs/reasons.md"));
}
