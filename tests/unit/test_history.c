/* SPDX-License-Identifier: Apache-2.0 */
/* Whose renewal it is: what the host itself wrote on the lease is no sign of life of the DPU. */
#include "host-agent/history.h"

#include "base/text.h"
#include "tests/support/case.h"

/* A state of the lease, stamped at so many seconds by a machine of that name. `shown_s` is the
 * stamp that it is taken for: another one where the host has written it. */
struct row {
    const char *uid;
    const char *writer;
    int stamp_s;
    int shown_s;
};

static void stamp(struct lease_view *lease, int at_s)
{
    lease->renew_time = (struct wall){(1790000000 + at_s) * NS_PER_SEC};
    lease->renew_time_valid = true;
    text_format(lease->renew_stamp, sizeof(lease->renew_stamp), "%s",
                rfc3339_text(lease->renew_time, true).text);
}

/* The host is called "host". */
static void expect(const struct row *rows, size_t count)
{
    struct renewal_origin origin = {.host = "host"};
    for (size_t i = 0; i < count; i++) {
        for (int look = 1; look <= 2; look++) { /* a second one is no news */
            struct lease_view lease = {.duration_s = 40};
            struct lease_view shown = lease;
            text_format(lease.uid, sizeof(lease.uid), "%s", rows[i].uid);
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
    static const struct row rows[] = {
        {"u", "host", 0, 0},  {"u", "host", 2, 0},   {"u", "host", 14, 0},  {"u", "host", 36, 0},
        {"u", "host", 78, 0}, {"u", "host", 160, 0}, {"u", "host", 460, 0}, {"u", "host", 760, 0}};
    expect(rows, ARRAY_LEN(rows));
}

TEST(a_dpu_of_the_hosts_name_is_known_by_its_rhythm)
{
    static const struct row rows[] = {{"u", "host", 0, 0},   {"u", "host", 9, 0},
                                      {"u", "host", 21, 21}, {"u", "host", 31, 31},
                                      {"u", "host", 90, 90}, {"u", "host", 91, 91}};
    expect(rows, ARRAY_LEN(rows));
}

/* Two gaps that are alike, but as long as the lease. */
TEST(a_rhythm_slower_than_the_lease_is_none)
{
    static const struct row rows[] = {
        {"u", "host", 0, 0}, {"u", "host", 40, 0}, {"u", "host", 80, 0}, {"u", "host", 119, 119}};
    expect(rows, ARRAY_LEN(rows));
}

TEST(another_name_ends_the_rhythm)
{
    static const struct row rows[] = {{"u", "host", 0, 0},   {"u", "host", 10, 0},
                                      {"u", "dpu", 15, 15},  {"u", "host", 20, 15},
                                      {"u", "host", 30, 15}, {"u", "host", 40, 40}};
    expect(rows, ARRAY_LEN(rows));
}

TEST(a_lease_made_anew_is_looked_at_afresh)
{
    static const struct row rows[] = {
        {"u", "dpu", 0, 0}, {"u", "host", 7, 0}, {"v", "host", 9, 9}, {"v", "dpu", 10, 10}};
    expect(rows, ARRAY_LEN(rows));
}
