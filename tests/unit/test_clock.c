/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "tests/support/case.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

TEST(time_goes_forward)
{
    struct mono a = clock_mono_now();
    struct mono b = clock_mono_now();
    assert_false(mono_before(b, a));
}

TEST(our_offset_leads_from_the_common_clock_to_our_own)
{
    struct timespec ts;
    struct mono before = clock_mono_now();
    assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &ts), 0);
    struct mono after = clock_mono_now();
    int64_t own_ns = (int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
    assert_true(before.ns + clock_boottime_offset_ns() <= own_ns);
    assert_true(own_ns <= after.ns + clock_boottime_offset_ns());
}

TEST(wall_time_is_the_systems)
{
    struct wall now = clock_wall_now();
    time_t system = time(NULL);
    assert_in_range(now.ns / NS_PER_SEC, (uint64_t)system - 1, (uint64_t)system + 1);
}

TEST(the_boot_id_is_a_uuid_that_stays)
{
    char a[CLOCK_BOOT_ID_BYTES];
    char b[CLOCK_BOOT_ID_BYTES];
    assert_int_equal(clock_boot_id(a, NULL), 0);
    assert_int_equal(clock_boot_id(b, NULL), 0);
    assert_int_equal(strlen(a), 36);
    assert_int_equal(a[8], '-');
    assert_string_equal(a, b);
}

TEST(offsets_of_a_time_namespace_are_read)
{
    static const struct {
        const char *text;
        int code;
        int64_t ns;
    } rows[] = {
        {"monotonic           0         0\nboottime            0         0\n", 0, 0},
        {"monotonic           5         0\nboottime       864000 500000000\n", 0,
         INT64_C(864000) * NS_PER_SEC + 500000000},
        {"monotonic 0 0\nboottime -10 250000000", 0, -10 * NS_PER_SEC + 250000000},
        {"boottime\t1\t2\n", 0, NS_PER_SEC + 2},
        {"monotonic 0 0\n", ERR_PARSE, 0},
        {"", ERR_PARSE, 0},
        {"boottime", ERR_PARSE, 0},
        {"boottime 1\n", ERR_PARSE, 0},
        {"boottime x 0\n", ERR_PARSE, 0},
        {"boottime 0 x\n", ERR_PARSE, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t ns = 77;
        struct err e = ERR_INIT;
        assert_int_equal(clock_parse_timens_offsets(rows[i].text, &ns, &e), rows[i].code);
        assert_true(ns == (rows[i].code == 0 ? rows[i].ns : 77));
    }
}
