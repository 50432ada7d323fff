/* SPDX-License-Identifier: Apache-2.0 */
/* Whose renewal it is: what the host itself wrote on the lease is no sign of life of the DPU. */
#include "host-agent/history.h"

#include "base/text.h"
#include "tests/support/case.h"

enum sign { NONE, OURS, OTHER }; /* OTHER: that of the last row that is OURS, or of the time 0 */

/* A state of the lease, stamped at so many seconds by a machine of that name. `shown_s` is the
 * stamp that it is taken for: another one where the host has written it. */
struct row {
    const char *uid;
    const char *writer;
    int stamp_s;
    int shown_s;
    enum sign sign;
};

static void stamp(struct lease_view *lease, int at_s)
{
    lease->renew_time = (struct wall){(1790000000 + at_s) * NS_PER_SEC};
    lease->renew_time_valid = true;
    text_format(lease->renew_stamp, sizeof(lease->renew_stamp), "%s",
                rfc3339_text(lease->renew_time, true).text);
}

/* As dpu-agent does. */
static void renew(struct lease_view *lease, int at_s)
{
    stamp(lease, at_s);
    (void)text_copy(lease->sign, sizeof(lease->sign), lease->renew_stamp);
}

/* The host is called "host". */
static void expect(const struct row *rows, size_t count)
{
    struct renewal_origin origin = {.host = "host"};
    int signed_s = 0;
    for (size_t i = 0; i < count; i++) {
        signed_s = rows[i].sign == OURS ? rows[i].stamp_s : signed_s;
        for (int look = 1; look <= 2; look++) { /* a second one is no news */
            struct lease_view lease = {.duration_s = 40};
            struct lease_view shown = lease;
            text_format(lease.uid, sizeof(lease.uid), "%s", rows[i].uid);
            if (rows[i].sign != NONE) {
                renew(&lease, signed_s);
            }
            stamp(&lease, rows[i].stamp_s);
            stamp(&shown, rows[i].shown_s);
            bool is_news = rows[i].stamp_s != rows[i].shown_s && look == 1;
            assert_int_equal(origin_leave_out_host(&origin, &lease, rows[i].writer), is_news);
            assert_string_equal(lease.renew_stamp, shown.renew_stamp);
            assert_int_equal(lease.renew_time.ns, shown.renew_time.ns);
        }
    }
}

/* Even if that is the first that was seen: the DPU was dead before. */
TEST(a_host_that_is_started_again_and_again_shows_no_life)
{
    static const struct row rows[] = {{"u", "host", 0, 0, NONE},   {"u", "host", 2, 0, NONE},
                                      {"u", "host", 14, 0, NONE},  {"u", "host", 36, 0, NONE},
                                      {"u", "host", 78, 0, NONE},  {"u", "host", 160, 0, NONE},
                                      {"u", "host", 460, 0, NONE}, {"u", "host", 760, 0, NONE}};
    expect(rows, ARRAY_LEN(rows));
}

TEST(a_dpu_of_the_hosts_name_is_known_by_its_rhythm)
{
    static const struct row rows[] = {{"u", "host", 0, 0, NONE},   {"u", "host", 9, 0, NONE},
                                      {"u", "host", 21, 21, NONE}, {"u", "host", 31, 31, NONE},
                                      {"u", "host", 90, 90, NONE}, {"u", "host", 91, 91, NONE}};
    expect(rows, ARRAY_LEN(rows));
}

/* Two gaps that are alike, but as long as the lease. */
TEST(a_rhythm_slower_than_the_lease_is_none)
{
    static const struct row rows[] = {{"u", "host", 0, 0, NONE},
                                      {"u", "host", 40, 0, NONE},
                                      {"u", "host", 80, 0, NONE},
                                      {"u", "host", 119, 119, NONE}};
    expect(rows, ARRAY_LEN(rows));
}

TEST(another_name_ends_the_rhythm)
{
    static const struct row rows[] = {{"u", "host", 0, 0, NONE},   {"u", "host", 10, 0, NONE},
                                      {"u", "dpu", 15, 15, NONE},  {"u", "host", 20, 15, NONE},
                                      {"u", "host", 30, 15, NONE}, {"u", "host", 40, 40, NONE}};
    expect(rows, ARRAY_LEN(rows));
}

TEST(a_lease_made_anew_is_looked_at_afresh)
{
    static const struct row rows[] = {{"u", "dpu", 0, 0, NONE},
                                      {"u", "host", 7, 0, NONE},
                                      {"v", "host", 9, 9, NONE},
                                      {"v", "dpu", 10, 10, NONE}};
    expect(rows, ARRAY_LEN(rows));
}

/* Where dpu-agent renews, the API server keeps no names. */
TEST(what_another_program_writes_beside_the_sign_is_left_out)
{
    static const struct row rows[] = {{"u", NULL, 0, 0, OURS},
                                      {"u", NULL, 7, 0, OTHER},
                                      {"u", NULL, 10, 10, OURS},
                                      {"u", NULL, 55, 10, OTHER},
                                      {"u", NULL, 99, 10, OTHER}};
    expect(rows, ARRAY_LEN(rows));
}

/* Written while dpu-host-agent did not run. */
TEST(what_stands_beside_the_sign_at_the_first_look_is_none_either)
{
    static const struct row rows[] = {
        {"u", NULL, 7, 0, OTHER}, {"u", NULL, 55, 0, OTHER}, {"u", NULL, 60, 60, OURS}};
    expect(rows, ARRAY_LEN(rows));
}

/* The renewal that it covers was seen by nobody. */
TEST(the_sign_beside_another_programs_time_is_the_dpus_renewal)
{
    struct renewal_origin origin = {.host = "host"};
    struct lease_view lease = {.uid = "u", .duration_s = 40};
    renew(&lease, 0);
    assert_false(origin_leave_out_host(&origin, &lease, NULL));
    renew(&lease, 10);
    const struct lease_view renewed = lease;
    stamp(&lease, 11);
    assert_true(origin_leave_out_host(&origin, &lease, NULL));
    assert_string_equal(lease.renew_stamp, renewed.renew_stamp);
    assert_int_equal(lease.renew_time.ns, renewed.renew_time.ns);
}

TEST(the_sign_tells_a_dpu_of_the_hosts_name_from_the_host)
{
    static const struct row rows[] = {{"u", "host", 0, 0, OURS},
                                      {"u", "host", 7, 0, OTHER},
                                      {"u", "host", 10, 10, OURS},
                                      {"u", "host", 55, 10, OTHER}};
    expect(rows, ARRAY_LEN(rows));
}

/* As upstream's DPU side does, once a dpu-agent has been killed: by then it is renewed regularly.
 */
TEST(another_program_that_renews_regularly_counts_beside_a_sign_that_is_left)
{
    static const struct row rows[] = {{"u", NULL, 0, 0, OURS},    {"u", NULL, 10, 0, OTHER},
                                      {"u", NULL, 20, 0, OTHER},  {"u", NULL, 30, 30, OTHER},
                                      {"u", NULL, 40, 40, OTHER}, {"u", NULL, 41, 41, OURS}};
    expect(rows, ARRAY_LEN(rows));
}

/* A downgrade: it keeps what it does not know, and says its own version. */
TEST(an_older_agent_counts_at_once_beside_the_sign_of_a_newer_one)
{
    struct renewal_origin origin = {.host = "host"};
    struct lease_view lease = {.uid = "u", .duration_s = 40, .agent_version = "2.0"};
    renew(&lease, 0);
    assert_false(origin_leave_out_host(&origin, &lease, NULL));
    (void)text_copy(lease.agent_version, sizeof(lease.agent_version), "1.0");
    for (int at_s = 10; at_s <= 30; at_s += 10) {
        stamp(&lease, at_s);
        assert_false(origin_leave_out_host(&origin, &lease, NULL));
    }
}

/* Upstream's DPU side, or a dpu-agent that does not sign yet, or does no longer. */
TEST(where_a_name_is_kept_or_no_sign_stands_others_count)
{
    static const struct row rows[] = {{"u", "dpu", 0, 0, OTHER},
                                      {"u", "dpu", 10, 10, OTHER},
                                      {"u", NULL, 20, 20, NONE},
                                      {"u", NULL, 27, 27, NONE}};
    expect(rows, ARRAY_LEN(rows));
}
