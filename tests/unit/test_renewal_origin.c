/* SPDX-License-Identifier: Apache-2.0 */
#include "base/attr.h"
#include "base/time.h"
#include "host-agent/renewal_origin.h"
#include "tests/support/case.h"

#define START_NS (INT64_C(1790000000) * NS_PER_SEC)

enum { DURATION_S = 40 };

/* A state of the lease; `shown` is the renewTime that it is taken for. */
struct row {
    const char *uid;
    const char *writer;
    int stamp_s;
    int shown_s;
};

static struct lease_view lease(const char *uid, int stamp_s)
{
    struct lease_view view = {.renew_time_valid = true,
                              .renew_time = {START_NS + stamp_s * NS_PER_SEC},
                              .duration_s = DURATION_S};
    (void)snprintf(view.uid, sizeof(view.uid), "%s", uid);
    rfc3339_format(view.renew_time, true, view.renew_stamp);
    return view;
}

static void check(const char *host, const struct row *rows, size_t count)
{
    struct renewal_origin o = {.gap_ns = 0};
    (void)snprintf(o.host, sizeof(o.host), "%s", host);
    for (size_t i = 0; i < count; i++) {
        bool is_news = i == 0 || rows[i].stamp_s != rows[i - 1].stamp_s;
        struct lease_view view = lease(rows[i].uid, rows[i].stamp_s);
        struct lease_view shown = lease(rows[i].uid, rows[i].shown_s);
        bool is_bump = renewal_origin_tell(&o, &view, rows[i].writer);
        assert_string_equal(view.renew_stamp, shown.renew_stamp);
        assert_int_equal(view.renew_time.ns, shown.renew_time.ns);
        assert_int_equal(is_bump, is_news && rows[i].stamp_s != rows[i].shown_s);
    }
}

TEST(what_this_host_wrote_is_left_out)
{
    static const struct row rows[] = {
        {"u", "dpu", 0, 0},    {"u", "dpu", 10, 10},   {"u", "host", 55, 10}, {"u", "host", 55, 10},
        {"u", "host", 75, 10}, {"u", "host", 115, 10}, {"u", "dpu", 130, 130}};
    check("host", rows, ARRAY_LEN(rows));
}

/* Even if that is the first that was seen: the DPU was dead before. */
TEST(a_host_that_is_started_again_and_again_shows_no_life)
{
    static const struct row rows[] = {
        {"u", "host", 0, 0},  {"u", "host", 2, 0},   {"u", "host", 14, 0},  {"u", "host", 36, 0},
        {"u", "host", 78, 0}, {"u", "host", 160, 0}, {"u", "host", 460, 0}, {"u", "host", 760, 0}};
    check("host", rows, ARRAY_LEN(rows));
}

TEST(a_dpu_of_the_hosts_name_is_known_by_its_rhythm)
{
    static const struct row rows[] = {{"u", "host", 0, 0},   {"u", "host", 10, 0},
                                      {"u", "host", 21, 21}, {"u", "host", 31, 31},
                                      {"u", "host", 90, 90}, {"u", "host", 91, 91}};
    check("host", rows, ARRAY_LEN(rows));
}

TEST(another_name_ends_the_rhythm)
{
    static const struct row rows[] = {{"u", "host", 0, 0},   {"u", "host", 10, 0},
                                      {"u", "dpu", 15, 15},  {"u", "host", 20, 15},
                                      {"u", "host", 30, 15}, {"u", "host", 40, 40}};
    check("host", rows, ARRAY_LEN(rows));
}

TEST(a_lease_made_anew_is_looked_at_afresh)
{
    static const struct row rows[] = {
        {"u", "dpu", 0, 0}, {"u", "host", 7, 0}, {"v", "host", 9, 9}, {"v", "dpu", 10, 10}};
    check("host", rows, ARRAY_LEN(rows));
}

TEST(where_nobody_can_say_each_counts)
{
    static const struct row rows[] = {
        {"u", "dpu", 0, 0}, {"u", NULL, 7, 7}, {"u", "", 8, 8}, {"u", "hos", 9, 9}};
    check("host", rows, ARRAY_LEN(rows));
    check("", rows, ARRAY_LEN(rows));
}
